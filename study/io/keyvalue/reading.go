package keyvalue

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/stats"
	"tare/study/io/place"
)

// perSecond makes a rate a time in microseconds.
const perSecond = 1e6

// blocks are values by block.
type blocks map[int]float64

// cell is one command of a group: what is compared within it differs in its place
// alone.
type cell struct {
	command, metric                       string
	payload, pipeline, threads, ioThreads int64
	clients                               int64
	appendOnly                            string
	base                                  record.Condition
	places                                []record.Condition // but for the baseline and the floors
	floors                                []record.Condition
}

// reading is a run as this study reads it.
type reading struct {
	overhead.Reading
	memory     []cell // without persistence
	persistent []cell
}

func read(run record.Run) reading {
	r := reading{Reading: overhead.Read(run)}
	for _, g := range place.Groups(run, place.Redis) {
		base, ok := g.Baseline()
		if !ok {
			continue
		}
		for _, metric := range throughputs(base) {
			c := cell{
				command: commandOf(metric), metric: metric, base: base,
				appendOnly: cmp.Or(base.Factors[factorAppendOnly], appendNo),
				payload:    place.Number(base, factorPayload), pipeline: max(1, place.Number(base, factorPipeline)),
				clients: place.Number(base, factorClients),
				threads: place.Number(base, factorThreads), ioThreads: max(1, place.Number(base, factorIOThreads)),
			}
			for _, other := range g.All {
				switch {
				case other.Factors[place.FactorFloor] != "":
					c.floors = append(c.floors, other)
				case other.ID != base.ID:
					c.places = append(c.places, other)
				}
			}
			if persists(base) {
				r.persistent = append(r.persistent, c)
			} else {
				r.memory = append(r.memory, c)
			}
		}
	}
	return r
}

// together is the reading by n intervals that hold together.
func (r reading) together(n int) reading {
	r.Reading = r.Reading.Together(n)
	return r
}

// lossesRead is the number of losses in the reference cells. Statements on growth with the
// rate read all of them, and as many predictions.
func (r reading) lossesRead() int {
	reference := r.reference()
	return len(reference) * len(spots(reference))
}

// rate is how many requests a second a condition answers.
func (r reading) rate(c cell, of record.Condition) stats.Estimate { return r.Value(of, c.metric) }

// times are the microseconds of a request, by block.
func (r reading) times(c cell, of record.Condition) blocks {
	times := blocks{}
	for block, rate := range r.PerBlock(of, c.metric) {
		if rate > 0 {
			times[block] = perSecond / rate
		}
	}
	return times
}

// loss is the part of the baseline's rate that a place loses; negative where it is faster.
func (r reading) loss(c cell, at record.Condition) stats.Estimate {
	return lossOf(r.Row(at, c.metric).Ratio)
}

func lossOf(ratio stats.Estimate) stats.Estimate {
	e := ratio
	if ratio.N == 0 && ratio.Value == 0 { // of no row at all
		e.Value, e.Interval.Low, e.Interval.High = math.NaN(), math.NaN(), math.NaN()
		return e
	}
	e.Value, e.Interval.Low, e.Interval.High = 1-ratio.Value, 1-ratio.Interval.High, 1-ratio.Interval.Low
	return e
}

// cost is what a place adds to a request, in microseconds.
func (r reading) cost(c cell, at record.Condition) stats.Estimate {
	return r.difference(r.times(c, c.base), r.times(c, at))
}

// difference is by how much values exceed a baseline's: over the blocks that have both, or
// of two samples where the run's repetitions are not paired.
func (r reading) difference(base, of blocks) stats.Estimate {
	if r.Run.Plan.Unpaired() {
		return stats.UnpairedDifference(overhead.InOrder(base), overhead.InOrder(of), r.Report.Level)
	}
	return r.Mean(combine(func(v []float64) float64 { return v[1] - v[0] }, base, of))
}

// combine computes from several values of each block that has all.
func combine(of func([]float64) float64, all ...blocks) blocks {
	combined := blocks{}
	if len(all) == 0 {
		return combined
	}
next:
	for block := range all[0] {
		var own []float64
		for _, b := range all {
			v, ok := b[block]
			if !ok {
				continue next
			}
			own = append(own, v)
		}
		combined[block] = of(own)
	}
	return combined
}

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// spot is a place across cells: it stands for what a condition has of factors.
type spot struct{ engine, storage, network string }

