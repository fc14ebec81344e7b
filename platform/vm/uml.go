package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/kernel/socket"
	"tare/platform/vm/guest"
)

// uml is user-mode Linux: a kernel that is a program, whose programs are processes of
// the host that it traces.
type uml struct{}

// umlName is the machine's name to user-mode Linux, whose console lies in a directory
// of that name.
const umlName = "m"

func (uml) kernel() guest.Kernel { return guest.UML }
func (uml) channel() string      { return "tty:/dev/ttyS0" }
func (uml) byName() bool         { return true }
func (uml) check() error         { return missing(guest.UML.Check()) } // its program comes with the kernel's package
func (uml) version(context.Context) string {
	return "user-mode Linux"
}

// umlRunning is one user-mode Linux.
type umlRunning struct {
	child *child
	conn  net.Conn
	dir   string
	group cgroup.Group

	mu    sync.Mutex
	disks int
}

func (uml) start(ctx context.Context, o startOrder) (_ running, err error) {
	r := &umlRunning{dir: o.dir, group: o.group, disks: 2}
	var theirs *os.File
	if r.conn, theirs, err = socket.Pair(); err != nil {
		return nil, err
	}
	defer theirs.Close()
	args := []string{
		"mem=" + strconv.FormatInt(o.shape.memory>>20, 10) + "M", "con=null", "con0=null,fd:1", "ssl0=fd:3",
		"uml_dir=.", "umid=" + umlName,
		"ubd0rc=" + o.boot.Root, "ubd1=" + o.scratch,
	}
	if o.tap != nil {
		args = append(args, "vec0:transport=tap,ifname="+o.tap.Link.Name+",mac="+o.mac)
	}
	args = append(append(args, o.boot.Cmdline...), o.word)
	if r.child, err = startChild(o.group, o.dir, o.console, []*os.File{theirs}, o.boot.Kernel, args); err != nil {
		return nil, errors.Join(err, r.conn.Close())
	}
	return r, nil
}

func (r *umlRunning) process() *child            { return r.child }
func (r *umlRunning) stream() io.ReadWriteCloser { return paced{r.conn} }
func (r *umlRunning) close() error               { return ignoreClosed(r.conn.Close()) }

// A line of user-mode Linux holds 4 KiB that were not read yet (N_TTY's buffer,
// drivers/tty/n_tty.c), and one that was full does not always go on: a request of more
// at once was never answered. So what is written comes in parts, which the guest has
// time to read; images come as disks, and the guest's own output is not held up.
const (
	lineChunk = 1 << 10
	lineRest  = 4 * time.Millisecond
)

// paced is a line's end that is written to in parts.
type paced struct{ net.Conn }

func (p paced) Write(data []byte) (written int, err error) {
	for len(data) > 0 {
		n, err := p.Conn.Write(data[:min(len(data), lineChunk)])
		if written += n; err != nil {
			return written, err
		}
		if data = data[n:]; len(data) > 0 {
			time.Sleep(lineRest)
		}
	}
	return written, nil
}

// mostUML is how many disks user-mode Linux has.
const mostUML = 16

func (r *umlRunning) attach(ctx context.Context, path, serial string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.disks == mostUML {
		return "", fmt.Errorf("user-mode Linux has %d disks, and all are in use", mostUML)
	}
	// The machine looks for relative paths in its own directory, and the console's
	// commands are short.
	name := "image-" + serial
	if err := os.Symlink(path, filepath.Join(r.dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	if _, err := mconsole(ctx, r.dir, fmt.Sprintf("config ubd%drc=%s", r.disks, name)); err != nil {
		return "", err
	}
	device := guest.Device(guest.UML, serial, r.disks)
	r.disks++
	return device, nil
}

// pause stops the kernel's process, and then those that it traces, which do nothing
// without it, but for one that runs at the moment.
func (r *umlRunning) pause(context.Context) error { return r.signal(int(syscall.SIGSTOP)) }

func (r *umlRunning) resume(context.Context) error { return r.signal(int(syscall.SIGCONT)) }

// signal tells the kernel's process. Those that it traces are its own: a signal to them
// would be the guest's.
func (r *umlRunning) signal(sig int) error {
	h, err := r.child.Open()
	if err != nil {
		return err
	}
	defer h.Close()
	return h.Signal(sig)
}

// threads gives every thread of the machine: user-mode Linux has one CPU, at which all of
// them take turns.
func (r *umlRunning) threads(context.Context) ([]int, error) {
	pids, err := r.group.Processes()
	if err != nil {
		return nil, err
	}
	var all []int
	for _, pid := range pids {
		tids, err := process.Threads(pid)
		if err != nil && !errors.Is(err, process.ErrGone) {
			return nil, err
		}
		all = append(all, tids...)
	}
	return all, nil
}
