package diagnose

import (
	"fmt"
	"time"

	"tare/kernel/cgroup"
	"tare/probe/bursts"
	"tare/report"
)

// idleEnough is the share of idle CPU time from which a quota saves nobody anything: shares
// would have given the container what it was refused.
const idleEnough = 0.2

// needless finds a quota where CPU shares would do (S4): it throttled the container while CPUs
// were idle, and no other container waited for one. Waits of processes outside of containers are not
// known: where the container itself waits behind such, they may well wait behind it, too. What it
// costs is what throttling costs.
func needless(h *Host, f *Facts) []Finding {
	held, ok := throttling(f)
	if !ok || held.Level == Harmless || h.Idle < idleEnough {
		return nil
	}
	// What it was refused has to fit into what was idle.
	others := h.Waited - waited(f)
	if held.Cost.Rate > h.Idle*float64(h.CPUs) || others >= leastWaiting {
		return nil
	}
	if f.Sched != nil && perPiece(f, f.behind(bursts.Others).Time).Rate >= leastWaiting {
		return nil
	}
	one := finding(f.Container, Needless, held.Cost)
	one.Within = held.ID
	one.Says = "its quota helps no other container: CPUs were idle, and none waited"
	one.Evidence = []Fact{
		{"idle CPU time", fmt.Sprintf("%.0f %% of %d CPUs", 100*h.Idle, h.CPUs), "/proc/stat"},
		{"waited by other containers", fmt.Sprintf("%s s in each second", report.Rounded(others, 2)), "sched_switch"},
		{"refused by the quota", held.Cost.String(), "see " + held.ID},
	}
	one.Set = []Remedy{{Says: "instead of a greater quota: its CPU shares alone", Command: noQuotaCommand(f), Change: quotaChange(cgroup.Bandwidth{})}}
	return []Finding{one}
}

// waited is for how long, in each second, a container's threads waited for a CPU behind somebody.
func waited(f *Facts) float64 {
	if f.Sched == nil {
		return 0
	}
	var sum time.Duration
	for _, b := range f.Sched.Behind {
		if b.Group != bursts.Nobody && b.Group != bursts.Unknown && b.Group != bursts.Quota {
			sum += b.Time
		}
	}
	return rate(sum, f.Watched)
}
