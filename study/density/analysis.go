package density

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/lab"
	"tare/load"
	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/stats"
	"tare/study/kit"
)

// reading is a run as this study reads it.
type reading struct {
	overhead.Reading
	arms []arm
	// unreadable are trials whose steps could not be read, in words.
	unreadable []string
	cliffs     map[string]cliff // that have been found
}

// together is the reading by n intervals that hold together.
func (r reading) together(n int) reading {
	r.Reading, r.cliffs = r.Reading.Together(n), map[string]cliff{}
	return r
}

// arm is one policy under which neighbours were added, in one order.
type arm struct {
	policy, order, group string
	base                 bool
	condition            record.Condition // the first: what all of an arm's share
	sweeps               []sweep          // in order of block and replicate
	twice                [][2]Step        // the steps that were executed twice in a block (A/A)
	numbers              []int            // of neighbours, rising: all that some sweep has
	tainted              int              // sweeps that were left out for taint
	blocks               int
}

// sweep is one passage through rising numbers of neighbours: a trial of a continuous
// arm, and a block of an interleaved one.
type sweep struct {
	block, replicate int
	tainted          bool
	warmed           []warmth // of its trials, those that were warmed
	repeated         int      // steps' loads that were made again for something foreign
	steps            []Step   // by rising number: those that were loaded
	// ended are steps that were stopped before they had any figure of throughput. They are not
	// among steps. end is the first of them, nil where there is none.
	ended []Step
	end   *halt
}

func (s sweep) at(neighbours int) (Step, bool) {
	i, ok := slices.BinarySearchFunc(
		s.steps,
		neighbours,
		func(s Step, n int) int { return cmp.Compare(s.Neighbours, n) },
	)
	if !ok {
		return Step{}, false
	}
	return s.steps[i], true
}

// read reads a run; the texts of its steps too, where attachments are given.
func read(run record.Run, attachments kit.Attachments) reading {
	r := reading{Reading: overhead.Read(run), cliffs: map[string]cliff{}}
	type key struct{ group, policy, order string }
	at := map[key]int{}
	for _, c := range run.Conditions {
		if c.Factors[FactorNeighbours] == "" {
			continue // none of this study's
		}
		k := key{c.Workload, cmp.Or(c.Factors[FactorPolicy], c.Label), cmp.Or(c.Factors[FactorOrder], Continuous)}
		i, seen := at[k]
		if !seen {
			i = len(r.arms)
			at[k] = i
			r.arms = append(r.arms, arm{policy: k.policy, order: k.order, group: k.group, condition: c})
		}
		a := &r.arms[i]
		a.base = a.base || c.Baseline
		if c.Baseline {
			a.condition = c
		}
		r.add(a, c, attachments)
	}
	for i := range r.arms {
		r.arms[i].settle()
	}
	// A base that was not measured before a run was stopped stays the base.
	all := slices.Clone(r.arms)
	r.arms = slices.DeleteFunc(r.arms, func(a arm) bool {
		return !a.measured() && !(a.base && slices.ContainsFunc(all, func(b arm) bool {
			return b.measured() && b.group == a.group && b.order == a.order
		}))
	})
	slices.SortStableFunc(r.arms, func(a, b arm) int {
		return cmp.Or(
			strings.Compare(a.group, b.group),
			strings.Compare(a.order, b.order),
			cmp.Compare(rankOf(!a.base), rankOf(!b.base)),
		)
	})
	return r
}

func rankOf(later bool) int {
	if later {
		return 1
	}
	return 0
}

