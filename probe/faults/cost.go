package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"tare/kernel/clock"
	"tare/kernel/memory"
	"tare/probe"
	"tare/stats"
)

// CostOf is what a fault of one type takes on this host, in CPU time: from the
// instruction that faults to the next, the processor's own exception among it.
type CostOf struct {
	Type Type
	// What distinguishes costs of one type: "written".
	What string
	// Nanoseconds of one fault, with an interval; Recorded is the same while the
	// recorder of this package watches, and has no values where it cannot.
	Nanoseconds, Recorded stats.Estimate
	// Faults is how many were timed.
	Faults int
}

const (
	costPages  = 128 // faults in one timing
	costRounds = 40  // timings of each kind, in a quarter of which the recorder is not yet, or no more, there
	costLevel  = 0.95
	// aroundPages is how many pages of a file a read fault maps at most, where the
	// page cache has them.
	aroundPages = 16
)

// making is how faults of one type are made.
type making struct {
	typ  Type
	what string
	// stride is the distance of the pages that are touched.
	stride int
	memory *memory.Mapping
	// prepare is done before each timing, and not timed.
	prepare func(*making) error
	write   bool
	plain   []float64
	watched []float64
}

// Cost measures what a fault of each type takes here, in this process: each kind
// is made costPages at a time, in memory and a file of its own in dir. A fault that has to wait for a
// device takes as long as the device does: Swap is not among them. An
// untouched page of a file is in the page cache; a read fault of one maps up to 16 pages
// around it, as it does everywhere.
func Cost(ctx context.Context, dir string, seed int64) (costs []CostOf, err error) {
	makings, closing, err := makings(dir)
	defer func() { err = errors.Join(err, closing()) }()
	if err != nil {
		return nil, fmt.Errorf("make page faults: %w", err)
	}
	// One thread touches: what the scheduler does with others is not timed.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	rounds := func(n int, watched bool) error {
		for range n {
			for _, m := range makings {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := m.time(watched); err != nil {
					return err
				}
			}
		}
		return nil
	}
	// The recorder comes between two halves of the timings without: what the host does
	// meanwhile weighs on both.
	if err := rounds(costRounds/2, false); err != nil {
		return nil, err
	}
	r, err := Start([]Target{{Name: "cost", PIDs: []int{os.Getpid()}}}, Options{})
	var missing *probe.Missing
	switch {
	case errors.As(err, &missing): // it is then known without alone
	case err != nil:
		return nil, err
	default:
		err := rounds(costRounds, true)
		_, stop := r.Stop()
		if err = errors.Join(err, stop); err != nil {
			return nil, err
		}
	}
	if err := rounds(costRounds/2, false); err != nil {
		return nil, err
	}
	for _, m := range makings {
		c := CostOf{
			Type: m.typ, What: m.what, Faults: costPages * len(m.plain),
			Nanoseconds: stats.GeometricMean(m.plain, costLevel, seed),
		}
		if len(m.watched) > 0 {
			c.Recorded = stats.GeometricMean(m.watched, costLevel, seed)
		}
		costs = append(costs, c)
	}
	return costs, nil
}

// makings prepares memory for each type; closing gives it back.
func makings(dir string) (all []*making, closing func() error, err error) {
	var held []interface{ Close() error }
	closing = func() error {
		var errs []error
		for i := len(held) - 1; i >= 0; i-- {
			errs = append(errs, held[i].Close())
		}
		return errors.Join(errs...)
	}
	file, err := costFile(dir)
	if err != nil {
		return nil, closing, err
	}
	held = append(held, file)
	anonymous := func() (*memory.Mapping, error) { return memory.MapAnonymous(costPages * pageSize) }
	ofFile := func(shared bool, stride int) func() (*memory.Mapping, error) {
		return func() (*memory.Mapping, error) { return memory.MapFile(file, costPages*stride*pageSize, shared) }
	}
	forget := func(m *making) error { return m.memory.Forget() }
	// A page that was read is there, and may not be written yet.
	read := func(m *making) error {
		if err := m.memory.Forget(); err != nil {
			return err
		}
		m.touch(false)
		return nil
	}
	for _, m := range []struct {
		making
		open func() (*memory.Mapping, error)
	}{
		{making{typ: Anonymous, what: "written", stride: 1, write: true, prepare: forget}, anonymous},
		{making{typ: Anonymous, what: "read", stride: 1, prepare: forget}, anonymous},
		{making{typ: Read, what: "from the page cache", stride: aroundPages, prepare: forget}, ofFile(false, aroundPages)},
		{making{typ: CopyOnWrite, what: "of a file", stride: 1, write: true, prepare: forget}, ofFile(false, 1)},
		{making{typ: Shared, what: "of a file", stride: 1, write: true, prepare: forget}, ofFile(true, 1)},
		{making{typ: WriteProtect, what: "of a page of zeros", stride: 1, write: true, prepare: read}, anonymous},
		{making{typ: WriteProtect, what: "of a file", stride: aroundPages, write: true, prepare: read},
			ofFile(false, aroundPages)},
	} {
		if m.memory, err = m.open(); err != nil {
			return nil, closing, err
		}
		held = append(held, m.memory)
		if err := m.memory.SmallPages(); err != nil {
			return nil, closing, err
		}
		all = append(all, &m.making)
	}
	return all, closing, nil
}

// costFile makes a file that is in the page cache, page by page: written at once
// it may be there in larger pieces, which one fault maps as a whole. Its name is gone
// at once.
func costFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "faults")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	page := make([]byte, pageSize)
	for range costPages * aroundPages {
		if _, err := f.Write(page); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	// Clean pages: what is written back meanwhile would be timed.
	if err := f.Sync(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// time times one round.
func (m *making) time(watched bool) error {
	if err := m.prepare(m); err != nil {
		return err
	}
	// The thread's own time, which neighbours that it waits for are not in.
	from := clock.Thread()
	m.touch(m.write)
	each := float64((clock.Thread() - from).Nanoseconds()) / costPages
	if watched {
		m.watched = append(m.watched, each)
	} else {
		m.plain = append(m.plain, each)
	}
	return nil
}

func (m *making) touch(write bool) {
	b, step := m.memory.Bytes(), m.stride*pageSize
	if write {
		for at := 0; at < len(b); at += step {
			b[at] = 1
		}
		return
	}
	var sum byte
	for at := 0; at < len(b); at += step {
		sum += b[at]
	}
	runtime.KeepAlive(sum) // lest the reads be left out
}
