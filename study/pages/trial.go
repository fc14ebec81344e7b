package pages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"tare/census"
	"tare/kernel/cgroup"
	"tare/lab"
	"tare/probe/faults"
	"tare/probe/instructions"
	"tare/probe/pagetable"
	"tare/workload"
)

// trial is how one condition's trials go.
type trial struct {
	workload workload.Sustainer
	copies   int
	steady   time.Duration // from readiness to the second census; 0 where the program has no steady state
	window   time.Duration // of the faults of a program with a steady state: so long from its readiness on
	taker    pagetable.Taker
	flags    bool
	faults   recorder
	// life: the program has no steady state, and its faults are those of its
	// whole life.
	life bool
	// executes gives how many instructions a copy executes in its life; nil where
	// that is unknown.
	executes func(ctx context.Context, b lab.Bench) (uint64, error)
	// counts has the processor count those of a control group; nil where it does not.
	counts func(cgroup string) (counter, error)
}

// recorder records page faults. It is nil where the host cannot.
type recorder interface {
	// below records those of every container that is started below the platform's
	// parent cgroup from then on; named records those of the given containers.
	below() (recording, error)
	named(targets []faults.Target) (recording, error)
}

// recording is faults being recorded.
type recording interface {
	Stop() (*faults.Recording, error)
}

// counter counts instructions.
type counter interface {
	Read() (instructions.Counted, error)
	Close() error
}

// unwatched is the covariate of a trial whose faults could not be recorded from
// the start on.
const unwatched = "faults_unwatched"

// Steady states of a warm-up: it is there to have image and page cache warm.
const warmUpSteady = time.Second

// run is one trial.
func (t trial) run(ctx context.Context, b lab.Bench) (err error) {
	all, err := lay(ctx, b, t.workload, t.copies)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.stop(ctx)) }()
	// A program that has no steady state is watched for its whole life: from
	// before its start.
	var life recording
	if t.life && t.faults != nil {
		life, err = t.faults.below()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			// Where the platform makes the group with the start, nobody can watch from
			// before it: the rest of the trial is as good.
			life = nil
			b.Covariate(unwatched, 1)
		case err != nil:
			return err
		}
		defer func() {
			if life != nil {
				_, serr := life.Stop()
				err = errors.Join(err, serr)
			}
		}()
	}
	if err := b.Measuring(); err != nil {
		return err
	}
	if err := all.start(ctx); err != nil {
		return err
	}
	if err := t.count(ctx, b, all, start); err != nil {
		return err
	}
	if t.steady > 0 {
		return t.work(ctx, b, all)
	}
	if life == nil {
		return nil
	}
	ended := life
	life = nil
	found, err := ended.Stop()
	if err != nil {
		return err
	}
	var executed uint64
	if t.executes != nil {
		each, err := t.executes(ctx, b)
		if err != nil {
			return fmt.Errorf("instructions: %w", err)
		}
		executed = each * uint64(t.copies)
	}
	return t.recordFaults(b, found, executed)
}

// work keeps all copies at work until their steady state, and counts again. The
// faults that are recorded are those of the beginning: later most of what is
// mapped has its entry, and there are few.
func (t trial) work(ctx context.Context, b lab.Bench, all *copies) (err error) {
	wait, window := t.steady, min(t.window, t.steady)
	if b.WarmUp() {
		wait, window = min(wait, warmUpSteady), min(window, warmUpSteady)
	}
	w, err := t.watch(all)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.abandon()) }()
	stop, broken := all.sustain(ctx, b.Seed())
	stopped := false
	defer func() {
		if !stopped {
			err = errors.Join(err, stop())
		}
	}()
	if err := pass(ctx, window, broken); err != nil {
		return err
	}
	if err := w.end(t, b); err != nil {
		return err
	}
	if err := pass(ctx, wait-window, broken); err != nil {
		return err
	}
	// The census sees programs at work; the load ends after it.
	if err := t.count(ctx, b, all, steady); err != nil {
		return err
	}
	stopped = true
	return stop()
}

// window is a recording of faults, with what the processor counts meanwhile.
type window struct {
	faults   recording // nil where there is none, or it has ended
	counters counters
}

func (t trial) watch(all *copies) (w *window, err error) {
	w = &window{}
	if t.faults == nil {
		return w, nil
	}
	targets, err := all.targets()
	if err != nil {
		return nil, err
	}
	if w.counters, err = t.counting(targets); err != nil {
		return nil, err
	}
	if w.faults, err = t.faults.named(targets); err != nil {
		_, cerr := w.counters.close()
		return nil, errors.Join(err, cerr)
	}
	return w, nil
}