// add reads a condition's trials into an arm.
func (r *reading) add(a *arm, c record.Condition, attachments kit.Attachments) {
	for _, t := range r.Trials(c) {
		steps, err := stepsOf(t)
		if err == nil && attachments != nil {
			err = texts(t, steps, attachments)
		}
		if err != nil {
			r.unreadable = append(r.unreadable, fmt.Sprintf("the steps of trial %d (%s) could not be read whole: %v", t.ID, c.Label, err))
		}
		if len(steps) == 0 {
			continue
		}
		s := sweep{
			block:     t.Block,
			replicate: t.Replicate,
			tainted:   len(t.Taint) > 0,
			repeated:  int(t.Covariates[lab.StepsRepeated]),
		}
		if w, ok := warmthOf(t); ok {
			s.warmed = append(s.warmed, w)
		}
		for _, step := range steps {
			if step.isWithoutFigures() {
				s.ended = append(s.ended, step)
			} else {
				s.steps = append(s.steps, step)
			}
		}
		if a.order != Interleaved {
			a.sweeps = append(a.sweeps, s)
			continue
		}
		// The numbers of a block are one sweep: they are paired as those of one trial are.
		i := slices.IndexFunc(a.sweeps, func(o sweep) bool { return o.block == s.block })
		if i < 0 {
			s.replicate = 0
			a.sweeps = append(a.sweeps, s)
			continue
		}
		into := &a.sweeps[i]
		into.tainted = into.tainted || s.tainted
		into.warmed, into.repeated = append(into.warmed, s.warmed...), into.repeated+s.repeated
		into.ended = append(into.ended, s.ended...)
		for _, step := range s.steps {
			if j := slices.IndexFunc(into.steps, func(o Step) bool { return o.Neighbours == step.Neighbours }); j >= 0 {
				if !into.tainted {
					a.twice = append(a.twice, [2]Step{into.steps[j], step})
				}
				into.steps[j] = together(into.steps[j], step)
			} else {
				into.steps = append(into.steps, step)
			}
		}
	}
}

// settle sorts an arm's sweeps, and leaves tainted ones out where there are others.
func (a *arm) settle() {
	clean := slices.DeleteFunc(slices.Clone(a.sweeps), func(s sweep) bool { return s.tainted })
	if len(clean) > 0 {
		a.tainted = len(a.sweeps) - len(clean)
		a.sweeps = clean
	}
	slices.SortFunc(a.sweeps, func(x, y sweep) int {
		return cmp.Or(cmp.Compare(x.block, y.block), cmp.Compare(x.replicate, y.replicate))
	})
	numbers, blocks := map[int]bool{}, map[int]bool{}
	for i := range a.sweeps {
		slices.SortFunc(a.sweeps[i].steps, func(x, y Step) int { return cmp.Compare(x.Neighbours, y.Neighbours) })
		a.sweeps[i].halted()
		blocks[a.sweeps[i].block] = true
		for _, s := range a.sweeps[i].steps {
			numbers[s.Neighbours] = true
		}
	}
	a.numbers, a.blocks = slices.Sorted(maps.Keys(numbers)), len(blocks)
	if a.order != Interleaved {
		a.pairUp()
	}
}

// isWithoutFigures reports whether a step was stopped before any request of clients that wait was
// answered or refused: while its neighbours started, or in the load by a schedule. Figures up to then
// do not count. A whole load without an answer is a figure.
func (s *Step) isWithoutFigures() bool {
	switch {
	case s.Stop == "":
		return false
	case s.unanswered():
		return s.Elapsed <= 0 // as the box came to rest
	}
	return s.Closed.Requests+s.Closed.Failed == 0
}

// halted makes the first of the steps without figures the end of the sweep. The memory demand there is
// extrapolated from the two steps before. Without two steps it is unknown.
func (s *sweep) halted() {
	if len(s.ended) == 0 {
		return
	}
	slices.SortStableFunc(s.ended, func(x, y Step) int { return cmp.Compare(x.Neighbours, y.Neighbours) })
	ended := s.ended[0]
	s.end = &halt{ended.Neighbours, known(ended.Overcommit), ended.Stop}
	before := slices.IndexFunc(s.steps, func(o Step) bool { return o.Neighbours >= ended.Neighbours })
	if before < 0 {
		before = len(s.steps)
	}
	if ended.Overcommit > 0 || before < 2 {
		return
	}
	x, y := s.steps[before-2], s.steps[before-1]
	s.end.overcommit = y.Overcommit +
		(y.Overcommit-x.Overcommit)*float64(ended.Neighbours-y.Neighbours)/float64(y.Neighbours-x.Neighbours)
}

// known is an amount of memory; none is what was never read.
func known(overcommit float64) float64 {
	if overcommit > 0 {
		return overcommit
	}
	return math.NaN()
}

