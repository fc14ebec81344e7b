package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/record"
)

// Several runs are shown over their hosts; what is no fleet is one line.
func TestShowOfManyRuns(t *testing.T) {
	home := t.TempDir()
	for i := range 5 {
		factors := map[string]float64{"bare": 1, "docker": 1.05 + 0.002*float64(i)}
		storedRun(t, home, fmt.Sprintf("weigh-node%d", i), factors, func(run *record.Run) { run.Host.Hostname = fmt.Sprintf("node%d", i) })
	}
	storedRun(t, home, "weigh-again", map[string]float64{"bare": 1, "docker": 1.05}, func(run *record.Run) { run.Host.Hostname = "node0" })
	for _, node := range []string{"a", "b"} {
		storedRun(t, home, "study-"+node, map[string]float64{"bare": 1, "docker": 1.05}, func(run *record.Run) {
			run.Host.Hostname, run.Plan.Part = node, &record.Part{Study: "study", Node: node}
		})
	}
	storedRun(t, home, "weigh-bare", map[string]float64{"bare": 1}, func(run *record.Run) { run.Host.Hostname = "node8" })
	storedRun(t, home, "weigh-work", map[string]float64{"bare": 1, "docker": 1}, func(run *record.Run) {
		run.Host.Hostname = "node9"
		run.Command = []string{"tare", "weigh", "--", "sleep", "1"}
	})
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"weigh-node0 weigh-node1 weigh-node2 weigh-node3 weigh-node4", exitSuccess, ""},
		{"weigh-node0 weigh-node1", exitSuccess, ""},
		{"study", exitSuccess, ""},
		{"study-a", exitSuccess, ""},
		{"weigh-node0 weigh-again", exitUsage, "of 1 host: weigh-node0 (node0): weigh-again of the same node is newer"},
		{"weigh-node0 weigh-node0", exitUsage, "weigh-node0 is named twice"},
		{"weigh-node0 weigh-bare", exitUsage, "weigh-bare (node8): it has no condition with a baseline and a metric in common"},
		{"weigh-node0 weigh-work", exitUsage, "the runs did different work"},
		{"weigh-node0 weigh-none", exitUsage, "weigh-none"},
	} {
		code, out, errOut := tare(t, home, append([]string{"show"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(errOut, c.says) || strings.Count(errOut, "\n") > 1 || c.says == "" && errOut != "" {
			t.Errorf("%s: %d, %q; want %d, %q", c.args, code, errOut, c.code, c.says)
		}
		if strings.Contains(out, "NaN") || (code == exitUsage) != (out == "") {
			t.Errorf("%s prints\n%s", c.args, out)
		}
	}
	all := strings.Fields("show weigh-node0 weigh-node1 weigh-node2 weigh-node3 weigh-node4 weigh-bare")
	_, out, _ := tare(t, home, all...)
	hasAll(t, "show", out, []string{"docker is 5", "% worse than bare on app wall over 5 nodes (", "on another node", "left out: weigh-bare (node8): it has no condition", "all nodes"})
	page := filepath.Join(t.TempDir(), "page.html")
	if code, out, errOut := tare(t, home, append(all, "--html", page)...); code != exitSuccess || out+errOut != "" {
		t.Errorf("--html: %d %q %q", code, out, errOut)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "another node: ") {
		t.Errorf("the page: %v, %d bytes", err, len(text))
	}
}
