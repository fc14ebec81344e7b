package density

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/load"
	"tare/record"
	"tare/stats"
)

// batches is how many spans of equal time a load is cut into. Ten to thirty estimate the spread of a
// series well: more are too short to be independent of their neighbours, fewer too few (Schmeiser 1982).
const batches = 16

// mostSpans bounds what is believed of a stored run's number of spans, which grows for as
// long as answers to a load still come.
const mostSpans = 1 << 20

// Batches are a load in spans of equal time. Requests that wait behind one stall are slow
// together: the differences of spans give the precision of a step's own figures. What
// is absent from a map is 0.
type Batches struct {
	Length time.Duration `json:"length_ns"`
	Count  int           `json:"count"`
	Tail   time.Duration `json:"tail_ns"` // the last span's length, which the load's end cuts short
	// Answered are the requests of a closed loop that were answered within each span.
	Answered map[int]int64 `json:"answered,omitempty"`
	// Failed are the requests of a schedule that were due within each and failed, and
	// Latency (kept apart, as histograms of the trial) how long the others took.
	Failed  map[int]int64                   `json:"failed,omitempty"`
	Latency map[int]*hdrhistogram.Histogram `json:"-"`
}

// batchesOf is a load's as a step has them; nil where it was not recorded in spans.
func batchesOf(r load.Result) *Batches {
	of := r.Batches
	if of == nil || len(of.Answered) == 0 {
		return nil
	}
	b := &Batches{Length: of.Length}
	if of.Corrected == nil {
		b.Count, b.Answered = len(of.Answered), map[int]int64{}
		b.Tail = min(of.Length, r.Elapsed-time.Duration(b.Count-1)*of.Length)
		for i, n := range of.Answered {
			if n > 0 {
				b.Answered[i] = n
			}
		}
		return b
	}
	b.Count, b.Tail, b.Latency = len(of.Corrected), of.Length, map[int]*hdrhistogram.Histogram{}
	for i, h := range of.Corrected {
		if h.TotalCount() > 0 {
			b.Latency[i] = h
		}
		if n := of.Failed[i]; n > 0 {
			if b.Failed == nil {
				b.Failed = map[int]int64{}
			}
			b.Failed[i] = n
		}
	}
	return b
}

// valid refuses what no load is cut into: numbers of a stored run may be anything.
func (b *Batches) valid() error {
	if b.Count < 0 || b.Count > mostSpans {
		return fmt.Errorf("%d spans, want 0 to %d", b.Count, mostSpans)
	}
	if b.Length < 0 || b.Tail < 0 || b.Tail > b.Length {
		return fmt.Errorf("spans of %v, the last of %v", b.Length, b.Tail)
	}
	return nil
}

// readLatency reads the spans' latencies of a stored trial.
func (b *Batches) readLatency(t record.Trial, neighbours int, load string) error {
	if err := b.valid(); err != nil {
		return fmt.Errorf("trial %d, %d neighbours, %s: %w", t.ID, neighbours, load, err)
	}
	for span := range b.Count {
		text, ok := t.Histograms[spanName(neighbours, load, span)]
		if !ok {
			continue
		}
		h, err := hdrhistogram.Decode([]byte(text))
		if err != nil {
			return fmt.Errorf("trial %d, %d neighbours, %s, span %d: %w", t.ID, neighbours, load, span, err)
		}
		if b.Latency == nil {
			b.Latency = map[int]*hdrhistogram.Histogram{}
		}
		b.Latency[span] = h
	}
	return nil
}

// rates are the requests answered a second within each span. A last one of less than half
// a span is a part of the one before.
func (b *Batches) rates() []float64 {
	var rates []float64
	for i := range b.Count {
		span, n := b.Length, b.Answered[i]
		last := i == b.Count-1
		switch {
		case last && i > 0 && b.Tail < b.Length/2:
			continue
		case last:
			span = b.Tail
		case i == b.Count-2 && b.Tail < b.Length/2:
			span, n = span+b.Tail, n+b.Answered[i+1]
		}
		if span > 0 {
			rates = append(rates, float64(n)/span.Seconds())
		}
	}
	return rates
}

// latencies are those of each span, a request that failed counting as one that took so
// long.
func (b *Batches) latencies(failed int64) []*hdrhistogram.Histogram {
	all := make([]*hdrhistogram.Histogram, b.Count)
	for i := range all {
		all[i] = b.Latency[i]
		if n := b.Failed[i]; n > 0 {
			all[i] = merged(all[i])
			_ = all[i].RecordValues(failed, n) // within the range
		}
	}
	return all
}

// followed are the spans of one load and then of another; nil where either has none, or spans of another
// length. A last span of the first that was cut short is left out.
func (b *Batches) followed(by *Batches) *Batches {
	if b == nil || by == nil || b.Length != by.Length {
		return nil
	}
	keep := b.Count
	if b.Tail < b.Length {
		keep--
	}
	both := &Batches{
		Length: b.Length, Count: keep + by.Count, Tail: by.Tail,
		Answered: map[int]int64{}, Failed: map[int]int64{}, Latency: map[int]*hdrhistogram.Histogram{},
	}
	for i := range both.Count {
		of, at := b, i
		if i >= keep {
			of, at = by, i-keep
		}
		if n := of.Answered[at]; n > 0 {
			both.Answered[i] = n
		}
		if n := of.Failed[at]; n > 0 {
			both.Failed[i] = n
		}
		if h := of.Latency[at]; h != nil {
			both.Latency[i] = h
		}
	}
	return both
}

// ownThroughput estimates a step's throughput from its own requests; unknown where it was not recorded
// in spans.
func (s Step) ownThroughput(level float64) stats.Estimate {
	if s.Closed.Batches == nil {
		return stats.SerialMean(nil, level)
	}
	return stats.SerialMean(s.Closed.Batches.rates(), level)
}

// ownTail is the same of a percentile of its latency.
func (s Step) ownTail(q, level float64) stats.Estimate {
	if s.Open.Batches == nil {
		return stats.SerialQuantile(nil, q, level)
	}
	slowest := int64(0)
	if all := s.Open.whole(); all != nil {
		slowest = all.Max()
	}
	return stats.SerialQuantile(s.Open.Batches.latencies(slowest), q, level)
}
