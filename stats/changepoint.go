package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// MethodLikelihoodRatio is the interval of a change's place that holds every place
// whose fit is not worse than the best by more than resampling says that the true
// place's would be.
const MethodLikelihoodRatio Method = "likelihood ratio"

// Sweep is one passage through rising x, with a positive y at each. One that broke off
// is as long as it came.
type Sweep struct{ X, Y []float64 }

// ChangeShape is how y changes with x.
type ChangeShape string

// The shapes.
const (
	// NoChange is what does not differ significantly from none.
	NoChange ChangeShape = "none"
	// StepChange is flat, and from some x on flat at another level.
	StepChange ChangeShape = "step"
	// RampChange is flat, and from some x on a steady rise (or fall) of log y.
	RampChange ChangeShape = "ramp"
)

// Change is where y begins to differ from what it was at the least x.
type Change struct {
	// Shape is the one of the two that leaves less; NoChange where P exceeds 1 - level.
	Shape ChangeShape
	// P is the probability of as great a change by chance: of all orders in which each
	// sweep could have had its values, the share in which some change explains as much.
	// NaN where it is unknown.
	P float64
	// At is where it changes: half way between the last x as before and the first that
	// differs, or where a ramp begins. Its interval holds x of readings, so that it is
	// never narrower than the readings lie apart.
	At Estimate
	// Before is the greatest x that is still as the least, After the least that is not.
	Before, After float64
	// Times is y after a step over y before it, or at the end of a ramp over its
	// beginning, paired within sweeps: given the place, whose doubt is not in it.
	Times Estimate
}

// fewestLevels are the least different x for a change to be looked for.
const fewestLevels = 5

// ChangePoint tells where y begins to rise with x (rises) or to fall (not), by a single
// change in log y.
//
// Each sweep has a level of its own, which is taken off. Two shapes are fitted by least
// squares at every place that the x allow, a step and a ramp (the broken line of
// Muggeo 2003); both have one place and one size, so that what is left decides between
// them. Whether there is a change at all is a permutation test of what the best of all
// explains. The interval inverts the likelihood ratio of the place over both shapes
// (Siegmund 1988), with its quantile by resampling what readings are off the fit (Bai
// 1997 says why no normal theory holds for a place). Where sweeps change at places
// that differ by more than that explains, it is widened to Student's t over their own
// places, and a warning says so. Successive readings are taken for independent, but for
// their sweep's level: of readings that hang together, changes are found too often.
func ChangePoint(sweeps []Sweep, rises bool, level float64, seed int64) Change {
	none := Change{Shape: NoChange, P: math.NaN(), Before: math.NaN(), After: math.NaN()}
	refused := func(format string, args ...any) Change {
		none.At = undefined(len(sweeps), level, MethodLikelihoodRatio, format, args...)
		none.Times = undefined(len(sweeps), level, MethodT, format, args...)
		return none
	}
	if !(level > 0 && level < 1) {
		return refused("level %v is not between 0 and 1", level)
	}
	f, err := newChangeFit(sweeps, rises)
	if err != nil {
		return refused("no change can be looked for: %v", err)
	}
	best := f.best(f.ones)
	if !(best.explained > 0) || !(f.total > rounding*rounding) {
		c := refused("nothing changes in that direction")
		c.P = 1
		return c
	}
	rng := generator(seed)
	c := Change{P: f.chance(best, rng), Before: math.NaN(), After: math.NaN()}
	if !(c.P <= 1-level) {
		why := fmt.Sprintf("as great a change comes by chance in %.2g of all orders", c.P)
		c.Shape = NoChange
		c.At = undefined(len(f.sweeps), level, MethodLikelihoodRatio, "%s", why)
		c.Times = undefined(len(f.sweeps), level, MethodT, "%s", why)
		return c
	}
	at := f.places[best.place]
	c.Shape, c.Before, c.After = at.shape, at.before, at.after
	c.At = unknown(len(f.sweeps), level, MethodLikelihoodRatio)
	c.At.Value = at.x
	c.Times = f.times(best, level, seed)
	if n := len(f.sweeps); n < fewest {
		c.At.warn("need at least %d sweeps for an interval, have %d", fewest, n)
		return c
	}
	limit, apart := f.limit(best, level, rng)
	low, high := at.before, at.after
	for p := range f.places {
		if f.ratio(f.ones, p, best) <= limit {
			low, high = min(low, f.places[p].before), max(high, f.places[p].after)
		}
	}
	if own := f.ownPlaces(); f.apartness(own, best) > apart {
		l := locate(MethodT, own.x, rounding*f.x[len(f.x)-1], level, seed)
		if l.low < l.high {
			low, high = min(low, max(f.x[0], l.low)), max(high, min(f.x[len(f.x)-1], l.high))
		}
		c.At.Method = string(MethodT)
		c.At.warn("sweeps change at places that differ by more than readings scatter: the interval is of their mean")
	}
	c.At.Interval.Low, c.At.Interval.High = low, high
	if low == f.x[0] || high == f.x[len(f.x)-1] {
		c.At.warn("the interval reaches the end of what was measured")
	}
	if n := len(f.sweeps); n < shown {
		c.At.warn("%d sweeps: the interval is by what single readings are off the fit, and knows little of how sweeps differ", n)
	}
	return c
}

