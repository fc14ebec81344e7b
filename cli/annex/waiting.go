package annex

import (
	"fmt"
	"io"
	"sync"
	"time"

	"tare/terminal"
)

// How a terminal is told what a long run is at: from when on, and how often.
const (
	waitingFrom  = 3 * time.Second
	waitingEvery = time.Second
)

// waiting is one line on a terminal, written over, that tells for how long something runs and
// what it is at. What is over soon has none, and neither has what is no terminal.
type waiting struct {
	out   io.Writer
	width func() int
	stop  chan struct{}
	ended chan struct{}

	mu sync.Mutex
	at string
}

// wait begins to tell on the terminal behind a writer, if there is one. end takes the line
// away, and may be called again.
func wait(errOut io.Writer) (w *waiting, end func()) {
	if _, _, live := terminal.Size(errOut); !live {
		return &waiting{}, func() {}
	}
	return waitOn(errOut, func() int { width, _, _ := terminal.Size(errOut); return width })
}

// waitOn is wait on what is a terminal.
func waitOn(out io.Writer, width func() int) (w *waiting, end func()) {
	w = &waiting{out: out, width: width, stop: make(chan struct{}), ended: make(chan struct{})}
	go w.run()
	return w, sync.OnceFunc(func() { close(w.stop); <-w.ended })
}

// tell says what it is at.
func (w *waiting) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = fmt.Sprintf(format, args...)
}

func (w *waiting) run() {
	defer close(w.ended)
	began := time.Now()
	due := time.NewTimer(waitingFrom)
	defer due.Stop()
	for drawn := false; ; drawn = true {
		select {
		case <-w.stop:
			if drawn {
				terminal.Overwrite(w.out, "", 0)
			}
			return
		case <-due.C:
		}
		w.mu.Lock()
		text := spanOf(time.Since(began)) + "  " + w.at
		w.mu.Unlock()
		terminal.Overwrite(w.out, text, w.width())
		due.Reset(waitingEvery)
	}
}

// spanOf is for how long something runs: "42s", "2m05s".
func spanOf(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}
