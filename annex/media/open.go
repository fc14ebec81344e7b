package media

import (
	"errors"
	"fmt"

	"tare/annex"
	"tare/kernel/advise"
	"tare/kernel/pagemap"
	"tare/kernel/process"
)

// Target is an address space that is held open: requests to it cannot reach another.
type Target interface {
	// Give gives advice on ranges, in their order; passed are those that the kernel did not
	// do all of.
	Give(advice advise.Advice, ranges []advise.Range) (passed []advise.Passed, err error)
	// Map maps ranges, waiting for what is in swap, and tells of how many something could be
	// read: [advise.Map].
	Map(ranges []advise.Range) (read int, err error)
	// Entries reads the entries of consecutive pages. Fewer than to has room for are there
	// at the end of the address space.
	Entries(first annex.Page, to []uint64) (int, error)
	Close() error
}

// ErrGone says that a space is no more: its process has ended, or executes another
// program.
var ErrGone = errors.New("the address space is gone")

// Open opens a space of this host. The error is [ErrGone] where it is no more.
func Open(s annex.Space) (Target, error) {
	id := process.Identity{PID: int(s.PID), StartTicks: s.Started}
	handle, err := id.Open()
	if errors.Is(err, process.ErrGone) {
		return nil, fmt.Errorf("space %s: %w", s, ErrGone)
	}
	if err != nil {
		return nil, err
	}
	entries, err := pagemap.Open(fmt.Sprintf("/proc/%d/pagemap", s.PID))
	if err == nil {
		// It was opened by the id, which is the process' own as long as that lives.
		var now process.Identity
		if now, err = process.Identify(id.PID); err == nil && now == id {
			return &space{annex: s, handle: handle, entries: entries}, nil
		}
		_ = entries.Close()
	}
	_ = handle.Close()
	if now, identifying := process.Identify(id.PID); identifying != nil || now != id {
		return nil, fmt.Errorf("space %s: %w", s, ErrGone)
	}
	return nil, err
}

// space is a process by its pidfd, and the memory that it had when it was opened by its
// page map, which reads as empty once that memory is gone: so a process that executes
// another program is found out.
type space struct {
	annex   annex.Space
	handle  *process.Handle
	entries *pagemap.File
}

func (s *space) Give(advice advise.Advice, ranges []advise.Range) ([]advise.Passed, error) {
	passed, err := advise.Give(s.handle, advice, ranges)
	return passed, s.named(err)
}

func (s *space) Map(ranges []advise.Range) (int, error) {
	read, err := advise.Map(s.handle, s.handle.PID, ranges)
	return read, s.named(err)
}

func (s *space) Entries(first annex.Page, to []uint64) (int, error) {
	n, err := pagemap.Words(s.entries, uint64(first), to)
	if err != nil {
		return n, err
	}
	if n == 0 && len(to) > 0 {
		return 0, s.named(advise.ErrGone)
	}
	return n, nil
}

// named is an error with the space that it is of.
func (s *space) named(err error) error {
	if errors.Is(err, advise.ErrGone) {
		return fmt.Errorf("space %s: %w", s.annex, ErrGone)
	}
	if err != nil {
		return fmt.Errorf("space %s: %w", s.annex, err)
	}
	return nil
}

func (s *space) Close() error { return errors.Join(s.handle.Close(), s.entries.Close()) }

// mapping is a target on a kernel that takes no MADV_WILLNEED for another process (before Linux 5.15) and
// says so as it does of memory that does not leave: pages are brought by being mapped.
type mapping struct{ Target }

func (m mapping) Give(a advise.Advice, all []advise.Range) ([]advise.Passed, error) {
	if a != advise.WillNeed {
		return m.Target.Give(a, all)
	}
	_, err := m.Map(all)
	return nil, err
}

// opener opens spaces of this host, as its kernel needs it.
func opener() func(annex.Space) (Target, error) {
	// Where the kernel takes no advice at all the first request says so.
	if takes, err := advise.Takes(advise.WillNeed); takes || err != nil {
		return Open
	}
	return func(s annex.Space) (Target, error) {
		t, err := Open(s)
		if err != nil {
			return nil, err
		}
		return mapping{t}, nil
	}
}