// changePlace is a change of one shape at one place.
type changePlace struct {
	shape         ChangeShape
	x             float64 // the place
	before, after float64 // readings between which it lies
	of            []float64
}

// changeFit is what all fits of some sweeps have in common.
type changeFit struct {
	x      []float64 // levels, rising
	places []changePlace
	sweeps []sweepOfLevels
	ones   []float64 // every sweep once
	rises  float64   // 1, or -1 where y is to fall
	total  float64   // squares of all sweeps, each about its own mean
}

// sweepOfLevels is a sweep's log y at the levels that it has, about its mean.
type sweepOfLevels struct {
	level []int
	y     []float64
	total float64
	// along and own are, for each place, the products of the place's shape with y, and
	// with itself, both about the sweep's means.
	along, own []float64
}

func newChangeFit(sweeps []Sweep, rises bool) (*changeFit, error) {
	f := &changeFit{rises: 1}
	if !rises {
		f.rises = -1
	}
	for i, s := range sweeps {
		if len(s.X) != len(s.Y) {
			return nil, fmt.Errorf("sweep %d has %d x and %d y", i+1, len(s.X), len(s.Y))
		}
		for j, x := range s.X {
			if finite(x) != nil || finite(s.Y[j]) != nil || !(s.Y[j] > 0) {
				return nil, fmt.Errorf("sweep %d has y %v at %v: want what is above zero", i+1, s.Y[j], x)
			}
			f.x = append(f.x, x)
		}
	}
	slices.Sort(f.x)
	f.x = slices.Compact(f.x)
	if len(f.x) < fewestLevels {
		return nil, fmt.Errorf("need readings at %d different x, have %d", fewestLevels, len(f.x))
	}
	f.place()
	for _, s := range sweeps {
		if len(s.X) < 2 {
			continue // alone it tells nothing of a change
		}
		own := sweepOfLevels{}
		var mean float64
		for j, x := range s.X {
			at, _ := slices.BinarySearch(f.x, x)
			own.level = append(own.level, at)
			own.y = append(own.y, f.rises*math.Log(s.Y[j]))
			mean += own.y[j] / float64(len(s.X))
		}
		for j := range own.y {
			own.y[j] -= mean
			own.total += own.y[j] * own.y[j]
		}
		own.own = f.shapes(own.level)
		own.along = f.products(own.level, own.y, nil)
		f.total += own.total
		f.sweeps = append(f.sweeps, own)
		f.ones = append(f.ones, 1)
	}
	if len(f.sweeps) == 0 {
		return nil, fmt.Errorf("no sweep has two readings")
	}
	return f, nil
}

