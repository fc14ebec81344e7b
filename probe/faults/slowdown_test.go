package faults

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// loopRounds is how many times the fault-bound program maps, touches and unmaps
// its 16 pages: some tenths of a second of nothing but faults.
const loopRounds = 8000

// way is one way of watching the fault-bound program, or none.
type way struct {
	name  string
	watch func(b *testing.B, pid int) (stop func())
	under func(b *testing.B) []string // a command that runs it
}

func ways(b *testing.B, lost *uint64) []way {
	recorded := func(target func(pid int) int) func(*testing.B, int) func() {
		return func(b *testing.B, pid int) func() {
			r := start(b, []Target{{Name: "loop", PIDs: []int{target(pid)}}}, Options{})
			return func() {
				rec := stop(b, r)
				*lost += rec.Lost + rec.Dropped + rec.Missed
				if n := rec.Counts[0].Total(); target(pid) == pid && n < 16*loopRounds {
					b.Errorf("%d faults counted, want %d at least", n, 16*loopRounds)
				}
			}
		}
	}
	all := []way{
		{name: "alone"},
		{name: "recorded", watch: recorded(func(pid int) int { return pid })},
		{name: "beside", watch: recorded(func(int) int { return 1 })},
	}
	if _, err := exec.LookPath("perf"); err != nil {
		b.Log("no perf: only our own slowdown is measured (apt-get install linux-perf)")
		return all
	}
	for _, event := range []string{"page-faults", "exceptions:page_fault_user"} {
		all = append(all, way{name: "perf-" + event[:4], under: func(b *testing.B) []string {
			return []string{"perf", "record", "-q", "-c", "1", "-e", event, "-o", filepath.Join(b.TempDir(), "data"), "--"}
		}})
	}
	return all
}

// How much slower a program that does nothing but fault is while it is
// recorded, while another is, and under perf; and by how much more CPU time it
// takes itself, which neighbours on the host disturb less. Each round runs all ways, one
// after the other; the median of the rounds' ratios to the program alone is reported.
func BenchmarkSlowdown(b *testing.B) {
	var lost uint64
	all := ways(b, &lost)
	elapsed, processor := map[string][]float64{}, map[string][]float64{}
	fails := map[string]bool{}
	for b.Loop() {
		for _, w := range all {
			if fails[w.name] {
				continue
			}
			e, p := loop(b, w, fails)
			elapsed[w.name] = append(elapsed[w.name], e)
			processor[w.name] = append(processor[w.name], p)
		}
	}
	b.ReportMetric(16*loopRounds/slices.Min(elapsed["alone"]), "faults/s")
	b.ReportMetric(float64(lost), "lost")
	for _, w := range all[1:] {
		if fails[w.name] {
			b.Logf("%s does not work here", w.name)
			continue
		}
		b.ReportMetric(excess(elapsed[w.name], elapsed["alone"]), "%slower/"+w.name)
		b.ReportMetric(excess(processor[w.name], processor["alone"]), "%CPU/"+w.name)
	}
}

// excess is the median, in percent, by which pairs differ.
func excess(with, without []float64) float64 {
	var ratios []float64
	for i := range with {
		ratios = append(ratios, 100*(with[i]/without[i]-1))
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

func loop(b *testing.B, w way, fails map[string]bool) (elapsed, processor float64) {
	b.Helper()
	var under []string
	if w.under != nil {
		under = w.under(b)
	}
	m, ok := try(b, under, "loop", strconv.Itoa(loopRounds))
	if !ok {
		fails[w.name] = true
		return 0, 0
	}
	defer m.end()
	if w.watch != nil {
		defer w.watch(b, m.pid)()
	}
	from := time.Now()
	did := m.act()
	return time.Since(from).Seconds(), did.nanoseconds
}
