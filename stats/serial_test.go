package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Requests that wait behind one stall are slow together: a series in which each value
// goes by the one before.
type correlated struct {
	random *rand.Rand
	by     float64 // correlation of a value with the next
	state  float64
}

func (c *correlated) next() float64 {
	c.state = c.by*c.state + math.Sqrt(1-c.by*c.by)*c.random.NormFloat64()
	return 1000 * math.Exp(0.5*c.state)
}

func TestSerialCoverage(t *testing.T) {
	const (
		runs, batches = 400, 16
		normal        = 1.959964
		tail          = 2.326348 // the normal's 0.99-quantile
	)
	mean, p99 := 1000*math.Exp(0.125), 1000*math.Exp(0.5*tail)
	holds := func(low, high, v float64) int {
		if low <= v && v <= high {
			return 1
		}
		return 0
	}
	for _, c := range []struct {
		by             float64
		size           int
		mean, quantile float64 // coverage at least
		naive          float64 // and of taking them for independent at most
		unended        float64 // share of the p99's intervals without an upper end at most
	}{
		// About four binomial standard deviations, 1.1 % each, below 95 %, where batches are
		// long enough against the correlation; a tail's few stalls tell less of it, and hold
		// 5 % less where they are not.
		{by: 0, size: 6400, mean: 0.91, quantile: 0.91, naive: 1, unended: 0.05},
		{by: 0.9, size: 6400, mean: 0.91, quantile: 0.91, naive: 0.7, unended: 0.25},
		{by: 0.98, size: 6400, mean: 0.91, quantile: 0.86, naive: 0.4, unended: 1},
		{by: 0.99, size: 1280, mean: 0.89, quantile: 0.84, naive: 0.3, unended: 1},
	} {
		series := &correlated{random: rand.New(rand.NewPCG(20260101, 1)), by: c.by}
		room := make([]*hdrhistogram.Histogram, batches)
		for i := range room {
			room[i] = hdrhistogram.New(1, 100_000, 3)
		}
		var ofMean, ofQuantile, naiveMean, naiveQuantile int
		var bootstraps, ofBootstrap int
		var estimates, widths, below []float64 // of the p99's; infinite widths too
		for run := range runs {
			series.state = series.random.NormFloat64()
			var means []float64
			var held []*hdrhistogram.Histogram
			var all []float64
			for i := range batches {
				h := room[i]
				h.Reset()
				var sum float64
				for range c.size / batches {
					v := series.next()
					sum += v
					all = append(all, v)
					_ = h.RecordValue(int64(v + 0.5))
				}
				means, held = append(means, sum*batches/float64(c.size)), append(held, h)
			}
			m, q := SerialMean(means, 0.95), SerialQuantile(held, 0.99, 0.95)
			ofMean += holds(m.Interval.Low, m.Interval.High, mean)
			ofQuantile += holds(q.Interval.Low, q.Interval.High, p99)
			estimates, widths = append(estimates, q.Value), append(widths, q.Interval.High-q.Interval.Low)
			below = append(below, q.Value-q.Interval.Low)

			if run%8 == 0 { // it takes its time
				b := QuantileBy(MethodBlockBootstrap, held, 0.99, 0.95, int64(run))
				bootstraps, ofBootstrap = bootstraps+1, ofBootstrap+holds(b.Interval.Low, b.Interval.High, p99)
			}
			middle, sd := meanSD(all)
			half := normal * sd / math.Sqrt(float64(c.size))
			naiveMean += holds(middle-half, middle+half, mean)
			slices.Sort(all)
			part := normal * math.Sqrt(0.99*0.01/float64(c.size))
			naiveQuantile += holds(all[int((0.99-part)*float64(c.size))], all[min(c.size-1, int((0.99+part)*float64(c.size)))], p99)
		}
		share := func(n int) float64 { return float64(n) / runs }
		t.Logf("correlation %v, %d values: mean %v (taken for independent %v), p99 %v (%v), by a bootstrap of spans %.2f", c.by, c.size, share(ofMean), share(naiveMean), share(ofQuantile), share(naiveQuantile), float64(ofBootstrap)/float64(bootstraps))
		// All that is not negative would cover it too: ends are to be there, but where a
		// few stalls tell of none, and about as far off as estimates scatter.
		unended := 0
		for _, w := range widths {
			if math.IsInf(w, 1) {
				unended++
			}
		}
		slices.Sort(widths)
		slices.Sort(below)
		_, scatter := meanSD(estimates)
		width, down := widths[runs/2]/(2*normal*scatter), below[runs/2]/(normal*scatter)
		t.Logf("p99's interval: %v without an upper end; its median width is %.2f, and to its lower end %.2f, times what holds 95 %% of estimates", share(unended), width, down)
		if share(unended) > c.unended || c.unended < 0.5 && !(width > 0.7 && width < 1.7) || !(down < 1.3) {
			t.Errorf("correlation %v, %d values: %v of the p99's intervals have no upper end, want at most %v; the median width is %.2f, and to the lower end %.2f, times what holds 95 %% of estimates, want about 1 and at most 1.3", c.by, c.size, share(unended), c.unended, width, down)
		}
		if share(ofMean) < c.mean || share(ofMean) > 0.99 {
			t.Errorf("correlation %v, %d values: the mean's interval covers %v, want %v to 0.99", c.by, c.size, share(ofMean), c.mean)
		}
		if share(ofQuantile) < c.quantile {
			t.Errorf("correlation %v, %d values: the p99's interval covers %v, want at least %v", c.by, c.size, share(ofQuantile), c.quantile)
		}
		if share(naiveMean) > c.naive || share(naiveQuantile) > c.naive {
			t.Errorf("correlation %v, %d values: taken for independent they cover %v and %v: nothing is shown", c.by, c.size, share(naiveMean), share(naiveQuantile))
		}
	}
}