// place lists all changes that are tried: two levels at least are as before, since one
// is no flat; what comes after may be one, where a sweep broke off. A ramp begins at a
// reading or half way to the next, and has two at least, for one is a step.
func (f *changeFit) place() {
	add := func(shape ChangeShape, x, before, after float64, of func(x float64) float64) {
		p := changePlace{shape: shape, x: x, before: before, after: after}
		for _, at := range f.x {
			p.of = append(p.of, of(at))
		}
		f.places = append(f.places, p)
	}
	last := len(f.x) - 1
	for j := 1; j < last+1; j++ {
		if j >= 2 {
			add(StepChange, (f.x[j-1]+f.x[j])/2, f.x[j-1], f.x[j], func(x float64) float64 {
				if x >= f.x[j] {
					return 1
				}
				return 0
			})
		}
		for _, x := range []float64{f.x[j-1], (f.x[j-1] + f.x[j]) / 2} {
			if x > f.x[0] && j < last {
				add(RampChange, x, f.x[j-1], f.x[j], func(at float64) float64 { return max(0, at-x) })
			}
		}
	}
}

// shapes gives for each place the squares of its shape over some levels, about their mean.
func (f *changeFit) shapes(levels []int) []float64 {
	all := make([]float64, len(f.places))
	for p := range f.places {
		var sum, squares float64
		for _, l := range levels {
			z := f.places[p].of[l]
			sum, squares = sum+z, squares+z*z
		}
		all[p] = squares - sum*sum/float64(len(levels))
	}
	return all
}

// products gives for each place those of its shape with y, whose mean is nothing.
func (f *changeFit) products(levels []int, y, into []float64) []float64 {
	if into == nil {
		into = make([]float64, len(f.places))
	}
	for p := range f.places {
		var sum float64
		of := f.places[p].of
		for j, l := range levels {
			sum += of[l] * y[j]
		}
		into[p] = sum
	}
	return into
}

// fitted is a change and what it explains of the squares.
type fitted struct {
	place     int
	size      float64 // by how much log y changes, or for each unit of x
	explained float64
	total     float64
}

// at fits one place to weighted sweeps. A change in the other direction explains nothing.
func (f *changeFit) at(weights []float64, place int) (size, explained float64) {
	var along, own float64
	for i := range f.sweeps {
		along += weights[i] * f.sweeps[i].along[place]
		own += weights[i] * f.sweeps[i].own[place]
	}
	if !(own > 0) || along <= 0 {
		return 0, 0
	}
	return along / own, along * along / own
}

func (f *changeFit) best(weights []float64) fitted {
	b := fitted{place: -1}
	for i := range f.sweeps {
		b.total += weights[i] * f.sweeps[i].total
	}
	for p := range f.places {
		if size, explained := f.at(weights, p); explained > b.explained {
			b.place, b.size, b.explained = p, size, explained
		}
	}
	return b
}

// ratio is by what share a place leaves more than the best does.
func (f *changeFit) ratio(weights []float64, place int, best fitted) float64 {
	_, explained := f.at(weights, place)
	return leftMore(best, explained)
}

func leftMore(best fitted, explained float64) float64 {
	least := best.total - best.explained
	if !(least > rounding*best.total) {
		// A fit without a rest: whatever leaves anything is infinitely worse.
		if best.explained-explained <= rounding*best.total {
			return 0
		}
		return math.Inf(1)
	}
	return (best.explained - explained) / least
}

// orders is how many orders of the values the test draws.
const orders = 999

// chance is the permutation test: where nothing changes, a sweep's values could have
// come in any order.
func (f *changeFit) chance(best fitted, rng *rand.Rand) float64 {
	atLeast := 0
	s := f.simulated()
	for range orders {
		for i := range f.sweeps {
			y := s.y[i]
			copy(y, f.sweeps[i].y)
			rng.Shuffle(len(y), func(a, b int) { y[a], y[b] = y[b], y[a] })
		}
		if s.explained(f) >= best.explained*(1-rounding) {
			atLeast++
		}
	}
	return float64(1+atLeast) / float64(1+orders)
}

// simulation has room for values of all sweeps in place of their own.
type simulation struct {
	y      [][]float64
	levels []float64 // sums over sweeps, by level
	own    []float64 // of all sweeps together, by place: the levels that they have stay
}

func (f *changeFit) simulated() *simulation {
	s := &simulation{levels: make([]float64, len(f.x)), own: make([]float64, len(f.places))}
	for _, of := range f.sweeps {
		s.y = append(s.y, make([]float64, len(of.y)))
		for p, v := range of.own {
			s.own[p] += v
		}
	}
	return s
}

