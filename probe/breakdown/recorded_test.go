package breakdown

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
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

func TestRecordedStarts(t *testing.T) {
	for _, name := range []string{"docker", "runc", "crun"} {
		t.Run(name, func(t *testing.T) {
			stacks := recorded(t, name)
			b := Of(stacks).Without(probe.Other)
			t.Logf("kernel %.1f %%, S1.4's groups %.1f + %.1f %%", 100*b.KernelShare(), 100*b.Share(Memory), 100*b.Share(Collector, Allocation))
			for _, r := range b.ByGroup() {
				t.Logf("%-38s %5.1f %% (kernel %.1f, user %.1f)", r.Group, 100*r.Total()/b.Total(), 100*r.Kernel/b.Total(), 100*r.User/b.Total())
			}
			for _, r := range b.ByComponent() {
				t.Logf("%-38s %5.1f %%", r.Component, 100*r.Total()/b.Total())
			}
			if u := b.Share(Unassigned); u > 0.10 {
				t.Errorf("%.1f %% are unassigned, more than a tenth", 100*u)
			}
			show(t, stacks, Unassigned, 40)
		})
	}
}
