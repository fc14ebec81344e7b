package keyvalue

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"tare/model/request"
	"tare/platform"
	"tare/record"
	"tare/report"
)

// like is a container as one was found, on a disk whose layer is slower.
var like = truth{
	container: cost{request: 0.05}, network: cost{batch: 2, request: 0.3}, noise: 0.003,
	disk: map[string]float64{"bare": 1000, "layer": 700, "volume": 990, "bind": 1000, "tmpfs": 300_000},
}

func likeRun(t *testing.T, change ...func(*Options)) record.Run {
	t.Helper()
	return like.run(designed(t, options(append([]func(*Options){func(o *Options) { o.AppendOnly = []string{appendNo, appendAlways} }}, change...)...)))
}

func table(t *testing.T, parts []report.Part, title string) report.Table {
	t.Helper()
	for _, p := range parts {
		if table, ok := p.(report.Table); ok && strings.HasPrefix(table.Title, title) {
			return table
		}
	}
	t.Fatalf("no table %q", title)
	return report.Table{}
}

func row(t *testing.T, of report.Table, first string) []report.Cell {
	t.Helper()
	for _, r := range of.Rows {
		if r[0].Text == first {
			return r
		}
	}
	t.Fatalf("%s has no row %q", of.Title, first)
	return nil
}

func TestParts(t *testing.T) {
	run := likeRun(t, func(o *Options) { o.IOThreads = []int{1, 4}; o.Threads = []int{0, 24} })
	parts := Parts(run)
	for _, title := range []string{"Throughput on bare metal", "Time added to a request by container", "Time added to a request, as a model", "Predicted and measured: layer",
		"Predicted and measured: layer, bridge", "Predicted loss at other rates", "Loss by io-threads", "Loss by threads of the load generator",
		"Loss with an append-only file (always)", "S5's figures", "Negative control"} {
		of := table(t, parts, title)
		for _, r := range of.Rows {
			if len(r) != len(of.Columns) {
				t.Errorf("%s: a row of %d cells under %d columns", title, len(r), len(of.Columns))
			}
		}
	}
	if n := len(table(t, parts, "Loss by io-threads").Rows); n != 4 { // of GET of the smallest value, with each pipeline
		t.Errorf("%d rows by io-threads, want 4", n)
	}
	models := table(t, parts, "Time added to a request, as a model")
	if word := row(t, models, "layer, bridge"); word[6].Text != "shared by a pipeline" || word[4].Text != "8 of 8" {
		t.Errorf("the bridge is %+v", word)
	}
	if n := len(table(t, parts, "Predicted and measured: layer, bridge").Rows); n != 8 {
		t.Errorf("%d predictions, want one for each of 8 cells", n)
	}
	if text := fmt.Sprint(parts); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Error("the page has a figure that is none")
	}
	if parts := Parts(record.Run{ID: "x"}); parts != nil {
		t.Errorf("of nothing: %d parts", len(parts))
	}
}

// With an append-only file the disk's own loss stands beside that of Redis.
func TestPersistence(t *testing.T) {
	r := read(likeRun(t))
	if len(r.persistent) != 1 || len(r.memory) != 8 {
		t.Fatalf("%d cells with persistence, %d without", len(r.persistent), len(r.memory))
	}
	c := r.persistent[0]
	base, ok := c.floorOf(c.base)
	if !ok {
		t.Fatal("bare metal has no floor")
	}
	for _, p := range c.places {
		f, ok := c.floorOf(p)
		if !ok {
			t.Fatalf("%s has no floor", p.Label)
		}
		want := 1 - like.disk[spotOf(p).storage]/1000
		if got := r.diskLoss(base, f); !near(got, want, 0.02*like.disk[spotOf(p).storage]/1000) {
			t.Errorf("%s: the disk gives %+v less, want %g", p.Label, got, want)
		}
	}
	if text := Answer(r.Run); !strings.Contains(text, "With an append-only file (always)") || !strings.Contains(text, "in layer") || !strings.Contains(text, "the disk itself loses") {
		t.Errorf("%q", text)
	}
}

