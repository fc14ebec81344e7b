package bursts

import (
	"math/bits"
	"time"
)

// The shape of the histograms, as bpf/bursts.c has it.
const (
	unit    = 16 * time.Nanosecond
	steps   = 16 // in each power of two
	octaves = 33
	buckets = octaves * steps
)

// Histogram counts durations, in steps of a sixteenth of a power of two: a
// quantile is within 6.25 % of the exact one, or within 16 ns. The last step
// holds whatever is longer than eighteen minutes.
type Histogram struct {
	counts [buckets]uint64
	sum    uint64 // nanoseconds
}

// bucketOf is the step that a duration falls into.
func bucketOf(d time.Duration) int {
	v := uint64(max(0, d)) / uint64(unit)
	if v < steps {
		return int(v)
	}
	log := bits.Len64(v) - 1
	return min((log-3)*steps+int(v>>(log-4)&(steps-1)), buckets-1)
}

// bounds are the durations from which on, and before which, a step holds them.
func bounds(bucket int) (low, high time.Duration) {
	if bucket < steps {
		return time.Duration(bucket) * unit, time.Duration(bucket+1) * unit
	}
	octave, step := bucket/steps, bucket%steps
	width := unit << (octave - 1)
	low = time.Duration(steps+step) * width
	return low, low + width
}

// Add counts one duration.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.sum += uint64(max(0, d))
}

// Merge adds what another holds.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.sum += o.sum
}

// subtract takes away what was counted before. A step that was read while it
// moved is never below nothing.
func (h *Histogram) subtract(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] -= min(n, h.counts[i])
	}
	h.sum -= min(o.sum, h.sum)
}

// Count is how many there are.
func (h *Histogram) Count() uint64 {
	var n uint64
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Sum is all of them together.
func (h *Histogram) Sum() time.Duration { return time.Duration(h.sum) }

// Mean is the mean; 0 of none.
func (h *Histogram) Mean() time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	return time.Duration(h.sum / n)
}

// Quantile is the duration that a share q of all does not exceed (0.99),
// interpolated within its step; 0 of none.
func (h *Histogram) Quantile(q float64) time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	rank := min(max(q, 0), 1) * float64(n)
	var below float64
	for i, c := range h.counts {
		if c == 0 || below+float64(c) < rank {
			below += float64(c)
			continue
		}
		low, high := bounds(i)
		return low + time.Duration(float64(high-low)*(rank-below)/float64(c))
	}
	return 0
}

// Step is a step of a histogram: it holds what is at least Low and below High.
type Step struct{ Low, High time.Duration }

// Steps gives each step that holds any, and how many, from the shortest.
func (h *Histogram) Steps(yield func(step Step, count uint64) bool) {
	for i, c := range h.counts {
		if c == 0 {
			continue
		}
		low, high := bounds(i)
		if !yield(Step{low, high}, c) {
			return
		}
	}
}