// together is two executions of one step (A/A) as one: twice as long.
func together(a, b Step) Step {
	weight := func(x, y float64) float64 {
		if total := a.Elapsed + b.Elapsed; total > 0 {
			return (x*a.Elapsed.Seconds() + y*b.Elapsed.Seconds()) / total.Seconds()
		}
		return (x + y) / 2
	}
	served := func(x, y Served) Served {
		s := Served{
			Rate: weight(x.Rate, y.Rate), Requests: x.Requests + y.Requests, Failed: x.Failed + y.Failed,
			Elapsed: x.Elapsed + y.Elapsed,
		}
		if s.Elapsed > 0 {
			s.Rate = (x.Rate*x.Elapsed.Seconds() + y.Rate*y.Elapsed.Seconds()) / s.Elapsed.Seconds()
		}
		s.Latency = merged(x.Latency, y.Latency)
		s.Batches = x.Batches.followed(y.Batches)
		return s
	}
	s := a
	s.Overcommit, s.Asked = (a.Overcommit+b.Overcommit)/2, (a.Asked+b.Asked)/2
	s.Stop = cmp.Or(a.Stop, b.Stop)
	s.Closed, s.Open = served(a.Closed, b.Closed), served(a.Open, b.Open)
	s.Idle, s.Bursts = served(a.Idle, b.Idle), served(a.Bursts, b.Bursts)
	s.Elapsed = a.Elapsed + b.Elapsed
	s.SwapIn, s.SwapOut = a.SwapIn+b.SwapIn, a.SwapOut+b.SwapOut
	s.DeviceWritten, s.DeviceRead = a.DeviceWritten+b.DeviceWritten, a.DeviceRead+b.DeviceRead
	s.Pool, s.Limit = max(a.Pool, b.Pool), min(a.Limit, b.Limit)
	s.SwapUsed, s.SwapSize = max(a.SwapUsed, b.SwapUsed), max(a.SwapSize, b.SwapSize)
	s.Keeper, s.Reclaimed = a.Keeper+b.Keeper, a.Reclaimed+b.Reclaimed
	s.Extension = a.Extension.followed(b.Extension)
	s.Notes = slices.Clone(a.Notes)
	for _, note := range b.Notes {
		if !slices.Contains(s.Notes, note) {
			s.Notes = append(s.Notes, note)
		}
	}
	s.Classes = map[platform.Class]ClassAccounts{}
	for _, c := range platform.Classes {
		x, y := a.Classes[c], b.Classes[c]
		s.Classes[c] = ClassAccounts{
			Resident:    (x.Resident + y.Resident) / 2,
			Swapped:     (x.Swapped + y.Swapped) / 2,
			MajorFaults: x.MajorFaults + y.MajorFaults,
			Some:        x.Some + y.Some,
			Full:        x.Full + y.Full,
			CPU:         x.CPU + y.CPU,
			OOMKills:    x.OOMKills + y.OOMKills,
		}
	}
	s.Absent = maps.Clone(a.Absent)
	if s.Absent == nil {
		s.Absent = map[string]string{}
	}
	maps.Copy(s.Absent, b.Absent)
	return s
}

// merged is one histogram of several; those that are none take no part.
func merged(all ...*hdrhistogram.Histogram) *hdrhistogram.Histogram {
	whole := hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
	for _, h := range all {
		if h != nil {
			whole.Merge(h)
		}
	}
	return whole
}

// texts puts into steps what only the attachment has: why a sweep ended, which figures the kernel
// does not report, and notes on the box.
func texts(t record.Trial, steps []Step, attachments kit.Attachments) error {
	if !slices.ContainsFunc(t.Attachments, func(a record.Attachment) bool { return a.Name == AttachmentSteps }) {
		return nil
	}
	data, err := attachments(t.ID, AttachmentSteps)
	if err != nil {
		return err
	}
	var whole []Step
	if err := json.Unmarshal(data, &whole); err != nil {
		return fmt.Errorf("%s: %w", AttachmentSteps, err)
	}
	for i := range steps {
		for _, w := range whole {
			if w.Neighbours == steps[i].Neighbours {
				steps[i].Stop, steps[i].Absent, steps[i].Notes = w.Stop, w.Absent, w.Notes
			}
		}
	}
	return nil
}

// measured reports whether an arm has any step. A base may have none where a run was stopped.
func (a arm) measured() bool { return len(a.numbers) > 0 }

// first is the least number of neighbours, to which the others are compared.
func (a arm) first() int { return a.numbers[0] }

// last is the greatest number that every sweep reached, and greatest the one that any did.
func (a arm) last() int {
	last := a.first()
	for _, n := range a.numbers {
		if len(a.has(n)) == len(a.sweeps) {
			last = n
		}
	}
	return last
}

// settled is the greatest number that every sweep went through; the least where none is.
func (a arm) settled() int {
	settled := a.first()
	for _, n := range a.numbers {
		steps := a.has(n)
		stopped := slices.ContainsFunc(steps, func(s Step) bool { return s.Stop != "" }) ||
			slices.ContainsFunc(a.sweeps, func(s sweep) bool {
				return slices.ContainsFunc(s.ended, func(e Step) bool { return e.Neighbours == n })
			})
		if len(steps) == len(a.sweeps) && !stopped {
			settled = n
		}
	}
	return settled
}

