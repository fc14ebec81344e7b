package causes

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"tare/probe/bursts"
)

func TestDistribution(t *testing.T) {
	var h, more bursts.Histogram
	for i := 1; i <= 1000; i++ {
		h.Add(time.Duration(i) * time.Microsecond)
		more.Add(time.Duration(i+1000) * time.Microsecond)
	}
	d := distributionOf(&h)
	for _, q := range []float64{0, 0.1, 0.5, 0.99, 1} {
		if a, b := d.Quantile(q), h.Quantile(q); a != b {
			t.Errorf("quantile %v is %v, and the histogram's %v", q, a, b)
		}
	}
	if d.Count != h.Count() || d.Mean() != h.Mean() {
		t.Errorf("%d of mean %v, want %d of %v", d.Count, d.Mean(), h.Count(), h.Mean())
	}
	d.Add(distributionOf(&more))
	h.Merge(&more)
	whole := distributionOf(&h)
	if d.Count != 2000 || d.Sum != whole.Sum || len(d.Steps) != len(whole.Steps) || d.Quantile(0.9) != h.Quantile(0.9) {
		t.Errorf("together they are %d of sum %v in %d steps; want %d, %v, %d", d.Count, d.Sum, len(d.Steps), whole.Count, whole.Sum, len(whole.Steps))
	}
	var none Distribution
	if none.Quantile(0.5) != 0 || none.Mean() != 0 {
		t.Error("none has a quantile or a mean")
	}
}

func TestReadingsAddUp(t *testing.T) {
	one := Reading{
		Span: time.Second, CPUs: 2, Used: 1, Migrations: 3, Interrupts: Interrupts{Hard: 1, Elsewhere: 2},
		Throttling: Throttling{Periods: 10, Throttled: 4, Time: time.Second}, Accounting: Accounting{Samples: 10, Functions: []Function{{"update_curr", 2}}},
		Off: []Stack{{Program: "a", Frames: []string{"x", "y"}, Time: 5, Count: 1}},
	}
	sum := one
	sum.Add(Reading{
		Span: time.Second, CPUs: 2, Used: 2, Migrations: 4, Interrupts: Interrupts{Hard: 1, Elsewhere: 2}, Lost: 1,
		Accounting: Accounting{Samples: 5, Functions: []Function{{"psi_task_switch", 7}, {"update_curr", 1}}},
		Off:        []Stack{{Program: "a", Frames: []string{"x", "y"}, Time: 5, Count: 1}, {Program: "a", Frames: []string{"x", "y"}, Waiting: true, Time: 20, Count: 1}},
		Absent:     []Absence{{partThrottling, "no group"}},
	})
	if sum.Span != 2*time.Second || sum.Used != 2 || sum.Migrations != 7 || sum.Interrupts.Elsewhere != 4 || sum.Accounting.Samples != 15 || sum.Lost != 1 {
		t.Errorf("%+v", sum)
	}
	if f := sum.Accounting.Functions; len(f) != 2 || f[0] != (Function{"psi_task_switch", 7}) || f[1] != (Function{"update_curr", 3}) {
		t.Errorf("functions %v", f)
	}
	if len(sum.Off) != 2 || !sum.Off[0].Waiting || sum.Off[1].Time != 10 || sum.Off[1].Count != 2 {
		t.Errorf("stacks %+v", sum.Off)
	}
	if reason, absent := sum.Lacks(partThrottling); !absent || reason != "no group" {
		t.Errorf("throttling is absent: %v, %q", absent, reason)
	}
	if len(one.Off) != 1 || one.Off[0].Time != 5 {
		t.Errorf("adding up has changed what was added to: %+v", one.Off)
	}
}

func TestStacksBeyondTheRoomStillAddUp(t *testing.T) {
	var all []Stack
	for i := range mostStacks + 50 {
		all = append(all, Stack{Program: "p", Frames: []string{fmt.Sprint(i)}, Time: time.Duration(i + 1), Count: 1})
	}
	kept := merged(all)
	var sum time.Duration
	var count uint64
	for _, s := range kept {
		sum += s.Time
		count += s.Count
	}
	n := time.Duration(mostStacks + 50)
	if len(kept) != mostStacks || sum != n*(n+1)/2 || count != uint64(n) || kept[mostStacks-1].Frames[0] != others {
		t.Errorf("%d stacks of %d, %v in all", len(kept), count, sum)
	}
}

func TestAccountingIsFoundBelowItsCallees(t *testing.T) {
	names := map[uint64]string{1: "native_read", 2: "__update_load", 3: "update_curr.isra.0", 4: "dequeue", 5: "__schedule", 6: "do_syscall_64", 7: "psi_group_change"}
	name := func(a uint64) string { return names[a] }
	samples := []bursts.Sample{
		{Kernel: []uint64{1, 3, 4, 5, 6}, Count: 3},
		{Kernel: []uint64{7, 5}, Count: 4},
		{Kernel: []uint64{2, 5}, Count: 5},
		{Kernel: []uint64{6}, Count: 8},
		{Count: 80},
	}
	a := accountingOf(samples, true, name)
	if a.Samples != 100 || a.Within != 7 || a.Scheduler != 12 || len(a.Functions) != 2 || a.Functions[0] != (Function{"psi_group_change", 4}) || a.Functions[1] != (Function{"update_curr", 3}) {
		t.Errorf("%+v", a)
	}
	// What strikes only where interrupts are let in finds none, and says none.
	if a := accountingOf(samples, false, name); a.Samples != 100 || a.Within != 0 || a.Scheduler != 12 || a.Functions != nil {
		t.Errorf("%+v", a)
	}
}

func TestTargetsThatAreNone(t *testing.T) {
	for _, target := range []Target{{}, {PIDs: []int{-1}}, {Cgroup: "/etc/passwd"}, {Cgroup: "/sys/fs/cgroup/tare-is-not-here"}} {
		w, err := Start(target, Options{})
		if err == nil {
			_, _ = w.Stop()
			t.Errorf("took the target %+v", target)
			continue
		}
		if errors.Unwrap(err) == nil && target.Cgroup != "" {
			t.Errorf("the error does not say of what: %v", err)
		}
	}
}
