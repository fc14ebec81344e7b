package report

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/overhead"
	"tare/record/recordtest"
)

// fleetOf are runs of rounds, each on a node on which docker has a rate of its own; crun has bare metal's. On the
// seventh docker's CPU time is another.
func fleetOf(rates ...float64) overhead.Fleet {
	var nodes []overhead.Node
	for i, rate := range rates {
		cpu := 1.04
		if i == 6 {
			cpu = 1.12
		}
		run := recordtest.Rounds{
			Seed: uint64(i + 1), Rounds: 5, Strips: 6, Noise: 0.01, Launch: 0.003,
			Conditions: []recordtest.Effect{{Platform: "docker", Rate: rate, CPU: cpu}, {Platform: "oci:crun", Rate: 1, CPU: 1}},
		}.Run()
		run.ID = run.Started.Add(time.Duration(i)*time.Second).Format("weigh-20060102-150405-") + fmt.Sprintf("%04x", 7*i+4096)
		run.Host.Hostname = fmt.Sprintf("node-%02d", i+1)
		run.Host.Kernel = []string{"6.1.0", "6.12.0"}[i%2]
		nodes = append(nodes, overhead.NewNode(run, false))
	}
	return overhead.NewFleet(nodes)
}

// tenNodes differ by their kernel, and the seventh in its CPU time.
var tenNodes = sync.OnceValue(func() overhead.Fleet {
	f := fleetOf(0.95, 0.91, 0.951, 0.912, 0.949, 0.909, 0.95, 0.911, 0.948, 0.91)
	f.LeftOut = []string{"weigh-20260103-120000-1a2b (node-11\x1b[31m): tare measured it in another way than weigh-20260102-150405-1000: measure both by one version"}
	f.Warnings = append(f.Warnings, "node-04: the image of redis@docker is sha256:11, and sha256:00 on node-01")
	return f
})

func TestFleetGolden(t *testing.T) {
	s := FleetSheet(tenNodes())
	for _, width := range []int{60, 80, 120} {
		out := sheetScreen(t, s, TerminalOptions{Width: width})
		for _, l := range strings.Split(out, "\n") {
			if columns(l) > width {
				t.Errorf("at width %d: %q", width, l)
			}
		}
		if width <= 80 {
			golden(t, fmt.Sprintf("fleet-%d.txt", width), out)
		}
	}
	golden(t, "fleet-all-80.txt", sheetScreen(t, s, TerminalOptions{Width: 80, All: true}))
}

func TestFleetAnswer(t *testing.T) {
	alike := fleetOf(1, 1, 1, 1)
	better := fleetOf(1.1, 1.1, 1.1, 1.1)
	for i := range better.Rows { // the CPU time is worse
		better.Rows[i].Primary = better.Rows[i].Metric == "get"
		alike.Rows[i].Primary = alike.Rows[i].Metric == "get"
	}
	for name, c := range map[string]struct {
		fleet overhead.Fleet
		want  []string
	}{
		"worse":  {tenNodes(), []string{"docker is 7", " % worse than bare on redis get over 10 nodes (", " on another node", "; node-07 is odd."}},
		"better": {better, []string{" % better than bare on redis get over 4 nodes ("}},
		"alike":  {alike, []string{"Over 4 nodes nothing is worse or better than its baseline."}},
		"two":    {fleetOf(0.9, 0.9), []string{"No effect over 2 nodes is known: nodes are not pooled: need at least 3 nodes, have 2."}},
		"none":   {overhead.Fleet{}, []string{"No effect over 0 nodes is known"}},
	} {
		got := FleetSheet(c.fleet).Answer
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", name, got, want)
			}
		}
	}
}

// The page has a plot of every node of every condition, and names no host as it is where that is hostile.
func TestFleetPage(t *testing.T) {
	f := tenNodes()
	f.Nodes = slices.Clone(f.Nodes)
	f.Nodes[2].Name = "<script>alert(1)</script>"
	page := sheetOf(t, FleetSheet(f))
	var titles []string
	title := false
	parse(t, page, func(e xml.StartElement) { title = e.Name.Local == "title" }, func(text string) {
		if title {
			titles = append(titles, text)
		}
	})
	for _, want := range []string{"node-07: ", "all nodes: ", "another node: "} {
		n := 0
		for _, text := range titles {
			if strings.HasPrefix(text, want) {
				n++
			}
		}
		if n != 4 { // two metrics of two conditions
			t.Errorf("%d plots begin with %q, want 4: %q", n, want, titles)
		}
	}
	if !slices.ContainsFunc(titles, func(text string) bool {
		return strings.HasPrefix(text, "node-07: ") && strings.HasSuffix(text, ", odd")
	}) {
		t.Errorf("node-07 is nowhere odd: %q", titles)
	}
	if strings.Contains(page, "<script>alert") {
		t.Error("the page runs a host's name")
	}
}

// Of many nodes a screen shows what holds for all, and names the odd ones.
func TestFleetOfManyNodes(t *testing.T) {
	rates := slices.Repeat([]float64{0.95}, mostNodes+1)
	s := FleetSheet(fleetOf(rates...))
	if out := sheetScreen(t, s, TerminalOptions{Width: 80}); strings.Contains(out, "node-05") || !strings.Contains(out, "another node") {
		t.Errorf("a screen of %d nodes:\n%s", len(rates), out)
	}
	if out := sheetScreen(t, s, TerminalOptions{Width: 80, All: true}); !strings.Contains(out, "node-05") {
		t.Errorf("all of %d nodes:\n%s", len(rates), out)
	}
}
