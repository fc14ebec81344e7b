package data

import (
	"fmt"
	"testing"
	"time"

	"tare/annex"
)

// fifty are 50 contexts of 64 MiB each, of which half is in memory.
func fifty() (*Manager, []annex.Scan) {
	m := New(Policy{})
	var scans []annex.Scan
	for i := range 50 {
		id := annex.ID(fmt.Sprintf("box%02d", i))
		m.Add(ContextInfo{ID: id, Class: annex.Elastic})
		s := annex.Scan{ID: id, Space: annex.Space{PID: int32(i + 1)}, KnowsAccess: true, Stretches: []annex.Stretch{{First: 1 << 20, States: make([]annex.State, 16384)}}}
		for j := range s.Stretches[0].States {
			s.Stretches[0].States[j] = annex.Present | annex.Accessed
			if j%16 < 8 {
				s.Stretches[0].States[j] = annex.Swapped
			}
		}
		scans = append(scans, s)
		m.Scan(s)
	}
	m.Memory(annex.Memory{At: 1, Limit: 8 << 30, Free: 1 << 30, SwapSize: 8 << 30, SwapFree: 8 << 30})
	return m, scans
}

// BenchmarkScan takes the scan of one context of 64 MiB.
func BenchmarkScan(b *testing.B) {
	m, scans := fifty()
	now := annex.Moment(time.Second)
	for i := 0; b.Loop(); i++ {
		now = now.After(100 * time.Millisecond)
		s := scans[i%len(scans)]
		s.Began, s.Ended = now, now
		m.Scan(s)
	}
	pages := float64(50 * 16384)
	b.ReportMetric(float64(m.Size())/pages, "B/page")
}

// BenchmarkPlanIdle plans where nothing is to be done: what follows each batch of events.
func BenchmarkPlanIdle(b *testing.B) {
	m, _ := fifty()
	now := annex.Moment(time.Minute)
	for b.Loop() {
		now = now.After(time.Millisecond)
		m.Plan(now)
	}
}

// BenchmarkPlanShort plans where memory is short, and takes what was asked for as done.
func BenchmarkPlanShort(b *testing.B) {
	m, scans := fifty()
	now := annex.Moment(time.Minute)
	pages := 0
	for i := 0; b.Loop(); i++ {
		now = now.After(10 * time.Millisecond)
		m.Memory(annex.Memory{At: now, Limit: 8 << 30, Free: 60 << 20, SwapSize: 8 << 30, SwapFree: 8 << 30})
		requests, _ := m.Plan(now)
		for _, r := range requests {
			n := annex.Count(r.Runs)
			pages += n
			m.Done(annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Began: now, Ended: now + 1, Asked: n, Moved: n, Freed: n})
		}
		if i%20 == 0 { // they come back
			s := scans[i/20%len(scans)]
			s.Began, s.Ended = now+2, now+2
			m.Scan(s)
		}
	}
	b.ReportMetric(float64(pages)/float64(b.N), "pages/op")
}

// BenchmarkFaults takes faults of contexts that are awake.
func BenchmarkFaults(b *testing.B) {
	m, scans := fifty()
	now := annex.Moment(time.Minute)
	for _, s := range scans {
		m.Activity(annex.Activity{ID: s.ID, What: annex.Woke, At: now})
	}
	faults := make([]annex.Fault, 64)
	for i := 0; b.Loop(); i++ {
		now = now.After(3 * time.Millisecond)
		s := scans[i%len(scans)]
		for j := range faults {
			faults[j] = annex.Fault{ID: s.ID, Space: s.Space, Page: 1<<20 + annex.Page((i*64+j)%16384), At: now, Swapped: true}
		}
		m.Faults(faults)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(faults)), "ns/fault")
}

// BenchmarkLeaving has all of one sleeping container leave, plan by plan: what a page takes is to be
// the same however large it is.
func BenchmarkLeaving(b *testing.B) {
	for _, mebibytes := range []int{64, 1024, 4096} {
		b.Run(fmt.Sprintf("%d MiB", mebibytes), func(b *testing.B) {
			pages := mebibytes << 20 / annex.PageSize
			left := 0
			for b.Loop() {
				b.StopTimer()
				m := New(Policy{})
				m.Add(ContextInfo{ID: "a", Class: annex.Elastic})
				m.Scan(annex.Scan{ID: "a", KnowsAccess: true, Stretches: []annex.Stretch{{States: states(pages, annex.Present|annex.Accessed)}}})
				b.StartTimer()
				now := annex.Moment(time.Minute)
				for moved := 1; moved > 0; {
					now, moved = now.After(10*time.Millisecond), 0
					m.Memory(annex.Memory{At: now, Limit: 8 << 30, Free: 60 << 20, SwapSize: 8 << 30, SwapFree: 8 << 30})
					requests, _ := m.Plan(now)
					for _, r := range requests {
						n := annex.Count(r.Runs)
						moved += n
						m.Done(annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Began: now, Ended: now + 1, Asked: n, Moved: n, Freed: n})
					}
					left += moved
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(left), "ns/page")
		})
	}
}
