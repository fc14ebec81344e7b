package sched

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tare/kernel/procfs"
	"tare/probe"
)

// Processes knows what each process was at any moment since observation began,
// ended ones too. It may be read while it grows.
type Processes struct {
	mu    sync.RWMutex
	lives map[int]*life
}

// life is what is known of one process id.
type life struct {
	// states are in the order of their time; ids are used again, so they may be
	// of several processes in turn.
	states   []state
	children []birth       // that they forked
	ended    time.Duration // 0 while the last of them lives
}

type birth struct {
	pid int
	at  time.Duration
}

// state is what a process was from a moment on.
type state struct {
	from time.Duration
	// how it came about: Fork, Exec, or 0 for a process that was there before us.
	by Kind
	// path is what execve was given.
	path    string
	cut     bool // the arguments are
	process probe.Process
}

func newProcesses() *Processes { return &Processes{lives: map[int]*life{}} }

// At gives what a process was at a moment. It is false for a process that is
// not known to have lived by then. One that has ended is what it last was,
// until its id is used again: the kernel is not done with a process when its
// end is reported.
func (p *Processes) At(pid int, t time.Duration) (probe.Process, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	s := p.at(pid, t)
	if s == nil {
		return probe.Process{}, false
	}
	return s.process, true
}

func (p *Processes) at(pid int, t time.Duration) *state {
	l := p.lives[pid]
	if l == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(l.states, t, func(s state, t time.Duration) int {
		if s.from <= t {
			return -1
		}
		return 1
	})
	if i == 0 && !found {
		return nil
	}
	return &l.states[i-1]
}

// Forget drops what nobody will ask for who asks for moments from t on.
func (p *Processes) Forget(t time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid, l := range p.lives {
		if l.ended != 0 && l.ended < t {
			delete(p.lives, pid)
			continue
		}
		keep := 0
		for i := range l.states {
			if l.states[i].from <= t {
				keep = i
			}
		}
		l.states = slices.Clone(l.states[keep:])
		l.children = slices.DeleteFunc(l.children, func(b birth) bool { return b.at < t })
	}
}

// observe takes an event in. Those of one process come in their order.
func (p *Processes) observe(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Kind {
	case Fork:
		if e.Other.PID == e.Other.TID {
			p.forked(e)
		}
	case Exec:
		p.executed(e)
	case Exit:
		if l := p.lives[e.Thread.PID]; l != nil && e.LastThread {
			l.ended = e.Time
		}
	}
}

func (p *Processes) forked(e Event) {
	child := probe.Process{}
	if parent := p.at(e.Thread.PID, e.Time); parent != nil {
		child = parent.process
		child.Args = slices.Clip(child.Args)
	}
	child.PID, child.Parent = e.Other.PID, e.Thread.PID
	child.Comm, child.KernelThread = e.Other.Comm, e.Other.Kernel
	p.add(child.PID, state{from: e.Time, by: Fork, process: child})
	if parent := p.lives[e.Thread.PID]; parent != nil {
		parent.children = append(parent.children, birth{child.PID, e.Time})
	}
}

func (p *Processes) executed(e Event) {
	next := probe.Process{PID: e.Thread.PID, Comm: e.Thread.Comm, Args: e.Args, Exe: executable(e)}
	if now := p.at(e.Thread.PID, e.Time); now != nil {
		next.Parent, next.Contained = now.process.Parent, now.process.Contained
	}
	p.add(next.PID, state{from: e.Time, by: Exec, path: e.Path, cut: e.ArgsCut, process: next})
}

func (p *Processes) add(pid int, s state) {
	l := p.lives[pid]
	if l == nil {
		l = &life{}
		p.lives[pid] = l
	}
	l.ended = 0
	l.states = append(l.states, s)
	// CPUs' clocks agree to well below the time that a fork or an exec takes.
	// Where they do not, order by arrival is the truth.
	if n := len(l.states); n > 1 && l.states[n-2].from > s.from {
		l.states[n-1].from = l.states[n-2].from
	}
}

// contain marks a process as in a container of the experiment, from a moment
// on, with all that it has forked and will fork since.
func (p *Processes) contain(pid int, from time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.containLocked(pid, from)
}

func (p *Processes) containLocked(pid int, from time.Duration) {
	l := p.lives[pid]
	if l == nil {
		return
	}
	until := time.Duration(math.MaxInt64)
	for i := range l.states {
		s := &l.states[i]
		if s.from < from {
			continue
		}
		if s.by == Fork && s.from > from {
			until = s.from // the id is another's from here on
			break
		}
		s.process.Contained = true
	}
	for _, child := range l.children {
		if child.at >= from && child.at < until {
			p.containLocked(child.pid, child.at)
		}
	}
}

// executable names the file that was executed. By the names in /proc and /dev/fd
// a program runs what it holds open, itself for instance: then the file's own
// name says more, though not its directory.
func executable(e Event) string {
	if strings.HasPrefix(e.Path, "/proc/") || strings.HasPrefix(e.Path, "/dev/fd/") || e.Path == "" {
		if e.Name != "" {
			return "/" + e.Name
		}
	}
	if strings.HasPrefix(e.Path, "/") {
		return e.Path
	}
	return path.Clean(e.Path)
}

// meet takes in the processes that are there already. Of those that events have
// reported meanwhile nothing is changed.
func (p *Processes) meet(proc procfs.FS) error {
	entries, err := os.ReadDir(string(proc))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		found, err := living(proc.Process(pid))
		if procfs.Gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		p.mu.Lock()
		if p.lives[pid] == nil {
			p.add(pid, state{process: found})
		}
		p.mu.Unlock()
	}
	return nil
}

// kthreadd is the parent of the kernel's threads.
const kthreadd = 2

func living(p procfs.Process) (probe.Process, error) {
	stat, err := p.Stat()
	if err != nil {
		return probe.Process{}, err
	}
	found := probe.Process{PID: p.PID, Parent: stat.Parent, Comm: stat.Comm}
	if found.Args, err = p.Args(); err != nil && !errors.Is(err, procfs.ErrLocked) {
		return probe.Process{}, err
	}
	found.Exe, err = os.Readlink(p.Path("exe"))
	if err != nil && !errors.Is(err, fs.ErrPermission) && !procfs.Gone(err) {
		return probe.Process{}, err
	}
	// Neither a kernel thread nor a zombie executes a file.
	found.KernelThread = found.Exe == "" && !stat.Zombie() && (p.PID == kthreadd || stat.Parent == kthreadd)
	return found, nil
}
