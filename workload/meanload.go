package workload

import (
	"context"
	"time"

	"tare/load"
)

// meanLatencyMetrics are what S2 reported of a service: the mean of its response times,
// which carries the verdict, and what that hides.
func meanLatencyMetrics() []Metric {
	quantile := func(name string, q float64) Metric {
		m := latencyMetric(q)
		m.Name = name
		return m
	}
	return []Metric{
		{Name: "mean", Unit: "us", Better: Lower, Primary: true, Doc: "latency from the intended moment, mean of a trial"},
		quantile("p50", 0.5), quantile("p99", 0.99),
	}
}

// recordMeanLoad records those, and the throughput.
func recordMeanLoad(t Trial, r load.Result) {
	recordLoad(t, &r)
	t.Record("mean", r.Corrected.Mean())
	t.Record("throughput", r.Rate)
}

// answered is an error unless every request of a load was answered rightly.
func answered(r load.Result, err error) error {
	if err == nil && (r.Requests == 0 || r.Failed() > 0) {
		err = tooManyErrors(r)
	}
	return err
}

// restFor is several periods of a CPU quota, which a warm-up has used up; and time for
// what it has left to be written and compiled.
const restFor = time.Second

// rest leaves a service alone between its warm-up and what is measured: S2's bursts
// came upon services that had nothing else to do.
func rest(ctx context.Context) error {
	select {
	case <-time.After(restFor):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
