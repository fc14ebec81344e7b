package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Output is where a command prints. It keeps the first error of printing, which a command
// need not look at: one whose output did not all arrive fails.
type Output struct {
	to  io.Writer
	err error
}

// Write prints. Its error says that the output is not complete, so that it says the same from
// a command that returns it as from one that does not look at it.
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		err = fmt.Errorf("the output is not complete: %w", err)
	}
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// File is the file that is printed to, if it is one: a terminal, say.
func (o *Output) File() (f *os.File, ok bool) {
	f, ok = o.to.(*os.File)
	return f, ok
}

// incomplete tells why not all was printed. That its reader has left is no failure.
func (o *Output) incomplete() error {
	if o.err == nil || errors.Is(o.err, syscall.EPIPE) {
		return nil
	}
	return o.err
}
