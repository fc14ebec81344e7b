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

// Untrusted is the error of a file that is not asked for, since a program may serve it.
type Untrusted struct{ FSType string }

func (u *Untrusted) Error() string {
	return fmt.Sprintf("a file of %s, which a program may serve that never answers", u.FSType)
}

// Trust refuses a file whose file system may never answer: the error is an [*Untrusted], or says that
// nothing is known of its mount. That is one which the process has, or this program.
//
// The file system is asked for nothing.
func Trust(p procfs.Process, held *file.Pinned) error {
	id, err := held.Mount()
	if err != nil {
		return err
	}
	theirs, _ := p.Mounts() // of a process that has ended there are none
	ours, err := procfs.Host.Process(os.Getpid()).Mounts()
	if err != nil {
		return err
	}
	if m, ok := byID(theirs, id); ok {
		return trusted(p, m, ours)
	}
	// The root of a process may lie within one of our mounts, which it then does not list.
	if m, ok := byID(ours, id); ok {
		return trusted(p, m, ours)
	}
	return errors.New("a file of no mount that is known: what serves it is not known either")
}

// Pin takes hold of path within dir as [file.PinEntry] does, if no file system on the way may never answer: see
// [Trust]. dir itself is not looked at so, if it is a path of more than one name.
func Pin(p procfs.Process, dir, path string) (*file.Pinned, error) {
	last := -1 // an entry on the same mount as its directory, which is held still
	return file.PinThrough(dir, path, func(at *file.Pinned) error {
		id, err := at.Mount()
		if err != nil || id == last {
			return err
		}
		last = id
		return Trust(p, at)
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
