package breakdown

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tare/probe"
)

func ExampleOf() {
	b := Of([]Stack{
		{Process: by[probe.Runtime], Kernel: []string{"unmap_page_range", "exit_mmap"}, Weight: 3},
		{Process: by[probe.Engine], User: []string{"runtime.scanobject"}, Weight: 2},
		{Process: by[probe.Engine], User: []string{"runtime.mallocgc"}, Weight: 1},
		{Process: by[probe.Engine], Kernel: []string{"ext4_sync_file", "do_fsync"}, User: []string{"os.(*File).Sync"}, Weight: 2},
		{Process: probe.Process{}, Kernel: []string{"default_idle"}, Weight: 100}, // the idle task
	})
	fmt.Printf("in the kernel: %.1f %%\n", 100*b.KernelShare())
	fmt.Printf("S1.4's groups: %.1f %% and %.1f %%\n", 100*b.Share(Memory), 100*b.Share(Collector, Allocation))
	for _, row := range b.ByComponent() {
		fmt.Println(row.Component, row.Kernel, row.User)
	}
	// Output:
	// in the kernel: 62.5 %
	// S1.4's groups: 37.5 % and 37.5 %
	// dockerd 2 3
	// runtime 3 0
}

// TestNothingIsLostOrCountedTwice: however the weight is summed, it is all of it.
func TestNothingIsLostOrCountedTwice(t *testing.T) {
	var stacks []Stack
	var total float64
	for i, e := range examples {
		s := e.stack()
		s.Weight = float64(i + 1)
		total += s.Weight
		stacks = append(stacks, s)
	}
	b := Of(stacks)
	var byGroup, byComponent Split
	for _, r := range b.Cells {
		byGroup.Kernel += r.Kernel
		byGroup.User += r.User
	}
	for _, r := range b.ByComponent() {
		byComponent.Kernel += r.Kernel
		byComponent.User += r.User
	}
	if b.Total() != total || byGroup != b.Split || byComponent != b.Split {
		t.Errorf("of %v: in all %+v, by group %+v, by component %+v", total, b.Split, byGroup, byComponent)
	}
	if all := b.Share(Groups...); math.Abs(all-1) > 1e-12 {
		t.Errorf("all groups together are %v", all)
	}
	less := b.Without(probe.Client, probe.Other)
	for _, r := range less.ByComponent() {
		if r.Component == probe.Client || r.Component == probe.Other {
			t.Errorf("without %s there is %+v of it", r.Component, r)
		}
	}
	back := less.Split
	for _, r := range b.ByComponent() {
		if r.Component == probe.Client || r.Component == probe.Other {
			back.Kernel += r.Kernel
			back.User += r.User
		}
	}
	if back != b.Split {
		t.Errorf("what is left and what was taken are %+v of %+v", back, b.Split)
	}
}

func TestOfNothing(t *testing.T) {
	b := Of(nil)
	if b.KernelShare() != 0 || b.Share(Memory) != 0 || len(b.ByComponent()) != 0 {
		t.Errorf("%+v", b)
	}
	if diff := cmp.Diff(b, b.Without(probe.Other)); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkOf(b *testing.B) {
	stacks := recorded(b, "docker")
	for b.Loop() {
		Of(stacks)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(stacks)), "ns/stack")
}
