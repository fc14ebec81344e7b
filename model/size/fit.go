package size

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"tare/stats"
)

// Term is a part of the model.
type Term string

// The terms.
const (
	Platform Term = "platform"
	Size     Term = "size"
	IO       Term = "input and output"
	Tasks    Term = "tasks"
)

// leastSizes is how many sizes the term of size takes: two for the line, and two
// that can contradict it.
const leastSizes = 4

// DefaultLevel is that of intervals where [Options] say none.
const DefaultLevel = 0.95

// Options of a fit; the zero value will do.
type Options struct {
	Level float64 // of intervals; 0 is [DefaultLevel]
	// Form is the only one to be fitted; empty are all, with what the points say of each.
	Form Form
	// Reach is by what factor a prediction may go beyond the sizes, intensities and
	// tasks that were fitted; 0 is [DefaultReach].
	Reach float64
}

// DefaultReach is one doubling.
const DefaultReach = 2

func (o Options) withDefaults() (Options, error) {
	if o.Level == 0 {
		o.Level = DefaultLevel
	}
	if o.Reach == 0 {
		o.Reach = DefaultReach
	}
	switch {
	case !(o.Level > 0 && o.Level < 1):
		return o, fmt.Errorf("level %v: want more than 0 and less than 1", o.Level)
	case !(o.Reach >= 1) || math.IsInf(o.Reach, 0):
		return o, fmt.Errorf("reach %v: want 1 or more", o.Reach)
	case o.Form != "" && !o.Form.known():
		return o, &UnknownForm{o.Form}
	}
	return o, nil
}

// NotIdentifiable says that the points do not determine a term, and what it would take.
type NotIdentifiable struct {
	Term       Term
	Have, Need int
	Of         string // what it needs: "sizes"
	Why        string // besides; may be empty
}

func (e *NotIdentifiable) Error() string {
	s := fmt.Sprintf("the %s term is not identifiable: %d %s, and it takes %d", e.Term, e.Have, e.Of, e.Need)
	if e.Why != "" {
		s += " (" + e.Why + ")"
	}
	return s
}

// Fitted is the model of one platform's points. Estimates are logarithms of ratios;
// [Ratio] gives the factor. A term that is not identifiable is one that is not
// Known, and Identifiable says why.
type Fitted struct {
	// Platform is the overhead of the platform's type: that of a container which has
	// the whole host. Over several workloads it is the mean of theirs, in Workloads.
	// Its interval holds those of all forms that the points allow.
	Platform  stats.Estimate
	Workloads map[string]stats.Estimate
	// Size is the overhead of size for each unit of g, IO what each thousand wakings
	// by interrupt in a second of CPU time adds to it, and Tasks each doubling of the
	// tasks that a CPU has above one. Where IO and Tasks are not identifiable, Size has
	// what the points' own input, output and tasks make of it.
	Size, IO, Tasks stats.Estimate

	Form  Form     // g
	Forms []Choice // all that were tried; nil where there is no term of size

	Residuals []Residual
	// Scale is the reduced chi-square by the points' own errors: 1 where they explain
	// the scatter. Agree is its p-value, Between the standard deviation, as a logarithm,
	// of what they do not explain.
	Scale, Agree, Between float64

	points  []weighed
	options Options
	refused map[Term]error
	fits    []fit // of the forms that the points allow, that of Form first
}

// Choice is what the points say of a form.
type Choice struct {
	Form Form
	// Off is the root of the mean square by which it misses the sizes that it has not
	// seen, in standard errors of the points and of the prediction from the others.
	Off float64
	// Allowed says that the points do not speak against it.
	Allowed bool
}

// Residual is what is left of a point.
type Residual struct {
	Point    Point
	Fitted   float64 // logarithm of the ratio
	Residual float64 // the point's less that
	// Standardized is the residual by the point's own error and what lies between sizes.
	Standardized float64
}

// Ratio gives an estimate of a logarithm as the factor that it is.
func Ratio(e stats.Estimate) stats.Estimate {
	e.Value, e.Interval.Low, e.Interval.High = math.Exp(e.Value), math.Exp(e.Interval.Low), math.Exp(e.Interval.High)
	return e
}

// Identifiable is nil where the points determine a term, and else a *[NotIdentifiable].
func (f Fitted) Identifiable(t Term) error { return f.refused[t] }

// Fit fits the model to the points of one platform, of one workload or several. Where
// there are too few sizes for a term of size, Platform is estimated all the same if
// the sizes agree. Errors are *[BadPoint], *[NotIdentifiable] where not even that can be
// estimated, *[UnknownForm], or say which option is out of range.
func Fit(points []Point, o Options) (Fitted, error) {
	fail := func(err error) (Fitted, error) { return Fitted{}, fmt.Errorf("fit the cost of size: %w", err) }
	o, err := o.withDefaults()
	if err != nil {
		return fail(err)
	}
	all, err := weigh(points)
	if err != nil {
		return fail(err)
	}
	f := Fitted{points: all, options: o, refused: map[Term]error{}}
	f.Size, f.IO, f.Tasks = f.absent(), f.absent(), f.absent()
	d := design{workloads: names(all)}
	if err := sizesSuffice(all, len(d.workloads)); err != nil {
		f.refused[Size] = err
		for _, t := range []Term{IO, Tasks} {
			f.refused[t] = &NotIdentifiable{Term: t, Have: sizes(all), Need: leastSizes, Of: "sizes", Why: "it is a part of the size term"}
		}
		return f.withoutSize(d)
	}
	d.size = true
	d.io, d.tasks = f.kinds()
	if err := f.choose(d); err != nil {
		return fail(err)
	}
	f.read()
	f.extrapolated()
	return f, nil
}

