package density

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/record"
	"tare/stats"
)

// cliff is where a figure of an arm begins to change as neighbours are added.
type cliff struct {
	stats.Change
	// overcommit is the same place as memory asked for over the box's.
	overcommit stats.Estimate
	smallest   float64 // effect of interest
}

// found reports whether there is a significant change, with an interval, and greater than the smallest
// effect of interest.
func (c cliff) found() bool {
	return c.Shape != stats.NoChange && c.At.Known() && c.Times.Known() &&
		(c.Times.Interval.High < 1-c.smallest || c.Times.Interval.Low > 1+c.smallest)
}

// throughputCliff is where throughput begins to fall, tailCliff where the p99 begins to
// rise, a request that failed counting as one that took longest. A step's p99 is of one
// sweep's requests there: sweeps are what the place's doubt is made of.
func (r reading) throughputCliff(a arm) cliff {
	return r.cliff(a, "throughput", false, func(s Step) (float64, bool) { v := aboveZero(s); return v, v > 0 })
}

func (r reading) tailCliff(a arm) cliff {
	return r.cliff(a, "tail", true, func(s Step) (float64, bool) { return ownQuantile(s.Open.whole(), 0.99) })
}

// ownQuantile is that of one histogram; false where it has no values.
func ownQuantile(h *hdrhistogram.Histogram, q float64) (float64, bool) {
	if h == nil || h.TotalCount() == 0 {
		return 0, false
	}
	return math.Max(1, float64(h.ValueAtQuantile(100*q))), true
}

// cliff finds one, once: many ask for it, and it takes a while.
func (r reading) cliff(a arm, figure string, rises bool, of func(Step) (float64, bool)) cliff {
	key := strings.Join([]string{figure, a.group, a.order, a.policy}, "\x00")
	if c, known := r.cliffs[key]; known {
		return c
	}
	c := r.findCliff(a, rises, of)
	r.cliffs[key] = c
	return c
}

// findCliff looks first among the steps that went through: one that ended its sweep is
// no level but an end, and so far off that a fall before it would not be seen beside it.
// Where there is none, the ends are what changed.
func (r reading) findCliff(a arm, rises bool, of func(Step) (float64, bool)) cliff {
	series := func(ends bool) (sweeps []stats.Sweep) {
		for _, s := range a.sweeps {
			one := stats.Sweep{}
			for _, step := range s.steps {
				if v, ok := of(step); ok && (ends || step.Stop == "") {
					one.X, one.Y = append(one.X, float64(step.Neighbours)), append(one.Y, v)
				}
			}
			sweeps = append(sweeps, one)
		}
		return sweeps
	}
	c := cliff{
		Change:   stats.ChangePoint(series(false), rises, r.Report.Level, r.Run.Seed),
		smallest: r.Report.SmallestEffect,
	}
	if !c.found() && len(a.halts()) > 0 {
		c.Change = stats.ChangePoint(series(true), rises, r.Report.Level, r.Run.Seed)
	}
	c.overcommit = c.At
	c.overcommit.Value = r.overcommitAt(a, c.At.Value)
	c.overcommit.Interval.Low, c.overcommit.Interval.High = r.overcommitAt(a, c.At.Interval.Low),
		r.overcommitAt(a, c.At.Interval.High)
	return c
}

// overcommitAt is the memory asked for over the box's between numbers of neighbours that
// were measured, by a straight line.
func (r reading) overcommitAt(a arm, neighbours float64) float64 {
	if math.IsNaN(neighbours) || !a.measured() {
		return math.NaN()
	}
	i, exact := slices.BinarySearchFunc(a.numbers, neighbours, func(n int, x float64) int {
		switch {
		case float64(n) < x:
			return -1
		case float64(n) > x:
			return 1
		}
		return 0
	})
	at := func(i int) float64 { return r.overcommit(a, a.numbers[i]).Value }
	switch {
	case exact:
		return at(i)
	case i == 0:
		return at(0)
	case i == len(a.numbers):
		return at(i - 1)
	}
	low, high := float64(a.numbers[i-1]), float64(a.numbers[i])
	part := (neighbours - low) / (high - low)
	return (1-part)*at(i-1) + part*at(i)
}

