package programs_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tare/programs"
)

// The image's binary and the one that a developer measures are the same program.
func TestFlagsAreTheMakefiles(t *testing.T) {
	for directory, flags := range map[string][]string{
		"stream": programs.StreamFlags, "empty": programs.EmptyFlags, "functions": programs.FunctionFlags,
		"pagerank": programs.PageRankFlags, "matrix": programs.MatrixFlags,
	} {
		makefile, err := os.ReadFile(filepath.Join(directory, "Makefile"))
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`(?m)^CFLAGS\s*\?=\s*(.*)$`).FindSubmatch(makefile)
		if m == nil {
			t.Fatalf("%s: the Makefile sets no CFLAGS", directory)
		}
		if got := strings.Join(flags, " "); got != string(m[1]) {
			t.Errorf("%s: the flags are %q, the Makefile's %q", directory, got, m[1])
		}
	}
}

// buildIn copies a program's directory and builds a target there.
func buildIn(t *testing.T, directory, target string) string {
	t.Helper()
	for _, tool := range []string{"make", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs " + tool)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(directory)); err != nil {
		t.Fatal(err)
	}
	runMake(t, dir, target)
	return dir
}

func buildStream(t *testing.T) string { return buildIn(t, "stream", "stream") }

func runMake(t *testing.T, dir string, targets ...string) {
	t.Helper()
	cmd := exec.Command("make", append([]string{"-s"}, targets...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil && bytes.Contains(out, []byte("cannot find -l")) {
		t.Skipf("needs static libraries: %s", out)
	}
	if err != nil {
		t.Fatalf("make %s: %v\n%s", strings.Join(targets, " "), err, out)
	}
}

func TestStreamOwnTest(t *testing.T) {
	runMake(t, buildStream(t), "test")
}

// What a reader of the output may rely on.
func TestStreamOutput(t *testing.T) {
	dir := buildStream(t)
	cmd := exec.Command(filepath.Join(dir, "stream"), "--elements", "5000", "--repetitions", "4", "--threads", "2")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	bytesOf := map[string]float64{"copy": 16, "scale": 16, "add": 24, "triad": 24}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) != len(bytesOf) {
		t.Fatalf("%d lines, want one a kernel:\n%s", len(lines), out)
	}
	for _, line := range lines {
		var k struct {
			Kernel   string
			Elements int
			Threads  int
			Bytes    float64
			Seconds  []float64
			Rates    []float64 `json:"bytes_per_second"`
			Best     float64   `json:"best_bytes_per_second"`
			Valid    bool
			Errors   map[string]float64
		}
		if err := json.Unmarshal(line, &k); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if !k.Valid || len(k.Errors) != 3 || k.Elements != 5000 || k.Threads != 2 || len(k.Seconds) != 4 || len(k.Rates) != 4 {
			t.Errorf("unexpected: %s", line)
		}
		if want := bytesOf[k.Kernel] * 5000; k.Bytes != want {
			t.Errorf("%s moves %g bytes, want %g", k.Kernel, k.Bytes, want)
		}
		best := 0.0
		for i, seconds := range k.Seconds {
			if i > 0 {
				best = max(best, k.Bytes/seconds)
			}
		}
		if r := k.Best / best; r < 0.999 || r > 1.001 {
			t.Errorf("%s: best is %g, its iterations but the first say %g", k.Kernel, k.Best, best)
		}
	}
}
