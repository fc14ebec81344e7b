package containerd

import (
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/pkg/cio"
)

// output hands on what the program prints.
type output struct {
	stdout, stderr *sink
	streams        cio.IO
	done           chan struct{} // closed when all has been handed on
}

// newOutput gives nil writers something that discards: a stream that is not
// wanted is a pipe all the same.
func newOutput(stdout, stderr io.Writer) *output {
	return &output{stdout: &sink{to: stdout}, stderr: &sink{to: stderr}, done: make(chan struct{})}
}

// follow is called when the streams are there, and once.
func (o *output) follow(streams cio.IO) {
	o.streams = streams
	go func() {
		defer close(o.done)
		streams.Wait()
	}()
}

// err is the first error of a writer; to be asked after done.
func (o *output) err() error {
	for _, s := range []*sink{o.stdout, o.stderr} {
		if s.err != nil {
			return fmt.Errorf("pass on the program's output: %w", s.err)
		}
	}
	return nil
}

// close ends reading, whether or not the streams have ended. Their directory
// goes with the instance's.
func (o *output) close() {
	if o.streams != nil {
		o.streams.Cancel()
		_ = o.streams.Close()
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
