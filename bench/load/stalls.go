package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/load"
	"tare/stats"
)

// Of the stalling server: one request in stallEvery takes stallLength, which
// holds back the 100 that are due meanwhile at stallRate: some 2.5 %.
const (
	stallEvery  = 4000
	stallLength = 100 * time.Millisecond
	stallRate   = 1000
)

// stalls compares an open loop's latencies over one connection with what the
// schedule and the server's own spans come to: each request begins when it is
// due or when the one before has been answered, whichever is later, as wrk2
// accounts for it.
func (b *bench) stalls(ctx context.Context) (err error) {
	s, err := startServer(
		b.server,
		behaviour{delay: b.delay, poll: true, every: stallEvery, stall: stallLength, realtime: b.realtime},
	)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	quantiles := []float64{50, 90, 99, 99.9}
	ratios := map[string][]float64{}
	count := 0
	for range b.repetitions {
		var span time.Duration
		var spans []time.Duration
		var result load.Result
		target := load.HTTP{
			Address: s.address,
			Dial:    load.Polling(nil, load.LongestPoll),
			Next: func() load.HTTPRequest {
				return load.HTTPRequest{Check: func(body []byte) (err error) { span, err = spanOf(body); return err }}
			},
		}
		o := load.Options{
			Rate:        stallRate,
			Punctual:    b.realtime,
			Connections: 1,
			Count:       stallEvery + stallEvery/10,
			Each:        func(load.Answered) { spans = append(spans, span) },
		}
		err := b.calm(ctx, func() (err error) {
			spans = nil
			result, err = load.Run(ctx, target, o)
			if err == nil && result.Failed() > 0 {
				err = result.FirstError
			}
			return err
		})
		if err != nil {
			return err
		}
		truth := accounted(load.Moments(load.Uniform, o.Rate, len(spans), 0), spans)
		for _, q := range quantiles {
			of := fmt.Sprintf("p%g", q)
			ratios["corrected "+of] = append(
				ratios["corrected "+of],
				float64(result.Corrected.ValueAtPercentile(q))/float64(truth.ValueAtPercentile(q)),
			)
			ratios["uncorrected "+of] = append(
				ratios["uncorrected "+of],
				float64(result.Uncorrected.ValueAtPercentile(q))/float64(truth.ValueAtPercentile(q)),
			)
		}
		count += len(spans)
	}
	fmt.Fprintln(b.table, "figure\tratio\t95 % interval\tn")
	for _, kind := range []string{"corrected", "uncorrected"} {
		for _, q := range quantiles {
			of := fmt.Sprintf("%s p%g", kind, q)
			e := stats.GeometricMean(ratios[of], 0.95, b.seed)
			fmt.Fprintf(b.table, "%s to that by arithmetic\t%.4f\t%.4f to %.4f\t%d in %d\n", of, e.Value, e.Interval.Low, e.Interval.High, count, b.repetitions)
		}
	}
	return nil
}

// accounted is the histogram, in microseconds, of the latencies that the
// intended moments and the spans of requests over one connection come to.
func accounted(intended, spans []time.Duration) *hdrhistogram.Histogram {
	h := load.NewHistogram()
	var free time.Duration
	for i, at := range intended {
		free = max(free, at) + spans[i]
		// Cannot fail: the latencies lie within the histogram's hour.
		_ = h.RecordValue(max(1, (free - at).Microseconds()))
	}
	return h
}
