package agent

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// fetched is one stream of a program's output, on its way to who wants it.
type fetched struct {
	to     io.Writer
	cancel context.CancelFunc

	mu      sync.Mutex
	changed chan struct{} // closed, and made anew, whenever n or over changes
	n       int64         // bytes handed on
	over    bool
	broke   error // of the way
	failed  error // the writer's first
}

func newFetched(to io.Writer) *fetched { return &fetched{to: to, changed: make(chan struct{})} }

// copy hands on until the end. A writer that fails must not stop the program: the rest
// is read and dropped, and the error kept.
func (f *fetched) copy(from io.Reader) error {
	piece := make([]byte, 64<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			f.hand(piece[:n])
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (f *fetched) hand(piece []byte) {
	f.mu.Lock()
	failed := f.failed
	f.mu.Unlock()
	if failed == nil {
		if _, err := f.to.Write(piece); err != nil {
			failed = fmt.Errorf("handing on a program's output: %w", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = failed
	f.n += int64(len(piece))
	f.announce()
}

func (f *fetched) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fetched) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over, f.broke = true, err
	f.announce()
}

// until waits until n bytes have been handed on. It gives the writer's error, or the
// way's where that broke before.
func (f *fetched) until(ctx context.Context, n int64) error {
	if f == nil {
		return nil
	}
	for {
		f.mu.Lock()
		have, over, broke, failed, changed := f.n, f.over, f.broke, f.failed, f.changed
		f.mu.Unlock()
		switch {
		case have >= n:
			return failed
		case over && broke != nil:
			return broke
		case over:
			return fmt.Errorf("of %d bytes that the program printed %d came", n, have)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// rest waits for the end, after a stop; what went wrong with the output is Wait's to
// say. Where the time ends before it, the way is cut.
func (f *fetched) rest(ctx context.Context) error {
	if f == nil {
		return nil
	}
	for {
		f.mu.Lock()
		over, changed := f.over, f.changed
		f.mu.Unlock()
		if over {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			f.cancel()
			return ctx.Err()
		}
	}
}
