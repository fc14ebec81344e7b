package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Ended says that a program ended otherwise than it should have.
type Ended struct {
	Exit      Exit
	Service   bool   // it should have gone on
	LastWords string // the end of what it printed
}

func (e *Ended) Error() string {
	var what string
	switch {
	case e.Exit.OOMKilled:
		what = "the kernel killed the program for its memory limit; give it more memory"
	case e.Service:
		what = fmt.Sprintf("the service ended by itself, with status %d", e.Exit.Code)
	default:
		what = fmt.Sprintf("the program ended with status %d", e.Exit.Code)
	}
	if e.LastWords == "" {
		return what + " and printed nothing"
	}
	return what + "; its last words: " + e.LastWords
}

// finish waits until a batch program ends, and is an error unless it ended well.
func finish(ctx context.Context, t Trial) (Exit, error) {
	exit, err := t.Wait(ctx)
	if err != nil {
		return exit, fmt.Errorf("wait for the program: %w", err)
	}
	if exit.Code != 0 || exit.OOMKilled {
		return exit, &Ended{Exit: exit, LastWords: lastWords(t)}
	}
	return exit, nil
}

// whileServing runs do while a service runs. Where the service ends by itself
// do's context is cancelled, and the error is an *Ended: also where do did its
// work nevertheless, since then something else must have answered it, such as
// a foreign service on the same port. Where do failed, a service that ends within
// endGrace is why: what a dying program refuses is seen before its end is.
func whileServing(ctx context.Context, t Trial, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	done := errors.New("driven")
	ended := make(chan error, 1)
	go func() {
		exit, err := t.Wait(ctx)
		switch {
		case ctx.Err() != nil:
			ended <- nil
			return
		case err != nil:
			err = fmt.Errorf("watch the service: %w", err)
		default:
			err = &Ended{Exit: exit, Service: true, LastWords: lastWords(t)}
		}
		cancel(err)
		ended <- err
	}()
	err := do(ctx)
	if err != nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(endGrace):
		}
	}
	cancel(done)
	if end := <-ended; end != nil {
		return end
	}
	return err
}

// endGrace is how much later than the failure of a request the end of the service
// that caused it may be seen.
const endGrace = 250 * time.Millisecond

// How often a service is asked whether it is ready: soon at first, since many
// are ready within milliseconds, then ever more rarely, to leave it the CPU. So
// an answer is late by 5 % of what it measures, or a millisecond, at most.
const (
	leastPause = time.Millisecond
	pauseShare = 20          // of the time since the first question
	probeLimit = time.Second // of one question
)

// readyLimit is the key of WithReadyLimit's value.
type readyLimit struct{}

// WithReadyLimit has [Readier.Ready] wait so long, in place of the workload's own
// limit.
func WithReadyLimit(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, readyLimit{}, limit)
}

// awaitReady asks until the answer is nil, at most for limit.
func awaitReady(ctx context.Context, limit time.Duration, what string, ask func(ctx context.Context) error) error {
	if asked, ok := ctx.Value(readyLimit{}).(time.Duration); ok {
		limit = asked
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	end, _ := bounded.Deadline()
	var last error
	for first := time.Now(); ; {
		once, stop := context.WithTimeout(bounded, probeLimit)
		err := ask(once)
		stop()
		if err == nil {
			return nil
		}
		// What the end of the time cut off is no answer, where there was one.
		if last == nil || bounded.Err() == nil && time.Now().Before(end) {
			last = err
		}
		select {
		case <-time.After(max(leastPause, time.Since(first)/pauseShare)):
		case <-bounded.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("wait until %s: %w; last answer: %w", what, context.Cause(ctx), last)
			}
			return fmt.Errorf("not ready after %v (%s): %w", limit, what, last)
		}
	}
}

// lastWords is the end of what a program printed, on one line.
func lastWords(t Trial) string {
	stdout, stderr := t.Output()
	if words := tail(stderr); words != "" {
		return words
	}
	return tail(stdout)
}

// tail is the last few lines, on one.
func tail(output []byte) string {
	const lines, bytesEach = 3, 200
	var last []string
	all := bytes.FieldsFunc(output, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := len(all) - 1; i >= 0 && len(last) < lines; i-- {
		line := bytes.TrimSpace(all[i])
		if len(line) == 0 {
			continue
		}
		last = append([]string{strings.ToValidUTF8(string(line[:min(len(line), bytesEach)]), "?")}, last...)
	}
	return strings.Join(last, " | ")
}
