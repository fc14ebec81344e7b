package network

import (
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/overhead"
	"tare/record"
	"tare/stats"
	"tare/study/latency/service"
)

// statistic is what of a block's latencies is compared.
type statistic struct {
	name string
	of   func(h *hdrhistogram.Histogram) float64 // in microseconds
}

var (
	median = statistic{"median", func(h *hdrhistogram.Histogram) float64 { return quantile(h, 0.5) }}
	mean   = statistic{"mean", func(h *hdrhistogram.Histogram) float64 { return h.Mean() }}
	p99    = statistic{"p99", func(h *hdrhistogram.Histogram) float64 { return quantile(h, 0.99) }}
)

// quantile is a histogram's, interpolated within its step as for grouped data. A
// path may cost a few microseconds, and a step is one.
func quantile(h *hdrhistogram.Histogram, q float64) float64 {
	wanted := q * float64(h.TotalCount())
	var below float64
	for _, step := range h.Distribution() {
		count := float64(step.Count)
		if count > 0 && below+count >= wanted {
			// What a step holds was rounded to it: it begins half a unit lower.
			return float64(step.From) - 0.5 + float64(step.To-step.From+1)*(wanted-below)/count
		}
		below += count
	}
	return math.NaN()
}

// blocks are values by block.
type blocks map[int]float64

// level is one message size of a trip.
type level struct {
	bytes      int
	base, with map[string]blocks // by statistic's name
}

func (l level) difference(s statistic) blocks {
	d := blocks{}
	for block, v := range l.with[s.name] {
		if b, ok := l.base[s.name][block]; ok {
			d[block] = v - b
		}
	}
	return d
}

// trip is a path compared with its baseline, in one direction.
type trip struct {
	overhead.Reading
	of, base                           record.Condition
	direction, connection, place, path string
	server, by                         string // languages
	null                               bool   // the baseline's second execution against its first
	levels                             []level
}

// trips reads a run: each path of each group, and each baseline against itself.
func trips(r overhead.Reading) (all []trip) {
	bases := map[string]record.Condition{}
	for _, c := range r.Run.Conditions {
		if c.Factors[factorExperiment] == Experiment && c.Baseline {
			bases[c.Workload] = c
		}
	}
	for _, c := range r.Run.Conditions {
		base, ok := bases[c.Workload]
		if c.Factors[factorExperiment] != Experiment || !ok {
			continue
		}
		t := trip{
			Reading: r, of: c, base: base, null: c.Baseline,
			direction: c.Factors[factorDirection], connection: c.Factors[factorConnection],
			place: c.Factors[factorClient], path: c.Factors[factorPath],
			server: c.Factors[factorServer], by: c.Factors[factorBy],
		}
		first, second := both, both
		if c.Baseline {
			first, second = 0, 1
		}
		of, against := latencies(r, c, second), latencies(r, base, first)
		for _, bytes := range parseSizes(c.Factors[factorSizes]) {
			name := loadOf(bytes).Of(service.Latency)
			t.levels = append(t.levels, level{bytes: bytes, base: against[name], with: of[name]})
		}
		slices.SortFunc(t.levels, func(a, b level) int { return a.bytes - b.bytes })
		all = append(all, t)
	}
	return all
}

// together widens the trips' intervals so that they hold together. Each trip is read
// by so many intervals.
func together(all []trip, each int) []trip {
	for i := range all {
		all[i].Reading = all[i].Together(each * len(all))
	}
	return all
}

// both takes a baseline's two executions together.
const both = -1

// latencies are the statistics of a condition's histograms by name, statistic and
// block; those of tainted blocks only where there are no others.
func latencies(r overhead.Reading, c record.Condition, replicate int) map[string]map[string]blocks {
	merged := map[string]map[int]*hdrhistogram.Histogram{}
	for _, t := range r.Trials(c) {
		if replicate != both && t.Replicate != replicate {
			continue
		}
		for name, text := range t.Histograms {
			h, err := text.Decode()
			if err != nil || h.TotalCount() == 0 {
				continue // the report of the run lists it
			}
			if merged[name] == nil {
				merged[name] = map[int]*hdrhistogram.Histogram{}
			}
			if had := merged[name][t.Block]; had != nil {
				had.Merge(h)
				continue
			}
			merged[name][t.Block] = h
		}
	}
	all := map[string]map[string]blocks{}
	for _, m := range c.Metrics {
		if m.Quantile == 0 || all[m.Histogram] != nil {
			continue
		}
		all[m.Histogram] = map[string]blocks{median.name: {}, mean.name: {}, p99.name: {}}
		counts := r.PerBlock(c, m.Name)
		for block, h := range merged[m.Histogram] {
			if _, ok := counts[block]; !ok {
				continue
			}
			for _, s := range []statistic{median, mean, p99} {
				all[m.Histogram][s.name][block] = s.of(h)
			}
		}
	}
	return all
}

// difference is what the trip costs at a size, in microseconds, paired by block.
func (t trip) difference(l level, s statistic) stats.Estimate { return t.Mean(l.difference(s)) }

// ratio is the trip against its baseline at a size.
func (t trip) ratio(l level, s statistic) stats.Estimate {
	return t.Ratio(l.base[s.name], l.with[s.name])
}

// at gives the level of a size.
func (t trip) at(bytes int) (level, bool) {
	for _, l := range t.levels {
		if l.bytes == bytes {
			return l, true
		}
	}
	return level{}, false
}

// largest is the largest message, in bytes.
func (t trip) largest() int {
	if len(t.levels) == 0 {
		return 0
	}
	return t.levels[len(t.levels)-1].bytes
}

// fit is the trip's cost as a line over bytes, fitted in each block that has all
// sizes.
func (t trip) fit(s statistic) stats.Lines {
	differences := make([]blocks, len(t.levels))
	for i, l := range t.levels {
		differences[i] = l.difference(s)
	}
	var each [][2][]float64
	if len(differences) > 0 {
		var numbers []int
		for block := range differences[0] {
			numbers = append(numbers, block)
		}
		slices.Sort(numbers)
	next:
		for _, block := range numbers {
			var x, y []float64
			for i, l := range t.levels {
				v, ok := differences[i][block]
				if !ok {
					continue next
				}
				x, y = append(x, float64(l.bytes)), append(y, v)
			}
			each = append(each, [2][]float64{x, y})
		}
	}
	return stats.LineBy(each, t.Report.Level, t.Run.Seed)
}

// name is the trip in a few words: "nat, service receives".
func (t trip) name() string {
	name := t.path
	if t.null {
		name = "host against itself"
		if t.place == here {
			name = "loopback against itself"
		}
	}
	name += ", service " + t.direction + "s"
	if t.connection == New {
		name += ", one connection per request"
	}
	return name
}
