package platforms

import (
	"math"
	"strconv"

	"tare/overhead"
	"tare/record"
	"tare/stats"
)

// A figure is one that a probe gives of a watched trial, from its covariates; NaN where
// the probe lacked what it requires.
type figure struct {
	head     string // of its column
	doc      string
	optional bool // left out of a narrow screen
	scale    float64
	of       func(c record.Condition, cov map[string]float64) float64
}

// share is a part of a whole; NaN where either is not known.
func share(cov map[string]float64, part, whole string) float64 {
	p, ok := cov[part]
	w, had := cov[whole]
	if !ok || !had || !(w > 0) {
		return math.NaN()
	}
	return p / w
}

// figures are those that stand beside the overhead.
var figures = []figure{
	{head: "burst, ms", doc: "mean time that a thread ran before it left its CPU", optional: true, scale: 1e3,
		of: func(_ record.Condition, cov map[string]float64) float64 { return orNaN(cov, covBurst) }},
	{head: "waits, %", doc: "share of the runnable time spent waiting for a CPU", scale: 100,
		of: func(_ record.Condition, cov map[string]float64) float64 {
			wait, ran := orNaN(cov, covWait), orNaN(cov, covCPU)
			return wait / (wait + ran)
		}},
	{head: "migrations/s", doc: "per second of CPU time", scale: 1,
		of: func(_ record.Condition, cov map[string]float64) float64 { return share(cov, covMigrations, covCPU) }},
	{head: "throttled, %", doc: "share of the quota's periods in which it was used up", scale: 100,
		of: func(_ record.Condition, cov map[string]float64) float64 {
			if n, ok := cov[covPeriods]; ok && n == 0 {
				return 0 // no quota, or none that was ever counted
			}
			return share(cov, covCut, covPeriods)
		}},
	{head: "accounting, %", doc: "share of samples in the scheduler's accounting", optional: true, scale: 100,
		of: func(_ record.Condition, cov map[string]float64) float64 { return share(cov, covAccounting, covSamples) }},
	{head: "IRQ migrations/s", doc: "wakings by an interrupt that continued on another CPU, per second of CPU time",
		optional: true, scale: 1,
		of: func(_ record.Condition, cov map[string]float64) float64 { return share(cov, covElsewhere, covCPU) }},
}

func orNaN(cov map[string]float64, name string) float64 {
	if v, ok := cov[name]; ok {
		return v
	}
	return math.NaN()
}

// perTrial gives a figure of a condition's trials by block.
func (r reading) perTrial(c record.Condition, of func(record.Condition, map[string]float64) float64) map[int]float64 {
	blocks := map[int]float64{}
	for _, t := range r.Trials(c) {
		if v := of(c, t.Covariates); v == v && !math.IsInf(v, 0) {
			blocks[t.Block] = v
		}
	}
	return blocks
}

// watchedFigure is a figure's mean over blocks.
func (r reading) watchedFigure(
	c record.Condition,
	of func(record.Condition, map[string]float64) float64,
) stats.Estimate {
	blocks := r.perTrial(c, of)
	if len(blocks) == 0 {
		return stats.Absent(r.Report.Level)
	}
	return r.Mean(blocks)
}

// requests are how many a service received in a trial; NaN where its workload has no
// such parameter.
func requests(c record.Condition) float64 {
	for _, name := range []string{"requests", "operations"} {
		if v, err := strconv.ParseFloat(c.Params[name], 64); err == nil && v > 0 {
			return v
		}
	}
	return math.NaN()
}

// interruptsEach are the interrupts that came for a request.
func interruptsEach(c record.Condition, cov map[string]float64) float64 {
	return (orNaN(cov, covHard) + orNaN(cov, covSoft)) / requests(c)
}

// elsewhereEach are the wakings by interrupt for a request that went on elsewhere.
func elsewhereEach(c record.Condition, cov map[string]float64) float64 {
	return orNaN(cov, covElsewhere) / requests(c)
}

// intensity is how much of a workload is input and output: wakings by interrupt in a
// second of CPU time, in thousands, on bare metal; false where nothing watched.
func (r reading) intensity(name string) (thousands float64, known bool) {
	for _, s := range r.of(ofCauses, name) {
		e := r.watchedFigure(s.base, func(_ record.Condition, cov map[string]float64) float64 {
			return share(cov, covWoken, covCPU)
		})
		if e.Value >= 0 {
			return e.Value / 1000, true
		}
	}
	return 0, false
}

// explanation is how much of the time that a vanilla container loses against the same one
// pinned is CPU time. Cold caches after a migration and the accounting are in that. The rest
// was spent waiting, for quota or for a CPU.
type explanation struct {
	spot            spot
	vanilla, pinned record.Condition
	lost            stats.Estimate // seconds of time
	worked          stats.Estimate // of these, in CPU time of as many CPUs
	part            stats.Estimate // worked of lost
	moves           stats.Estimate // migrations of vanilla against those of pinned, difference
}

// explain is that of each watched size at which the two can differ, the smallest first.
func (r reading) explain(name string) (all []explanation) {
	for _, s := range r.of(ofCauses, name) {
		vanilla, ok := s.one(CN, Vanilla)
		pinned, had := s.one(CN, Pinned)
		if !ok || !had || same(vanilla) || s.metric.Unit != "s" {
			continue
		}
		e := explanation{spot: s, vanilla: vanilla, pinned: pinned}
		lost := overhead.Difference(r.PerBlock(pinned, s.metric.Name), r.PerBlock(vanilla, s.metric.Name))
		cpu := func(_ record.Condition, cov map[string]float64) float64 { return orNaN(cov, covCPU) }
		worked := scaled(overhead.Difference(r.perTrial(pinned, cpu), r.perTrial(vanilla, cpu)), 1/s.size)
		moved := func(_ record.Condition, cov map[string]float64) float64 { return orNaN(cov, covMigrations) }
		e.lost, e.worked = r.meanOf(lost), r.meanOf(worked)
		e.moves = r.meanOf(overhead.Difference(r.perTrial(pinned, moved), r.perTrial(vanilla, moved)))
		whole, part := together(lost, worked)
		e.part = stats.Absent(r.Report.Level)
		if len(whole) > 0 {
			// Of single blocks either difference may be negative: they are no counts.
			e.part = stats.MeanRatio(whole, part, r.Report.Level, r.Run.Seed)
		}
		all = append(all, e)
	}
	return all
}

func (r reading) meanOf(blocks map[int]float64) stats.Estimate {
	if len(blocks) == 0 {
		return stats.Absent(r.Report.Level)
	}
	return r.Mean(blocks)
}

// together are two figures' values, in order, of blocks that both have.
func together(a, b map[int]float64) (as, bs []float64) {
	for block := range maxBlock(a) + 1 {
		va, ok := a[block]
		vb, had := b[block]
		if ok && had {
			as, bs = append(as, va), append(bs, vb)
		}
	}
	return as, bs
}

func maxBlock(blocks map[int]float64) int {
	most := 0
	for block := range blocks {
		most = max(most, block)
	}
	return most
}
