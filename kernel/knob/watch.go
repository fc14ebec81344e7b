package knob

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// lookEvery is how often a knob is read that the kernel has no room to watch.
const lookEvery = time.Millisecond

// inotifyInit is the kernel's, but in a test.
var inotifyInit = unix.InotifyInit1

// Watch calls changed soon after each write that anyone makes to the knob, this program
// too, until stop is called; not after changes that are the kernel's own. Writes that
// follow one another quickly may be reported as one. See inotify(7).
//
// Where the user's inotify instances or watches are used up, the knob is read every
// millisecond instead, and changed is called when it holds another text.
func (k *Knob) Watch(changed func()) (stop func(), err error) {
	fd, err := inotifyInit(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if usedUp(err) {
		return k.look(changed), nil
	}
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", k.file, os.NewSyscallError("inotify_init1", err))
	}
	events := os.NewFile(uintptr(fd), "inotify")
	held := fmt.Sprintf("/proc/self/fd/%d/%s", k.directory, k.name())
	_, err = unix.InotifyAddWatch(fd, held, unix.IN_MODIFY)
	if usedUp(err) {
		_ = events.Close()
		return k.look(changed), nil
	}
	if err != nil {
		_ = events.Close()
		return nil, k.failed("watch", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		room := make([]byte, 64*unix.SizeofInotifyEvent)
		for {
			if _, err := events.Read(room); err != nil {
				return // closed
			}
			changed()
		}
	}()
	return func() {
		_ = events.Close()
		<-ended
	}, nil
}

// usedUp means that a bound on inotify is reached: max_user_instances (EMFILE), max_user_watches (ENOSPC).
func usedUp(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOSPC)
}

// look reads the knob again and again, until what it returns is called.
func (k *Knob) look(changed func()) (stop func()) {
	last, _ := k.Read() // what cannot be read now is read at the next look
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			if have, err := k.Read(); err == nil && have != last {
				last = have
				changed()
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(end)
		<-ended
	})
}
