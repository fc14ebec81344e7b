package swaptest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// throttles is where version 1 of cgroups bounds what goes to a device. Version 2 bounds no
// root group, which is the one that reads and writes swap.
const throttles = "/sys/fs/cgroup/blkio/"

// Slow puts a device to use, until the test ends, that reads and writes no more than so many
// bytes a second, and gives its path. Where none can be had, the test is skipped.
//
// No bound holds for swap itself, which is read and written in debt. So there are two loop
// devices: swap is on the one, what that one reads and writes is no swap any more, and is
// bounded on the other, which is on a file as of [File].
func Slow(t testing.TB, name string, size, rate int64) (device string) {
	t.Helper()
	needRoot(t)
	if _, err := os.Stat(throttles + throttle("read")); err != nil {
		t.Skip(err)
	}
	if groups, err := os.ReadFile("/proc/self/cgroup"); err != nil || !strings.Contains(string(groups), "blkio:/\n") {
		t.Skipf("what this reads is not on account of the root of blkio (%v): %s", err, groups)
	}
	below, held := attached(t, create(t, name, size))
	defer held.Close() // from then on its use holds it
	device, held = attached(t, below)
	defer held.Close()
	use(t, device, on(device))
	if err := bound(below, rate); errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before it is taken out of use, for which all in it is read
		if err := bound(below, 0); err != nil {
			t.Error(err)
		}
	})
	return device
}

// attached is attach in a test.
func attached(t testing.TB, path string) (device string, held *os.File) {
	t.Helper()
	device, held, err := attach(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return device, held
}

// attach gives a file or a device a loop device, which it keeps as long as somebody uses that.
func attach(path string) (device string, held *os.File, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", nil, err
	}
	defer file.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", nil, err
	}
	defer control.Close()
	for range 16 { // another program may take the number that was found
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", nil, os.NewSyscallError("LOOP_CTL_GET_FREE", err)
		}
		device = fmt.Sprintf("/dev/loop%d", n)
		held, err = os.OpenFile(device, os.O_RDWR, 0)
		if err != nil {
			return "", nil, err
		}
		c := unix.LoopConfig{
			Fd:   uint32(file.Fd()),
			Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO},
		}
		copy(c.Info.File_name[:], path)
		err = unix.IoctlLoopConfigure(int(held.Fd()), &c)
		if err == nil {
			return device, held, nil
		}
		err = errors.Join(os.NewSyscallError("LOOP_CONFIGURE", err), held.Close())
		if !errors.Is(err, unix.EBUSY) {
			return "", nil, err
		}
	}
	return "", nil, fmt.Errorf("%s: every loop device that was free was taken by another program", path)
}

func throttle(of string) string { return "blkio.throttle." + of + "_bps_device" }

// bound has a device read and write so many bytes a second at most; 0 is no bound.
func bound(device string, rate int64) error {
	number, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "dev"))
	if err != nil {
		return err
	}
	line := fmt.Appendf(nil, "%s %d", strings.TrimSpace(string(number)), rate)
	return errors.Join(os.WriteFile(throttles+throttle("read"), line, 0), os.WriteFile(throttles+throttle("write"), line, 0))
}

// loopOff takes the loop devices that a run left on a file out of use, and those on them, with
// which they are gone.
func loopOff(path string) error {
	backing, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	for _, file := range backing {
		if of, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(of)) != path {
			continue // or detached meanwhile
		}
		device := "/dev/" + filepath.Base(filepath.Dir(filepath.Dir(file)))
		if err := errors.Join(bound(device, 0), loopOff(device), off(device)); err != nil {
			return err
		}
	}
	return nil
}
