package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tare/platform"
)

// program is one that had ended before it could be taken hold of.
func program(patience time.Duration, exited chan Ending) *Program {
	r := &Requests{Patience: patience, Brief: patience, Engine: func() string { return "the engine" }}
	p := NewProgram(r, platform.Spec{Args: []string{"true"}}, "tare-test")
	p.Exited = exited
	return p
}

func TestWatchTakesTheEnginesAnswer(t *testing.T) {
	exited := make(chan Ending, 1)
	p := program(time.Hour, exited)
	p.Began = time.Now()
	exited <- Ending{Code: 3, At: p.Began.Add(time.Minute)}
	p.Watch()
	exit, err := p.Wait(t.Context())
	if err != nil || exit.Code != 3 || exit.Elapsed != time.Minute {
		t.Errorf("%+v, %v; want status 3 after a minute", exit, err)
	}
}

func TestWatchAsksForTheRecordedExit(t *testing.T) {
	p := program(300*time.Millisecond, nil)
	p.RecordedExit = func() (int, bool) { return 7, true }
	p.Watch()
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 7 {
		t.Errorf("%+v, %v; want status 7", exit, err)
	}
}

func TestWatchGivesUpASilentEngine(t *testing.T) {
	p := program(10*time.Millisecond, nil)
	p.Watch()
	_, err := p.Wait(t.Context())
	if !errors.Is(err, platform.ErrGone) || !strings.Contains(err.Error(), "container tare-test has ended, and the engine has not said so for 10ms") {
		t.Errorf("%v", err)
	}
	if !p.Requests.Lost.Load() {
		t.Error("the engine is not marked as lost")
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	p := program(time.Hour, nil)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Wait(over); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want one that wraps context.Canceled", err)
	}
}

// A writer that fails does not stop the program, and its error is reported once.
func TestOutputReportsTheWritersError(t *testing.T) {
	broken := errors.New("broken")
	o := NewOutput(failing{broken}, nil)
	o.Follow(func() error {
		stdout, stderr := o.Writers()
		for range 2 {
			if n, err := stdout.Write([]byte("text")); n != 4 || err != nil {
				t.Errorf("wrote %d, %v", n, err)
			}
		}
		_, err := stderr.Write([]byte("discarded"))
		return err
	}, func() {})
	p := program(time.Hour, nil)
	p.Output = o
	if err := p.awaitOutput(); !errors.Is(err, broken) {
		t.Errorf("%v, want the writer's error", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
