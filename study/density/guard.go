package density

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tare/platform"
	"tare/report"
)

// watchEvery is how often a box is looked after while a step goes on: a box that fills
// at a gigabyte a second has then a few left of the share of the host at which a reading
// calls it in danger. Of one that looks after itself that often it is to be heard soon.
const (
	watchEvery = time.Second
	hearEvery  = 100 * time.Millisecond
)

// thrashShare is the share of the first step's throughput below which a service is said
// to thrash: S3's stood still by then, and steps beyond take ever longer and give no figures.
const thrashShare = 0.1

// overtime is the cause by which a step is ended that takes too long.
type overtime struct{ limit time.Duration }

func (o *overtime) Error() string {
	return fmt.Sprintf("the step took longer than %v (--step-limit)", o.limit)
}

// guarded is a step's context: it ends when the box is in danger, or puts the host in
// danger, and when its time is over. release gives back what watches.
//
// A box that is watched is not read meanwhile: the accounts of thirty groups take 10 to 20
// milliseconds, which the client, that goes before all other programs, would have the service wait
// for, once a second.
func guarded(ctx context.Context, box platform.Box, limit, every time.Duration) (_ context.Context, release func()) {
	if _, ok := box.(platform.Watched); ok {
		every = min(every, hearEvery)
	}
	timed, cancelTime := context.WithTimeoutCause(ctx, limit, &overtime{limit})
	watched, cancel := context.WithCancelCause(timed)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			select {
			case <-watched.Done():
				return
			case <-ticks.C:
			}
			if danger := endangered(watched, box); danger != nil {
				cancel(danger)
				return
			}
		}
	}()
	return watched, func() {
		cancel(nil)
		cancelTime()
		<-done
	}
}

// endangered is what endangers a box or the host; nil is nothing.
func endangered(ctx context.Context, box platform.Box) *platform.Endangered {
	if w, ok := box.(platform.Watched); ok {
		return w.Danger()
	}
	_, err := box.Read(ctx)
	danger := (*platform.Endangered)(nil)
	_ = errors.As(err, &danger)
	return danger
}

// errKilled is a program of the box that the OOM killer ended.
var errKilled = errors.New("the kernel killed a program because memory ran out (OOM)")

// stopped says why what came of a part of a step ends the sweep and not the trial: because
// there is not enough memory, which is what was looked for. It is empty where the error is
// one. kills are those of that step; for them there need not be an error.
func stopped(step context.Context, err error, kills int64) string {
	cause := context.Cause(step)
	if danger := (*platform.Endangered)(nil); errors.As(cause, &danger) || errors.As(err, &danger) {
		return danger.Error()
	}
	if over := (*overtime)(nil); errors.As(cause, &over) {
		return over.Error()
	}
	if kills > 0 {
		if err == nil {
			return errKilled.Error()
		}
		return fmt.Sprintf("%v: %v", errKilled, err)
	}
	if errors.Is(err, errUnanswered) {
		return fmt.Sprintf("it thrashes: %v", err)
	}
	return ""
}

// thrashes says that a step's throughput is next to nothing against the first's; empty
// where it is not.
func thrashes(first, now Step) string {
	if now.Closed.Rate >= thrashShare*first.Closed.Rate {
		return ""
	}
	return fmt.Sprintf("it thrashes: %s requests/s, under a tenth of the %.0f with %s",
		report.Rounded(now.Closed.Rate, 3), first.Closed.Rate, report.Counted(first.Neighbours, "neighbour"))
}

// kills counts the programs that the kernel killed in the box.
func kills(r platform.BoxReading) int64 {
	var n int64
	for _, c := range r.Classes {
		n += c.OOMKills
	}
	return n
}