// sum prepares the sums over sweeps.
func (s *simulation) sum(f *changeFit) {
	clear(s.levels)
	for i := range f.sweeps {
		for j, l := range f.sweeps[i].level {
			s.levels[l] += s.y[i][j]
		}
	}
}

// at is what a place explains of the values that were summed.
func (s *simulation) at(f *changeFit, place int) float64 {
	var along float64
	for l, v := range s.levels {
		along += f.places[place].of[l] * v
	}
	if along <= 0 || !(s.own[place] > 0) {
		return 0
	}
	return along * along / s.own[place]
}

// explained is what the best change explains.
func (s *simulation) explained(f *changeFit) float64 {
	s.sum(f)
	var most float64
	for p := range f.places {
		most = max(most, s.at(f, p))
	}
	return most
}

// limit is how much more than the best fit the true place may leave: the quantile of
// what the found place leaves in samples that are drawn around it. apart is the same
// of by how much sweeps' own places explain more than one for all.
func (f *changeFit) limit(best fitted, level float64, rng *rand.Rand) (ratio, apart float64) {
	ratios, aparts := f.byDeviations(best, rng)
	slices.Sort(ratios)
	slices.Sort(aparts)
	return ranked(ratios, level), ranked(aparts, level)
}

// ownPlaces are where each sweep alone changes most, and what that explains of all.
type ownPlaces struct {
	x         []float64
	explained float64
}

func (f *changeFit) ownPlaces() ownPlaces {
	var own ownPlaces
	weights := make([]float64, len(f.sweeps))
	for i := range f.sweeps {
		weights[i] = 1
		if b := f.best(weights); b.place >= 0 {
			own.x = append(own.x, f.places[b.place].x)
			own.explained += b.explained
		}
		weights[i] = 0
	}
	return own
}

// apartness is by what share of what is left sweeps' own places explain more.
func (f *changeFit) apartness(own ownPlaces, best fitted) float64 {
	return leftMore(fitted{explained: own.explained, total: best.total}, best.explained)
}

// byDeviations adds deviations from the fit, drawn from all sweeps, to the fit.
func (f *changeFit) byDeviations(best fitted, rng *rand.Rand) (ratios, aparts []float64) {
	of := f.places[best.place].of
	var deviations []float64
	means := make([]float64, len(f.sweeps))
	for i, s := range f.sweeps {
		for _, l := range s.level {
			means[i] += of[l] / float64(len(s.level))
		}
		// Each sweep's mean has been taken off: what is left is smaller by that.
		wider := math.Sqrt(float64(len(s.y)) / float64(len(s.y)-1))
		for j, l := range s.level {
			deviations = append(deviations, wider*(s.y[j]-best.size*(of[l]-means[i])))
		}
	}
	s := f.simulated()
	along := make([]float64, len(f.places))
	for range orders {
		var b fitted
		var own ownPlaces
		for i, sweep := range f.sweeps {
			y := s.y[i]
			var mean float64
			for j, l := range sweep.level {
				y[j] = best.size*(of[l]-means[i]) + deviations[rng.IntN(len(deviations))]
				mean += y[j] / float64(len(y))
			}
			for j := range y {
				y[j] -= mean
				b.total += y[j] * y[j]
			}
			var most float64
			for p, v := range f.products(sweep.level, y, along) {
				if v > 0 && sweep.own[p] > 0 {
					most = max(most, v*v/sweep.own[p])
				}
			}
			own.explained += most
		}
		b.explained = s.explained(f)
		ratios = append(ratios, leftMore(b, s.at(f, best.place)))
		aparts = append(aparts, f.apartness(own, b))
	}
	return ratios, aparts
}

// times is the size of a change as a ratio, by sweep.
func (f *changeFit) times(best fitted, level float64, seed int64) Estimate {
	of := f.places[best.place]
	reach := 1.0
	if of.shape == RampChange {
		reach = f.x[len(f.x)-1] - of.x
	}
	var sizes []float64
	for _, s := range f.sweeps {
		if s.own[best.place] > rounding*reach*reach {
			sizes = append(sizes, f.rises*reach*s.along[best.place]/s.own[best.place])
		}
	}
	return locate(MethodT, sizes, rounding, level, seed).exponential(len(sizes), level)
}
