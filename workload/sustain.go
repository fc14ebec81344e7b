package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tare/load"
)

// A load that goes on until its context ends is bounded by what it may be bounded by.
const sustainFor = 1000 * time.Hour

// sustain loads a service until ctx ends. The first request that is not answered
// rightly ends it: what is seen of a service that answers wrongly is of no use, and
// is better known at once than after minutes.
func sustain(ctx context.Context, t Trial, target load.Target, o load.Options) error {
	return sustainTolerant(ctx, t, target, o, 0)
}

// sustainTolerant is sustain where a share of the requests may fail, which can be
// judged at the end alone.
func sustainTolerant(ctx context.Context, t Trial, target load.Target, o load.Options, errorShare float64) error {
	return whileServing(ctx, t, func(serving context.Context) error {
		loading, stop := context.WithCancelCause(serving)
		defer stop(nil)
		if errorShare == 0 {
			target = strict{target, loading, stop}
		}
		o.Warmup, o.Duration, o.Count = 0, sustainFor, 0
		result, err := load.Run(loading, target, o)
		switch cause := context.Cause(loading); {
		case cause != nil && cause != context.Cause(serving):
			return cause // a failed request, be it just before the end
		case serving.Err() == nil:
			return err // wrong options
		case ctx.Err() == nil:
			return context.Cause(serving) // the service's own end
		}
		answered, failed := result.Requests, result.Failed()
		switch {
		case answered+failed == 0:
			return errors.New("not one request was answered: it was not at work while it was watched")
		case float64(failed) > errorShare*float64(failed+answered):
			return fmt.Errorf("while it was watched: %w", tooManyErrors(result))
		}
		return nil
	})
}

// strict ends a load by its first failed request.
type strict struct {
	load.Target
	loading context.Context
	stop    context.CancelCauseFunc
}

func (s strict) Open(ctx context.Context) (load.Conn, error) {
	conn, err := s.Target.Open(ctx)
	if err != nil {
		s.failed(err)
		return nil, err
	}
	return strictConn{conn, s}, nil
}

// failed tells of a failure; what the end of the load itself cut off is none.
func (s strict) failed(err error) {
	if s.loading.Err() == nil {
		s.stop(fmt.Errorf("a request failed: %w", err))
	}
}

type strictConn struct {
	load.Conn
	of strict
}

func (c strictConn) Do(deadline time.Time) (reusable bool, err error) {
	if reusable, err = c.Conn.Do(deadline); err != nil {
		c.of.failed(err)
	}
	return reusable, err
}

// reads reads how much of a mix reads.
func (from *parameters) reads(usual int64) int64 {
	return from.whole("reads", usual, 0, 100, "percent of the operations that read a record, RANGE; the others update one")
}

// loadingMetric is the time in which a service was given its data before it counted
// as ready.
func loadingMetric() Metric {
	return Metric{Name: "loading", Unit: "s", Better: Lower, Doc: "of the data, before the service counted as ready"}
}

// loaded times a service's being given its data, and records that.
func loaded(t Trial, fill func() error) error {
	began := time.Now()
	if err := fill(); err != nil {
		return fmt.Errorf("give it its data: %w", err)
	}
	t.Record("loading", time.Since(began).Seconds())
	return nil
}
