package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/file"
	"tare/kernel/host"
)

// Options are where the guard's things are.
type Options struct {
	// Journal is the file of what is changed, an absolute path. It is best on a file system
	// in memory (/run): no knob outlives the kernel, and nobody waits for a disk.
	Journal string
	// Lease is after how long the guard takes a momentary change back that the daemon has
	// not, though it lives: stopped, or waiting for its own memory. 0 is [DefaultLease].
	Lease time.Duration
	// Roots are the directories that hierarchies of control groups are mounted on. None is
	// this host's.
	Roots []string
}

// DefaultLease is longer than any reclaim is given, and short for a container that has
// to do with a lower limit.
const DefaultLease = 2 * time.Second

func (o Options) complete() (Options, error) {
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.Lease < 0 {
		return o, fmt.Errorf("a lease of %v: want more than 0", o.Lease)
	}
	if len(o.Roots) > 0 {
		return o, nil
	}
	layout, err := cgroup.Host()
	if err != nil {
		return o, err
	}
	for _, h := range layout.Hierarchies {
		o.Roots = append(o.Roots, h.Mount)
	}
	return o, nil
}

// InUse says that a daemon, or the guard that one left behind, has the journal.
type InUse struct{ Journal string }

func (i *InUse) Error() string {
	return fmt.Sprintf("the journal %s is in use by another annexd, or by its guard: end that one first (systemctl stop annexd, or end its process)", i.Journal)
}

// Recover puts back what a daemon left that was killed together with its guard, and
// removes the journal. A guard that is still at it is waited for, until ctx ends; the
// error is then an [*InUse]. Where there is no journal there is nothing to do.
//
// Entries of an earlier start of the kernel are void. An error of a damaged journal
// comes with what the rest of it reported, and the journal is kept beside ("...damaged");
// one that could not be put back stays in it.
func Recover(ctx context.Context, o Options) ([]Outcome, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	none := new(NoJournal)
	if _, err := read(o.Journal); errors.As(err, &none) {
		return nil, err // before anything is put beside it
	}
	lock, err := awaitLock(ctx, o.Journal)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if _, err := os.Lstat(o.Journal); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	j, err := read(o.Journal)
	damaged := new(Damaged)
	if err != nil && !errors.As(err, &damaged) {
		return nil, err
	}
	if err != nil {
		err = errors.Join(err, putAside(o.Journal))
	}
	all, restoring := putBack(o, j)
	return all, errors.Join(err, restoring)
}

// putBack restores what a journal tells, and leaves it with what could not be.
func putBack(o Options, j Journal) ([]Outcome, error) {
	boot, err := host.BootID()
	if err != nil {
		return nil, err
	}
	if j.Boot != "" && j.Boot != boot {
		return nil, os.Remove(o.Journal)
	}
	all := restoreAll(j.Open, o.Roots)
	s, err := resume(o.Journal, j)
	if err != nil {
		return all, errors.Join(err, failures(all))
	}
	for _, outcome := range all {
		if _, crossing := s.cross(outcome.Number, outcome.Ending); crossing != nil {
			err = errors.Join(err, crossing)
		}
	}
	err = errors.Join(err, s.close(), failures(all))
	if len(s.open) == 0 && err == nil {
		err = os.Remove(o.Journal)
	}
	return all, err
}

// awaitLock takes the journal's lock, as soon as who has it lets go.
func awaitLock(ctx context.Context, journal string) (*os.File, error) {
	for {
		lock, err := lockJournal(journal)
		taken := new(file.Locked)
		if !errors.As(err, &taken) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, &InUse{journal}
		case <-time.After(time.Millisecond):
		}
	}
}
