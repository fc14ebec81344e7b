package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tare/annex"
	"tare/container"
)

// setter changes settings of the kernel one after another, in a goroutine of its own: each
// is written down first, and for a file system or a guard process that takes its time the
// goroutine of Run has none.
type setter struct {
	mu   sync.Mutex
	jobs []func()
	more chan struct{}
}

func newSetter() *setter { return &setter{more: make(chan struct{}, 1)} }

// take takes a change, to be made after those before it.
func (s *setter) take(job func()) {
	s.mu.Lock()
	s.jobs = append(s.jobs, job)
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default: // it is told already
	}
}

func (s *setter) next() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.jobs) == 0 {
		return nil
	}
	job := s.jobs[0]
	s.jobs = s.jobs[1:]
	return job
}

// run makes changes until ctx ends, and then those that are left. The channel closes when
// it has ended.
func (s *setter) run(ctx context.Context) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if job := s.next(); job != nil {
				job()
				continue
			}
			select {
			case <-s.more:
			case <-ctx.Done():
				if job := s.next(); job != nil {
					job()
					continue
				}
				return
			}
		}
	}()
	return ended
}

// changed is what became of protecting a container, or of ceasing to.
type changed struct {
	id    annex.ID
	doing string
	err   error
}

// change has a setting changed, and the goroutine of Run told.
func (d *Daemon) change(ctx context.Context, id annex.ID, doing string, f func() error) {
	d.setter.take(func() {
		s := changed{id, doing, f()}
		select {
		case d.sets <- s:
		case <-ctx.Done():
		}
	})
}

// protect keeps a critical container's memory, at each look: it grows, and groups come
// below it.
func (d *Daemon) protect(h *held) {
	if h.class != annex.Critical || h.setting || !d.settings.Protect || !d.moves() || d.movers.leaves(h.id) {
		return
	}
	h.protected, h.setting = true, true
	d.change(d.running, h.id, "protecting "+h.container.Name, protecting(d.parts.Bound, h.container))
}

func protecting(b Bound, c container.Container) func() error {
	return func() error { return b.Protect(c) }
}

// unprotect puts back what protected one.
func (d *Daemon) unprotect(h *held) {
	if !h.protected {
		return
	}
	h.protected = false
	b, c := d.parts.Bound, h.container
	d.change(d.running, "", "putting back what protected "+c.Name, func() error { return b.Unprotect(c) })
}

// isSet takes note of what became of a change.
func (d *Daemon) isSet(s changed) {
	if h := d.held[s.id]; h != nil {
		h.setting = false
		d.trouble(h, s.doing, s.err)
	} else if s.err != nil {
		d.fail(s.doing, s.err)
	}
}

// release puts back every setting. What it returns tells when that is done.
func (d *Daemon) release() <-chan error {
	for _, h := range d.held {
		h.protected = false
	}
	done := make(chan error, 1)
	b := d.parts.Bound
	d.setter.take(func() {
		err := b.Release()
		if err != nil {
			err = fmt.Errorf("put back what was set: %w", err)
		}
		done <- err
	})
	return done
}

// released waits for that, in the goroutine of who asked for it.
func (d *Daemon) released(ctx context.Context, done <-chan error) error {
	if done == nil {
		return nil
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errors.Join(errors.New("settings are still being put back"), ctx.Err())
	}
}

// watchPressure has a critical container watched, and tries again at each look where the
// kernel did not let it.
func (d *Daemon) watchPressure(h *held) {
	if h.class != annex.Critical || d.parts.Alarm == nil {
		return
	}
	err := d.parts.Alarm.Add(h.container)
	if h.unwatched = reason(err); err != nil {
		d.fail("watching the pressure on "+h.container.Name, err)
	}
}

// unbraked says of which critical containers' pressure nothing is known: eviction goes on
// however long they wait.
func (d *Daemon) unbraked() (all []string) {
	for _, id := range d.ids() {
		if h := d.held[id]; h.class == annex.Critical && h.unknown != "" {
			all = append(all, fmt.Sprintf("pressure on the critical container %s is not known, so nothing stops eviction where it waits for memory: %s", h.container.Name, h.unknown))
		} else if h.class == annex.Critical && h.unwatched != "" {
			all = append(all, fmt.Sprintf("the kernel does not tell of pressure on the critical container %s, which is looked at only now and then: %s", h.container.Name, h.unwatched))
		}
	}
	return all
}
