package engine

import (
	"fmt"
	"io"
	"sync"
)

// Output hands on what a program prints.
type Output struct {
	stdout, stderr *sink
	hangUp         func()
	once           sync.Once
	done           chan struct{}
	err            error // valid after done
}

// NewOutput hands on to the two writers. Nil ones discard.
func NewOutput(stdout, stderr io.Writer) *Output {
	return &Output{stdout: &sink{to: stdout}, stderr: &sink{to: stderr}, done: make(chan struct{})}
}

// Writers are where the program's two streams go. They take everything.
func (o *Output) Writers() (stdout, stderr io.Writer) { return o.stdout, o.stderr }

// Follow calls read, which returns when the streams have ended or hangUp was
// called. It is to be called once at most.
func (o *Output) Follow(read func() error, hangUp func()) {
	o.hangUp = hangUp
	go func() {
		defer close(o.done)
		err := read()
		for _, e := range []error{o.stdout.err, o.stderr.err, err} {
			if e != nil {
				o.err = fmt.Errorf("pass on the program's output: %w", e)
				return
			}
		}
	}()
}

// Done is closed when all has been handed on.
func (o *Output) Done() <-chan struct{} { return o.done }

// Close ends reading, whether or not the streams have ended.
func (o *Output) Close() {
	if o.hangUp != nil {
		o.once.Do(o.hangUp)
	}
}

// sink remembers the first error of its writer and swallows what follows: the
// program must not block on a stream that nobody reads any more.
type sink struct {
	to  io.Writer
	err error
}

func (s *sink) Write(b []byte) (int, error) {
	if s.to != nil && s.err == nil {
		_, s.err = s.to.Write(b)
	}
	return len(b), nil
}
