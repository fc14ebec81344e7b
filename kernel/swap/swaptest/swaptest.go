// Package swaptest gives tests swap of their own, used before all other: a file on a disk, a
// slow device, or compressed memory. It is taken out of use when the test ends; what a run
// that was killed left in use, the next one finds by its name and removes.
//
// Swap has no owner: while it is in use pages of any program may go there, and come back
// when the test ends.
package swaptest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"tare/kernel/file"
	"tare/kernel/swap"
)

// File puts a swap file of so many bytes to use until the test ends, and gives its path. name
// is that of whose tests they are, and the same in each run: by it a run finds what one that
// was killed left. Where there can be no such file, or this is not root, the test is
// skipped. Programs whose pages went there are to have ended before the test has.
func File(t testing.TB, name string, size int64) (path string) {
	t.Helper()
	path = create(t, name, size)
	err := on(path)
	if refused := new(swap.Refused); errors.As(err, &refused) && errors.Is(err, syscall.EINVAL) {
		// The file system takes reserved blocks for holes.
		if err = swap.Fill(context.Background(), path); err == nil {
			err = on(path)
		}
	}
	use(t, path, err)
	return path
}

// create makes the file, which goes when the test ends.
func create(t testing.TB, name string, size int64) (path string) {
	t.Helper()
	needRoot(t)
	path = filepath.Join(directory(t, name), fmt.Sprintf("%d.%d.swap", os.Getpid(), made.Add(1)))
	err := swap.CreateFile(context.Background(), path, size)
	unfit, full := new(swap.Unfit), new(swap.Full)
	if errors.As(err, &unfit) || errors.As(err, &full) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

// remove takes what is on a file out of use, and then removes the file, by which a later run
// finds what could not be.
func remove(path string) error {
	if err := errors.Join(loopOff(path), off(path)); err != nil {
		return err
	}
	return os.Remove(path)
}

// made counts the files of this run.
var made atomic.Int64

// ZRAM puts a compressed device of so many bytes to use until the test ends, and gives its
// path. Where this kernel makes none, or this is not root, the test is skipped.
func ZRAM(t testing.TB, size int64) (path string) {
	t.Helper()
	needRoot(t)
	host := swap.Host{}
	z, err := host.AddZRAM(size)
	if none := new(swap.NoZRAM); errors.As(err, &none) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.RemoveZRAM(z); err != nil {
			t.Error(err)
		}
	})
	if err := host.ConfigureZRAM(z, ""); err != nil {
		t.Fatal(err)
	}
	use(t, z.Device(), on(z.Device()))
	return z.Device()
}

// NoPool skips the test where zswap is enabled: pages then go to its pool first, and to an
// area when that is full.
func NoPool(t testing.TB) {
	t.Helper()
	if z, err := (swap.Host{}).Zswap(); err == nil && z.Enabled {
		t.Skip("zswap is enabled, and pages go there first")
	}
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("putting swap to use needs root")
	}
}

// on puts an area to use before all others.
func on(path string) error {
	areas, err := swap.Host{}.Areas()
	if err != nil {
		return err
	}
	priority, err := swap.PriorityAbove(areas)
	if err != nil {
		return err
	}
	return swap.On(path, priority, swap.DiscardNever)
}

// use has an area that was put to use taken out of it when the test ends, unless the test
// has done that.
func use(t testing.TB, path string, err error) {
	t.Helper()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, fs.ErrNotExist) { // not allowed here, or a kernel without swap
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := off(path); err != nil {
			t.Error(err)
		}
	})
}

// off takes an area out of use, if it is in use.
func off(path string) error {
	_, is, err := swap.Host{}.Area(path)
	if err != nil || !is {
		return err
	}
	return swap.Off(context.Background(), path)
}

// where is the directory on a disk in which tests have theirs.
const where = "/var/tmp"

// directory is that of the tests of a name, without what runs that were killed left in it. It
// goes with the last file in it.
func directory(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(where, "tare-"+name+"-test")
	if err := file.Private(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); !inUse(e.Name()) {
			if err := remove(path); err != nil {
				t.Error(err)
			}
		}
	}
	return dir
}

// inUse reads from a file's name whether the run that made it goes on.
func inUse(name string) bool {
	number, _, _ := strings.Cut(name, ".")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
