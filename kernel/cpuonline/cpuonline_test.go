package cpuonline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// made is a host of four CPUs, of which the first has no switch, with cpusets.
func made(t *testing.T) Host {
	t.Helper()
	dir := t.TempDir()
	h := Host{Devices: filepath.Join(dir, "cpu"), Cpusets: []string{filepath.Join(dir, "cpuset")}}
	for file, text := range map[string]string{
		"cpu/cpu0/topology/core_id": "0\n", "cpu/cpu1/online": "1\n", "cpu/cpu2/online": "1\n", "cpu/cpu3/online": "0\n",
		"cpuset/cpuset.cpus": "0-2\n", "cpuset/docker/cpuset.cpus": "0-2\n", "cpuset/docker/x/cpuset.cpus": "2\n", "cpuset/none/cpuset.cpus": "\n",
	} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h Host) text(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestTakeAndRestore(t *testing.T) {
	h := made(t)
	s, err := h.Look([]int{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Offline) != 2 || len(s.Cpusets) != 2 {
		t.Fatalf("looked at %+v: want CPUs 1 and 2 to be taken, 3 being off line already, and two cpusets that hold any", s)
	}
	if err := h.Take(s); err != nil {
		t.Fatal(err)
	}
	for _, cpu := range []int{1, 2} {
		if on, err := h.Online(cpu); on || err != nil {
			t.Errorf("CPU %d is on line (%v)", cpu, err)
		}
	}
	// As the kernel of version 1 does: what is off line goes out of each.
	docker := filepath.Join(h.Cpusets[0], "docker", "cpuset.cpus")
	if err := os.WriteFile(docker, []byte("0"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(h.Cpusets[0], "docker", "x")); err != nil {
		t.Fatal(err) // a container that ended meanwhile
	}
	for range 2 {
		if err := h.Restore(s); err != nil {
			t.Fatal(err)
		}
		if got := h.text(t, docker); got != "0-2" {
			t.Errorf("the cpuset holds %s, want 0-2", got)
		}
		if got := h.text(t, h.Devices, "cpu3", "online"); got != "0" {
			t.Errorf("CPU 3, which was off line before, is %s", got)
		}
	}
}

func TestAHostThatKeepsItsCPUs(t *testing.T) {
	h := made(t)
	fixed := (*Fixed)(nil)
	if err := h.Removable(0); !errors.As(err, &fixed) || fixed.CPU != 0 {
		t.Errorf("CPU 0: %v", err)
	}
	if _, err := h.Look([]int{1, 0}); !errors.As(err, &fixed) {
		t.Errorf("looking at CPU 0 gives %v", err)
	}
	if on, err := h.Online(0); !on || err != nil {
		t.Errorf("CPU 0 is off line (%v)", err)
	}
	if _, err := h.Online(9); err == nil {
		t.Error("there is a CPU 9")
	}
	if err := os.WriteFile(filepath.Join(h.Devices, "cpu1", "online"), []byte("perhaps"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Online(1); err == nil || !strings.Contains(err.Error(), "perhaps") {
		t.Errorf("a switch of no sense gives %v", err)
	}
}

func write(t *testing.T, text string, path ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(path...), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The kernel moves processes out of a cpuset that has no CPU left, and never back.
func TestACpusetWithProcessesKeepsACPU(t *testing.T) {
	h := made(t)
	x := filepath.Join(h.Cpusets[0], "docker", "x")
	write(t, "", x, "tasks")
	if _, err := h.Look([]int{1, 2}); err != nil {
		t.Fatalf("nobody is in it: %v", err)
	}
	write(t, "4711\n", x, "tasks")
	var emptied *Emptied
	if _, err := h.Look([]int{1, 2}); !errors.As(err, &emptied) || emptied.Cpuset != x || emptied.CPUs != "2" {
		t.Errorf("a process that is kept to CPU 2: %v", err)
	}
	if _, err := h.Look([]int{1}); err != nil {
		t.Errorf("its CPU stays: %v", err)
	}
}

// What someone else has written of a cpuset meanwhile stays.
func TestRestoreLeavesWhatOthersWrote(t *testing.T) {
	for _, c := range []struct{ docker, x, want, wantX string }{
		{"0", "", "0-2", "2"},    // as the kernel leaves them
		{"0,2", "2", "0-2", "2"}, // stopped after the first CPU
		{"1", "", "1", ""},       // someone's: not what the CPUs' going makes of it, and its child has no room
		{"0-1", "", "0-1", ""},
		{"0", "0", "0-2", "0"},
	} {
		h := made(t)
		s, err := h.Look([]int{1, 2})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Take(s); err != nil {
			t.Fatal(err)
		}
		docker := filepath.Join(h.Cpusets[0], "docker")
		write(t, c.docker, docker, "cpuset.cpus")
		write(t, c.x, docker, "x", "cpuset.cpus")
		if err := h.Restore(s); err != nil {
			t.Fatal(err)
		}
		if got, x := h.text(t, docker, "cpuset.cpus"), h.text(t, docker, "x", "cpuset.cpus"); got != c.want || x != c.wantX {
			t.Errorf("found %q and %q, left %q and %q, want %q and %q", c.docker, c.x, got, x, c.want, c.wantX)
		}
	}
}

// What was taken before one CPU would not go is brought back.
func TestRestoreAfterATakeThatFailed(t *testing.T) {
	h := made(t)
	s, err := h.Look([]int{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(h.file(2)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(h.file(2), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := h.Take(s); err == nil {
		t.Fatal("CPU 2 has gone")
	}
	if on, err := h.Online(1); on || err != nil {
		t.Fatalf("CPU 1 had not gone (%v)", err)
	}
	if err := os.Remove(h.file(2)); err != nil {
		t.Fatal(err)
	}
	write(t, "1\n", h.file(2))
	if err := h.Restore(s); err != nil {
		t.Fatal(err)
	}
	if on, err := h.Online(1); !on || err != nil {
		t.Errorf("CPU 1 stays off line (%v)", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "0", "0-2,5\n", "3-1", "x", "1-", "0-99999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cpus, err := parse(text)
		if err == nil && strings.TrimSpace(text) != "" && len(cpus) == 0 {
			t.Errorf("%q holds none", text)
		}
	})
}