func TestSerialOfIndependentBatchesIsNearStudents(t *testing.T) {
	values := []float64{5, 3, 6, 2, 7, 3, 5, 4, 6, 3, 5, 4} // each high is followed by a low: not correlated upwards
	mean, sd := meanSD(values)
	half := tQuantile(0.975, 11) * sd / math.Sqrt(12)
	e := SerialMean(values, 0.95)
	near(t, "mean", e.Value, mean, 1e-12)
	near(t, "high", e.Interval.High, mean+half, 1e-12)
	slices.Sort(values) // the same values, each like the one before
	if s := SerialMean(values, 0.95); s.Interval.High <= e.Interval.High {
		t.Errorf("a drift does not widen the interval: %+v, %+v", s, e)
	}
}

func TestSerialQuantileWithoutAnUpperEnd(t *testing.T) {
	few := make([]*hdrhistogram.Histogram, 12)
	for i := range few {
		few[i] = hdrhistogram.New(1, 1000, 3)
		if i != 5 { // a stall: nothing was due
			_ = few[i].RecordValue(int64(10 + i*5%12)) // in no order
		}
	}
	e := SerialQuantile(few, 0.99, 0.95)
	if !math.IsInf(e.Interval.High, 1) || !(e.Interval.Low < e.Value) || math.Abs(e.Value-21) > 1 {
		t.Errorf("p99 of 11 values: %+v", e)
	}
	if e = SerialQuantile(few, 0.5, 0.95); math.IsInf(e.Interval.High, 1) || e.Interval.High < e.Value {
		t.Errorf("median of 11 values: %+v", e)
	}
}

// Failed requests are all at one value, the slowest: that they are all in one span widens
// the interval though the share of values up to there is 1 in every span.
func TestSerialQuantileOfTiesInOneSpan(t *testing.T) {
	const slowest = 60_000_000
	spans := make([]*hdrhistogram.Histogram, 16)
	for i := range spans {
		spans[i] = hdrhistogram.New(1, 3_600_000_000, 3)
		for j := range int64(400) {
			v := 1000 + 2*j
			if i == 5 && j >= 208 { // 3 % of all
				v = slowest
			}
			_ = spans[i].RecordValue(v)
		}
	}
	if e := SerialQuantile(spans, 0.99, 0.95); !(e.Value > 0.99*slowest) || !(e.Interval.Low < 2000) || !math.IsInf(e.Interval.High, 1) {
		t.Errorf("all in one span: %+v", e)
	}
	for i := range spans { // and the same, evenly
		spans[i].Reset()
		for j := range int64(400) {
			v := 1000 + 2*j
			if j >= 388 {
				v = slowest
			}
			_ = spans[i].RecordValue(v)
		}
	}
	if e := SerialQuantile(spans, 0.99, 0.95); !(e.Interval.Low > 0.99*slowest) || math.IsInf(e.Interval.High, 1) {
		t.Errorf("in every span alike: %+v", e)
	}
}

func TestSerialWithoutEnough(t *testing.T) {
	full := hdrhistogram.New(1, 1000, 3)
	_ = full.RecordValue(7)
	twelve := slices.Repeat([]*hdrhistogram.Histogram{full}, 12)
	for name, e := range map[string]Estimate{
		"no batches": SerialMean(nil, 0.95), "few": SerialMean([]float64{1, 2, 3}, 0.95), "equal": SerialMean(make([]float64, 12), 0.95),
		"not a number": SerialMean([]float64{math.NaN()}, 0.95), "level": SerialMean([]float64{1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1}, 1),
		"nothing": SerialQuantile(nil, 0.99, 0.95), "none hold": SerialQuantile(make([]*hdrhistogram.Histogram, 12), 0.99, 0.95),
		"few hold": SerialQuantile(twelve[:3], 0.99, 0.95), "quantile": SerialQuantile(twelve, 1, 0.95), "its level": SerialQuantile(twelve, 0.99, 0),
	} {
		if e.Known() || len(e.Warnings) == 0 {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
