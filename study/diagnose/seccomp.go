package diagnose

import (
	"fmt"
	"time"

	"tare/report"
)

// filtered finds a seccomp filter that takes time because the program makes many system calls.
// The time is that of the samples that met the filter, and the entry that calls it.
func filtered(_ *Host, f *Facts) []Finding {
	k := &f.InKernel
	samples := float64(k.Sampled.Seccomp)
	cost := costInKernel(f, samples)
	if !k.Filtered || samples < leastSamples || cost.Rate < leastInKernel {
		return nil
	}
	var half float64
	if cost.Events, half = k.Calls.PerSecond(k.Calls.Calls); cost.Events > 0 {
		cost.Each = time.Duration(cost.Rate / cost.Events * float64(time.Second))
	}
	one := finding(f.Container, Seccomp, cost)
	one.Says = fmt.Sprintf("its seccomp filter sees %s system calls/s", report.Rounded(cost.Events, 3))
	one.Evidence = []Fact{
		{"seccomp", "a filter", "/proc/PID/status"},
		{"system calls", fmt.Sprintf("%s ± %s a second", report.Rounded(cost.Events, 3), report.Rounded(half, 2)), "sys_enter, in windows"},
		sampled("in the filter", f, samples),
	}
	one.Set = []Remedy{
		{Says: "fewer system calls, or a profile that allows its most frequent ones without looking at arguments"},
		{Says: "no filter, where the program is trusted", Saves: cost.Rate, Change: map[string]string{"seccomp": "unconfined"}},
	}
	if isEngine(f.Container) {
		one.Set[0].Command, one.Set[1].Command = "--security-opt seccomp=PROFILE.json", "--security-opt seccomp=unconfined"
	}
	return []Finding{one}
}