func (a arm) greatest() int { return a.numbers[len(a.numbers)-1] }

// has are the sweeps that have a step.
func (a arm) has(n int) []Step {
	var all []Step
	for _, s := range a.sweeps {
		if step, ok := s.at(n); ok {
			all = append(all, step)
		}
	}
	return all
}

// pairs are, of the sweeps that have both, the first step and another.
func (a arm) pairs(n int) (first, other []Step) {
	for _, s := range a.sweeps {
		x, has := s.at(a.first())
		y, ok := s.at(n)
		if has && ok {
			first, other = append(first, x), append(other, y)
		}
	}
	return first, other
}

// values are a figure of steps.
func values(steps []Step, of func(Step) float64) []float64 {
	all := make([]float64, len(steps))
	for i, s := range steps {
		all[i] = of(s)
	}
	return all
}

func rateOf(s Step) float64 { return s.Closed.Rate }

// aboveZero is a throughput of which a logarithm can be taken: of a step in which
// nothing was answered, half a request in the time in which clients waited, or, where they
// did not come to that, in the step's.
func aboveZero(s Step) float64 {
	elapsed := s.Closed.Elapsed
	if elapsed <= 0 {
		elapsed = s.Elapsed
	}
	if s.Closed.Rate > 0 || elapsed <= 0 {
		return s.Closed.Rate
	}
	return 0.5 / elapsed.Seconds()
}

// loadOf picks one of a step's loads.
type loadOf func(Step) Served

func open(s Step) Served   { return s.Open }
func idle(s Step) Served   { return s.Idle }
func bursts(s Step) Served { return s.Bursts }

// whole is the latency of all that were asked: a request that failed has taken at least
// as long as one that is given up, and as the slowest that was answered. Left out, it
// would make a percentile one of the survivors, which falls as more give up.
func (s Served) whole() *hdrhistogram.Histogram {
	if s.Failed <= 0 {
		return s.Latency
	}
	all := merged(s.Latency)
	_ = all.RecordValues(max(all.Max(), load.DefaultTimeout.Microseconds()), s.Failed) // within the range
	return all
}

// isAnswered reports whether a percentile of a load lies among answered requests. Beyond them only
// its lower bound is known.
func isAnswered(steps []Step, of loadOf, q float64) bool {
	var answered, failed int64
	for _, s := range steps {
		served := of(s)
		failed += max(0, served.Failed)
		if served.Latency != nil {
			answered += served.Latency.TotalCount()
		}
	}
	return q*float64(answered+failed) <= float64(answered)
}

// withTurns leaves out the steps in which nobody asked anything of a load while the service was
// asked: where gaps are long no neighbour may have its turn within a step. Of pairs both go.
func withTurns(of loadOf, first, other []Step) (x, y []Step) {
	none := func(s Step) bool { return of(s).unasked() && !s.Open.unasked() }
	for i := range first {
		if none(first[i]) || other != nil && none(other[i]) {
			continue
		}
		x = append(x, first[i])
		if other != nil {
			y = append(y, other[i])
		}
	}
	return x, y
}

// unasked reports whether there was no request at all.
func (s Served) unasked() bool {
	return s.Failed <= 0 && (s.Latency == nil || s.Latency.TotalCount() == 0)
}

// answered are the latencies of a load; false where a step has none.
func answered(steps []Step, of loadOf) ([]*hdrhistogram.Histogram, bool) {
	var all []*hdrhistogram.Histogram
	for _, s := range steps {
		h := of(s).whole()
		if h == nil || h.TotalCount() == 0 {
			return nil, false
		}
		all = append(all, h)
	}
	return all, len(all) > 0
}

// overcommit is the memory asked for over the box's, at a number of neighbours.
func (r reading) overcommit(a arm, n int) stats.Estimate {
	read := slices.DeleteFunc(a.has(n), func(s Step) bool { return s.Overcommit <= 0 }) // the box was gone before
	return r.mean(values(read, func(s Step) float64 { return s.Overcommit }))
}

// mean is that of sweeps, with Student's t.
func (r reading) mean(of []float64) stats.Estimate {
	if len(of) == 0 {
		return stats.Absent(r.Report.Level)
	}
	return stats.MeanBy(stats.MethodT, of, r.Report.Level, r.Run.Seed)
}

