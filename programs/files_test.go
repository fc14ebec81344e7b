package programs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare/programs"
)

func TestFilesFlagsAreTheMakefiles(t *testing.T) {
	makefile, err := os.ReadFile("files/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"CFLAGS  ?= " + strings.Join(programs.FilesFlags, " ") + "\n",
		" -o $@ " + strings.Join(programs.FilesSources, " ") + "\n",
	} {
		if !strings.Contains(string(makefile), want) {
			t.Errorf("the Makefile does not have %q", want)
		}
	}
}

// fileSeries is one operation's object, as far as it has these members.
type fileSeries struct {
	Operation, Mode, Sync             string
	Size, Count, Sum, Min, Max, First int64
	Entries, Directories              int64
	Bars                              [][2]int64
	Files                             []struct{ Size, FirstOpen, FirstWrite, SecondOpen int64 }
}

func runFiles(t *testing.T, program string, args ...string) []fileSeries {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("files %q: %v", args, err)
	}
	// Names with their unit are read as those without.
	for _, name := range []string{"sum", "min", "max", "first", "bars"} {
		out = bytes.ReplaceAll(out, []byte(`"`+name+`_ns"`), []byte(`"`+name+`"`))
	}
	for from, to := range map[string]string{"first_open_ns": "firstOpen", "first_write_ns": "firstWrite", "second_open_ns": "secondOpen"} {
		out = bytes.ReplaceAll(out, []byte(from), []byte(to))
	}
	var document struct {
		Clock  int64 `json:"clock_ns"`
		Series []fileSeries
	}
	if err := json.Unmarshal(out, &document); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if document.Clock <= 0 {
		t.Errorf("reading the clock costs %d ns", document.Clock)
	}
	for _, s := range document.Series {
		if s.Operation != "copyup" {
			checkBars(t, s)
		}
	}
	return document.Series
}

// checkBars holds the bars to the exact figures beside them.
func checkBars(t *testing.T, s fileSeries) {
	t.Helper()
	count, sum := int64(0), 0.0
	for i, bar := range s.Bars {
		count += bar[1]
		sum += float64(bar[0]) * float64(bar[1])
		if i > 0 && bar[0] <= s.Bars[i-1][0] {
			t.Errorf("%s: bars are out of order", s.Operation)
		}
	}
	near := func(bar, exact int64) bool { return max(bar-exact, exact-bar) <= exact/1024+1 }
	if count != s.Count || s.Min <= 0 || !near(s.Bars[0][0], s.Min) || !near(s.Bars[len(s.Bars)-1][0], s.Max) {
		t.Errorf("%s: bars of %d times from %d to %d; exactly %d from %d to %d", s.Operation, count, s.Bars[0][0], s.Bars[len(s.Bars)-1][0], s.Count, s.Min, s.Max)
	}
	if exact := float64(s.Sum); sum < exact*0.999-float64(count) || sum > exact*1.001+float64(count) {
		t.Errorf("%s: the bars' sum is %g, exactly %g", s.Operation, sum, exact)
	}
}

