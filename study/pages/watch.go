package pages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"tare/kernel/cgroup"
	"tare/platform"
	"tare/probe"
	"tare/probe/faults"
	"tare/probe/instructions"
	"tare/probe/pagetable"
)

// Watching is what looks on. Its fields are nil where the host cannot.
type Watching struct {
	Taker  pagetable.Taker
	Faults recorder
	// Counts has the processor count instructions; Simulates counts those of a
	// program that is run once more for it.
	Counts    func(cgroup string) (counter, error)
	Simulates func(ctx context.Context, argv []string, root string, env []string) (uint64, error)
	Notes     []string // what this host lacks
}

// Watch sets up what looks on. What this host lacks is named in the notes, and
// absent from the result. The caller ends it with stop, after the run.
func Watch(census, pageFaults bool) (w Watching, stop func()) {
	stop = func() {}
	if census {
		taker, note, err := pagetable.Open()
		switch {
		case err != nil:
			w.Notes = append(w.Notes, "page tables are not counted: "+err.Error())
		default:
			w.Taker, stop = taker, func() { _ = taker.Close() } // its results are taken; nothing is lost with it
			if note != "" {
				w.Notes = append(w.Notes, note)
			}
		}
	}
	if !pageFaults {
		return w, stop
	}
	if err := tried(); err != nil {
		w.Notes = append(w.Notes, "page faults are not recorded: "+err.Error())
		return w, stop
	}
	w.Faults = bpfRecorder{}
	w.countInstructions()
	return w, stop
}

// countInstructions finds how instructions are counted here.
func (w *Watching) countInstructions() {
	begin := func(cgroup string) (counter, error) {
		c, err := instructions.Watch(cgroup)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	if root, err := countedRoot(); err != nil {
		w.Notes = append(w.Notes, "instructions of services are not counted: "+lacking(err))
	} else if c, err := begin(root); err != nil {
		w.Notes = append(w.Notes, "instructions of services are not counted: "+lacking(err))
	} else if err := c.Close(); err == nil {
		w.Counts = begin
	}
	if err := instructions.Available(); err != nil {
		w.Notes = append(w.Notes, "instructions of functions are not counted: "+lacking(err))
		return
	}
	w.Simulates = instructions.Count
}

// lacking is what a host lacks, without the probe's name before it.
func lacking(err error) string {
	var missing *probe.Missing
	if !errors.As(err, &missing) {
		return err.Error()
	}
	if missing.Mend == "" {
		return missing.What
	}
	return missing.What + " (" + missing.Mend + ")"
}

// countedRoot is the topmost control group of the hierarchy by which perf distinguishes
// groups. On it one tries whether instructions are counted at all.
func countedRoot() (string, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return "", err
	}
	h, ok := layout.For("perf_event")
	if !ok {
		h, ok = layout.Unified()
	}
	if !ok {
		return "", errors.New("no hierarchy of control groups carries perf_event")
	}
	return h.Mount, nil
}

// tried records tare itself for a moment, to know that it can be done.
func tried() error {
	r, err := faults.Start([]faults.Target{{Name: "tare", PIDs: []int{os.Getpid()}}}, faults.Options{Keep: 1})
	if err != nil {
		return err
	}
	_, err = r.Stop()
	return err
}

// Planned is what Watch would give on a host that lacks nothing, for a design
// that is only shown.
func Planned() Watching {
	return Watching{Taker: struct{ pagetable.Taker }{}, Faults: bpfRecorder{}}
}

// bpfRecorder records by probe/faults.
type bpfRecorder struct{}

func (bpfRecorder) below() (recording, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return nil, err
	}
	place, ok := layout.At(platform.CgroupParent).For("memory")
	if !ok {
		return nil, errors.New("no memory controller by which to know the containers that are to come")
	}
	if _, err := os.Stat(place.Dir()); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not there before a program starts: %w", place.Dir(), err)
	}
	return begun(faults.Start(nil, faults.Options{Below: place.Dir(), Appearing: 2 * MostCopies}))
}

func (bpfRecorder) named(targets []faults.Target) (recording, error) {
	return begun(faults.Start(targets, faults.Options{}))
}

func begun(r *faults.Recorder, err error) (recording, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}
