package monitor

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"tare/annex"
	"tare/kernel/process"
)

// What a scan takes of ours, by size, with and without BPF.
func BenchmarkScan(b *testing.B) {
	const mebibytes = 256
	for _, plain := range []bool{false, true} {
		b.Run(map[bool]string{false: "tables", true: "plain"}[plain], func(b *testing.B) {
			m := open(b, Options{Plain: plain})
			g, dir := newGroup(b)
			begin(b, g, mebibytes<<20/4096)
			if err := m.Watch("one", dir); err != nil {
				b.Fatal(err)
			}
			var took []time.Duration
			for b.Loop() {
				if _, err := m.Scan(context.Background(), "one"); err != nil {
					b.Fatal(err)
				}
				took = append(took, m.Cost("one").CPU)
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1e3*1024/mebibytes, "ms-CPU/GiB")
		})
	}
}

// spent is what the programs have taken in all, and how often each ran.
func spent(b *testing.B, m *Monitor, name string) (time.Duration, uint64) {
	b.Helper()
	stats, err := m.source.(*stream).collection.Programs[name].Stats()
	if err != nil {
		b.Fatal(err)
	}
	return stats.Runtime, stats.RunCount
}

// What each fault costs the program that takes it, and us who read it. What the kernel
// takes to tell the time of the programs, some tens of nanoseconds, is in it.
func BenchmarkFault(b *testing.B) {
	needSwap(b)
	const bpfStatsRunTime = 0 // BPF_STATS_RUN_TIME
	stats, err := ebpf.EnableStats(bpfStatsRunTime)
	if err != nil {
		b.Skip(err)
	}
	defer stats.Close()
	g, dir := newGroup(b)
	m := streaming(b, Options{})
	p := begin(b, g, 8192)
	if err := m.Watch("one", dir); err != nil {
		b.Fatal(err)
	}
	order := make([]int, p.pages)
	for i := range order {
		order[i] = i
	}
	program, runs := spent(b, m, objectProgFaultUser)
	var reading time.Duration
	faults := 0
	for b.Loop() {
		p.do("out")
		before, err := process.CPUTime()
		if err != nil {
			b.Fatal(err)
		}
		p.touch("touch", order)
		n := 0
		await(b, m, "faults", func(batch Batch) bool {
			for _, f := range batch.Faults {
				if _, is := p.of(f.Page); is {
					n++
				}
			}
			return n >= p.pages
		})
		after, err := process.CPUTime()
		if err != nil {
			b.Fatal(err)
		}
		reading += after - before
		faults += n
	}
	end, ran := spent(b, m, objectProgFaultUser)
	b.ReportMetric(float64(end-program)/float64(ran-runs), "ns-program/fault")
	b.ReportMetric(float64(reading)/float64(faults), "ns-reader/fault")
	counts, err := m.Counts()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(counts.Lost), "lost")
}

// What a switch costs: where nothing is watched, which is what the kernel takes to call a
// program at all; of tasks that nobody watches; and of those of a container. Rounds are interleaved; the fastest of each is told.
func BenchmarkSwitch(b *testing.B) {
	const swings = 5000 // of two switches
	g, _ := newGroup(b)
	p := begin(b, g, 16)
	other, otherDir := newGroup(b)
	begin(b, other, 16)
	place, _ := g.For("memory")
	fastest := map[string]uint64{}
	for b.Loop() {
		for _, way := range []string{"alone", "opened", "beside", "watched"} {
			var m *Monitor
			if way != "alone" {
				m = streaming(b, Options{})
			}
			if dir := map[string]string{"beside": otherDir, "watched": place.Dir()}[way]; dir != "" {
				if err := m.Watch(annex.ID(way), dir); err != nil {
					b.Fatal(err)
				}
			}
			took := p.do("pong %d", swings)
			if m != nil {
				if err := m.Close(); err != nil {
					b.Fatal(err)
				}
			}
			if best, ok := fastest[way]; !ok || took < best {
				fastest[way] = took
			}
		}
	}
	b.ReportMetric(float64(fastest["alone"])/(2*swings), "ns/switch")
	for _, way := range []string{"opened", "beside", "watched"} {
		b.ReportMetric((float64(fastest[way])-float64(fastest["alone"]))/(2*swings), fmt.Sprintf("ns-more/%s", way))
	}
}
