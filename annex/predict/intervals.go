package predict

import (
	"math"
	"slices"
	"time"

	"tare/annex"
)

// intervals tells when the next activation comes, from the times between the last ones, from
// beginning to beginning. Three laws stand for them, and the one is believed whose forecasts
// were the best lately: exact periods; the exponential law, which a forecast shows by its
// width, and which knows as much after long waiting as before; and the histogram, which
// knows whatever came before.
type intervals struct {
	meter
	gate    gate
	horizon float64
	begun   bool
	// interrupted tells that the time from the last activation to the next says nothing.
	interrupted bool
	last        annex.Moment // the last activation that counts
	slept       annex.Moment // its end
	seen        []float64
	count       int
	average     exponential
	shape       histogram
	beat        period
	losses      [laws]loss
}

// The laws, in the order in which they are preferred.
const (
	periodic = iota
	memoryless
	histogramOf
	laws
)

// quantileShares are those of a Forecast.
var quantileShares = [3]float64{0.05, 0.5, 0.95}

// fewest is how many intervals there are before anything is said.
const fewest = 3

// intervalKeep is what of a score's weight is left after the next activation.
const intervalKeep = 0.95

func (v *intervals) init(o Options) {
	v.gate = gate{o.Threshold, o.Margin}
	v.enough = 8
	v.horizon = o.Horizon.Seconds()
	v.beat = newPeriod()
}

// exponential is the law of arrivals that know nothing of one another.
type exponential struct{ weight, squares, sum float64 }

const exponentialKeep = 0.95

func (e *exponential) add(t float64) {
	e.weight = e.weight*exponentialKeep + 1
	e.squares = e.squares*exponentialKeep*exponentialKeep + 1
	e.sum = e.sum*exponentialKeep + t
}

// quantile is of the time from now. The mean is known from n values only, so that the next
// is longer than t with likelihood (1 + t/(n mean))^-n, which is exact for values of this law.
func (e *exponential) quantile(q float64) float64 {
	n := share(e.weight*e.weight, e.squares)
	return n * share(e.sum, e.weight) * (math.Pow(1-q, -1/n) - 1)
}

// loss is the mean interval score of a law's last forecasts, of the logarithms, since a
// forecast of a minute may be off by more than one of a second.
type loss struct{ sum, weight float64 }

const lossKeep = 0.9

func (l *loss) add(q [3]float64, t float64) {
	const outside = 0.1 // what is left outside of a forecast from 5 to 95 percent
	low, high, x := math.Log(max(q[0], shortest)), math.Log(max(q[2], shortest)), math.Log(max(t, shortest))
	score := high - low
	score += 2 / outside * (max(low-x, 0) + max(x-high, 0))
	l.sum = l.sum*lossKeep + score
	l.weight = l.weight*lossKeep + 1
}

// began takes an activation, and learns from the time since the one before.
func (v *intervals) began(at annex.Moment) {
	before, slept, counts := v.last, v.slept, v.begun && !v.interrupted
	v.begun, v.last, v.interrupted = true, at, false
	if !counts || at <= before {
		v.slept = at
		return
	}
	t := at.Since(before).Seconds()
	v.hold(t, before, slept)
	if len(v.shape.weights) == 0 {
		v.shape = newHistogram(v.horizon)
	}
	if len(v.seen) == intervalsKept {
		v.seen = slices.Delete(v.seen, 0, 1)
	}
	v.seen = append(v.seen, t)
	v.count++
	v.average.add(t)
	v.shape.add(t)
	v.beat.observe(time.Duration(v.last).Seconds(), v.seen)
}

func (v *intervals) ended(at annex.Moment) { v.slept = at }

// hold holds against the laws, and against the one that was believed, what they said when
// the interval began.
func (v *intervals) hold(t float64, before, slept annex.Moment) {
	if v.count < fewest {
		v.event(false)
	}
	believed := v.believed()
	for l := range laws {
		q, ok := v.say(l, before, before)
		if !ok {
			if v.losses[l].weight > 0 {
				// It has spoken before: as good as a forecast of whenever it may be.
				v.losses[l].add([3]float64{shortest, shortest, v.horizon}, v.horizon)
			}
			if v.count >= fewest && l == believed {
				v.event(false)
			}
			continue
		}
		v.losses[l].add(q, t)
		if v.count >= fewest && l == believed {
			came := q[0] <= t && t <= q[2]
			v.prediction(1, came)
			v.event(came)
			v.leads.add(v.last.Since(slept))
		}
	}
	v.judge(v.gate)
	v.age(intervalKeep)
}

// believed is the law whose forecasts were the best. One that has not shown itself twice is
// not among them, but for the exponential, with which it begins, and for periods, of which
// once is enough, and which are not among them where there is none now.
func (v *intervals) believed() int {
	best := memoryless
	for l, loss := range v.losses {
		shown := 1.5
		if l == periodic {
			shown = 0.5
		}
		if loss.weight < shown || l == periodic && v.beat.length == 0 {
			continue
		}
		if of := v.losses[best]; of.weight == 0 || share(loss.sum, loss.weight) < share(of.sum, of.weight) {
			best = l
		}
	}
	return best
}

// say is what a law says at a moment: the time from the last activation to the next, in
// seconds. False where it says nothing.
func (v *intervals) say(law int, last, now annex.Moment) (q [3]float64, ok bool) {
	waited := max(now.Since(last), 0).Seconds()
	switch {
	case v.count == 0:
		return q, false
	case law == periodic:
		base := time.Duration(last).Seconds()
		q, ok = v.beat.quantiles(max(base+waited, base+v.beat.length/2), quantileShares)
		for i := range q {
			q[i] -= base
		}
	case law == memoryless:
		for i, s := range quantileShares {
			q[i] = waited + v.average.quantile(s)
		}
		ok = true
	default:
		q, ok = v.shape.quantiles(waited, quantileShares)
	}
	if !ok || math.IsInf(q[1], 1) {
		return q, false // it waits for longer than ever, or may for longer than is told apart
	}
	for i := range q {
		q[i] = max(q[i], waited)
	}
	if math.IsInf(q[2], 1) {
		// For what is beyond the horizon: that, or as much again as was waited.
		q[2] = max(v.horizon, 2*waited, q[1])
	}
	return q, true
}

// next is the forecast at a moment.
func (v *intervals) next(now annex.Moment) (Forecast, bool) {
	if v.shut || v.count < fewest || v.interrupted {
		return Forecast{}, false
	}
	q, ok := v.say(v.believed(), v.last, now)
	if !ok {
		return Forecast{}, false
	}
	at := func(s float64) annex.Moment {
		return max(now, v.last.After(time.Duration(min(s, math.MaxInt64/4e9)*float64(time.Second))))
	}
	return Forecast{at(q[0]), at(q[1]), at(q[2])}, true
}
