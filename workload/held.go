package workload

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// The parameter by which a batch program can be watched: it then goes on, or holds
// what it has mapped, where it would have ended.
const (
	untilExit   = "exit"
	untilSignal = "signal"
)

// until tells whether the program is to go on.
func (from *parameters) until(usual, help string) (held bool) {
	return from.word("until", usual, help, untilExit, untilSignal) == untilSignal
}

// unweighable says why a program that does not end by itself is not weighed.
func unweighable(name string) error {
	return fmt.Errorf("%s is to wait for a signal (until=signal), so that it can be watched; to be weighed it must end: use until=exit", name)
}

// workWithin bounds what a batch program does until it is ready: on one CPU that
// several share, hundreds of megabytes are made and gone through.
const workWithin = 10 * time.Minute

// awaitLine waits until the program has printed a whole line that check takes.
// A line that is there and wrong is not waited for: it ends the wait, as the
// program's own end does.
func awaitLine(ctx context.Context, t Trial, what string, check func(line []byte) error) error {
	var wrong error
	err := whileServing(ctx, t, func(ctx context.Context) error {
		return awaitReady(ctx, workWithin, what, func(context.Context) error {
			stdout, _ := t.Output()
			line, _, whole := bytes.Cut(stdout, []byte{'\n'})
			if !whole {
				return fmt.Errorf("it has printed %d bytes and no line", len(stdout))
			}
			wrong = check(line)
			return nil
		})
	})
	if err != nil {
		return err
	}
	return wrong
}

// untilDone waits for ctx while a program is to go on by itself; its end before
// then is the error.
func untilDone(ctx context.Context, t Trial) error {
	err := whileServing(ctx, t, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
