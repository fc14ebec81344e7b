package quota

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// stepped is a simulation of its own, in steps of 10 us: tasks of one CPU in a closed loop
// without pauses, under a quota. Each serves requests of one demand. A task that has run for a
// turn gives way at the tick.
type stepped struct {
	tasks                 int
	demand, quota, period int64 // steps
	turn, tick            int64
	inOrder               bool // of arrival; else any that waits
	random                *rand.Rand
	waiting               []int
	since, left           []int64
	took                  []float64
	remaining, ran        int64
}

const stepMicros = 10

func (s *stepped) pick() int {
	i := 0
	if !s.inOrder {
		i = s.random.IntN(len(s.waiting))
	}
	task := s.waiting[i]
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return task
}

// p99 is that of so many requests, in microseconds.
func (s *stepped) p99(requests int) float64 {
	s.since, s.left = make([]int64, s.tasks), make([]int64, s.tasks)
	for task := range s.tasks {
		s.waiting, s.left[task] = append(s.waiting, task), s.demand
	}
	running := -1
	for now := int64(0); len(s.took) < requests; now++ {
		if now%s.period == 0 {
			s.remaining = min(s.remaining, 0) + s.quota
		}
		if running >= 0 && (s.remaining <= 0 || now%s.tick == 0 && s.ran >= s.turn) {
			s.waiting, running = append(s.waiting, running), -1
		}
		if s.remaining <= 0 {
			continue
		}
		if running < 0 {
			running, s.ran = s.pick(), 0
		}
		s.ran++
		s.remaining--
		if s.left[running]--; s.left[running] > 0 {
			continue
		}
		s.took = append(s.took, float64((now+1-s.since[running])*stepMicros))
		s.since[running], s.left[running] = now+1, s.demand
		s.waiting, running = append(s.waiting, running), -1
	}
	slices.Sort(s.took)
	return s.took[len(s.took)*99/100]
}

// Sixteen tasks share a CPU. Under a quota of 4 ms each 20 ms, some wait while a whole period's
// quota goes to others, and the p99 exceeds a period: what httpd was measured to do. In order of
// arrival none would.
func TestTasksThatWaitRunInNoOrder(t *testing.T) {
	const period, demand = 20 * time.Millisecond, 100 * time.Microsecond
	steps := func(d time.Duration) int64 { return d.Microseconds() / stepMicros }
	for quota, inOrder := range map[time.Duration]float64{4 * time.Millisecond: 18_000, 7 * time.Millisecond: 15_000} {
		step := func(inOrder bool) float64 {
			s := stepped{
				tasks: 16, demand: steps(demand), quota: steps(quota), period: steps(period), inOrder: inOrder,
				turn: steps(time.Duration(turnLength)), tick: steps(DefaultKernel.Tick), random: rand.New(rand.NewPCG(1, 2)),
			}
			return s.p99(20_000)
		}
		p := mustPredict(t, Service{Demand: Demand{Mean: demand}, Base: around(1600)}, Arrival{Connections: 16},
			Bandwidth{Quota: quota, Period: period}, Options{Requests: 20_000, Reruns: 4})
		if want := step(false); !near(p.P99.Value, want) {
			t.Errorf("quota %v: p99 %.0f us, in steps %.0f", quota, p.P99.Value, want)
		}
		if got := step(true); !near(got, inOrder) {
			t.Errorf("quota %v: in order of arrival p99 is %.0f us, want about %.0f", quota, got, inOrder)
		}
	}
}

// A task gives way to others at a tick: a request of 0.4 ms does not wait for the end of one of 40 ms.
func TestATaskGivesWay(t *testing.T) {
	s := Service{Demand: Demand{Mean: 20 * time.Millisecond, Shape: []float64{0.02, 1.98}}, Base: around(20)}
	p := mustPredict(t, s, Arrival{Connections: 2}, Bandwidth{}, Options{Requests: 5000, Reruns: 2})
	longest := float64(turnLength)/float64(time.Millisecond) + float64(DefaultKernel.Tick)/float64(time.Millisecond) + 0.8
	if got := float64(p.Latency.ValueAtQuantile(45)) / 1000; got > longest {
		t.Errorf("short requests take %.1f ms, want at most %.1f", got, longest)
	}
}
