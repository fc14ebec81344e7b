package knob

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Watch calls changed soon after each write that anyone makes to the knob, this program
// too, until stop is called; not after changes that are the kernel's own. Writes that
// follow one another quickly may be told as one. See inotify(7).
func (k *Knob) Watch(changed func()) (stop func(), err error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w: raise fs.inotify.max_user_instances", k.file, os.NewSyscallError("inotify_init1", err))
	}
	events := os.NewFile(uintptr(fd), "inotify")
	held := fmt.Sprintf("/proc/self/fd/%d/%s", k.directory, k.name())
	if _, err := unix.InotifyAddWatch(fd, held, unix.IN_MODIFY); err != nil {
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