// tree makes a tree of directories, each with two files, and gives how many entries it has.
func tree(t *testing.T, top string, depth int) (entries int64) {
	t.Helper()
	for i := range 2 {
		if err := os.WriteFile(filepath.Join(top, fmt.Sprintf("file%d", i)), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		entries++
		if depth == 0 {
			continue
		}
		below := filepath.Join(top, fmt.Sprintf("below%d", i))
		if err := os.Mkdir(below, 0o755); err != nil {
			t.Fatal(err)
		}
		entries += 1 + tree(t, below, depth-1)
	}
	return entries
}

func TestFilesMeasuresEachOperation(t *testing.T) {
	program := filepath.Join(buildIn(t, "files", "all"), "files")
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, bytes.Repeat([]byte("a"), 5000), 0o644); err != nil {
		t.Fatal(err)
	}
	top := filepath.Join(dir, "top")
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	entries := tree(t, top, 3)
	series := runFiles(t, program,
		"write", "--dir", dir, "--size", "3000", "--count", "40", "--sync", "none",
		// More than the file may hold: it is cut on the way.
		"+", "write", "--dir", dir, "--size", fmt.Sprint(20<<20), "--count", "5", "--sync", "none",
		"+", "write", "--dir", dir, "--size", "10", "--count", "2", "--sync", "fsync",
		"+", "open", "--file", file, "--count", "30", "--mode", "read",
		"+", "open", "--file", file, "--count", "3", "--mode", "write",
		"+", "create", "--dir", dir, "--count", "1100",
		"+", "copyup", "--files", file,
		"+", "walk", "--dir", top, "--count", "3", "--entries", fmt.Sprint(entries),
	)
	if len(series) != 8 {
		t.Fatalf("%d series", len(series))
	}
	for i, want := range []fileSeries{
		{Operation: "write", Size: 3000, Count: 40, Sync: "none"}, {Operation: "write", Size: 20 << 20, Count: 5, Sync: "none"},
		{Operation: "write", Size: 10, Count: 2, Sync: "fsync"}, {Operation: "open", Mode: "read", Count: 30}, {Operation: "open", Mode: "write", Count: 3},
		{Operation: "create", Count: 1100}, {Operation: "copyup"}, {Operation: "walk", Count: 3, Entries: entries, Directories: 15},
	} {
		got := series[i]
		if got.Operation != want.Operation || got.Mode != want.Mode || got.Sync != want.Sync || got.Size != want.Size || got.Count != want.Count ||
			got.Entries != want.Entries || got.Directories != want.Directories {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if first := series[3].First; first <= 0 {
		t.Errorf("the first opening took %d ns", first)
	}
	if up := series[6].Files; len(up) != 1 || up[0].Size != 5000 || up[0].FirstOpen <= 0 || up[0].FirstWrite <= 0 || up[0].SecondOpen <= 0 {
		t.Errorf("files opened for writing: %+v", up)
	}
	if data, err := os.ReadFile(file); err != nil || len(data) != 5000 || data[0] != 'x' {
		t.Errorf("a byte is written at the beginning, and nothing else: %.10q, %v", data, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "tare-*")); err != nil || len(left) > 0 {
		t.Errorf("it leaves %q", left)
	}
}

func TestFilesRefuses(t *testing.T) {
	program := filepath.Join(buildIn(t, "files", "all"), "files")
	dir := t.TempDir()
	absent := filepath.Join(dir, "absent")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "usage"},
		{[]string{"fly"}, 2, "usage"},
		{[]string{"write", "--dir", dir, "--size", "0", "--count", "1", "--sync", "none"}, 2, "usage"},
		{[]string{"write", "--dir", dir, "--size", fmt.Sprint(64<<20 + 1), "--count", "1", "--sync", "none"}, 2, "usage"},
		{[]string{"write", "--dir", dir, "--size", "1", "--count", "1", "--sync", "often"}, 2, "usage"},
		{[]string{"write", "--dir", dir, "--size", "1", "--count", "1"}, 2, "usage"},
		{[]string{"open", "--file", dir, "--count", "-1", "--mode", "read"}, 2, "usage"},
		{[]string{"open", "--file", dir, "--file", dir, "--count", "1", "--mode", "read"}, 2, "usage"},
		{[]string{"create", "--dir", "", "--count", "1"}, 2, "usage"},
		{[]string{"create", "--dir", dir, "--count", "1", "+"}, 2, "usage"},
		{[]string{"create", "--dir", dir, "--count", "1", "--sync", "none"}, 2, "usage"},
		{[]string{"copyup", "--files"}, 2, "usage"},
		{[]string{"open", "--file", absent, "--count", "1", "--mode", "read"}, 1, "open " + absent + ": No such file"},
		{[]string{"create", "--dir", absent, "--count", "1"}, 1, "open " + absent},
		{[]string{"write", "--dir", absent, "--size", "1", "--count", "1", "--sync", "none"}, 1, absent},
		{[]string{"copyup", "--files", absent}, 1, "look at " + absent},
		{[]string{"walk", "--dir", absent, "--count", "1"}, 1, "walk " + absent},
		{[]string{"walk", "--dir", dir, "--count", "1", "--entries", "1"}, 1, "0 entries, not 1"},
	} {
		cmd := exec.CommandContext(t.Context(), program, c.args...)
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != c.code || !strings.Contains(complaint.String(), c.says) {
			t.Errorf("%q: %v: %s, want status %d and %q", c.args, err, &complaint, c.code, c.says)
		}
		if c.code == 1 && strings.Count(complaint.String(), "\n") != 1 {
			t.Errorf("%q: not one line: %s", c.args, &complaint)
		}
	}
}
