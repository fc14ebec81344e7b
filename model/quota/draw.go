package quota

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Of the latencies' histogram: from it they are drawn, and into one like it they
// are predicted.
const (
	lowestMicros  = 1
	highestMicros = int64(time.Hour / time.Microsecond)
	digits        = 3
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(lowestMicros, highestMicros, digits)
}

// distribution draws latencies as often as they were measured.
type distribution struct {
	nanos []int64   // of each bar, its middle
	upTo  []float64 // share of what is in the bars up to this one
	guide []int     // the first bar that may hold a share: finds it in a step or two
	mean  float64
}

func newDistribution(h *hdrhistogram.Histogram) distribution {
	var d distribution
	var count int64
	total := float64(h.TotalCount())
	for _, bar := range h.Distribution() {
		if bar.Count == 0 {
			continue
		}
		count += bar.Count
		middle := float64(bar.From+bar.To) / 2 * float64(time.Microsecond)
		d.nanos = append(d.nanos, int64(middle))
		d.upTo = append(d.upTo, float64(count)/total)
		d.mean += middle * float64(bar.Count) / total
	}
	d.upTo[len(d.upTo)-1] = 1
	d.guide = make([]int, 4*len(d.nanos))
	at := 0
	for i := range d.guide {
		for d.upTo[at] <= float64(i)/float64(len(d.guide)) {
			at++
		}
		d.guide[i] = at
	}
	return d
}

// at is the latency below which a share of u, from 0 to less than 1, lies.
func (d *distribution) at(u float64) int64 {
	i := d.guide[int(u*float64(len(d.guide)))]
	for d.upTo[i] <= u {
		i++
	}
	return d.nanos[i]
}

// draw is the source of what is random in one simulation.
type draw struct {
	random *rand.Rand
	base   *distribution
	demand int64
	shape  []float64
}

// request draws one: the work that it makes, and its latency without a quota.
// Where requests differ in their work, the dear are taken for the late.
func (d *draw) request() (work, latency int64) {
	u := d.random.Float64()
	return workAt(d.demand, d.shape, u), d.base.at(u)
}

// workAt is the work below which a share of u of the requests lie.
func workAt(demand int64, shape []float64, u float64) int64 {
	if n := len(shape); n > 0 {
		return max(int64(float64(demand)*shape[int(u*float64(n))]), 1)
	}
	return demand
}

// moments are an open loop's, from 0 on.
type moments struct {
	random  *rand.Rand
	gap     float64 // nanoseconds
	poisson bool
	count   float64
	sum     float64
}

func (m *moments) next() int64 {
	if m.poisson {
		m.sum += m.random.ExpFloat64() * m.gap
		return int64(m.sum)
	}
	// A product, not a running sum, so that rounding does not drift.
	at := math.Round(m.count * m.gap)
	m.count++
	return int64(at)
}
