package diagnose

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/container"
	"tare/probe/bursts"
	"tare/report"
)

const (
	// mostSmall is the quota, in CPUs, up to which a container is small.
	mostSmall = 2.0
	// refill is what going on on another CPU costs a thread: an L2 cache of 512 KiB comes back from
	// the next level at 10 GB/s. It is an assumption.
	refill = 50 * time.Microsecond
)

// unpinned finds a container of one or two CPUs by quota that may run on every CPU of a larger
// host (S2's vanilla container), where its threads move so often that it costs. Its quota is
// another's matter ([throttled]), and so is waiting ([waiting]).
func unpinned(h *Host, f *Facts) []Finding {
	if f.Sched == nil || f.Watched <= 0 || f.Bandwidth.Quota <= 0 || f.Bandwidth.Period <= 0 {
		return nil
	}
	granted := rate(f.Bandwidth.Quota, f.Bandwidth.Period)
	if granted > mostSmall || f.CPUs < h.CPUs || h.CPUs <= mostSmall || float64(h.CPUs) < 2*granted {
		return nil
	}
	moves := float64(f.Sched.Migrations) / f.Watched.Seconds()
	// A thread cannot lose more by a cold cache than it ran.
	each := min(refill, f.Sched.Run.Mean())
	cost := Cost{Rate: moves * each.Seconds(), Each: each, Events: moves}
	if cost.Rate < leastWaiting {
		return nil
	}
	one := finding(f.Container, Unpinned, cost)
	one.Based = Estimated
	own := mostUsed(f.Sched, int(math.Ceil(granted)))
	one.Says = fmt.Sprintf("moves over %d CPUs with a quota of %s", f.CPUs, report.Rounded(granted, 3))
	one.Evidence = append(waits(f),
		Fact{"quota", f.Bandwidth.String(), "cpu.max, or cpu.cfs_quota_us"},
		Fact{"moves to another CPU", fmt.Sprintf("%s a second, %d in %s", report.Rounded(moves, 3), f.Sched.Migrations, short(f.Watched)), "sched_switch, sched_wakeup"},
		Fact{"a run on a CPU", short(f.Sched.Run.Mean()) + " on average", "sched_switch"},
	)
	list := strings.Join(own, ",")
	says := fmt.Sprintf("a set of CPUs: %s, on which it ran most, if no other container is kept there", list)
	if f.Container.Engine == container.Kubernetes { // the node chooses them
		says = report.Counted(len(own), "CPU") + " of its own"
	}
	one.Set = []Remedy{{Says: says, Command: pinCommand(f, len(own), list)}}
	return []Finding{one}
}

// mostUsed are the CPUs on which a group ran most, ascending.
func mostUsed(g *bursts.Group, count int) (cpus []string) {
	all := make([]int, len(g.PerCPU))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(g.PerCPU[b].CPUTime, g.PerCPU[a].CPUTime) })
	all = all[:min(count, len(all))]
	slices.Sort(all)
	for _, cpu := range all {
		cpus = append(cpus, strconv.Itoa(cpu))
	}
	return cpus
}
