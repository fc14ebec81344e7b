package guard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// argument is by which this program is started as a guard process.
const argument = "guard-the-knobs-of-annexd"

// processName is what it is called: by the file that it is started from it would be exe.
const processName = "annexd-guard"

// watcher is the guard process, as its daemon sees it.
type watcher struct {
	command *exec.Cmd
	pipe    *os.File // its end is the daemon's
	note    string
	died    chan struct{} // closed when it has ended, and was waited for
	why     error         // then: why
	deaf    error         // why it does not hear what it is told
}

// Start-up of a program that is in memory takes milliseconds.
const startWithin = 30 * time.Second

// watch starts a guard process, and waits until it watches.
func watch(ctx context.Context, o Options, lock *os.File) (*watcher, error) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	answers, answer, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	defer answer.Close()
	// The program that is running, should its file have been replaced.
	command := exec.Command("/proc/self/exe")
	command.Args = append([]string{processName, argument, o.Journal, o.Lease.String()}, o.Roots...)
	// A small program: one CPU's worth of the runtime, and nothing of the daemon's.
	command.Env = []string{"GOMAXPROCS=1", "GOGC=50"}
	command.Dir = "/"
	command.ExtraFiles = []*os.File{theirs, answer, lock}
	// A session of its own: what is sent to the daemon's group does not reach it.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the guard process: %w", err), ours.Close(), answers.Close())
	}
	answer.Close() // or its end would not show
	w := &watcher{command: command, pipe: ours, died: make(chan struct{})}
	ready := make(chan string, 1)
	go w.listen(answers, ready)
	timer := time.NewTimer(startWithin)
	defer timer.Stop()
	select {
	case w.note = <-ready:
		return w, nil
	case <-w.died:
		err = fmt.Errorf("starting the guard process: it ended (%w)", w.why)
	case <-ctx.Done():
		err = fmt.Errorf("starting the guard process: %w", ctx.Err())
	case <-timer.C:
		err = fmt.Errorf("starting the guard process: it says nothing for %v: does the program call guard.Main first?", startWithin)
	}
	_ = command.Process.Kill()
	w.release()
	return nil, err
}

// listen hears what the guard process says, and its end.
func (w *watcher) listen(answers *os.File, ready chan<- string) {
	defer close(w.died)
	lines := bufio.NewReader(answers)
	if text, err := lines.ReadString('\n'); err == nil {
		if note, ok := strings.CutPrefix(strings.TrimSpace(text), readyWord); ok {
			ready <- strings.TrimSpace(note)
		}
	}
	_, _ = io.Copy(io.Discard, lines) // until its end
	_ = answers.Close()
	if w.why = w.command.Wait(); w.why == nil {
		w.why = errors.New("it exited")
	}
}

// alive tells that it is there.
func (w *watcher) alive() error {
	select {
	case <-w.died:
		return &Unguarded{w.why.Error()}
	default:
	}
	if w.deaf != nil {
		return &Unguarded{w.deaf.Error()}
	}
	return nil
}

// heardWithin is how long a guard process that reads nothing, since it was stopped, may
// keep the daemon waiting. The pipe holds some hundred changes.
const heardWithin = 100 * time.Millisecond

// tell hands it a line of the journal, by which it counts the time of a momentary change.
// For the end it reads the journal itself.
func (w *watcher) tell(line []byte) {
	err := w.pipe.SetWriteDeadline(time.Now().Add(heardWithin))
	if err == nil {
		_, err = w.pipe.Write(line)
	}
	if err != nil {
		w.deaf = fmt.Errorf("it cannot be told of changes: %w", err)
	}
}

// release closes the pipe, on which it ends, and waits for that.
func (w *watcher) release() {
	if w.deaf != nil {
		_ = w.command.Process.Kill() // it may never read the end either
	}
	_ = w.pipe.Close()
	<-w.died
}
