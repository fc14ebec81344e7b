package monitor

import (
	"container/heap"
	"time"

	"tare/annex"
)

// Pace says how often containers are scanned. The zero value is ready for use.
type Pace struct {
	// Least and Most are between two scans of a container that runs: Least while what it
	// has in memory changes, twice as long each time that it did not, up to Most. One that
	// falls asleep after some work is scanned then, within the budget. 0 is 5 s and 30 s.
	Least, Most time.Duration
	// Idle is between two scans of one that has slept since the last: nothing of it
	// changes but by others' doing. 0 is 5 min.
	Idle time.Duration
	// Budget is the share of a CPU that the scans of one container may take; 0 is 0.0005,
	// 50 of which are a fortieth of a CPU.
	Budget float64
}

const (
	defaultLeast  = 5 * time.Second
	defaultMost   = 30 * time.Second
	defaultIdle   = 5 * time.Minute
	defaultBudget = 0.0005
	// still is the share of its pages that may come or go while a container is said not to
	// change.
	still = 0.01
	// work is how much of a CPU a container takes at least for it to be scanned when it falls
	// asleep: timers take less.
	work = 10 * time.Millisecond
)

// Schedule tells when which container is to be scanned. It has no clock, and is for one
// goroutine.
type Schedule struct {
	pace  Pace
	queue planned
	all   map[annex.ID]*plan
}

// plan is when a container is scanned next.
type plan struct {
	id       annex.ID
	at       annex.Moment
	place    int // in the queue
	interval time.Duration
	scanned  annex.Moment // last; 0 is never
	cost     time.Duration
	awake    bool
	ran      bool // since it was last scanned
	present  int
	swapped  int
}

// NewSchedule makes an empty schedule.
func NewSchedule(p Pace) *Schedule {
	return &Schedule{pace: p.complete(), all: map[annex.ID]*plan{}}
}

func (p Pace) complete() Pace {
	set := func(v *time.Duration, to time.Duration) {
		if *v <= 0 {
			*v = to
		}
	}
	set(&p.Least, defaultLeast)
	set(&p.Most, defaultMost)
	set(&p.Idle, defaultIdle)
	p.Most = max(p.Most, p.Least)
	p.Idle = max(p.Idle, p.Most)
	if p.Budget <= 0 {
		p.Budget = defaultBudget
	}
	return p
}

// Restart has all containers scanned at once, and by another pace from then on. Which of them
// are awake stays known: nobody tells it again.
func (s *Schedule) Restart(p Pace, now annex.Moment) {
	s.pace = p.complete()
	for _, c := range s.all {
		*c = plan{id: c.id, at: now, place: c.place, interval: s.pace.Least, awake: c.awake, ran: true}
	}
	heap.Init(&s.queue)
}

// Add takes a container up, to be scanned at once.
func (s *Schedule) Add(id annex.ID, now annex.Moment) {
	if s.all[id] != nil {
		return
	}
	p := &plan{id: id, at: now, interval: s.pace.Least, ran: true}
	s.all[id] = p
	heap.Push(&s.queue, p)
}

// Remove drops a container.
func (s *Schedule) Remove(id annex.ID) {
	if p := s.all[id]; p != nil {
		heap.Remove(&s.queue, p.place)
		delete(s.all, id)
	}
}

// Note takes what a container did.
func (s *Schedule) Note(a annex.Activity) {
	p := s.all[a.ID]
	if p == nil {
		return
	}
	p.awake = a.What == annex.Woke
	p.ran = true
	s.plan(p)
	// What it wrote when awake is to be seen before it leaves.
	if a.What == annex.Slept && a.CPU >= work && p.scanned != 0 {
		p.at = min(p.at, max(a.At, p.scanned.After(s.spares(p))))
		heap.Fix(&s.queue, p.place)
	}
}

// Next is when the next scan is due; false where there is no container.
func (s *Schedule) Next() (annex.Moment, bool) {
	if len(s.queue) == 0 {
		return 0, false
	}
	return s.queue[0].at, true
}

// Due names the container to be scanned now, the one that has waited longest; false where
// none is. Whoever scans it tells by Scanned, also where that failed.
func (s *Schedule) Due(now annex.Moment) (annex.ID, bool) {
	if len(s.queue) == 0 || s.queue[0].at > now {
		return "", false
	}
	return s.queue[0].id, true
}

// Scanned takes what a scan found, and took.
func (s *Schedule) Scanned(id annex.ID, now annex.Moment, scans []annex.Scan, cost Cost) {
	p := s.all[id]
	if p == nil {
		return
	}
	present, swapped := totals(scans)
	moved := max(difference(present, p.present), difference(swapped, p.swapped))
	if p.scanned == 0 || float64(moved) > still*float64(present+swapped) {
		p.interval = s.pace.Least
	} else {
		p.interval = min(2*p.interval, s.pace.Most)
	}
	p.present, p.swapped, p.cost = present, swapped, cost.CPU
	p.scanned, p.ran = now, p.awake
	s.plan(p)
}

// plan says when a container is scanned next.
func (s *Schedule) plan(p *plan) {
	if p.scanned != 0 {
		wait := p.interval
		if !p.ran {
			wait = s.pace.Idle
		}
		p.at = p.scanned.After(max(wait, s.spares(p)))
	}
	heap.Fix(&s.queue, p.place)
}

// spares is how long after its last scan a container's next one is within the budget.
func (s *Schedule) spares(p *plan) time.Duration {
	return time.Duration(float64(p.cost) / s.pace.Budget)
}

func totals(scans []annex.Scan) (present, swapped int) {
	for i := range scans {
		for _, stretch := range scans[i].Stretches {
			for _, state := range stretch.States {
				present += int(state & annex.Present)
				swapped += int(state & annex.Swapped / annex.Swapped)
			}
		}
	}
	return present, swapped
}

func difference(a, b int) int { return max(a-b, b-a) }

// planned is a heap by time.
type planned []*plan

func (q planned) Len() int           { return len(q) }
func (q planned) Less(i, j int) bool { return q[i].at < q[j].at }
func (q planned) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}
func (q *planned) Push(x any) {
	p := x.(*plan)
	p.place = len(*q)
	*q = append(*q, p)
}
func (q *planned) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	*q = (*q)[:last]
	return p
}
