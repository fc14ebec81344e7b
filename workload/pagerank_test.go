package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// ranked is what the program prints that ranks rightly.
func ranked(t testing.TB, size rankSize, iterations int) pagerankOutcome {
	t.Helper()
	o := pagerankOutcome{Vertices: size.vertices, Edges: size.edges, Iterations: iterations, Seconds: 0.5}
	a := newRankReference(size).answer(iterations)
	o.Sum, o.Checksum, o.Top = a.sum, a.weighted, a.highest[:rankNamed]
	return o
}

func line(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

func TestPageRankDrive(t *testing.T) {
	w := pagerank{}
	p := resolve(t, w, "data", "1", "iterations", "3")
	plan, err := planOf[pagerankPlan](p)
	if err != nil || plan.size != (rankSize{8192, 131072}) || !plan.made {
		t.Fatalf("%+v, %v", plan, err)
	}
	right := ranked(t, plan.size, 3)
	tr := &trial{params: p, stdout: line(t, right), exit: Exit{Elapsed: 2 * time.Second, CPU: time.Second}}
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
	if tr.records["rate"][0] != 3*131072/0.5 {
		t.Errorf("recorded %v", tr.records)
	}
	for name, spoil := range map[string]func(*pagerankOutcome){
		"an iteration less":    func(o *pagerankOutcome) { *o = ranked(t, plan.size, 2); o.Iterations = 3 },
		"another count":        func(o *pagerankOutcome) { o.Iterations = 2 },
		"another graph":        func(o *pagerankOutcome) { o.Edges-- },
		"two vertices turned":  func(o *pagerankOutcome) { o.Top[0].Vertex, o.Top[5].Vertex = o.Top[5].Vertex, o.Top[0].Vertex },
		"a vertex named twice": func(o *pagerankOutcome) { o.Top[1] = o.Top[0] },
		"too few":              func(o *pagerankOutcome) { o.Top = o.Top[:9] },
		"rank lost":            func(o *pagerankOutcome) { o.Sum *= 1 - 1e-6 },
		"ranks shifted":        func(o *pagerankOutcome) { o.Checksum *= 1 + 1e-6 },
		"not a number":         func(o *pagerankOutcome) { o.Checksum = -1; o.Sum = math.MaxFloat64 },
	} {
		wrong := right
		wrong.Top = slices.Clone(right.Top)
		spoil(&wrong)
		tr := &trial{params: p, stdout: line(t, wrong)}
		if err := w.Drive(t.Context(), tr); err == nil || !strings.Contains(err.Error(), "not valid") || len(tr.records) > 0 {
			t.Errorf("%s: %v, recorded %v", name, err, tr.records)
		}
	}
}

// A graph of three vertices whose ranks can be worked out by hand: 0 and 1 give
// to 2, which gives to nobody, so that all get a third of what it has.
func TestRanksByHand(t *testing.T) {
	r := rankReference{rankSize{3, 2}, [][2]uint32{{0, 2}, {1, 2}}}
	got := r.ranks(1)
	small := 0.05 + 0.85/9
	for v, want := range []float64{small, small, small + 0.85*2/3} {
		if math.Abs(got[v]-want) > 1e-15 {
			t.Errorf("vertex %d: %v, want %v", v, got[v], want)
		}
	}
}

func FuzzParsePageRank(f *testing.F) {
	f.Add([]byte(line(f, ranked(f, rankSize{64, 1024}, 2))))
	f.Add([]byte(`{"top":[{"vertex":-1}]}`))
	f.Fuzz(func(t *testing.T, output []byte) {
		o, err := parsePageRank(output)
		if err != nil {
			return
		}
		for _, top := range o.Top {
			if top.Vertex < 0 || top.Vertex >= o.Vertices {
				t.Errorf("accepted %+v", o)
			}
		}
	})
}

// mappings gives those lines of /proc/PID/maps that name a file.
func mappings(t *testing.T, pid string, file string) (lines []string) {
	t.Helper()
	maps, err := os.ReadFile(filepath.Join("/proc", pid, "maps"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bytes.Split(maps, []byte{'\n'}) {
		if bytes.HasSuffix(line, []byte(file)) {
			lines = append(lines, string(line))
		}
	}
	return lines
}

func TestRealPageRank(t *testing.T) {
	t.Parallel()
	img := realImage(t, "pagerank")
	w := pagerank{}
	made := []string{"data/vertices", "data/graph"}
	t.Cleanup(func() {
		for _, file := range made {
			_ = os.Remove(filepath.Join(img.Root, file))
		}
	})
	for _, params := range [][]string{{"iterations", "2"}, {"data", "2", "degree", "100"}} {
		tr := launch(t, w, resolve(t, w, params...), img, func([]string) {}, 0)
		if err := w.Drive(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		checkRecorded(t, w, &tr.trial)
	}

	tr := watch(t, w, resolve(t, w, "until", "signal", "iterations", "1"), img, made...)
	if err := w.Ready(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	for file, mode := range map[string]string{"/data/vertices": " rw-s ", "/graph": " r--s "} {
		if lines := mappings(t, itoa(tr.pid), file); len(lines) != 1 || !strings.Contains(lines[0], mode) {
			t.Errorf("%s is mapped by %q, want one mapping%s", file, lines, mode)
		}
	}
	// Sustained until its results are there, they are looked at.
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		_ = awaitReady(t.Context(), workWithin, "its results", func(context.Context) error {
			stdout, _ := tr.Output()
			if bytes.Count(stdout, []byte{'\n'}) < 2 {
				return os.ErrNotExist
			}
			return nil
		})
	}()
	if err := w.Sustain(ctx, tr, 1); err != nil {
		t.Error(err)
	}
}
