package faults

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"tare/kernel/clock"
	"tare/kernel/perfevent"
	"tare/kernel/procfs"
	"tare/probe"
)

// Watcher is a recording that goes on: a [*Recorder], or what [StartEvents] gives.
type Watcher interface {
	// Snapshot is how many faults of each target there have been so far.
	Snapshot() ([]Target, []Count, error)
	// Stop ends the recording.
	Stop() (*Recording, error)
}

var (
	_ Watcher = (*Recorder)(nil)
	_ Watcher = (*Counter)(nil)
)

// Counter counts faults by the kernel's own software events, until its Stop.
type Counter struct {
	targets []Target
	from    time.Duration

	mu       sync.Mutex
	counters []counted
	stopped  bool
}

type counted struct {
	target int
	*perfevent.FaultCounter
}

// StartEvents counts the faults of targets where [Start] cannot: without BPF.
// How many there were, how many of them in the kernel, and how many waited for a
// device is then known; their types, places and moments are not. Threads are
// counted that the targets have now and that those make: a process that
// enters a control group from outside later (docker exec) is not. Its error is a
// [*probe.Missing] where this is not allowed either.
func StartEvents(targets []Target) (_ *Counter, err error) {
	if len(targets) == 0 {
		return nil, errors.New("count page faults: nothing is named to be watched")
	}
	c := &Counter{targets: targets, from: clock.Monotonic()}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	for _, t := range targets {
		if t.Cgroup == "" && len(t.PIDs) == 0 {
			return nil, fmt.Errorf("target %q names neither a control group nor processes", t.Name)
		}
	}
	open := map[int]bool{}
	// Processes given by id go before directories, and inner directories before outer.
	order := make([]int, len(targets))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return len(targets[b].Cgroup) - len(targets[a].Cgroup)
	})
	slices.SortStableFunc(order, func(a, b int) int {
		return min(len(targets[b].PIDs), 1) - min(len(targets[a].PIDs), 1)
	})
	for _, i := range order {
		if err := c.open(i, open); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// open counts a target's threads. One that is made meanwhile by a thread that is
// not counted yet is missed: looked for again, those that counted threads have
// made, and that are counted with them, could not be distinguished from it.
func (c *Counter) open(target int, open map[int]bool) error {
	pids, err := c.targets[target].processes()
	if err != nil {
		return fmt.Errorf("target %q: %w", c.targets[target].Name, err)
	}
	for _, pid := range pids {
		for _, tid := range threadsOf(pid) {
			if open[tid] {
				continue
			}
			f, err := perfevent.CountFaults(tid)
			if errors.Is(err, syscall.ESRCH) {
				continue // it has ended
			}
			var refused *perfevent.Refused
			if errors.As(err, &refused) {
				return &probe.Missing{Probe: "counting of page faults", What: refused.What, Mend: refused.Mend}
			}
			if err != nil {
				return err
			}
			open[tid] = true
			c.counters = append(c.counters, counted{target, f})
		}
	}
	return nil
}

// processes lists those that belong to a target now.
func (t Target) processes() ([]int, error) {
	pids := slices.Clone(t.PIDs)
	if t.Cgroup == "" {
		return pids, nil
	}
	err := filepath.WalkDir(t.Cgroup, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			// A directory below may be removed at any time.
			if path != t.Cgroup && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		b, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			if path != t.Cgroup &&
				(errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) ||
					errors.Is(err, syscall.EOPNOTSUPP)) {
				return nil
			}
			return err
		}
		for word := range strings.FieldsSeq(string(b)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			pids = append(pids, pid)
		}
		return nil
	})
	return pids, err
}

// threadsOf lists a process' threads; none where it has ended.
func threadsOf(pid int) (tids []int) {
	entries, err := os.ReadDir(procfs.Host.Process(pid).Path("task"))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}

// Snapshot is how many faults of each target there have been so far, all of them
// Untyped.
func (c *Counter) Snapshot() ([]Target, []Count, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, nil, errors.New("the counting of page faults has been stopped")
	}
	counts, _, err := c.read()
	return c.targets, counts, err
}

// Stop ends the counting.
func (c *Counter) Stop() (*Recording, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, errors.New("the counting of page faults has been stopped already")
	}
	c.stopped = true
	to := clock.Monotonic()
	counts, served, err := c.read()
	if err = errors.Join(err, c.close()); err != nil {
		return nil, fmt.Errorf("stop counting page faults: %w", err)
	}
	return &Recording{
		Backend: "perf events", Targets: c.targets, Counts: counts, Served: served,
		From: c.from, To: to, Known: Known{Kernel: true}, given: len(c.targets),
	}, nil
}

func (c *Counter) read() ([]Count, []Served, error) {
	counts, served := make([]Count, len(c.targets)), make([]Served, len(c.targets))
	for _, f := range c.counters {
		n, err := f.Read()
		if err != nil {
			return nil, nil, err
		}
		counts[f.target].User[Untyped] += n.User
		counts[f.target].Kernel[Untyped] += n.All - n.User
		served[f.target].Minor += n.Minor
		served[f.target].Major += n.Major
	}
	return counts, served, nil
}

func (c *Counter) close() error {
	var errs []error
	for _, f := range c.counters {
		errs = append(errs, f.Close())
	}
	c.counters = nil
	return errors.Join(errs...)
}
