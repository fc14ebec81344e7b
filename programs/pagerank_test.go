package programs_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// ranks is pagerank's line of results.
type ranks struct {
	Vertices, Edges, Shards, Iterations int
	Sum, Checksum                       float64
	Top                                 []struct {
		Vertex int
		Rank   float64
	}
	Read      int64
	Seconds   float64
	Generated float64 `json:"generated_seconds"`
}

func runPageRank(t *testing.T, program string, args ...string) (r ranks) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).Output()
	if err != nil {
		t.Fatalf("pagerank %q: %v", args, err)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return r
}

// That the ranks are right is tested where they are compared with a reference, in
// package workload; here, how the program deals with its files.
func TestPageRankFiles(t *testing.T) {
	dir := buildIn(t, "pagerank", "all")
	program, at := filepath.Join(dir, "pagerank"), t.TempDir()
	graph, vertices := filepath.Join(at, "graph"), filepath.Join(at, "vertices")
	if out, err := exec.CommandContext(t.Context(), program, "generate", "--data", "20", "--degree", "64", graph).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	read := runPageRank(t, program, "--iterations", "3", "--vertices", vertices, graph)
	const edges = 20 << 20 / 8
	if read.Edges != edges || read.Vertices != 32768 || read.Shards != 2 || read.Read != 3*8*edges || read.Generated != 0 {
		t.Errorf("read %+v", read)
	}
	if math.Abs(read.Sum-1) > 1e-9 || len(read.Top) != 10 || read.Top[0].Rank < read.Top[9].Rank {
		t.Errorf("ranks %+v", read)
	}
	// Where the graph is another, the one that is asked for is made, to the same end.
	other := filepath.Join(at, "other")
	if out, err := exec.CommandContext(t.Context(), program, "generate", "--data", "1", other).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	made := runPageRank(t, program, "--data", "20", "--degree", "64", "--iterations", "3", "--scratch", filepath.Join(at, "scratch"), "--vertices", vertices, other)
	if made.Checksum != read.Checksum || made.Generated <= 0 {
		t.Errorf("made %+v, read %+v", made, read)
	}
	a, errA := os.ReadFile(graph)
	b, errB := os.ReadFile(filepath.Join(at, "scratch"))
	if errors.Join(errA, errB) != nil || string(a) != string(b) {
		t.Error("the same graph was made twice, and the files differ")
	}
}

func TestPageRankEndless(t *testing.T) {
	dir := buildIn(t, "pagerank", "all")
	program, at := filepath.Join(dir, "pagerank"), t.TempDir()
	graph, vertices := filepath.Join(at, "graph"), filepath.Join(at, "vertices")
	if out, err := exec.CommandContext(t.Context(), program, "generate", "--data", "1", graph).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd, lines := begin(t, program, "--endless", "--iterations", "2", "--vertices", vertices, graph)
	var begun struct{ Begun bool }
	first, err := lines.ReadBytes('\n')
	if err != nil || json.Unmarshal(first, &begun) != nil || !begun.Begun {
		t.Fatalf("%q, %v", first, err)
	}
	for _, file := range []string{graph, vertices} {
		if !mapped(t, cmd.Process.Pid, file) {
			t.Errorf("%s is not mapped", file)
		}
	}
	var results ranks
	second, err := lines.ReadBytes('\n')
	if err != nil || json.Unmarshal(second, &results) != nil || results.Iterations != 2 {
		t.Errorf("%q, %v", second, err)
	}
}

func TestPageRankRefuses(t *testing.T) {
	dir := buildIn(t, "pagerank", "all")
	file := filepath.Join(dir, "graph.c")
	for _, c := range []struct {
		args   []string
		status int
	}{
		{nil, 2},
		{[]string{file}, 2}, // nowhere to put vertices
		{[]string{"generate", file}, 2},
		{[]string{"generate", "--data", "0", file}, 2},
		{[]string{"generate", "--data", "2049", file}, 2},
		{[]string{"--iterations", "0", "--vertices", file, file}, 2},
		{[]string{"--degree", "x", "--vertices", file, file}, 2},
		{[]string{"--vertices", filepath.Join(dir, "v"), file}, 1}, // no graph
		{[]string{"--vertices", filepath.Join(dir, "v"), filepath.Join(dir, "absent")}, 1},
		{[]string{"generate", "--data", "1", filepath.Join(dir, "absent", "new")}, 1},
	} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "pagerank"), c.args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != c.status || len(out) == 0 {
			t.Errorf("%q: %v, want status %d: %s", c.args, err, c.status, out)
		}
	}
}
