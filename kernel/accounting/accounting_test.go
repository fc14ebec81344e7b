package accounting

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheCommandMayHoldAnything(t *testing.T) {
	line := "42 (a) b (c)) S 7 42 42 0 -1 4194304 10 0 0 0 100 50 20 5 20 0 1 0 900 0 0 0 0"
	p, err := ParseProcess([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	want := Process{PID: 42, Parent: 7, Start: 900, Command: "a) b (c)", Own: 1500 * time.Millisecond, Reaped: 250 * time.Millisecond}
	if p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
}

func FuzzParseProcess(f *testing.F) {
	f.Add([]byte("42 (a) b (c)) S 7 42 42 0 -1 4194304 10 0 0 0 100 50 20 5 20 0 1 0 900 0 0"))
	f.Add([]byte("1 () R"))
	f.Fuzz(func(t *testing.T, line []byte) {
		p, err := ParseProcess(line)
		if err == nil && (p.PID <= 0 || p.Own < 0 && p.Own > -time.Hour) {
			t.Errorf("%q gave %+v", line, p)
		}
	})
}

func TestTakeReadsThisHost(t *testing.T) {
	s, err := Take("/proc")
	if err != nil {
		t.Fatal(err)
	}
	self, ok := s.Processes[os.Getpid()]
	if !ok || s.CPUs < 1 || s.Busy <= 0 {
		t.Fatalf("snapshot lacks this process or the host: %d CPUs, busy %v", s.CPUs, s.Busy)
	}
	if self.Parent != os.Getppid() {
		t.Errorf("parent %d, want %d", self.Parent, os.Getppid())
	}
}

func TestABrokenAccountIsNamed(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "stat"), []byte("intr 1 2 3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Take(root); err == nil || !strings.Contains(err.Error(), "/proc/stat") {
		t.Errorf("got %v, want an error that names /proc/stat", err)
	}
}

// A second of a host with two CPUs: what is ours, what is foreign.
func TestBetween(t *testing.T) {
	at := time.Unix(1000, 0)
	before := Snapshot{Taken: at, CPUs: 2, MemoryStall: 0, Processes: map[int]Process{
		100: {PID: 100, Parent: 1, Start: 5, Command: "tare"},
		200: {PID: 200, Parent: 1, Start: 6, Command: "cron", Reaped: time.Second},
		201: {PID: 201, Parent: 200, Start: 7, Command: "job", Own: 300 * time.Millisecond},
		202: {PID: 202, Parent: 201, Start: 7, Command: "step", Own: 500 * time.Millisecond},
		300: {PID: 300, Parent: 1, Start: 8, Command: "dockerd"},
		400: {PID: 400, Parent: 2, Start: 1, Command: "kworker"},
		1:   {PID: 1, Start: 1, Command: "init"},
		500: {PID: 500, Parent: 1, Start: 9, Command: "old"},
	}}
	after := Snapshot{Taken: at.Add(time.Second), CPUs: 2, Steal: 100 * time.Millisecond, MemoryStall: 50 * time.Millisecond, Processes: map[int]Process{
		100: {PID: 100, Parent: 1, Start: 5, Command: "tare", Own: 10 * time.Millisecond},
		101: {PID: 101, Parent: 100, Start: 20, Command: "redis-server", Own: 900 * time.Millisecond},
		// The job ended and was reaped, and so was its step by it: 300 and 500 ms
		// before, 100 ms within.
		200: {PID: 200, Parent: 1, Start: 6, Command: "cron", Reaped: 1900 * time.Millisecond},
		300: {PID: 300, Parent: 1, Start: 8, Command: "dockerd", Own: 200 * time.Millisecond},
		400: {PID: 400, Parent: 2, Start: 1, Command: "kworker", Own: 500 * time.Millisecond},
		// Something ended and was reaped by init: nobody can know whose it was.
		1: {PID: 1, Start: 1, Command: "init", Reaped: 40 * time.Millisecond},
		// The number 500 belongs to somebody else now.
		500: {PID: 500, Parent: 1, Start: 30, Command: "new", Own: 60 * time.Millisecond},
	}}
	iv := Between(before, after, 100, func(p Process) bool { return p.Command == "dockerd" })
	near := func(name string, got, want float64) {
		if got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	near("foreign", iv.Foreign, (0.100+0.060)/2)
	near("steal", iv.Steal, 0.05)
	near("memory stall", iv.MemoryStall, 0.05)
	if iv.Loudest != "cron" || iv.Self != 10*time.Millisecond {
		t.Errorf("loudest %q, self %v", iv.Loudest, iv.Self)
	}
}

func FuzzReadHost(f *testing.F) {
	f.Add("cpu  10 1 5 100 2 3 4 6 0 0\ncpu0 10 1 5 100 2 3 4 6 0 0\nintr 5\n")
	f.Add("cpu\n")
	f.Add("cpu 1 2 3 4 5 6 7")
	f.Fuzz(func(t *testing.T, text string) {
		var s Snapshot
		if err := s.readHost(strings.NewReader(text)); err == nil && !strings.Contains(text, "cpu") {
			t.Errorf("%q is read as %+v", text, s)
		}
	})
}

func FuzzReadStall(f *testing.F) {
	f.Add("some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n")
	f.Add("some total=")
	f.Fuzz(func(t *testing.T, text string) {
		if stall := readStall(strings.NewReader(text)); stall >= 0 && !strings.Contains(text, "total=") {
			t.Errorf("%q is read as %v", text, stall)
		}
	})
}
