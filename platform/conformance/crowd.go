package conformance

import (
	"context"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"tare/platform"
)

// crowd are containers of one test, which do everything at the same time.
type crowd []*member

type member struct {
	spec    platform.Spec
	created platform.Created // nil until it is
	inst    platform.Instance
}

const crowdSize = 20

// testCreatedConcurrent: a crowd comes, starts and goes, and nothing of it is
// left on the host or in this program; nor of one that never started.
func testCreatedConcurrent(t *testing.T, s suite) {
	t.Run("at rest", func(t *testing.T) {
		st := s.set(t)
		before := st.open()
		gather(st).disperse(st, before)
	})
	t.Run("started", func(t *testing.T) {
		st := s.set(t)
		before := st.open()
		c := gather(st)
		c.together(st, "start", func(m *member) error { return m.created.Start(st.ctx) })
		c.together(st, "take hold of", func(m *member) (err error) { m.inst, err = m.created.Instance(st.ctx); return err })
		first := map[int]bool{}
		for _, m := range c {
			pids, err := m.inst.Processes()
			if err != nil || len(pids) != 1 || first[pids[0]] {
				t.Errorf("%s has the processes %v (%v) beside others' %v", m.spec.Name, pids, err, first)
				continue
			}
			first[pids[0]] = true
		}
		c.disperse(st, before)
	})
}

// gather creates a crowd, none of which runs yet.
func gather(st *stage) crowd {
	st.Helper()
	c := make(crowd, crowdSize)
	for i := range c {
		c[i] = &member{spec: st.spec("sleep", "3600")}
	}
	st.Cleanup(func() { // of what a failed test leaves
		for _, m := range c {
			if m.created != nil {
				st.stopCreated(m.created, m.spec.Name)
			}
		}
	})
	c.together(st, "create", func(m *member) (err error) { m.created, err = st.creator().Create(st.ctx, m.spec); return err })
	ids := map[string]bool{}
	for _, m := range c {
		ids[m.created.ID()] = true
		if pids := processesOf(m.spec.Name); len(pids) > 0 {
			st.Errorf("%s has the processes %v at rest", m.spec.Name, pids)
		}
	}
	if len(ids) != len(c) {
		st.Errorf("%d containers share %d ids", len(c), len(ids))
	}
	return c
}

// together does one thing with all of them, and ends the test where it cannot.
func (c crowd) together(st *stage, what string, f func(*member) error) {
	st.Helper()
	var all sync.WaitGroup
	for _, m := range c {
		all.Go(func() {
			if err := f(m); err != nil {
				st.Errorf("%s %s: %v", what, m.spec.Name, err)
			}
		})
	}
	all.Wait()
	if st.Failed() {
		st.FailNow()
	}
}

// disperse stops them all, after which nothing is left.
func (c crowd) disperse(st *stage, before open) {
	st.Helper()
	c.together(st, "stop", func(m *member) error { return m.created.Stop(context.WithoutCancel(st.ctx)) })
	for _, m := range c {
		st.noTraces(m.spec.Name)
		st.awaitNobodyServes(m.created.ID())
	}
	st.nothingEntered()
	st.awaitClosed(before)
}

// open is what this program itself has open.
type open struct{ files, goroutines int }

func (st *stage) open() open {
	st.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		st.Fatal(err)
	}
	return open{len(files), runtime.NumGoroutine()}
}

// awaitClosed waits until this program has closed what it had open for the
// crowd. What it had kept for every member would not go; an engine's idle
// connection or two may stay.
func (st *stage) awaitClosed(before open) {
	st.Helper()
	for {
		now := st.open()
		if now.files < before.files+crowdSize && now.goroutines < before.goroutines+crowdSize {
			return
		}
		select {
		case <-st.ctx.Done():
			st.Errorf("%d containers that are gone have left this program with %+v, which had %+v before", crowdSize, now, before)
			return
		case <-time.After(5 * time.Millisecond): // neither makes an event
		}
	}
}