// end ends the recording and records what it comes to.
func (w *window) end(t trial, b lab.Bench) error {
	if w.faults == nil {
		return nil
	}
	going := w.faults
	w.faults = nil
	found, err := going.Stop()
	executed, cerr := w.counters.close()
	if err := errors.Join(err, cerr); err != nil {
		return err
	}
	return t.recordFaults(b, found, executed)
}

// abandon ends a recording that did not come to its end.
func (w *window) abandon() error {
	if w.faults == nil {
		return nil
	}
	_, err := w.faults.Stop()
	_, cerr := w.counters.close()
	return errors.Join(err, cerr)
}

// pass lets time go by, unless a copy's load breaks.
func pass(ctx context.Context, d time.Duration, broken <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-broken:
		return errors.New("a copy was not kept at work")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// count takes a census of all copies, and records what it comes to.
func (t trial) count(ctx context.Context, b lab.Bench, all *copies, at moment) error {
	if t.taker == nil {
		return nil
	}
	asked, names, err := all.processes()
	if err != nil {
		return err
	}
	found, err := t.taker.Take(ctx, asked, t.flags)
	if err != nil {
		return fmt.Errorf("census at %s: %w", at, err)
	}
	if found.Entries() == 0 {
		return fmt.Errorf("census at %s: no process of %d has an entry", at, len(asked))
	}
	counted := census.Of(found, names, census.Options{Files: filesKept})
	for name, value := range censusValues(counted) {
		b.Record(string(at)+"-"+name, value)
	}
	b.Covariate(censusSeconds(at), found.Elapsed.Seconds())
	b.Covariate("census_"+string(at)+"_gone", float64(len(found.Gone)))
	b.Covariate("census_"+string(at)+"_processes", float64(len(found.Spaces)))
	attachment, err := censusAttachment(at, counted)
	if err != nil {
		return err
	}
	b.Attach(attachment)
	return nil
}

// recordFaults records the metrics of a recording of faults; executed are the
// instructions of the same time, 0 where they are not known.
func (t trial) recordFaults(b lab.Bench, found *faults.Recording, executed uint64) error {
	r := readFaults(found, t.life)
	if t.life {
		if why := r.incomplete(found, t.copies); why != "" {
			return errors.New("page faults: " + why)
		}
	}
	for name, value := range r.values() {
		b.Record(name, value)
	}
	if executed > 0 {
		b.Record(perMillion, 1e6*float64(r.User)/float64(executed))
	}
	attachment, err := r.attachment()
	if err != nil {
		return err
	}
	b.Attach(attachment)
	return nil
}

// counters are those of all copies.
type counters []counter

// counting begins to count the instructions of the copies.
func (t trial) counting(targets []faults.Target) (all counters, err error) {
	if t.counts == nil {
		return nil, nil
	}
	for _, target := range targets {
		if target.Cgroup == "" {
			_, err := all.close()
			return nil, err // what is in no group of its own cannot be counted apart
		}
		c, err := t.counts(target.Cgroup)
		if err != nil {
			_, cerr := all.close()
			return nil, errors.Join(err, cerr)
		}
		all = append(all, c)
	}
	return all, nil
}

// close ends the counting and gives the sum.
func (c counters) close() (executed uint64, err error) {
	for _, one := range c {
		n, rerr := one.Read()
		executed += n.Instructions
		err = errors.Join(err, rerr, one.Close())
	}
	return executed, err
}

// processes lists the processes of all copies, each copy a group of its own.
func (c *copies) processes() (asked []pagetable.Process, names []string, err error) {
	for i, r := range c.all {
		pids, err := r.Instance.Processes()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", r.name, err)
		}
		for _, pid := range pids {
			asked = append(asked, pagetable.Process{PID: pid, Group: i})
		}
		names = append(names, r.name)
	}
	return asked, names, nil
}

// targets are the copies as the fault recorder knows them.
func (c *copies) targets() ([]faults.Target, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return nil, err
	}
	own, _, err := layout.Of(os.Getpid())
	if err != nil {
		return nil, err
	}
	var targets []faults.Target
	for _, r := range c.all {
		pids, err := r.Instance.Processes()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		if len(pids) == 0 {
			return nil, fmt.Errorf("%s has ended", r.name)
		}
		group, _, err := layout.Of(pids[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		place, ok := group.For("memory")
		// Bare metal's program is in tare's own group, or in no group's but the root's.
		if ours, _ := own.For("memory"); !ok || place.Path == "/" || place.Path == ours.Path {
			targets = append(targets, faults.Target{Name: r.name, PIDs: pids})
			continue
		}
		targets = append(targets, faults.Target{Name: r.name, Cgroup: place.Dir()})
	}
	return targets, nil
}

// censusSeconds is the covariate of how long a census took.
func censusSeconds(at moment) string { return "census_" + string(at) + "_s" }