// Density is how much of a box can be asked for without harm to the critical service:
// the yardstick of S3.2.
type Density struct {
	Policy, Order, Workload string
	Base                    bool
	// Overcommit is the greatest memory asked for over the box's at which throughput and
	// latency are as good as at the least number of neighbours ([harm]); Neighbours the
	// number. Over sweeps. Its interval reaches to the next
	// step, before which harm began somewhere. What an extension itself has in memory is counted
	// to the box's: it lies outside of it, as the pools of compressed swap do not.
	Overcommit, Neighbours stats.Estimate
	// Gained is Overcommit over the base policy's, paired within blocks; absent of the
	// base itself.
	Gained stats.Estimate
	// Reached is how many of the sweeps saw no harm up to their end, or to a stop of which
	// it is not known how much was asked for: what they give is a lower bound.
	Reached, Sweeps int
}

// Unharmed gives the density of every policy of a run, by the limits of claim S3.2.
//
// A single step may be out of line by chance, either way. Of a sweep, therefore, it is
// the last step before the cut that has fewest steps on its wrong side: harmed ones
// before it, unharmed ones after it; of several such cuts the first.
func Unharmed(run record.Run) []Density { return read(run, nil).densities() }

func (r reading) densities() []Density {
	var all []Density
	for _, base := range r.bases() {
		of := r.density(base)
		all = append(all, of.Density)
		for _, other := range r.others(base) {
			d := r.density(other)
			d.Gained = r.gained(of, d)
			all = append(all, d.Density)
		}
	}
	return all
}

// densityOf is a density with what it was made of: of each block the last overcommitment
// without harm, and the next, which has it.
type densityOf struct {
	Density
	last, next map[int]float64
}

func (r reading) density(a arm) densityOf {
	within := r.harm(a)
	d := densityOf{Density: Density{
		Policy:   a.policy,
		Order:    a.order,
		Workload: a.group,
		Base:     a.base,
		Sweeps:   len(a.sweeps),
		Gained:   stats.Absent(r.Report.Level),
	}}
	var last, next, numbers []float64
	lasts, nexts := map[int][]float64{}, map[int][]float64{}
	for _, s := range a.sweeps {
		i := s.unharmed(within)
		if i < 0 {
			continue
		}
		after, ok := s.afterwards(i)
		if !ok {
			d.Reached++
		}
		charge := s.steps[i].charge()
		unharmed := s.steps[i].Overcommit * charge
		after *= charge
		last, next, numbers = append(last, unharmed), append(next, after),
			append(numbers, float64(s.steps[i].Neighbours))
		lasts[s.block], nexts[s.block] = append(lasts[s.block], unharmed), append(nexts[s.block], after)
	}
	d.last, d.next = middles(lasts), middles(nexts)
	d.Overcommit, d.Neighbours = between(r.geometric(last), r.geometric(last), r.geometric(next)), r.mean(numbers)
	return d
}

// afterwards is the memory demand at the next step after one, before which harm began
// somewhere. A step that ended the sweep counts, with figures or without. Where there is
// none, or its demand is unknown, there is no bound: the result is the step's own, and false.
func (s sweep) afterwards(i int) (float64, bool) {
	at := s.steps[i]
	switch {
	case i < len(s.steps)-1:
		return s.steps[i+1].Overcommit, true
	case at.Stop == "" && s.end != nil && s.end.overcommit > at.Overcommit:
		return s.end.overcommit, true
	}
	return at.Overcommit, false
}

// middles is the geometric mean of what each block has.
func middles(of map[int][]float64) map[int]float64 {
	all := map[int]float64{}
	for block, values := range of {
		product := 1.0
		for _, v := range values {
			product *= v
		}
		all[block] = math.Pow(product, 1/float64(len(values)))
	}
	return all
}

// between is a value whose interval begins with one estimate's and ends with another's.
// Steps are coarse: that all sweeps have the same one is no want of knowledge, and its
// own value is the end then.
func between(value, low, high stats.Estimate) stats.Estimate {
	end := func(e stats.Estimate, end float64) float64 {
		if math.IsNaN(end) && e.N >= fewestForInterval {
			return e.Value
		}
		return end
	}
	e := value
	e.Interval.Low, e.Interval.High = end(low, low.Interval.Low), end(high, high.Interval.High)
	return e
}