// geometric is the geometric mean of sweeps, of what is above zero.
func (r reading) geometric(of []float64) stats.Estimate {
	if len(of) == 0 {
		return stats.Absent(r.Report.Level)
	}
	if slices.Min(of) <= 0 {
		return r.mean(of)
	}
	return stats.GeometricMean(of, r.Report.Level, r.Run.Seed)
}

// throughput is what clients that wait get, a second.
func (r reading) throughput(a arm, n int) stats.Estimate {
	return r.geometric(values(a.has(n), rateOf))
}

// quantile is that of a load at a number of neighbours, in microseconds, over all sweeps
// merged.
func (r reading) quantile(a arm, n int, of loadOf, q float64) stats.Estimate {
	steps, _ := withTurns(of, a.has(n), nil)
	all, ok := answered(steps, of)
	if !ok || !isAnswered(steps, of, q) {
		return stats.Absent(r.Report.Level)
	}
	return stats.Quantile(all, q, r.Report.Level, r.Run.Seed)
}

// moment is the geometric mean over sweeps of a figure of each sweep's own histogram:
// its mean or its extremes, which no merging makes.
func (r reading) moment(a arm, n int, of loadOf, figure func(*hdrhistogram.Histogram) float64) stats.Estimate {
	steps, _ := withTurns(of, a.has(n), nil)
	all, ok := answered(steps, of)
	if !ok {
		return stats.Absent(r.Report.Level)
	}
	var own []float64
	for _, h := range all {
		own = append(own, max(figure(h), 1)) // a histogram of microseconds has what is less as 0
	}
	return r.geometric(own)
}

func meanOf(h *hdrhistogram.Histogram) float64     { return h.Mean() }
func leastOf(h *hdrhistogram.Histogram) float64    { return float64(h.Min()) }
func greatestOf(h *hdrhistogram.Histogram) float64 { return float64(h.Max()) }

// throughputRatio is the throughput against that at the least number, paired within sweeps.
func (r reading) throughputRatio(a arm, n int) stats.Estimate {
	first, other := a.pairs(n)
	return r.ratio(values(first, aboveZero), values(other, aboveZero))
}

func (r reading) ratio(base, other []float64) stats.Estimate {
	if len(base) == 0 {
		return stats.Absent(r.Report.Level)
	}
	return stats.PairedRatio(base, other, r.Report.Level, r.Run.Seed)
}

// quantileRatio is a quantile against that at the least number, sweeps as pairs.
func (r reading) quantileRatio(a arm, n int, of loadOf, q float64) stats.Estimate {
	first, other := a.pairs(n)
	first, other = withTurns(of, first, other)
	base, has := answered(first, of)
	treatment, ok := answered(other, of)
	if !has || !ok || !isAnswered(first, of, q) || !isAnswered(other, of, q) {
		return stats.Absent(r.Report.Level)
	}
	return stats.QuantileRatio(base, treatment, q, r.Report.Level, r.Run.Seed)
}

// momentRatio is the same of a figure of each sweep's own.
func (r reading) momentRatio(a arm, n int, of loadOf, figure func(*hdrhistogram.Histogram) float64) stats.Estimate {
	first, other := a.pairs(n)
	first, other = withTurns(of, first, other)
	base, has := answered(first, of)
	treatment, ok := answered(other, of)
	if !has || !ok {
		return stats.Absent(r.Report.Level)
	}
	var x, y []float64
	for i := range base {
		x, y = append(x, max(figure(base[i]), 1)), append(y, max(figure(treatment[i]), 1))
	}
	return r.ratio(x, y)
}

// perSecond is an amount of a step over its time, the mean of sweeps; absent where the
// kernel does not report it.
func (r reading) perSecond(a arm, n int, name string, of func(Step) float64) stats.Estimate {
	var all []float64
	for _, s := range a.has(n) {
		if s.Elapsed > 0 && !s.lacks(name) {
			all = append(all, of(s)/s.Elapsed.Seconds())
		}
	}
	return r.mean(all)
}

// lacks reports whether the kernel did not report a figure, by its JSON name.
func (s Step) lacks(name string) bool {
	for absent := range s.Absent {
		if absent == name || strings.HasSuffix(absent, "."+name) {
			return true
		}
	}
	return false
}

// halt is where sweeps ended before their last number.
type halt struct {
	neighbours int
	overcommit float64
	why        string
}

