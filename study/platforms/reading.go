package platforms

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	"tare/overhead"
	"tare/record"
	"tare/stats"
	"tare/workload"
)

// reading is a run as the judges and the page read it.
type reading struct {
	overhead.Reading
	spots []spot
	// fits are made once, for each takes a while and many ask.
	fits func() []parted
}

// spot is a group of a run: a workload at a size, under one question.
type spot struct {
	question, workload, group string
	size                      float64
	memory                    int64
	base                      record.Condition
	all                       []record.Condition
	metric                    workload.Metric // the primary one
}

func read(run record.Run) reading {
	r := reading{Reading: overhead.Read(run)}
	for _, c := range run.Conditions {
		at := slices.IndexFunc(r.spots, func(s spot) bool { return s.group == c.Workload })
		if at < 0 {
			name, _, _ := strings.Cut(c.Workload, " ")
			at = len(r.spots)
			r.spots = append(r.spots, spot{
				question: c.Factors[factorQuestion], workload: name, group: c.Workload,
				size: number(c, factorSize), metric: primary(c),
			})
		}
		s := &r.spots[at]
		s.all = append(s.all, c)
		s.memory = max(s.memory, c.Setting.Memory)
		if c.Baseline {
			s.base = c
		}
	}
	r.spots = slices.DeleteFunc(r.spots, func(s spot) bool { return s.base.ID == "" || !(s.size > 0) })
	r.fits = sync.OnceValue(r.takeApart)
	return r
}

// together is the reading by n intervals that hold together.
func (r reading) together(n int) reading {
	r.Reading = r.Reading.Together(n)
	r.fits = sync.OnceValue(r.takeApart)
	return r
}

// primary is the metric that carries a condition's verdict.
func primary(c record.Condition) workload.Metric {
	for _, m := range c.Metrics {
		if m.Primary {
			return m
		}
	}
	if len(c.Metrics) > 0 {
		return c.Metrics[0]
	}
	return workload.Metric{}
}

// of are the spots of a question, in order of workload and size; of one workload, where
// it is named.
func (r reading) of(question, name string) []spot {
	var all []spot
	for _, s := range r.spots {
		if s.question == question && (name == "" || s.workload == name) {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b spot) int {
		return cmp.Or(
			cmp.Compare(place(a.workload), place(b.workload)), cmp.Compare(a.workload, b.workload),
			cmp.Compare(a.size, b.size), cmp.Compare(a.memory, b.memory),
		)
	})
	return all
}

// place is a workload's in S2's order; others come after.
func place(name string) int {
	if i := slices.Index(Workloads(), name); i >= 0 {
		return i
	}
	return len(Workloads())
}

// names are the workloads of a question, in order.
func (r reading) names(question string) []string {
	var names []string
	for _, s := range r.of(question, "") {
		if !slices.Contains(names, s.workload) {
			names = append(names, s.workload)
		}
	}
	return names
}

// others are a spot's conditions but for the baseline.
func (s spot) others() []record.Condition {
	return slices.DeleteFunc(slices.Clone(s.all), func(c record.Condition) bool { return c.ID == s.base.ID })
}

func preset(c record.Condition) string { return c.Factors[factorPreset] }

func same(c record.Condition) bool { return c.Factors[factorSame] == "yes" }

