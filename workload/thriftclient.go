package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tare/load"
)

// loadByPython loads the service by S4's client, which counts its latencies itself.
func (plan thriftPlan) loadByPython(ctx context.Context, t Trial, o load.Options) (load.Result, error) {
	printed, err := t.Generate(ctx, plan.pythonArgs(t.Address(plan.port), o))
	if err != nil {
		if ctx.Err() != nil {
			return load.Result{}, context.Cause(ctx) // which ended the client, too
		}
		return load.Result{}, fmt.Errorf("thrift's client in Python: %w", err)
	}
	r, err := parseThriftClient(printed)
	if err != nil {
		return load.Result{}, fmt.Errorf("output of thrift's client in Python: %w; its end: %s", err, ending(printed))
	}
	return r, nil
}

// sustainByPython has the client at its work, a second at a time, until ctx ends.
func (plan thriftPlan) sustainByPython(ctx context.Context, t Trial) error {
	o := load.Options{Duration: time.Second}
	return whileServing(ctx, t, func(serving context.Context) error {
		for {
			r, err := plan.loadByPython(serving, t, o)
			switch {
			case serving.Err() != nil:
				return nil
			case err != nil:
				return err
			case r.Failed() > 0 || r.Requests == 0:
				return fmt.Errorf("while it was watched: %w", tooManyErrors(r))
			}
		}
	})
}

// thriftTally is what the client prints.
type thriftTally struct {
	Latencies  [][2]int64 `json:"latencies_us"` // pairs of microseconds and how many took them, sorted
	Requests   int64
	Errors     map[string]int64
	FirstError string `json:"first_error"`
	Seconds    float64
}

// mostTallied bounds what is believed of a client: what nobody could have waited for.
const (
	mostTallied      = 1 << 50 // requests
	mostTallySeconds = 1e7
)

// parseThriftClient reads what the client prints, and holds it to itself. A closed
// loop has no schedule, so that there is one latency of each request and no
// lateness.
func parseThriftClient(printed []byte) (r load.Result, err error) {
	var tally thriftTally
	if err := json.Unmarshal(printed, &tally); err != nil {
		return r, err
	}
	if !(tally.Seconds >= 0 && tally.Seconds <= mostTallySeconds) || tally.Requests < 0 ||
		tally.Requests > mostTallied {
		return r, fmt.Errorf("%d requests in %v s cannot be", tally.Requests, tally.Seconds)
	}
	r = load.Result{
		Corrected:   load.NewHistogram(),
		Uncorrected: load.NewHistogram(),
		Lateness:    load.NewHistogram(),
		Queued:      load.NewHistogram(),
		Requests:    tally.Requests,
		Errors:      map[string]int64{},
		Elapsed:     time.Duration(tally.Seconds * float64(time.Second)),
	}
	var counted int64
	before := int64(-1)
	for _, pair := range tally.Latencies {
		micros, count := pair[0], pair[1]
		if micros <= before || count < 1 || count > tally.Requests-counted {
			return r, fmt.Errorf("%d latencies of %d us after %d of %d requests cannot be", count, micros, counted, tally.Requests)
		}
		before, counted = micros, counted+count
		micros = min(micros, r.Corrected.HighestTrackableValue())
		err := errors.Join(r.Corrected.RecordValues(micros, count), r.Uncorrected.RecordValues(micros, count))
		if err != nil {
			return r, err
		}
	}
	if counted != tally.Requests {
		return r, fmt.Errorf("latencies of %d of %d requests", counted, tally.Requests)
	}
	for kind, count := range tally.Errors {
		if count < 1 || count > mostTallied {
			return r, fmt.Errorf("%d errors of kind %q cannot be", count, kind)
		}
		r.Errors[kind] = count
		if r.FirstError == nil {
			// An example, of whichever kind it was.
			r.FirstError = errors.New(tally.FirstError)
		}
	}
	if r.Elapsed > 0 {
		r.Rate = float64(r.Requests) / r.Elapsed.Seconds()
	}
	return r, nil
}
