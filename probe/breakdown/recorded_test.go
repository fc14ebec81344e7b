package breakdown

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"tare/probe"
)

// recorded reads stacks that probe/profile recorded (its TestRecord makes them
// anew).
func recorded(t testing.TB, name string) []Stack {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var stacks []Stack
	for d := json.NewDecoder(z); ; {
		var s Stack
		err := d.Decode(&s)
		if errors.Is(err, io.EOF) {
			return stacks
		}
		if err != nil {
			t.Fatal(err)
		}
		stacks = append(stacks, s)
	}
}

// show logs the heaviest innermost functions of a group, for whoever tends the
// rules.
func show(t testing.TB, stacks []Stack, group Group, most int) {
	t.Helper()
	c := NewClassifier()
	type row struct {
		what   string
		weight float64
	}
	weights := map[string]float64{}
	for i := range stacks {
		s := &stacks[i]
		cell := c.Cell(s)
		if cell.Group != group {
			continue
		}
		what := string(cell.Component) + " user"
		functions := s.User
		if s.InKernel() {
			what, functions = string(cell.Component)+" kernel", s.Kernel
		}
		for i := 0; i < len(functions) && i < 6; i++ {
			what += " < " + functions[i]
		}
		weights[what] += s.Weight
	}
	var rows []row
	for what, w := range weights {
		rows = append(rows, row{what, w})
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i].weight > rows[j].weight })
	for i := 0; i < len(rows) && i < most; i++ {
		t.Logf("%s: %.4f %s", group, rows[i].weight, rows[i].what)
	}
}

// TestRecordedStarts breaks real starts down: of 12 containers, under other load,
// with what it gave when the recordings were made. A change of the rules that
// changes these figures is to be looked at, and then written here.
func TestRecordedStarts(t *testing.T) {
	for _, want := range []struct {
		name                        string
		kernel, memory, gc, seccomp float64 // percent
	}{
		{"docker", 65.9, 25.6, 10.4, 5.3},
		{"runc", 69.6, 30.6, 2.1, 11.5},
		{"crun", 68.1, 25.0, 0, 17.2},
	} {
		t.Run(want.name, func(t *testing.T) {
			stacks := recorded(t, want.name)
			b := Of(stacks)
			for _, r := range b.ByComponent() {
				t.Logf("%-38s %5.1f %%", r.Component, 100*r.Total()/b.Total())
			}
			for _, c := range []struct {
				what      string
				got, want float64
			}{
				{"the kernel's part", b.KernelShare(), want.kernel},
				{"S1.4's memory management and process start", b.Share(Memory), want.memory},
				{"S1.4's collection and allocation", b.Share(Collector, Allocation), want.gc},
				{"seccomp", b.Share(Seccomp), want.seccomp},
			} {
				if got := 100 * c.got; math.Abs(got-c.want) > 0.1 {
					t.Errorf("%s is %.1f %%, was %.1f %%", c.what, got, c.want)
				}
			}
			if u := b.Share(Unassigned); u > 0.10 {
				t.Errorf("%.1f %% are unassigned, more than a tenth", 100*u)
			}
			show(t, stacks, Unassigned, 20)
		})
	}
}

// TestEveryPartOfAStartIsSeen: a recording of docker has all components, and of
// each group that a start must have something.
func TestEveryPartOfAStartIsSeen(t *testing.T) {
	b := Of(recorded(t, "docker"))
	seen := map[probe.Component]bool{}
	for _, r := range b.ByComponent() {
		seen[r.Component] = true
	}
	for _, c := range []probe.Component{probe.Engine, probe.Containerd, probe.Shim, probe.Runtime, probe.Client, probe.Application, probe.Kernel} {
		if !seen[c] {
			t.Errorf("%s is not seen", c)
		}
	}
	for _, g := range []Group{Memory, Collector, Allocation, GoStart, GoScheduler, Linking, Mounts, Network, Cgroups, Seccomp, Files, IPC, Management, Scheduling} {
		if b.Share(g) == 0 {
			t.Errorf("nothing is %s", g)
		}
	}
	// crun is C: what Go does there was done by none of its processes.
	for cell, split := range Of(recorded(t, "crun")).Cells {
		if cell.Component == probe.Runtime && (cell.Group == Collector || cell.Group == Allocation || cell.Group == GoStart) {
			t.Errorf("crun's part has %v of %s", split, cell.Group)
		}
	}
}
