package box

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"tare/annex/control"
	"tare/kernel/process"
)

// extender is a daemon that runs.
type extender struct {
	process.Identity
	dir    string
	client *control.Client
	ended  chan struct{}
	err    error // how it ended; after ended
}

// startExtender starts the daemon of a directory. It ends with this program, however that
// ends.
func startExtender(program, dir string) (*extender, error) {
	said, err := os.OpenFile(filepath.Join(dir, saidFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer said.Close()
	e := &extender{dir: dir, client: control.Dial(filepath.Join(dir, socketFile)), ended: make(chan struct{})}
	cmd := exec.Command(program, "--config", filepath.Join(dir, configFile))
	// A file, and no pipe: its guard may outlive it for a moment, with its output in hand.
	cmd.Stdout, cmd.Stderr = said, said
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go func() {
		// The signal at the parent's death is sent at the death of the thread that started
		// the process (prctl(2)): this one lives as long. Where it goes ahead of ordinary
		// programs the kernel resets that on fork ([process.Ahead]).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			if err = e.identify(cmd.Process.Pid); err != nil {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		}
		started <- err
		if err != nil {
			return
		}
		e.err = cmd.Wait()
		close(e.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return e, nil
}

// identify writes down who the daemon is, for who removes it after a crash.
func (e *extender) identify(pid int) (err error) {
	if e.Identity, err = process.Identify(pid); err != nil {
		return err
	}
	id, start := e.Strings()
	return os.WriteFile(filepath.Join(e.dir, pidFile), []byte(id+" "+start+"\n"), 0o600)
}

const (
	readyPause   = 20 * time.Millisecond // between two looks whether the daemon answers
	reapedWithin = time.Second
)

// ready waits until the daemon answers, and is past its start.
func (e *extender) ready(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(readyPause)
	defer tick.Stop()
	for {
		if err := e.over(); err != nil {
			return err
		}
		s, err := e.client.Status(limited)
		switch {
		case err == nil && s.State != control.Starting:
			return nil
		case errors.As(err, new(*control.Mismatch)):
			return err
		case err == nil:
			err = fmt.Errorf("it is still %s", s.State)
		}
		select {
		case <-tick.C:
		case <-e.ended:
		case <-limited.Done():
			return fmt.Errorf("%s does not manage the box within %v: %w%s", Extender, readyWithin, err, e.said())
		}
	}
}

// extenderEnded says that the daemon is no more.
type extenderEnded struct{ why, said string }

func (e *extenderEnded) Error() string {
	return fmt.Sprintf("%s has ended: %s%s", Extender, e.why, e.said)
}

// status asks the daemon. The error is an [*extenderEnded] where there is none any more.
func (e *extender) status(ctx context.Context) (control.Status, error) {
	if err := e.over(); err != nil {
		return control.Status{}, err
	}
	limited, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	s, err := e.client.Status(limited)
	if err != nil {
		// It may be the daemon, and not the answer, that came to an end: it is reaped in a
		// moment then.
		select {
		case <-e.ended:
			return s, e.over()
		case <-time.After(reapedWithin):
		}
		return s, fmt.Errorf("ask %s how it stands: %w", Extender, err)
	}
	return s, nil
}

// over tells how the daemon ended; nil where it goes on.
func (e *extender) over() error {
	select {
	case <-e.ended:
	default:
		return nil
	}
	why := "by itself"
	if e.err != nil {
		why = e.err.Error()
	}
	return &extenderEnded{why, e.said()}
}

// end has the daemon end, and waits until it is reaped.
func (e *extender) end(ctx context.Context) error {
	e.client.Close()
	if err := endProcess(ctx, e.Identity, endsWithin); err != nil {
		return fmt.Errorf("end %s: %w", Extender, err)
	}
	select {
	case <-e.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lastWords bounds what is reported of the daemon's output.
const lastWords = 300

// said is the end of what the daemon said, on one line.
func (e *extender) said() string {
	text, err := os.ReadFile(filepath.Join(e.dir, saidFile))
	if err != nil || len(text) == 0 {
		return ""
	}
	words := strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "?")), " ")
	if len(words) > lastWords {
		words = "... " + strings.ToValidUTF8(words[len(words)-lastWords:], "")
	}
	return ": " + words
}
