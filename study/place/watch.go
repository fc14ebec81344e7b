package place

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tare/container"
	"tare/probe/bursts"
	"tare/study/kit"
)

// Watched is what was seen of containers.
type Watched struct {
	Subjects   []*Subject
	Began      time.Time
	Span       time.Duration
	Thresholds Thresholds
	Lost       uint64 // events
	Weight     bursts.Weight
	Notes      []string

	machine *machine
}

// Shortest and Longest are how long watching may take.
const (
	Shortest = 100 * time.Millisecond
	Longest  = time.Hour
)

// Watch watches running containers for a while, or until ctx ends, which is no
// error once something was seen. It changes nothing.
func Watch(
	ctx context.Context,
	containers []container.Container,
	span time.Duration,
	t Thresholds,
	notes []string,
) (*Watched, error) {
	if span < Shortest {
		return nil, kit.Usagef("watching for %v: want at least %v", span, Shortest)
	}
	m, err := readMachine()
	if err != nil {
		return nil, err
	}
	w := &Watched{Began: time.Now(), Thresholds: t, Notes: slices.Clone(notes), machine: m}
	var ended []string
	if w.Subjects, ended, err = m.describeAll(ctx, containers); err != nil {
		return nil, err
	}
	w.Notes = append(w.Notes, ended...)
	if len(w.Subjects) == 0 {
		return nil, errors.New("nothing to watch: the containers have ended")
	}
	recording, err := w.record(bursts.Options{Weigh: true})
	if err != nil {
		return nil, err
	}
	// Loading the probe takes a second of CPU time, which is not of the time watched.
	before, err := w.throttling()
	if err == nil && !kit.Wait(ctx, span) {
		w.Notes = append(w.Notes, ErrStopped.Error())
	}
	after, afterwards := w.throttling()
	reading, stopped := recording.Stop()
	if err := errors.Join(err, afterwards, stopped); err != nil {
		return nil, err
	}
	if reading.Span() < Shortest {
		return nil, context.Cause(ctx)
	}
	for i, s := range w.Subjects {
		a, b := after[i], before[i]
		s.Throttling = throttles{a.periods - b.periods, a.throttled - b.throttled, a.time - b.time}
	}
	w.Span, w.Lost, w.Weight = reading.Span(), reading.Lost, reading.Weight
	w.judge(reading)
	return w, nil
}

// judge classifies each by what was recorded.
func (w *Watched) judge(reading *bursts.Reading) {
	for i, s := range w.Subjects {
		g := &reading.Groups[i]
		s.Evidence = evidence(g, reading.Span(), w.Thresholds)
		s.Behaviour, s.Why = Classify(s.Evidence, len(s.CPUs), w.Thresholds)
		s.Behind = map[int]float64{}
		waited := g.AllWaits().Sum()
		for _, b := range g.Behind {
			if waited > 0 {
				s.Behind[b.Group] += b.Time.Seconds() / waited.Seconds()
			}
		}
	}
}

// record starts the probe on the subjects.
func (w *Watched) record(o bursts.Options) (*bursts.Recording, error) {
	var targets []bursts.Target
	for _, s := range w.Subjects {
		t, err := kit.Target(s.Container)
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
	}
	return bursts.Start(targets, o)
}

// throttles are the periods of a quota in which something ran, those of them in which it was
// exhausted, and for how long threads then waited, summed over CPUs. It may be exhausted and
// nothing wait.
type throttles struct {
	periods, throttled int64
	time               time.Duration
}

func (t throttles) share() float64 {
	if t.periods <= 0 {
		return 0
	}
	return float64(t.throttled) / float64(t.periods)
}

func (w *Watched) throttling() ([]throttles, error) {
	all := make([]throttles, len(w.Subjects))
	for i, s := range w.Subjects {
		if s.Bandwidth.Quota == 0 {
			continue
		}
		use, err := s.Group.Use()
		if err != nil {
			return nil, fmt.Errorf("throttling of %s: %w", s.Container.Name, err)
		}
		all[i] = throttles{use.Periods, use.Throttled, use.ThrottledTime}
	}
	return all, nil
}