// fewestForInterval are the sweeps that package stats gives an interval for.
const fewestForInterval = 3

// gained is one density over another's, in the blocks that have both: at least as if the
// base went as far as its next step and the other no farther than its last, at most as
// if it were the other way round.
func (r reading) gained(base, other densityOf) stats.Estimate {
	var last, next, otherLast, otherNext []float64
	for _, block := range slices.Sorted(maps.Keys(base.last)) {
		if _, ok := other.last[block]; ok {
			last, next = append(last, base.last[block]), append(next, base.next[block])
			otherLast, otherNext = append(otherLast, other.last[block]), append(otherNext, other.next[block])
		}
	}
	if len(last) == 0 {
		return stats.Absent(r.Report.Level)
	}
	return between(r.ratio(last, otherLast), r.ratio(next, otherLast), r.ratio(last, otherNext))
}

// agreement counts the steps whose repeats agree: where one value lies in the interval
// of each repeat's own requests. Requests that wait behind
// one stall are slow together, which intervals over spans of time count
// ([stats.SerialMean], [stats.SerialQuantile]). A step that was not kept in spans has the
// interval of independent requests, which is too narrow: by rank (the binomial's, by its
// normal approximation) of a p99, by count (Poisson's) of a throughput.
type agreement struct {
	steps, agree int
	unbounded    int     // steps besides, of which no repeat has an upper end: they could not disagree
	independent  int     // repeats whose requests had to be taken for independent
	widest       float64 // the greatest repeat over the least, of the step where they differ most
	at           int     // its number of neighbours
}

// compared are all steps that have repeats.
func (a agreement) compared() int { return a.steps + a.unbounded }

func (r reading) agreements(a arm) (throughput, tail agreement) {
	level := r.Report.Level
	for _, n := range a.numbers {
		steps := a.has(n)
		if len(steps) < 2 {
			continue
		}
		throughput.take(n, steps, func(s Step) (low, value, high float64, ok bool) {
			if e := s.ownThroughput(level); e.Known() && s.Closed.Rate > 0 {
				return e.Interval.Low, s.Closed.Rate, e.Interval.High, true
			}
			count := float64(s.Closed.Requests)
			if !(count > 0) || !(s.Closed.Rate > 0) {
				return 0, 0, 0, false
			}
			throughput.independent++
			part := normal95 / math.Sqrt(count)
			return s.Closed.Rate * (1 - part), s.Closed.Rate, s.Closed.Rate * (1 + part), true
		})
		tail.take(n, steps, func(s Step) (low, value, high float64, ok bool) {
			const q = 0.99
			all := s.Open.whole()
			if value, ok = ownQuantile(all, q); !ok {
				return 0, 0, 0, false
			}
			if e := s.ownTail(q, level); e.Known() {
				return e.Interval.Low, value, e.Interval.High, true
			}
			tail.independent++
			count := float64(all.TotalCount())
			part := normal95 * math.Sqrt(q*(1-q)/count)
			low, _ = ownQuantile(all, q-part)
			high = math.Inf(1) // so few requests bound it by nothing
			if q+part < 1 {
				high, _ = ownQuantile(all, q+part)
			}
			return low, value, high, true
		})
	}
	return throughput, tail
}

// normal95 is the standard normal's quantile that leaves a twentieth outside both ways.
const normal95 = 1.959964

func (a *agreement) take(n int, steps []Step, of func(Step) (low, value, high float64, ok bool)) {
	from, to := math.Inf(-1), math.Inf(1)
	least, greatest, count := math.Inf(1), 0.0, 0
	for _, s := range steps {
		low, value, high, ok := of(s)
		if !ok {
			continue
		}
		count++
		from, to = math.Max(from, low), math.Min(to, high)
		least, greatest = math.Min(least, value), math.Max(greatest, value)
	}
	if count < 2 {
		return
	}
	switch {
	case math.IsInf(to, 1):
		a.unbounded++
	case from <= to:
		a.steps++
		a.agree++
	default:
		a.steps++
	}
	if spread := greatest / least; spread > a.widest {
		a.widest, a.at = spread, n
	}
}