// extrapolated says what Platform is worth where no size has the whole host, from which
// it is defined: the simulations of docs/platforms-model.md have costs that vanish only
// there, and which the other sizes cannot separate from the platform's type.
func (f *Fitted) extrapolated() {
	all := shares(f.points)
	most := all[len(all)-1]
	shown := f.Size.Interval.Low > 0 || f.Size.Interval.High < 0
	switch {
	case most >= 1-1e-9:
	case shown && most*f.options.Reach < 1:
		f.refused[Platform] = &NotIdentifiable{
			Term: Platform,
			Have: 0,
			Need: 1,
			Of:   fmt.Sprintf("sizes of %.3g of the host or more", 1/f.options.Reach),
			Why:  "there is a cost of size, and what is left of it at the whole host is unknown",
		}
		f.Platform, f.Workloads = f.absent(), nil
	default:
		f.Platform.Warnings = append(f.Platform.Warnings, fmt.Sprintf("no size has the whole host: the largest has %.3g of it, from where the form alone leads on", most))
	}
}

func (f Fitted) absent() stats.Estimate {
	nan := math.NaN()
	return stats.Estimate{
		Value:    nan,
		Interval: stats.Interval{Low: nan, High: nan, Level: f.options.Level},
		N:        len(f.points),
		Method:   string(stats.MethodRandomEffects),
	}
}

// weighed is a point with the error that it counts with. That of few blocks is an
// estimate which may be far too small: it is drawn towards what the points have in common.
type weighed struct {
	Point
	error float64
}

func weigh(points []Point) ([]weighed, error) {
	variances, freedom := make([]float64, len(points)), make([]int, len(points))
	for i, p := range points {
		if err := p.check(i); err != nil {
			return nil, err
		}
		variances[i], freedom[i] = p.SE*p.SE*float64(p.N), p.N-1
	}
	variances, err := stats.ShrinkVariances(variances, freedom)
	if err != nil {
		return nil, err
	}
	all := make([]weighed, len(points))
	for i, p := range points {
		all[i] = weighed{p, math.Sqrt(variances[i] / float64(p.N))}
	}
	return all, nil
}

