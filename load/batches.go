package load

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Bounds of Options.Batches: each of an open loop's holds a histogram, and they go on for
// as long as answers come.
const (
	mostBatches   = 1000
	shortestBatch = time.Millisecond
)

// Batches are a load cut into spans of equal length, the warm-up left out: requests that
// wait behind one stall are slow together, and how far they are tells what a load's own
// figures are worth.
type Batches struct {
	Length time.Duration
	// Answered are the requests that were answered rightly within each span. They go on
	// past Options.Duration for as long as answers still came, so that the last span may
	// be cut short by the load's end, Elapsed.
	Answered []int64
	// Corrected are the latencies of an open loop's requests that were due within each
	// span, and Failed how many of those were not answered rightly. Both are nil of a
	// closed loop, whose requests are due when they are sent.
	Corrected []*hdrhistogram.Histogram
	Failed    []int64
}

// newBatches makes room for what is to come, so that a load is not kept waiting for it;
// nil where none are asked for.
func newBatches(o Options) *Batches {
	if o.Batches == 0 {
		return nil
	}
	b := &Batches{Length: o.Duration / time.Duration(o.Batches), Answered: make([]int64, 0, 2*o.Batches)}
	if o.open() {
		b.Failed = make([]int64, o.Batches)
		for range o.Batches {
			b.Corrected = append(b.Corrected, NewHistogram())
		}
	}
	return b
}

// span is the span of a moment since the warm-up's end; the last of those that were asked
// for has what rounding leaves behind it.
func (b *Batches) span(at time.Duration) int {
	return min(int(max(at, 0)/b.Length), len(b.Corrected)-1)
}

func (b *Batches) answered(due, answered, latency time.Duration) {
	if b == nil {
		return
	}
	i := int(max(answered, 0) / b.Length)
	b.upTo(i)
	b.Answered[i]++
	if len(b.Corrected) > 0 {
		record(b.Corrected[b.span(due)], latency)
	}
}

func (b *Batches) failed(due time.Duration) {
	if b != nil && len(b.Failed) > 0 {
		b.Failed[b.span(due)]++
	}
}

// upTo has a count for a span and for all before it.
func (b *Batches) upTo(i int) {
	for len(b.Answered) <= i {
		b.Answered = append(b.Answered, 0)
	}
}

// finish has the counts reach to the load's end: spans in which nothing was answered are
// what a stall is.
func (b *Batches) finish(elapsed time.Duration) {
	if b != nil && elapsed > 0 {
		b.upTo(int((elapsed - 1) / b.Length))
	}
}

// checkBatches says what is wrong with the number asked for.
func (o Options) checkBatches() error {
	switch {
	case o.Batches < 0 || o.Batches > mostBatches:
		return fmt.Errorf("load: %d batches: want 0 to %d", o.Batches, mostBatches)
	case o.Batches > 0 && (o.Duration <= 0 || o.Count > 0):
		return fmt.Errorf("load: %d batches of a load that is bounded by a count: want a duration alone", o.Batches)
	case o.Batches > 0 && o.Duration/time.Duration(o.Batches) < shortestBatch:
		return fmt.Errorf("load: %d batches of %v: want a batch of %v or more", o.Batches, o.Duration, shortestBatch)
	}
	return nil
}