// Volume against bind mount is a control where nothing is written, and none where it is.
func TestControls(t *testing.T) {
	r := read(likeRun(t))
	all := r.controls()
	if len(all) != 2*8 { // two networks
		t.Errorf("%d controls", len(all))
	}
	for _, c := range all {
		if persists(c.Volume) {
			t.Errorf("%s is no control: it writes", c.Workload)
		}
	}
}

func TestModelsAreTestedOnWhatTheyHaveNotSeen(t *testing.T) {
	r := read(likeRun(t))
	m, ok := r.model(spot{"docker", "layer", onBridge})
	if !ok || m.holds != request.Shared || m.shown != request.Shared {
		t.Fatalf("%v, %q holds", ok, m.holds)
	}
	if !near(m.fitted.Batch, 2, 0.2) || !near(m.fitted.Request, 0.35, 0.05) {
		t.Errorf("batch %+v, request %+v", m.fitted.Batch, m.fitted.Request)
	}
	if missed := m.missed(request.Fixed, 0.02); missed == 0 {
		t.Error("one cost misses nothing where a batch shares")
	}
}

func TestAnswer(t *testing.T) {
	text := Answer(likeRun(t))
	for _, want := range []string{"Redis loses throughput in a container: layer ", " requests/s; layer, bridge ", "On the bridge the network accounts for "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
	short := likeRun(t, func(o *Options) { o.Plan.Blocks = 1 })
	if text := Answer(short); !strings.Contains(text, "is not known yet: an interval requires three blocks") {
		t.Errorf("of one block: %q", text)
	}
}

// A server that waits for its load is reported: the rate hides a part of the cost.
func TestIdleServerIsReported(t *testing.T) {
	is := truth{container: cost{request: 0.5}, noise: 0.002, cpu: true}
	if idle := read(is.run(designed(t, options()))).idle(); len(idle) != 0 {
		t.Errorf("a busy server counts as idle: %q", idle)
	}
	is.idle = 0.3
	run := is.run(designed(t, options()))
	r := read(run)
	if idle := r.idle(); len(idle) != 8 {
		t.Errorf("idle in %d cells of 8", len(idle))
	}
	if got := verdictOf(t, run); !strings.Contains(got.Rests, "the load hides a part") {
		t.Errorf("%q", got.Rests)
	}
	table(t, Parts(run), "Server CPU time per request")
	c := r.reference()[0]
	if e := r.busy(c, c.base); math.Abs(e.Value-0.7) > 1e-9 {
		t.Errorf("busy %+v", r.busy(c, c.base))
	}
	if r := read(elsewhere(0.5, 5)); len(r.idle()) != 0 || len(r.busyPart()) != 0 {
		t.Error("a run without the server's CPU time has a table of it")
	}
}

func rules(run record.Run) (names []string) {
	for _, a := range Advice(run) {
		names = append(names, a.Rule)
	}
	return names
}

// Advice is given where the run shows that it pays, and nowhere else.
func TestAdvice(t *testing.T) {
	if got, want := rules(likeRun(t)), []string{"host-network", "pipeline", "file-in-volume"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	native := truth{noise: 0.003, disk: map[string]float64{"bare": 1000, "layer": 1000, "volume": 1000, "bind": 1000, "tmpfs": 1000}}
	d := designed(t, options(func(o *Options) { o.AppendOnly = []string{appendNo, appendAlways}; o.Pipelines = []int{1} }))
	if got := rules(native.run(d)); len(got) != 0 {
		t.Errorf("where nothing costs anything: %q", got)
	}
	hostOnly := likeRun(t, func(o *Options) { o.Networks = []platform.Network{platform.NetworkHost} })
	if got := rules(hostOnly); slices.Contains(got, "host-network") {
		t.Errorf("without a bridge: %q", got)
	}
	for _, a := range Advice(likeRun(t)) {
		for _, e := range a.Evidence {
			if e.Run != "io-1" || len(e.Conditions) == 0 {
				t.Errorf("%s rests on %+v", a.Rule, e)
			}
		}
	}
}
