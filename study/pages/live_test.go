package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/container"
	"tare/probe"
	"tare/probe/faults"
	"tare/probe/pagetable"
	"tare/record"
	"tare/report"
	"tare/stats"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: other processes' page tables are not for everybody")
	}
}

// child starts a process that has printed its first word, and so has begun.
func child(t *testing.T, args ...string) container.Container {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("needs %s: %v", args[0], err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", args[0], err)
		}
	})
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	c, err := container.OfProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// waiting says a word and waits until its input ends.
func waiting(t *testing.T) container.Container {
	return child(t, "sh", "-c", "echo begun; read x; true")
}

func openTaker(t *testing.T) pagetable.Taker {
	t.Helper()
	taker, _, err := pagetable.Open()
	if missing := new(probe.Missing); errors.As(err, &missing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taker.Close() })
	return taker
}

// rendered is a sheet at all widths and as HTML: it must not fail, and is never
// wider than asked.
func rendered(t *testing.T, s report.Sheet) string {
	t.Helper()
	var at80 string
	for _, width := range []int{60, 80, 120} {
		var b bytes.Buffer
		if err := report.SheetTerminal(&b, s, report.TerminalOptions{Width: width}); err != nil {
			t.Fatal(err)
		}
		if width == 80 {
			at80 = b.String()
		}
		for line := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > width && !strings.Contains(line, "/") {
				t.Errorf("at %d columns a line has %d: %s", width, n, line)
			}
		}
	}
	var page bytes.Buffer
	if err := report.SheetHTML(&page, s); err != nil {
		t.Fatal(err)
	}
	return at80
}

