package mount

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"tare/kernel/file"
	"tare/kernel/procfs"
)

// Untrusted is the error of a file that is not asked for, since it may never answer.
type Untrusted struct{ FSType string }

func (u *Untrusted) Error() string {
	return fmt.Sprintf("a file of %s, which may never answer", u.FSType)
}

// Trust refuses a file that a program serves, which may never answer: the error is an [*Untrusted], or says
// that nothing is known of its mount. The mount is looked for among the process' and this program's own.
//
// The file system is asked for nothing.
func Trust(p procfs.Process, held *file.Pinned) error {
	_, err := trust(p, held)
	return err
}

func trust(p procfs.Process, held *file.Pinned) (procfs.Mount, error) {
	id, err := held.Mount()
	if err != nil {
		return procfs.Mount{}, err
	}
	theirs, _ := p.Mounts() // of a process that has ended there are none
	ours, err := procfs.Host.Process(os.Getpid()).Mounts()
	if err != nil {
		return procfs.Mount{}, err
	}
	// The root of a process may lie within one of our mounts, which it then does not list.
	for _, mounts := range [][]procfs.Mount{theirs, ours} {
		if m, ok := byID(mounts, id); ok {
			return m, trusted(p, m, ours)
		}
	}
	return procfs.Mount{}, errors.New("a file of no mount that is known: what serves it is not known either")
}

// Pin takes hold of path within dir as [file.PinEntry] does, if no program serves a file system on the way: see
// [Trust]. Nor is a mount entered within dir that is over a network. dir itself is not looked at so, if it is
// a path of more than one name.
func Pin(p procfs.Process, dir, path string) (*file.Pinned, error) {
	first, last := -1, -1 // an entry on the same mount as its directory, which is held still
	return file.PinThrough(dir, path, func(at *file.Pinned) error {
		id, err := at.Mount()
		if err != nil || id == last {
			return err
		}
		m, err := trust(p, at)
		if first < 0 {
			first = id
		} else if err == nil && id != first && mayBeSilent(m) {
			err = &Untrusted{m.FSType}
		}
		last = id
		return err
	})
}

func byID(mounts []procfs.Mount, id int) (procfs.Mount, bool) {
	i := slices.IndexFunc(mounts, func(m procfs.Mount) bool { return m.ID == id })
	if i < 0 {
		return procfs.Mount{}, false
	}
	return mounts[i], true
}

// trusted goes by the type. In a user namespace of their own, users mount overlays of layers that a
// program serves. An overlay that this program has mounted too is none of those.
func trusted(p procfs.Process, m procfs.Mount, ours []procfs.Mount) error {
	isOurs := func(o procfs.Mount) bool { return o.Device == m.Device && o.FSType == m.FSType }
	if Served(m.FSType) || m.FSType == "overlay" && !slices.ContainsFunc(ours, isOurs) && !mountsAsWe(p) {
		return &Untrusted{m.FSType}
	}
	return nil
}

// mountsAsWe reports whether it takes the rights of our own user namespace to mount where the process is.
func mountsAsWe(p procfs.Process) bool {
	namespace, err := unix.Open(p.Path("ns/mnt"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(namespace) }()
	owner, err := unix.IoctlRetInt(namespace, unix.NS_GET_USERNS)
	if err != nil {
		return false // it is one above ours
	}
	defer func() { _ = unix.Close(owner) }()
	var its, ours unix.Stat_t
	if unix.Fstat(owner, &its) != nil || unix.Stat("/proc/self/ns/user", &ours) != nil {
		return false
	}
	return its.Dev == ours.Dev && its.Ino == ours.Ino
}
