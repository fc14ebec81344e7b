package pagetable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"tare/kernel/procfs"
)

// fate is what became of a process that was asked for.
type fate uint8

const (
	counted  fate = iota
	gone          // it ended or executed another program, or had ended
	isKernel      // it has no memory of its own
	isTwin        // its address space is one that was counted
	refused       // it may not be looked into
)

// subject is one process in a census, as it was before it was read.
type subject struct {
	process procfs.Process
	stat    procfs.Stat
	// thread is the process, or one of its threads where the first has ended: then
	// the process itself shows no memory.
	thread procfs.Process
	text   []byte // of its mappings
	own    executable
	maps   []Mapping
}

// meet identifies a process.
func meet(pid int) (subject, fate, error) {
	s := subject{process: procfs.Host.Process(pid)}
	s.thread = s.process
	var err error
	if s.stat, err = s.process.Stat(); err != nil {
		f, err := fateOf(err)
		return s, f, err
	}
	if s.stat.Kernel {
		return s, isKernel, nil
	}
	if s.stat.Zombie() {
		tid, ok := s.living()
		if !ok {
			return s, gone, nil
		}
		s.thread = procfs.Host.Process(tid)
	}
	return s, counted, nil
}

// living finds a thread that has not ended.
func (s *subject) living() (tid int, ok bool) {
	threads, err := os.ReadDir(s.process.Path("task"))
	if err != nil {
		return 0, false
	}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if stat, err := procfs.Host.Process(tid).Stat(); err == nil && !stat.Zombie() {
			return tid, true
		}
	}
	return 0, false
}

// read reads what the process maps.
func (s *subject) read(known *atlas) (fate, error) {
	var err error
	if s.text, err = s.thread.MapsText(); err != nil {
		return fateOf(err)
	}
	if len(s.text) == 0 {
		return gone, nil // it ends
	}
	s.own = programOf(s.thread)
	if s.maps, err = known.mappings(s.thread, s.text, s.own); err != nil {
		return gone, fmt.Errorf("%s: %w", s.thread.Path("maps"), err)
	}
	return counted, nil
}

// after looks again at a process that has been read: whether it is the same
// one, runs the same program, and maps the same.
func (s *subject) after() (changed bool, _ fate, _ error) {
	stat, err := s.process.Stat()
	if err != nil {
		f, err := fateOf(err)
		return false, f, err
	}
	if stat.StartTicks != s.stat.StartTicks {
		return false, gone, nil // another has its id
	}
	text, err := s.thread.MapsText()
	if err != nil {
		f, err := fateOf(err)
		return false, f, err
	}
	if bytes.Equal(text, s.text) {
		return false, counted, nil
	}
	maps, err := procfs.ParseMaps(bytes.NewReader(text))
	if err != nil {
		return false, gone, fmt.Errorf("%s: %w", s.thread.Path("maps"), err)
	}
	if len(maps) == 0 || programOf(s.thread) != s.own || place(mappingsOf(maps, s.own)) != place(s.maps) {
		return false, gone, nil
	}
	return true, counted, nil
}

// place is what execution alone moves: where the first thread's stack ends, and the
// kernel's own code is. (Not by chance where addresses are not randomised, and
// the program is the same: then that it was executed again makes no difference
// to see.)
func place(maps []Mapping) (at [2]uint64) {
	for i := range maps {
		switch m := &maps[i]; {
		case m.Kind == Stack:
			at[0] = m.End
		case m.Kind == VDSO && m.Execute && at[1] == 0:
			at[1] = m.Start
		}
	}
	return at
}

// fateOf gives what an error in reading a process' files says of the process;
// the error is left where it says something else.
func fateOf(err error) (fate, error) {
	switch {
	case procfs.Gone(err):
		return gone, nil
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, procfs.ErrTooLong) || errors.Is(err, procfs.ErrLocked):
		return refused, nil
	}
	return gone, err
}

// take notes what became of a process; space is nil where it was not counted.
func (c *Census) take(p Process, space *Space, f fate) {
	switch f {
	case gone:
		c.Gone = append(c.Gone, p.PID)
	case isKernel:
		c.Kernel = append(c.Kernel, p.PID)
	case isTwin:
		c.Twin = append(c.Twin, p.PID)
	case refused:
		c.Refused = append(c.Refused, p.PID)
	default:
		c.Spaces = append(c.Spaces, *space)
	}
}