// one is the condition of a kind and a preset by which claims are judged: an engine's
// where there is one, as S2's containers were Docker's, else the first.
func (s spot) one(kind Kind, with string) (record.Condition, bool) {
	var found []record.Condition
	for _, c := range s.others() {
		if KindOf(c.Platform) == kind && (preset(c) == with || kind == BM) {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return record.Condition{}, false
	}
	i := slices.IndexFunc(found, func(c record.Condition) bool { return strings.HasPrefix(inner(c.Platform), "docker") })
	return found[max(i, 0)], true
}

// inner is a path without its machine.
func inner(path string) string {
	if _, in, ok := machine(path); ok {
		return in
	}
	return path
}

// costs are, by block, how many times bare metal's time a condition takes: of the same
// CPUs, or of the ideal of a fraction of them. What is better where it is higher is turned
// round.
func (r reading) costs(s spot, base, c record.Condition) (bases, times map[int]float64) {
	bases, times = r.PerBlock(base, s.metric.Name), r.PerBlock(c, s.metric.Name)
	if s.metric.Better == workload.Higher {
		bases, times = inverse(bases), inverse(times)
	}
	return bases, scaled(times, r.ideal(s, base)/r.ideal(s, c))
}

// ideal is by how much a condition's time may exceed bare metal's on as many whole CPUs,
// without having lost anything. A part of a CPU is missing only to a program that has use
// for it: one that keeps 1.6 of two CPUs busy takes 1.6/1.5 times as long on one and a
// half. Where its use is unknown, it is taken to use all. Bare metal has whole
// CPUs, whatever size its group is of.
func (r reading) ideal(s spot, c record.Condition) float64 {
	n := number(c, factorSize)
	whole := math.Ceil(n)
	if KindOf(c.Platform) == BM || !(n < whole) {
		return 1
	}
	used := r.used(s)
	if math.IsNaN(used) {
		used = whole
	}
	return math.Max(1, math.Min(used, whole)/n)
}

// used is how many CPUs the program keeps busy on bare metal, the median of the trials;
// NaN where that, or its time, is unknown.
func (r reading) used(s spot) float64 {
	if s.metric.Unit != "s" {
		return math.NaN()
	}
	var all []float64
	elapsed := r.PerBlock(s.base, s.metric.Name)
	for _, t := range r.Run.Trials {
		cpu, recorded := t.Covariates["cpu_s"]
		if took := elapsed[t.Block]; t.Condition == s.base.ID && t.Error == "" && recorded && took > 0 {
			all = append(all, cpu/took)
		}
	}
	if len(all) == 0 {
		return math.NaN()
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

func inverse(blocks map[int]float64) map[int]float64 {
	turned := map[int]float64{}
	for block, v := range blocks {
		if v > 0 {
			turned[block] = 1 / v
		}
	}
	return turned
}

func scaled(blocks map[int]float64, by float64) map[int]float64 {
	all := map[int]float64{}
	for block, v := range blocks {
		all[block] = v * by
	}
	return all
}

// cost is how many times the baseline's time a condition takes.
func (r reading) cost(s spot, c record.Condition) stats.Estimate { return r.against(s, s.base, c) }

// against is how many times a's time b takes.
func (r reading) against(s spot, a, b record.Condition) stats.Estimate {
	bases, times := r.costs(s, a, b)
	return r.Ratio(bases, times)
}

// costBlocks is the cost, by block.
func (r reading) costBlocks(s spot, base, c record.Condition) map[int]float64 {
	bases, times := r.costs(s, base, c)
	all := map[int]float64{}
	for block, v := range times {
		if b := bases[block]; b > 0 && v > 0 {
			all[block] = v / b
		}
	}
	return all
}

// logs are the standard error of a cost's logarithm, and how many blocks it is of.
func (r reading) logs(s spot, c record.Condition) (se float64, n int) {
	bases, times := r.costs(s, s.base, c)
	var base, of []float64
	for block, v := range times {
		if b := bases[block]; b > 0 && v > 0 {
			base, of = append(base, b), append(of, v)
		}
	}
	return stats.LogSD(base, of) / math.Sqrt(float64(len(of))), len(of)
}

// smallest is the smallest effect of interest.
func (r reading) smallest() float64 { return r.Report.SmallestEffect }

// verdict is a cost in a word.
func (r reading) verdict(cost stats.Estimate) overhead.Verdict {
	switch {
	case !cost.Known():
		return overhead.Inconclusive
	case stats.EquivalentWithin(cost, r.smallest()):
		return overhead.Equivalent
	case cost.Interval.Low > 1:
		return overhead.Worse
	case cost.Interval.High < 1:
		return overhead.Better
	}
	return overhead.Inconclusive
}

// above and below report whether a whole interval lies there.
func above(e stats.Estimate, limit float64) bool { return e.Known() && e.Interval.Low > limit }
func below(e stats.Estimate, limit float64) bool { return e.Known() && e.Interval.High < limit }

// apartFrom reports whether a lies wholly below b.
func apartFrom(a, b stats.Estimate) bool {
	return a.Known() && b.Known() && a.Interval.High < b.Interval.Low
}

// within reports whether a ratio's interval lies inside a fraction of 1, either way.
func within(e stats.Estimate, fraction float64) bool {
	return e.Known() && stats.EquivalentWithin(e, fraction)
}

// emulated gathers why figures of conditions do not carry over; empty where all do.
func emulated(conditions ...record.Condition) string {
	var all []string
	for _, c := range conditions {
		if why := c.NotRepresentative; why != "" && !slices.Contains(all, why) {
			all = append(all, why)
		}
	}
	return strings.Join(all, "; ")
}

// hostCPUs are those of the host that a run was made on.
func (r reading) hostCPUs() int {
	n := r.Run.Host.CPUs
	for _, s := range r.spots {
		for _, c := range s.all {
			if _, _, ok := machine(c.Platform); !ok && c.Factors[factorQuestion] != ofHosts {
				n = max(n, int(number(c, factorHost)))
			}
		}
	}
	return n
}

// sizeOf is a spot's size in words.
func sizeOf(s spot) string { return Size{CPUs: s.size, Memory: s.memory}.String() }

// measured reports whether a spot's baseline has a figure.
func (r reading) measured(s spot) bool {
	return len(r.PerBlock(s.base, s.metric.Name)) > 0
}