// halts are those of an arm: of each sweep that ended early, the first.
func (a arm) halts() []halt {
	var all []halt
	for _, s := range a.sweeps {
		first := s.end
		for _, step := range s.steps {
			if step.Stop != "" && (first == nil || step.Neighbours < first.neighbours) {
				first = &halt{step.Neighbours, known(step.Overcommit), step.Stop}
				break
			}
		}
		if first != nil {
			all = append(all, *first)
		}
	}
	return all
}

// others are the arms that are compared with a base, of its group and order.
func (r reading) others(base arm) []arm {
	var all []arm
	for _, a := range r.arms {
		if !a.base && a.policy != base.policy && a.group == base.group && a.order == base.order {
			all = append(all, a)
		}
	}
	return all
}

// bases are the arms that the others are compared with: one of each group and order.
func (r reading) bases() []arm {
	var all []arm
	for _, a := range r.arms {
		same := func(b arm) bool { return b.group == a.group && b.order == a.order }
		if a.base ||
			!slices.ContainsFunc(r.arms, func(b arm) bool { return same(b) && b.base }) &&
				!slices.ContainsFunc(all, same) {
			all = append(all, a)
		}
	}
	return all
}

// lead is the arm that stands for a base and those compared with it: the base, or, where it was not
// measured, the first that was.
func (r reading) lead(base arm) arm {
	if others := r.others(base); !base.measured() && len(others) > 0 {
		return others[0]
	}
	return base
}

// byBlock are an arm's steps at a number, by block: the base's two executions of one
// block together.
func (a arm) byBlock(n int) map[int]Step {
	all := map[int]Step{}
	for _, s := range a.sweeps {
		step, ok := s.at(n)
		if !ok {
			continue
		}
		if other, twice := all[s.block]; twice {
			step = together(other, step)
		}
		all[s.block] = step
	}
	return all
}

// against are the steps of two arms at a number, of the blocks that have both.
func against(base, other arm, n int) (x, y []Step) {
	of, with := base.byBlock(n), other.byBlock(n)
	for _, block := range slices.Sorted(maps.Keys(of)) {
		if s, ok := with[block]; ok {
			x, y = append(x, of[block]), append(y, s)
		}
	}
	return x, y
}

// throughputAgainst is another arm's throughput over the base's at the same number.
func (r reading) throughputAgainst(base, other arm, n int) stats.Estimate {
	x, y := against(base, other, n)
	return r.ratio(values(x, aboveZero), values(y, aboveZero))
}

// quantileAgainst is another arm's quantile over the base's at the same number.
func (r reading) quantileAgainst(base, other arm, n int, of loadOf, q float64) stats.Estimate {
	x, y := against(base, other, n)
	x, y = withTurns(of, x, y)
	a, has := answered(x, of)
	b, ok := answered(y, of)
	if !has || !ok || !isAnswered(x, of, q) || !isAnswered(y, of, q) {
		return stats.Absent(r.Report.Level)
	}
	return stats.QuantileRatio(a, b, q, r.Report.Level, r.Run.Seed)
}

// latencyAgainst is a figure of latency of another arm over the base's at the same number.
func (r reading) latencyAgainst(base, other arm, n int, q float64) stats.Estimate {
	if q < 1 {
		return r.quantileAgainst(base, other, n, open, q)
	}
	x, y := against(base, other, n)
	greatest := func(s Step) float64 {
		v, _ := ownQuantile(s.Open.whole(), 1)
		return v
	}
	return r.ratio(values(x, greatest), values(y, greatest))
}

// shared are the numbers that two arms have.
func shared(a, b arm) []int {
	var all []int
	for _, n := range a.numbers {
		if slices.Contains(b.numbers, n) {
			all = append(all, n)
		}
	}
	return all
}

// critical and noise are the names of what was measured: "booking", "static random".
func (a arm) critical() string {
	name, _, _ := strings.Cut(a.group, " beside ")
	if name, _, _ = strings.Cut(name, "["); name == "" {
		return "the service"
	}
	return strings.TrimSpace(name)
}

func (a arm) noise() string {
	if noise := a.condition.Factors[FactorNoise]; noise != "" {
		return noise
	}
	_, noise, _ := strings.Cut(a.group, " beside ")
	return noise
}

func (a arm) factor(name string) string { return a.condition.Factors[name] }

// name is an arm's, with its order where others of the run have another.
func (r reading) name(a arm) string {
	text := a.policy
	if slices.ContainsFunc(r.arms, func(b arm) bool { return b.order != a.order }) {
		text += ", " + a.order
	}
	if slices.ContainsFunc(r.arms, func(b arm) bool { return b.group != a.group }) {
		text = a.group + ", " + text
	}
	return text
}
