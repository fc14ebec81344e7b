package knob

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "group", "limit")
	if err := os.Mkdir(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func opened(t *testing.T, name string) *Knob {
	t.Helper()
	k, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

func TestReadAndWrite(t *testing.T) {
	k := opened(t, file(t, "1048576\n"))
	if got, err := k.Read(); got != "1048576" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	if err := k.Write(t.Context(), "max"); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Read(); got != "max" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A directory that was removed and made again is another one, and what is held is gone.
func TestADirectoryMadeAgainIsAnother(t *testing.T) {
	name := file(t, "1")
	k := opened(t, name)
	if err := os.RemoveAll(filepath.Dir(name)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("another's"), 0o644); err != nil {
		t.Fatal(err)
	}
	var gone *Gone
	if _, err := k.Read(); !errors.As(err, &gone) {
		t.Errorf("reading: %v, want a *Gone", err)
	}
	if err := k.Write(t.Context(), "2"); !errors.As(err, &gone) {
		t.Errorf("writing: %v, want a *Gone", err)
	}
	if again := opened(t, name); again.Identity() == k.Identity() {
		t.Errorf("both are %d", k.Identity())
	}
	if _, err := Open(name + "s"); !errors.As(err, &gone) {
		t.Errorf("opening what is not there: %v", err)
	}
}

// A call that would block for ever can be interrupted.
func TestInterrupted(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	ctx, cancel := context.WithCancel(t.Context())
	entered := make(chan struct{})
	returned := make(chan error, 1)
	go func() {
		returned <- interrupted(ctx, func() error {
			close(entered)
			for {
				// As a knob's write, and other than a read of a pipe, it is not begun again by
				// the kernel itself.
				_, err := unix.Poll([]unix.PollFd{{Fd: int32(pipe[0]), Events: unix.POLLIN}}, -1)
				if err != unix.EINTR || ctx.Err() != nil {
					return err
				}
			}
		})
	}()
	<-entered
	cancel()
	select {
	case err := <-returned:
		if !errors.Is(err, unix.EINTR) {
			t.Errorf("got %v, want EINTR", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it blocks for a minute after its end")
	}
}

// A write is reported with inotify, and where all of the user's instances are taken.
func TestWatch(t *testing.T) {
	t.Run("inotify", watch)
	inotifyInit = func(int) (int, error) { return -1, unix.EMFILE }
	defer func() { inotifyInit = unix.InotifyInit1 }()
	t.Run("used up", watch)
}

func watch(t *testing.T) {
	name := file(t, "1")
	k := opened(t, name)
	writes := make(chan string, 16)
	stop, err := k.Watch(func() {
		text, err := k.Read()
		if err != nil {
			t.Error(err)
		}
		writes <- text
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("2"), 0); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case text := <-writes:
			if text != "2" {
				continue // the file was emptied first
			}
			stop()
			if err := os.WriteFile(name, []byte("3"), 0); err != nil {
				t.Fatal(err)
			}
			select {
			case text := <-writes:
				if text == "3" {
					t.Error("it is reported after its end")
				}
			default:
			}
			return
		case <-time.After(time.Minute):
			t.Fatal("a write was not reported within a minute")
		}
	}
}
