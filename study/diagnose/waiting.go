package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tare/container"
	"tare/probe/bursts"
	"tare/report"
	"tare/terminal"
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
// Time behind nobody is left out, for the CPU was waking up, and so is time for which a quota
// held the threads ([throttled]). A container that had as much of the CPUs as it could use without
// blocking (it computes) waits as a matter of course, and is left out where it had its share.
func waiting(h *Host, f *Facts) []Finding {
	if f.Sched == nil || f.Watched <= 0 {
		return nil
	}
	behind := map[int]time.Duration{}
	var all time.Duration
	for _, b := range f.Sched.Behind {
		if b.Group != bursts.Nobody && b.Group != bursts.Unknown && b.Group != bursts.Quota {
			behind[b.Group] += b.Time
			all += b.Time
		}
	}
	if perPiece(f, all).Rate < leastWaiting || hasItsShare(f, all) {
		return nil
	}
	var found []Finding
	var rest time.Duration
	for _, g := range longest(behind) {
		if !isOther(h, f, g) || float64(behind[g]) < leastPart*float64(all) {
			rest += behind[g]
			continue
		}
		one := neighbour(h, f, g, behind[g])
		delete(behind, g)
		if one.Cost.Rate >= leastWaiting {
			found = append(found, one)
		}
	}
	if perPiece(f, rest).Rate >= leastWaiting {
		found = append(found, crowd(h, f, behind, rest))
	}
	return found
}

// computing is the length of a piece of work from which a container computes.
const computing = 100 * time.Millisecond

// hasItsShare tells of a container that computes and ran for about as long as it waited.
func hasItsShare(f *Facts, waited time.Duration) bool {
	return pieceOf(f.Sched.AllBursts()) >= computing && f.Sched.CPUTime >= waited*9/10
}

func neighbour(h *Host, f *Facts, g int, behind time.Duration) Finding {
	other := h.Containers[g]
	name := other.Name
	one := finding(f.Container, Neighbour, perPiece(f, behind))
	one.ID += ":" + name
	one.Says = "waits for a CPU behind " + name
	one.Set = []Remedy{{
		Says:    "CPUs of their own for the two",
		Command: "tare place " + terminal.Shell(f.Container.Argument(), other.Argument()),
	}}
	one.Evidence = waits(f, fact("behind "+name, behind, f))
	if f.During.Throttled > 0 {
		// Threads that were queued when the quota ran out count as waiting behind others.
		one.Based = Estimated
	}
	return one
}

// crowd is of those that are no neighbour of their own line. It names those behind whom most is waited.
func crowd(h *Host, f *Facts, behind map[int]time.Duration, rest time.Duration) Finding {
	one := finding(f.Container, WaitsForCPU, perPiece(f, rest))
	type part struct {
		whom string
		time time.Duration
		set  Remedy
	}
	const fixed = "nothing in its settings ends it: "
	outside := "those processes"
	if len(h.Outside) > 0 {
		outside = strings.Join(h.Outside, " and ")
	}
	parts := []part{
		{"its own threads", behind[f.Self], Remedy{Says: fmt.Sprintf("more CPUs than %d, or fewer threads", f.CPUs)}},
		{
			"processes outside of containers", behind[bursts.Others],
			Remedy{Says: fixed + outside + " would have to end, or to run on other CPUs"},
		},
		{"the kernel's threads", behind[bursts.Kernel], Remedy{Says: fixed + "the kernel's threads work for the whole host"}},
	}
	if others, sum := containers(h, f, behind); len(others) > 0 {
		shown, arguments := []string{}, []string{f.Container.Argument()}
		for _, c := range others[:min(len(others), mostNamed)] {
			shown, arguments = append(shown, c.Name), append(arguments, c.Argument())
		}
		whom := "other containers: " + strings.Join(shown, ", ")
		if more := len(others) - len(shown); more > 0 {
			whom += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, part{whom, sum, Remedy{
			Says:    "CPUs of their own for them",
			Command: "tare place " + terminal.Shell(arguments...),
		}})
	}
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.time == 0 })
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.time, a.time) })
	var more []Fact
	for _, p := range parts {
		more = append(more, fact("behind "+p.whom, p.time, f))
	}
	one.Says = "waits for a CPU"
	if len(parts) > 0 {
		mostly := " mostly"
		if len(parts) == 1 {
			mostly = ""
		}
		one.Says += mostly + " behind " + parts[0].whom
		one.Set = []Remedy{parts[0].set}
	}
	one.Evidence = waits(f, more...)
	return one
}

// containers are the other containers among those behind whom was waited, the one of most time first.
func containers(h *Host, f *Facts, behind map[int]time.Duration) (others []container.Container, sum time.Duration) {
	for _, g := range longest(behind) {
		if isOther(h, f, g) {
			others, sum = append(others, h.Containers[g]), sum+behind[g]
		}
	}
	return others, sum
}

// isOther tells whether somebody behind whom was waited is another container, which has a name.
func isOther(h *Host, f *Facts, g int) bool { return g >= 0 && g < len(h.Containers) && g != f.Self }

// longest are those behind whom was waited, the one of most time first.
func longest(behind map[int]time.Duration) []int {
	return slices.SortedFunc(maps.Keys(behind), func(a, b int) int {
		return cmp.Or(cmp.Compare(behind[b], behind[a]), cmp.Compare(a, b))
	})
}

// perPiece is what a part of the time waited costs, for each piece of work ([pieceOf]) and in
// each second. Of what a piece waited ([bursts.Group.Delay]) the part is as large as of all
// waiting. So threads that hardly run, such as those of a runtime, cost next to nothing,
// however long they wait.
func perPiece(f *Facts, waited time.Duration) Cost {
	var all time.Duration
	for _, b := range f.Sched.Behind {
		all += b.Time
	}
	piece, delay := pieceOf(f.Sched.AllBursts()), f.Sched.Delay()
	if piece == 0 || all == 0 || f.Sched.Burst.Sum() == 0 {
		return Cost{Rate: rate(waited, f.Watched)}
	}
	c := Cost{
		Events: rate(f.Sched.AllBursts().Sum(), f.Watched) / piece.Seconds(),
		Each:   time.Duration(float64(delay) * float64(waited) / float64(all)),
	}
	c.Rate = c.Events * c.Each.Seconds()
	return c
}

func waits(f *Facts, more ...Fact) []Fact {
	all := f.Sched.AllWaits()
	waits := report.Rounded(float64(all.Count())/f.Watched.Seconds(), 3)
	return append([]Fact{
		{"waits for a CPU", fmt.Sprintf("%s a second, p99 %s", waits, short(all.Quantile(0.99))), "sched_switch"},
		fact("time waited", all.Sum(), f),
	}, more...)
}

func fact(name string, d time.Duration, f *Facts) Fact {
	return Fact{name, fmt.Sprintf("%s in %s", short(d), short(f.Watched)), "sched_switch"}
}
