package files

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/overhead"
	"tare/record"
	"tare/stats"
)

// within and outside compare an interval with the smallest effect, in percent.
var within, outside = stats.Within, stats.Beyond

// reading is a run as the judge and the page of this study read it.
type reading struct{ overhead.Reading }

func read(run record.Run) reading { return reading{overhead.Read(run)} }

// together widens the intervals so that n of them hold together.
func (r reading) together(n int) reading { return reading{r.Reading.Together(n)} }

// of gives an experiment's conditions, in the design's order.
func (r reading) of(experiment string) []record.Condition {
	var of []record.Condition
	for _, c := range r.Run.Conditions {
		if c.Factors[factorExperiment] == experiment {
			of = append(of, c)
		}
	}
	return of
}

// stored gives an experiment's condition on a storage; the first where several differ
// by their layers.
func (r reading) stored(experiment, storage string) (record.Condition, bool) {
	for _, c := range r.of(experiment) {
		if c.Factors[factorStorage] == storage {
			return c, true
		}
	}
	return record.Condition{}, false
}

// layers is how many a condition's image has; 0 where that is unknown.
func layers(c record.Condition) int {
	n, err := strconv.Atoi(c.Factors[factorLayers])
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func isFlat(c record.Condition) bool { return c.Factors[factorFlattened] != "" }

// byLayers gives an experiment's conditions in layers, the fewest first: those that
// are flattened, or those that are not.
func (r reading) byLayers(experiment string, flat bool) []record.Condition {
	var of []record.Condition
	for _, c := range r.of(experiment) {
		if layers(c) > 0 && isFlat(c) == flat {
			of = append(of, c)
		}
	}
	slices.SortStableFunc(of, func(a, b record.Condition) int { return cmp.Compare(layers(a), layers(b)) })
	return of
}

// driver is the engine's storage driver; empty where it is unknown.
func (r reading) driver() string {
	for _, c := range r.Run.Conditions {
		if d := c.Factors[factorDriver]; d != "" {
			return d
		}
	}
	return ""
}

// sizes of writes that a condition has, the smallest first, with their metrics.
func (r reading) sizes(how string) []int64 {
	var sizes []int64
	for _, c := range r.of(Write) {
		for _, m := range c.Metrics {
			if size, ok := sizeOf(m.Name, how); ok && !slices.Contains(sizes, size) {
				sizes = append(sizes, size)
			}
		}
	}
	slices.Sort(sizes)
	return sizes
}

// sizeOf reads the size out of a metric's name: that of "flushed-4k", and of no
// other form.
func sizeOf(name, how string) (int64, bool) {
	rest, ok := strings.CutPrefix(name, how+"-")
	if !ok || len(rest) < 2 {
		return 0, false
	}
	n, err := strconv.ParseInt(rest[:len(rest)-1], 10, 40)
	if err != nil || n < 0 {
		return 0, false
	}
	switch rest[len(rest)-1] {
	case 'b':
	case 'k':
		n <<= 10
	case 'm':
		n <<= 20
	default:
		return 0, false
	}
	return n, true
}

// covariate is the mean of what a condition's trials have of it; NaN where none has.
func (r reading) covariate(c record.Condition, name string) float64 {
	sum, n := 0.0, 0
	for _, t := range r.Trials(c) {
		if v, ok := t.Covariates[name]; ok {
			sum += v
			n++
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}

// against is a metric of b against a's, paired by block.
func (r reading) against(a, b record.Condition, metric string) stats.Estimate {
	return r.Ratio(r.PerBlock(a, metric), r.PerBlock(b, metric))
}

// growth is the ratio of one metric of a condition to another.
func (r reading) growth(c record.Condition, from, to string) stats.Estimate {
	return r.Ratio(r.PerBlock(c, from), r.PerBlock(c, to))
}

// line is the walk over the number of layers, fitted in each block.
func (r reading) line(walks []record.Condition) stats.Lines {
	perBlock := map[int]map[int]float64{} // by block, then layers
	for _, c := range walks {
		for block, v := range r.PerBlock(c, walk) {
			if perBlock[block] == nil {
				perBlock[block] = map[int]float64{}
			}
			perBlock[block][layers(c)] = v
		}
	}
	var points [][2][]float64
	for _, block := range sorted(perBlock) {
		of := perBlock[block]
		if len(of) < len(walks) {
			continue // a trial of it failed
		}
		var x, y []float64
		for _, n := range sorted(of) {
			x, y = append(x, float64(n)), append(y, of[n])
		}
		points = append(points, [2][]float64{x, y})
	}
	return stats.LineBy(points, r.Report.Level, r.Run.Seed)
}

func sorted[V any](m map[int]V) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
