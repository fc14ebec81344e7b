package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/load"
)

// lateness loads a fast server in an open loop.
func (b *bench) lateness(ctx context.Context) (err error) {
	s, err := startServer(b.server, behaviour{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	for _, connections := range []int{1, load.DefaultConnections} {
		target, punctual := load.HTTP{Address: s.address}, false
		what := fmt.Sprintf("lateness at %g/s over %d connections", b.rate, connections)
		if connections == 1 {
			target.Dial, punctual = load.Polling(nil, load.LongestPoll), b.realtime
			what = fmt.Sprintf("lateness at %g/s over one that polls", b.rate)
		}
		var late []*hdrhistogram.Histogram
		var queued, sent int64
		for i := range b.repetitions {
			h := nanoseconds()
			var result load.Result
			err := b.calm(ctx, func() (err error) {
				result, err = load.Run(ctx, target, load.Options{
					Rate:        b.rate,
					Arrival:     load.Poisson,
					Seed:        uint64(b.seed) + uint64(i),
					Connections: connections,
					Duration:    b.span,
					Punctual:    punctual,
				})
				if err == nil && result.Failed() > 0 {
					err = result.FirstError
				}
				return err
			})
			if err != nil {
				return err
			}
			// The generator's own account, in microseconds, which this table scales.
			for _, bar := range result.Lateness.Distribution() {
				if bar.Count > 0 {
					_ = h.RecordValues(max(1, bar.To*1000), bar.Count)
				}
			}
			late = append(late, h)
			queued += result.Queued.TotalCount()
			sent += result.Requests
		}
		b.quantiles(what, late, 0, 0.5, 0.99, 0.999)
		fmt.Fprintf(b.table, "%s: requests that found every connection busy\t%.2f %%\t\t%d in %d\n", what, 100*float64(queued)/float64(sent), sent, b.repetitions)
	}
	return nil
}