func TestLookAtRunningProcesses(t *testing.T) {
	needRoot(t)
	taker := openTaker(t)
	two := []container.Container{waiting(t), waiting(t)}
	first, err := Look(t.Context(), taker, two, []string{"a note"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Look(t.Context(), taker, two, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := first.Count
	if len(c.Groups) != 2 || len(c.Processes) != 2 || c.All.Entries == 0 {
		t.Fatalf("%d groups, %d processes, %d entries", len(c.Groups), len(c.Processes), c.All.Entries)
	}
	// Both map the same libc: at whatever address, most of what they have is shared.
	if shared := c.All.Across.Groupable + c.All.Across.SharedFrame; 2*shared < c.All.Across.Sum() {
		t.Errorf("%d of %d entries are of frames that both map", shared, c.All.Across.Sum())
	}
	text := rendered(t, first.Sheet(record.Host{Generations: "0x0007"}, second))
	for _, want := range []string{"2 containers", "a note", "GENERATIONS", "Page-table entries by container", "First and second census", "Page tables", "Page-table entries by file"} {
		if !strings.Contains(text, want) {
			t.Errorf("the screen does not say %q:\n%s", want, text)
		}
	}
	data, err := json.Marshal(first.Document(record.Host{}, second))
	if err != nil {
		t.Fatal(err)
	}
	var d Document
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	if d.Schema != Schema || len(d.Censuses) != 2 || d.Censuses[0].Count.All != c.All {
		t.Errorf("the document does not read back: schema %q, %d censuses", d.Schema, len(d.Censuses))
	}
}

func TestLookAtTheWholeMachine(t *testing.T) {
	needRoot(t)
	taker := openTaker(t)
	two := []container.Container{waiting(t), waiting(t)}
	two[0].Image, two[0].ImageID = "web:1", "sha256:aa"
	two[1].Image, two[1].ImageID = "web:1", "sha256:aa"
	for _, read := range []bool{false, true} {
		w, err := LookAtAll(t.Context(), taker, two, read, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(w.Machine.Images) != 1 || w.Machine.Images[0].Image != "web:1" || w.Machine.All.Containers != 2 {
			t.Errorf("images %v", w.Machine.Images)
		}
		if has := w.Machine.All.Contents != nil; has != read {
			t.Errorf("contents compared: %v, want %v", has, read)
		}
		text := rendered(t, w.Sheet("host: here"))
		for _, want := range []string{"web:1", "Possible savings", "sharing page tables"} {
			if !strings.Contains(text, want) {
				t.Errorf("the screen does not say %q:\n%s", want, text)
			}
		}
		if _, err := json.Marshal(w.Document(record.Host{})); err != nil {
			t.Error(err)
		}
	}
}

func TestLookAtNobody(t *testing.T) {
	needRoot(t)
	ended := container.Container{Engine: container.Process, ID: "1999999999", Name: "gone", PID: 1999999999}
	if _, err := Look(t.Context(), openTaker(t), []container.Container{ended}, nil); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("%v", err)
	}
}

func TestRecordRunningProcesses(t *testing.T) {
	needRoot(t)
	// Each of these executes a program again and again, which faults.
	busy := func() container.Container {
		return child(t, "bash", "-c", "echo begun; while read -t 0.001; [ $? -gt 128 ]; do /bin/true; done; true")
	}
	two := []container.Container{busy(), busy()}
	r, err := RecordFaults(t.Context(), two, 300*time.Millisecond, nil)
	if missing := new(probe.Missing); errors.As(err, &missing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := r.Count
	var sum, targets uint64
	for i := range types {
		sum += c.Types[i].User
	}
	for _, target := range c.Targets {
		targets += target.User
	}
	if c.User == 0 || sum != c.User || targets != c.User {
		t.Errorf("%d faults, %d by type, %d by target", c.User, sum, targets)
	}
	if c.All.Faults != c.User-c.Lost || c.All.Same > c.All.Anywhere {
		t.Errorf("%d faults of %d are compared; %d the same, %d anywhere", c.All.Faults, c.User, c.All.Same, c.All.Anywhere)
	}
	// Both execute the same program: the pages of its files are taken by both.
	if c.All.Anywhere == 0 {
		t.Error("no fault is on a page of a file on which the other faulted too")
	}
	text := rendered(t, r.Sheet("host: here"))
	for _, want := range []string{"Page faults by type", "Page faults by container", "copy-on-write", "Page faults by code", "tare pages pid:"} {
		if !strings.Contains(text, want) {
			t.Errorf("the screen does not say %q:\n%s", want, text)
		}
	}
	// An interrupted recording is one all the same.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = RecordFaults(ctx, two, time.Hour, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped before it began: %v", err)
	}
	for within := time.Second; ; within *= 2 { // a slow host has not begun by then
		ctx, cancel = context.WithTimeout(t.Context(), within)
		r, err = RecordFaults(ctx, two, time.Hour, nil)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || within > time.Minute {
			break
		}
	}
	if err != nil || !slices.Contains(r.Notes, stoppedEarly) {
		t.Errorf("interrupted: %v, %v", r, err)
	}
}

// What a run's page says, of made-up figures.
func TestSheetOfARun(t *testing.T) {
	run := madeRun(typical(), s1Steady)
	text := rendered(t, Study.Sheet(run, nil, Judge(run)))
	for _, want := range []string{"Groupable page-table entries", "Page faults by type", "ArangoDB", "48.2", "Published claims", "S1.11", "address randomisation off"} {
		if !strings.Contains(text, want) {
			t.Errorf("the screen does not say %q", want)
		}
	}
	if Study.NextOf(run) == "" {
		t.Error("nothing is proposed")
	}
	rendered(t, Study.Interim(run))
}

// The answer sums what the faults took, and leaves the sum out where a type was not timed.
func TestAnswerOfRecordedFaults(t *testing.T) {
	count := &FaultCount{User: 3000, Seconds: 2, Typed: true, Types: make([]TypeCount, len(types))}
	for i := range count.Types {
		count.Types[i].Type = types[i].String()
	}
	count.Types[0].User, count.Types[1].User = 1000, 2000
	costs := []faults.CostOf{
		{Type: types[0], Nanoseconds: stats.Estimate{Value: 1000}},
		{Type: types[1], Nanoseconds: stats.Estimate{Value: 1000}}, {Type: types[1], Nanoseconds: stats.Estimate{Value: 3000}},
	}
	r := &Recorded{Containers: make([]container.Container, 2), Count: count, Costs: costs}
	if text, want := r.Answer(), "They took about 5.00 ms: 0.25 % of one CPU."; !strings.Contains(text, want) {
		t.Errorf("%q lacks %q", text, want)
	}
	r.Costs = costs[:1]
	if text := r.Answer(); strings.Contains(text, "took about") {
		t.Errorf("a type was not timed: %q", text)
	}
}
