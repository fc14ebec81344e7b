package docker

import (
	"fmt"
	"io"
	"sync"

	"github.com/moby/moby/api/pkg/stdcopy"
)

// output takes the program's two streams apart as they come and hands them on.
type output struct {
	hangUp func()
	once   sync.Once
	done   chan struct{} // closed when all has been handed on
	err    error         // valid after done
}

// follow begins to read from the engine's stream, which hangUp ends. Nil writers
// discard.
func follow(stream io.Reader, hangUp func(), stdout, stderr io.Writer) *output {
	o := &output{hangUp: hangUp, done: make(chan struct{})}
	out, errOut := &sink{to: stdout}, &sink{to: stderr}
	go func() {
		defer close(o.done)
		_, err := stdcopy.StdCopy(out, errOut, stream)
		for _, e := range []error{out.err, errOut.err, err} {
			if e != nil {
				o.err = fmt.Errorf("pass on the program's output: %w", e)
				return
			}
		}
	}()
	return o
}

// close ends reading, whether or not the stream has ended.
func (o *output) close() { o.once.Do(o.hangUp) }

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
