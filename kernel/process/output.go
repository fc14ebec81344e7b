package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Output carries what a process and its descendants print to a writer, through
// a pipe. The pipe ends when the last of them ends, which for a program that
// leaves daemons is long after the program: [Output.Flush] gives all that was
// printed so far without waiting for an end.
type Output struct {
	read *os.File
	to   io.Writer
	done chan struct{}

	mu  sync.Mutex // held while a piece goes from the pipe to the writer
	err error      // the writer's first
}

// NewOutput makes a pipe whose end for the process is handed back, to be
// closed when the process has it. to may be nil: then what is printed is read
// and dropped, so that a program's standard output is a pipe everywhere.
func NewOutput(to io.Writer) (child *os.File, o *Output, err error) {
	if to == nil {
		to = io.Discard
	}
	read, child, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	o = &Output{read: read, to: to, done: make(chan struct{})}
	go o.copy()
	return child, o, nil
}

const pieceSize = 64 << 10 // what a pipe holds

func (o *Output) copy() {
	defer close(o.done)
	raw, err := o.read.SyscallConn()
	if err != nil {
		return
	}
	piece := make([]byte, pieceSize)
	for {
		var end bool
		err := raw.Read(func(fd uintptr) bool {
			var got bool
			got, end = o.move(int(fd), piece)
			return got || end
		})
		if err != nil || end {
			return
		}
	}
}

// move takes one piece from the pipe to the writer. Reading and writing happen
// under one lock, so that a flush finds nothing between the two.
func (o *Output) move(fd int, piece []byte) (got, end bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := unix.Read(fd, piece)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return false, false
	case errors.Is(err, unix.EINTR):
		return true, false
	case err != nil || n <= 0:
		return false, true
	}
	// A writer that fails must not stop the program, which would block on a
	// full pipe: the rest is read and dropped, and the error kept.
	if o.err == nil {
		if _, err := o.to.Write(piece[:n]); err != nil {
			o.err = fmt.Errorf("handing on a program's output: %w", err)
		}
	}
	return true, false
}

// Flush hands everything that has been printed so far to the writer, and
// returns the writer's error if it had one.
func (o *Output) Flush() error {
	raw, err := o.read.SyscallConn()
	if err == nil {
		piece := make([]byte, pieceSize)
		// Control, unlike Read, does not wait.
		_ = raw.Control(func(fd uintptr) {
			for got := true; got; {
				got, _ = o.move(int(fd), piece)
			}
		})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Close flushes and closes the pipe. A process that prints afterwards gets SIGPIPE.
func (o *Output) Close() error {
	err := o.Flush()
	if closing := o.read.Close(); err == nil && !errors.Is(closing, os.ErrClosed) {
		err = closing
	}
	<-o.done
	return err
}
