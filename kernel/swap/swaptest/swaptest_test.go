package swaptest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"tare/kernel/swap"
)

const size = 1 << 20

// isOn reports whether an area is in use, and its priority.
func isOn(t *testing.T, path string) (priority int, is bool) {
	t.Helper()
	a, is, err := swap.Host{}.Area(path)
	if err != nil {
		t.Fatal(err)
	}
	return a.Priority, is
}

// Each is used before those that were there, and none is when its test has ended.
func TestAreas(t *testing.T) {
	var paths []string
	t.Run("in use", func(t *testing.T) {
		for _, put := range []func() string{
			func() string { return File(t, "swaptest", size) },
			func() string { return File(t, "swaptest", size) },
			func() string { return ZRAM(t, size) },
		} {
			path := put()
			priority, is := isOn(t, path)
			if !is {
				t.Fatalf("%s is not in use", path)
			}
			for _, before := range paths {
				if other, _ := isOn(t, before); other >= priority {
					t.Errorf("%s has priority %d, and %s that was before it %d", path, priority, before, other)
				}
			}
			paths = append(paths, path)
		}
	})
	if len(paths) == 0 {
		t.Skip("no swap can be put to use here")
	}
	for _, path := range append(paths, filepath.Dir(paths[0])) {
		if _, is := isOn(t, path); is {
			t.Errorf("%s is in use still", path)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there still (%v)", path, err)
		}
	}
}

// A test may take its area out of use itself.
func TestOffBefore(t *testing.T) {
	path := File(t, "swaptest", size)
	if err := swap.Off(t.Context(), path); err != nil {
		t.Fatal(err)
	}
}

// What a run left that has ended is removed, in use or not; what one left that goes on is not.
func TestLeft(t *testing.T) {
	first := File(t, "swaptest", size)
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Skip(err)
	}
	dir := filepath.Dir(first)
	left := filepath.Join(dir, strconv.Itoa(gone.Process.Pid)+".1.swap")
	if err := swap.CreateFile(t.Context(), left, size); err != nil {
		t.Fatal(err)
	}
	if err := on(left); err != nil {
		t.Fatal(errors.Join(err, os.Remove(left)))
	}
	others := filepath.Join(dir, "1.1.swap") // the first process of all goes on
	if err := os.WriteFile(others, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(others); err != nil {
			t.Error(err)
		}
	})
	File(t, "swaptest", size)
	if _, is := isOn(t, left); is {
		t.Errorf("%s is in use still", left)
	}
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there still (%v)", left, err)
	}
	for _, path := range []string{first, others} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	if _, is := isOn(t, first); !is {
		t.Errorf("%s is in use no more", first)
	}
}

// A slow device is slow, and gone when its test has ended, as is one that a run left.
func TestSlow(t *testing.T) {
	const rate = 4 << 20
	var device string
	t.Run("in use", func(t *testing.T) {
		device = Slow(t, "swaptest", 4*size, rate)
		if _, is := isOn(t, device); !is {
			t.Fatalf("%s is not in use", device)
		}
		file, err := os.OpenFile(device, os.O_RDONLY|syscall.O_DIRECT, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		into, err := syscall.Mmap(-1, 0, 2*size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Munmap(into)
		began := time.Now()
		if n, err := file.Read(into); n != len(into) || err != nil {
			t.Fatalf("%d bytes read, %v", n, err)
		}
		// A bound lets some through at once, and never a half.
		if took, least := time.Since(began), time.Second*2*size/rate/2; took < least {
			t.Errorf("%d bytes are read in %v, want at least %v", len(into), took, least)
		}
	})
	if device == "" {
		t.Skip("no slow device can be had here")
	}
	if _, is := isOn(t, device); is {
		t.Errorf("%s is in use still", device)
	}
	t.Run("left", func(t *testing.T) {
		gone := exec.Command("true")
		if err := gone.Run(); err != nil {
			t.Skip(err)
		}
		left := filepath.Join(directory(t, "swaptest"), strconv.Itoa(gone.Process.Pid)+".1.swap")
		if err := swap.CreateFile(t.Context(), left, size); err != nil {
			t.Fatal(err)
		}
		below, first, err := attach(left)
		if err != nil {
			t.Fatal(errors.Join(err, os.Remove(left)))
		}
		device, second, err := attach(below)
		if err != nil {
			t.Fatal(errors.Join(err, first.Close(), os.Remove(left)))
		}
		if err := errors.Join(on(device), second.Close(), first.Close()); err != nil {
			t.Fatal(err)
		}
		directory(t, "swaptest")
		if _, is := isOn(t, device); is {
			t.Errorf("%s is in use still", device)
		}
		if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there still (%v)", left, err)
		}
	})
}