func spotOf(c record.Condition) spot {
	return spot{c.Factors[place.FactorEngine], c.Factors[place.FactorStorage], c.Factors[place.FactorNetwork]}
}

// String is short where there is one engine: "bind, bridge".
func (s spot) String() string {
	words := []string{s.storage}
	if s.network != "" && s.network != string(platform.NetworkHost) {
		words = append(words, s.network)
	}
	return strings.Join(words, ", ")
}

// bridged is whether the place has a network of the engine's.
func (s spot) bridged() bool { return s.network != "" && s.network != string(platform.NetworkHost) }

// spots are the places of cells, in the run's order.
func spots(cells []cell) []spot {
	var all []spot
	for _, c := range cells {
		for _, p := range c.places {
			if s := spotOf(p); !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// engines are those of cells.
func engines(cells []cell) []string {
	var all []string
	for _, s := range spots(cells) {
		if !slices.Contains(all, s.engine) {
			all = append(all, s.engine)
		}
	}
	return all
}

// named names a place, with its engine where there are several.
func named(s spot, cells []cell) string {
	if s.engine != "" && len(engines(cells)) > 1 {
		return s.engine + " " + s.String()
	}
	return s.String()
}

// at is the condition of a cell in a place.
func (c cell) at(s spot) (record.Condition, bool) {
	for _, p := range c.places {
		if spotOf(p) == s {
			return p, true
		}
	}
	return record.Condition{}, false
}

// reference are the cells of the fewest threads and io-threads that the run has, by
// which payloads, pipelines and commands are compared, the slowest first.
func (r reading) reference() []cell {
	threads, ioThreads := least(r.memory, cell.ofThreads), least(r.memory, cell.ofIOThreads)
	return r.ordered(func(c cell) bool { return c.threads == threads && c.ioThreads == ioThreads })
}

func (c cell) ofPayload() int64   { return c.payload }
func (c cell) ofPipeline() int64  { return c.pipeline }
func (c cell) ofThreads() int64   { return c.threads }
func (c cell) ofIOThreads() int64 { return c.ioThreads }

func least(cells []cell, of func(cell) int64) int64 {
	l := int64(math.MaxInt64)
	for _, c := range cells {
		l = min(l, of(c))
	}
	return l
}

// levels are the different ones of a factor.
func levels(cells []cell, of func(cell) int64) []int64 {
	var all []int64
	for _, c := range cells {
		all = append(all, of(c))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ordered are the cells without persistence that satisfy a condition, by the rate of
// bare metal.
func (r reading) ordered(wanted func(cell) bool) []cell {
	var all []cell
	for _, c := range r.memory {
		if wanted(c) && r.rate(c, c.base).Value > 0 {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(
		all,
		func(a, b cell) int { return cmp.Compare(r.rate(a, a.base).Value, r.rate(b, b.base).Value) },
	)
	return all
}

// name is a cell in a few words: "GET of 3 B, pipeline 10".
func (c cell) name() string {
	text := fmt.Sprintf("%s of %d B, pipeline %d", strings.ToUpper(c.command), c.payload, c.pipeline)
	if c.threads > 0 {
		text += fmt.Sprintf(", %d threads", c.threads)
	}
	if c.ioThreads > 1 {
		text += fmt.Sprintf(", %d io-threads", c.ioThreads)
	}
	return text
}

// find gives a cell of a command, payload and pipeline among cells.
func find(cells []cell, command string, payload, pipeline int64) (cell, bool) {
	for _, c := range cells {
		if c.command == command && c.payload == payload && c.pipeline == pipeline {
			return c, true
		}
	}
	return cell{}, false
}

// controls compare volume and bind mount where nothing is written.
func (r reading) controls() []place.Control {
	groups := slices.DeleteFunc(place.Groups(r.Run, place.Redis), func(g place.Conditions) bool {
		return slices.ContainsFunc(g.All, persists)
	})
	return place.Controls(r.Reading, groups, throughputs)
}