// names are the workloads.
func names(points []weighed) []string {
	all := map[string]bool{}
	for _, p := range points {
		all[p.Workload] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// sizes counts the different shares of the host.
func sizes(points []weighed) int { return len(shares(points)) }

// shares are the different ones, ascending. What differs by rounding is one.
func shares(points []weighed) []float64 {
	all := make([]float64, len(points))
	for i, p := range points {
		all[i] = p.CHR()
	}
	slices.Sort(all)
	return slices.CompactFunc(all, same)
}

func same(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(a, b) }

func sizesSuffice(points []weighed, workloads int) error {
	if have := sizes(points); have < leastSizes {
		return &NotIdentifiable{Term: Size, Have: have, Need: leastSizes, Of: "sizes"}
	}
	// Each workload has a level of its own, one coefficient is the size's, and two
	// points must be left to contradict.
	if want := workloads + 3; len(points) < want {
		return &NotIdentifiable{Term: Size, Have: len(points), Need: want, Of: "points", Why: fmt.Sprintf("of %d workloads", workloads)}
	}
	return nil
}

// kinds finds which of the two terms that set workloads apart the points determine,
// and notes why not for the others.
func (f *Fitted) kinds() (io, tasks bool) {
	ioDiffers := differs(f.points, func(p Point) float64 { return p.Intensity })
	tasksDiffer := differs(f.points, func(p Point) float64 { return p.crowding() })
	have := len(names(f.points))
	need := 2
	if ioDiffers && tasksDiffer {
		need = 3
	}
	for _, t := range []struct {
		term    Term
		differs bool
		what    string
	}{{IO, ioDiffers, "intensities"}, {Tasks, tasksDiffer, "numbers of tasks"}} {
		switch {
		case !t.differs:
			f.refused[t.term] = &NotIdentifiable{Term: t.term, Have: 1, Need: 2, Of: t.what + " of the same size"}
		case have < need || len(f.points) < have+need+2:
			f.refused[t.term] = &NotIdentifiable{Term: t.term, Have: have, Need: max(need, 2), Of: "workloads", Why: "with as many sizes each"}
		}
	}
	return f.refused[IO] == nil, f.refused[Tasks] == nil
}

// differs reports whether points of the same size differ in something: what differs
// with the size alone cannot be separated from it.
func differs(points []weighed, of func(Point) float64) bool {
	for i, p := range points {
		for _, q := range points[:i] {
			a, b := of(p.Point), of(q.Point)
			if same(p.CHR(), q.CHR()) && p.Workload != q.Workload && math.Abs(a-b) > 0.05*max(a, b) {
				return true
			}
		}
	}
	return false
}

// design is the terms that a fit has.
type design struct {
	workloads       []string
	size, io, tasks bool
}

func (d design) columns() int {
	n := len(d.workloads)
	for _, has := range []bool{d.size, d.io, d.tasks} {
		if has {
			n++
		}
	}
	return n
}

// row of a point; workload -1 is the mean of them all.
func (d design) row(g Form, p Point, workload int) []float64 {
	row := make([]float64, len(d.workloads), d.columns())
	if workload >= 0 {
		row[workload] = 1
	} else {
		for i := range row {
			row[i] = 1 / float64(len(row))
		}
	}
	if !d.size {
		return row
	}
	at := g.At(p.CHR())
	row = append(row, at)
	if d.io {
		row = append(row, at*p.Intensity)
	}
	if d.tasks {
		row = append(row, at*p.crowding())
	}
	return row
}

// fit is one form's.
type fit struct {
	form Form
	design
	stats.Regression
}

func (d design) fit(g Form, points []weighed, level float64) (fit, error) {
	rows := make([][]float64, len(points))
	y, se := make([]float64, len(points)), make([]float64, len(points))
	for i, p := range points {
		w, _ := slices.BinarySearch(d.workloads, p.Workload)
		rows[i], y[i], se[i] = d.row(g, p.Point, w), p.Log, p.error
	}
	r, err := stats.Regress(rows, y, se, level)
	return fit{form: g, design: d, Regression: r}, err
}

// withoutSize estimates Platform alone, where the sizes agree.
func (f Fitted) withoutSize(d design) (Fitted, error) {
	fail := func(err error) (Fitted, error) { return f, fmt.Errorf("fit the cost of size: %w", err) }
	have := sizes(f.points)
	if have < 2 || len(f.points) < len(d.workloads)+1 {
		f.refused[Platform] = &NotIdentifiable{Term: Platform, Have: have, Need: 2, Of: "sizes", Why: "that agree, or 4 for a size term beside it"}
		return fail(f.refused[Platform])
	}
	one, err := d.fit("", f.points, f.options.Level)
	if err != nil {
		return fail(err)
	}
	f.fits = []fit{one}
	f.read()
	if one.Agree < 1-f.options.Level {
		f.refused[Platform] = &NotIdentifiable{Term: Platform, Have: have, Need: leastSizes, Of: "sizes", Why: "these do not agree, so that there is a term of size"}
		f.Platform, f.Workloads = f.absent(), nil
		return fail(f.refused[Platform])
	}
	f.Platform.Warnings = append(f.Platform.Warnings, fmt.Sprintf("from %d sizes, which agree: a cost of size too small for them would be in it", have))
	return f, nil
}

// read gives the figures of the fits, that of the chosen form first.
func (f *Fitted) read() {
	first := f.fits[0]
	f.Form, f.Scale, f.Agree, f.Between = first.form, first.Excess, first.Regression.Agree, math.Sqrt(
		first.Regression.Between,
	)
	whole := Point{CPUs: 1, HostCPUs: 1, Tasks: 1}
	f.Platform = f.line(whole, -1)
	f.Workloads = map[string]stats.Estimate{}
	for i, name := range first.workloads {
		f.Workloads[name] = f.line(whole, i)
	}
	at := len(first.workloads)
	for _, t := range []struct {
		has bool
		to  *stats.Estimate
	}{{first.size, &f.Size}, {first.io, &f.IO}, {first.tasks, &f.Tasks}} {
		if t.has {
			*t.to = first.Coefficients[at]
			at++
		}
	}
	f.Residuals = nil
	for i, p := range f.points {
		spread := math.Hypot(p.error, f.Between)
		f.Residuals = append(
			f.Residuals,
			Residual{
				Point:        p.Point,
				Fitted:       first.Regression.Fitted[i],
				Residual:     first.Regression.Residuals[i],
				Standardized: first.Regression.Residuals[i] / spread,
			},
		)
	}
}

// line is the model at a point. Its interval holds those of every form that the
// points allow.
func (f Fitted) line(p Point, workload int) stats.Estimate {
	return f.hull(func(one fit) stats.Estimate { return one.Combination(one.row(one.form, p, workload)) })
}

// hull is the chosen form's estimate, with an interval that holds those of all that
// the points allow.
func (f Fitted) hull(of func(fit) stats.Estimate) stats.Estimate {
	e := of(f.fits[0])
	for _, other := range f.fits[1:] {
		o := of(other)
		e.Interval.Low, e.Interval.High = min(e.Interval.Low, o.Interval.Low), max(e.Interval.High, o.Interval.High)
	}
	return e
}
