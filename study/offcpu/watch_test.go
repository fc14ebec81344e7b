package offcpu

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"tare/container"
	"tare/probe/causes"
)

type watcher struct{ span time.Duration }

func (w watcher) Stop() (causes.Reading, error) { return causes.Reading{Span: w.span}, nil }

// running is a process that goes on until its test is over.
func running(t *testing.T) (*exec.Cmd, container.Container) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, container.Container{Engine: container.Process, ID: strconv.Itoa(cmd.Process.Pid), Name: "sleep", PID: cmd.Process.Pid}
}

func TestWatchEndsWithTheProgram(t *testing.T) {
	cmd, c := running(t)
	w, err := Watch(t.Context(), c, Longest, true, func(target causes.Target, o causes.Options) (Watcher, error) {
		if len(target.PIDs) != 1 || target.PIDs[0] != c.PID || !o.Stacks || !o.Weigh {
			t.Errorf("watches %+v with %+v", target, o)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return watcher{2 * time.Second}, nil
	})
	if err != nil || len(w.Notes) != 1 || w.Notes[0] != "it ended after 2 s of 1 h" {
		t.Errorf("%+v, %v", w, err)
	}
	var ended *container.Ended
	if _, err := Watch(t.Context(), c, time.Second, false, nil); !errors.As(err, &ended) {
		t.Errorf("a program that had ended: %v", err)
	}
}

// What fails because the program has just ended says so, and nothing of probes.
func TestWatchOfWhatEndsMeanwhile(t *testing.T) {
	cmd, c := running(t)
	_, err := Watch(t.Context(), c, time.Second, false, func(causes.Target, causes.Options) (Watcher, error) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, errors.New("no such process")
	})
	var ended *container.Ended
	if !errors.As(err, &ended) {
		t.Error(err)
	}
}

func TestWatchThatIsStopped(t *testing.T) {
	_, c := running(t)
	why := errors.New("stopped by the test")
	for span, wants := range map[time.Duration]bool{time.Second: true, time.Millisecond: false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		w, err := Watch(ctx, c, Longest, false, func(causes.Target, causes.Options) (Watcher, error) {
			cancel(why)
			return watcher{span}, nil
		})
		if wants && (err != nil || len(w.Notes) != 1) || !wants && !errors.Is(err, why) {
			t.Errorf("after %v: %+v, %v", span, w, err)
		}
	}
	if _, err := Watch(t.Context(), c, time.Millisecond, false, nil); err == nil {
		t.Error("watched for less than it takes")
	}
}

func TestTareIsNotItsOwnSubject(t *testing.T) {
	parent := container.Container{Engine: container.Process, ID: strconv.Itoa(os.Getpid()), Name: "parent", PID: os.Getpid()}
	cmd, _ := running(t)
	target, err := targetOf(parent)
	if err != nil || len(target.PIDs) == 0 {
		t.Fatalf("%+v, %v", target, err)
	}
	found := false
	for _, pid := range target.PIDs {
		found = found || pid == cmd.Process.Pid
		if pid == os.Getpid() {
			t.Error("it watches itself")
		}
	}
	if !found {
		t.Errorf("%v lacks %d", target.PIDs, cmd.Process.Pid)
	}
}
