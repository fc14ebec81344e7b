package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"tare/probe/bursts"
)

const (
	// leastWaiting is the share of time below which waiting for a CPU is not worth a line.
	leastWaiting = 0.01
	// leastPart is the part of a container's waiting from which one neighbour is named.
	leastPart = 0.25
)

// waiting finds time for which a container's threads could have run and had no CPU because
// others had it: a neighbour that is named, or the host's processes and its own threads.
//
// Time behind nobody is left out: the CPU was idle, and so the thread was throttled or the
// CPU was waking up. A container that had as much of the CPUs as it could use without
// blocking (it computes) waits as a matter of course, and is left out where it had its share.
func waiting(h *Host, f *Facts) []Finding {
	if f.Sched == nil || f.Watched <= 0 {
		return nil
	}
	behind := map[int]time.Duration{}
	var all time.Duration
	for _, b := range f.Sched.Behind {
		if b.Group != bursts.Nobody && b.Group != bursts.Unknown {
			behind[b.Group] += b.Time
			all += b.Time
		}
	}
	if rate(all, f.Watched) < leastWaiting || hasItsShare(f, all) {
		return nil
	}
	var found []Finding
	var rest time.Duration
	who := make([]int, 0, len(behind))
	for g := range behind {
		who = append(who, g)
	}
	slices.SortFunc(who, func(a, b int) int { return cmp.Or(cmp.Compare(behind[b], behind[a]), cmp.Compare(a, b)) })
	for _, g := range who {
		named := g >= 0 && g < len(h.Names) && h.Names[g] != f.Container.Name
		if !named || float64(behind[g]) < leastPart*float64(all) {
			rest += behind[g]
			continue
		}
		found = append(found, neighbour(h, f, g, behind[g]))
	}
	if rate(rest, f.Watched) >= leastWaiting {
		found = append(found, crowd(h, f, behind, rest))
	}
	return found
}

// hasItsShare tells of a container that computes: it hardly ever blocks, and ran for at least
// as long as it waited.
func hasItsShare(f *Facts, waited time.Duration) bool {
	blocked := f.Sched.Blocked.Sum()
	return f.Sched.CPUTime+waited > 9*blocked && f.Sched.CPUTime >= waited*9/10
}

func neighbour(h *Host, f *Facts, g int, behind time.Duration) Finding {
	name := h.Names[g]
	one := finding(f.Container, Neighbour, perBurst(f, behind))
	one.ID += ":" + name
	one.Says = "waits for a CPU behind " + name
	one.Set = []Remedy{{
		Says:    "CPUs of their own for the two",
		Command: fmt.Sprintf("tare place %s %s", quoted(f.Container.Name), quoted(name)),
	}}
	one.Evidence = waits(f, fact("behind "+name, behind, f))
	return one
}

func crowd(h *Host, f *Facts, behind map[int]time.Duration, rest time.Duration) Finding {
	one := finding(f.Container, WaitsForCPU, perBurst(f, rest))
	one.Says = "its threads wait for a CPU"
	var more []Fact
	for g, says := range map[int]string{bursts.Others: "behind processes outside of containers", bursts.Kernel: "behind the kernel's threads"} {
		if behind[g] > 0 {
			more = append(more, fact(says, behind[g], f))
		}
	}
	slices.SortFunc(more, func(a, b Fact) int { return cmp.Compare(a.Name, b.Name) })
	if own := slices.Index(h.Names, f.Container.Name); own >= 0 && behind[own] > 0 {
		more = append(more, fact("behind its own threads", behind[own], f))
		if behind[own] > rest/2 {
			one.Says += " behind one another"
			one.Set = []Remedy{{Says: fmt.Sprintf("more CPUs than %d, or fewer threads", f.CPUs)}}
		}
	}
	one.Evidence = waits(f, more...)
	return one
}

// perBurst spreads time waited over the pieces of work.
func perBurst(f *Facts, waited time.Duration) Cost {
	c := Cost{Rate: rate(waited, f.Watched)}
	if n := f.Sched.AllBursts().Count(); n > 0 {
		c.Each, c.Events = waited/time.Duration(n), float64(n)/f.Watched.Seconds()
	}
	return c
}

func waits(f *Facts, more ...Fact) []Fact {
	all := f.Sched.AllWaits()
	return append([]Fact{
		{"waits for a CPU", fmt.Sprintf("%.3g a second, p99 %s", float64(all.Count())/f.Watched.Seconds(), short(all.Quantile(0.99))), "sched_switch"},
		fact("time waited", all.Sum(), f),
	}, more...)
}

func fact(name string, d time.Duration, f *Facts) Fact {
	return Fact{name, fmt.Sprintf("%s in %s", short(d), short(f.Watched)), "sched_switch"}
}
