// Package request predicts what a container takes from a service's rate, from the
// time that it adds to a request:
//
//	cost     = batch/p + request + byte × bytes      in microseconds a request
//	overhead = cost × rate                           of a request's time on the baseline
//	loss     = overhead / (1 + overhead)             of the baseline's rate
//
// p is how many requests a client sends at once (a pipeline), bytes what the values
// of a request hold, rate what the baseline answers a second. What a service does
// once for everything that has come (the calls to wait, read and write, and what the
// kernel does of network, filter and accounting in each) is shared by a pipeline's
// requests and is the batch's part; the rest is each request's own.
//
// The idea is S5's (Measuring the IO Overhead of Container Technology, section 3,
// Redis): a small cost of a request that the rate multiplies, so that 7 % become 35 %
// where five times as many requests are answered. That a pipeline shares system calls
// is Redis' own account of pipelining. [Form] says which of the terms a model has;
// [Fixed], one cost for all, is S5's.
//
// A model is fitted by least squares in each block of an experiment, deviations
// counting in parts of the request's time, so that a fast request's microsecond
// counts for more. Its figures are means over blocks, with Student's t: cells of one
// block need not be independent. [LeaveOneOut] tests it: each cell is predicted by
// a model that has not seen it. The fit on all cells predicts none of them.
//
// What it is not: a queue. It takes the server for the narrowest part of the loop,
// so that what is added to a request's time lowers the rate by as much. Where the
// load or the wire is that, a cost hides, and the model says so only by failing its
// test. A rate that was not measured is reached by another pipeline, payload or
// command; the same container on a faster CPU has other costs.
package request

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"tare/stats"
)

// Form says which terms a model has.
type Form string

// The forms, each having the terms of the one before.
const (
	Fixed  Form = "one cost a request"
	Shared Form = "a part of the batch's and one of the request's"
	Sized  Form = "a batch's part, a request's, and one of its bytes"
)

// Forms lists them, the simplest first.
var Forms = []Form{Fixed, Shared, Sized}

// term is a coefficient's factor for a cell.
type term func(pipeline, bytes float64) float64

func once(_, _ float64) float64          { return 1 }
func share(pipeline, _ float64) float64  { return 1 / pipeline }
func content(_, bytes float64) float64   { return bytes }
func (f Form) known() bool               { return slices.Contains(Forms, f) }
func (f Form) needs() int                { return max(leastCells, len(f.terms())+1) }
func (f Form) at(p, b float64) []float64 { return values(f.terms(), p, b) }

func values(terms []term, pipeline, bytes float64) []float64 {
	all := make([]float64, len(terms))
	for i, t := range terms {
		all[i] = t(pipeline, bytes)
	}
	return all
}

func (f Form) terms() []term {
	switch f {
	case Fixed:
		return []term{once}
	case Shared:
		return []term{once, share}
	case Sized:
		return []term{once, share, content}
	}
	return nil
}

// leastCells is how many cells a fit takes, and a term more than it has: below,
// nothing is left to contradict it.
const leastCells = 3

// Cell is one kind of request, measured in blocks on the baseline and in a place.
type Cell struct {
	Name     string
	Pipeline float64 // requests sent at once, from 1
	Bytes    float64 // that the values of a request hold
	// Base and With are the time of a request (a second over the rate) in
	// microseconds, by block.
	Base, With map[int]float64
}

// TooFew says that there are not cells enough for a form.
type TooFew struct {
	Form       Form
	Have, Want int
}

func (e *TooFew) Error() string {
	return fmt.Sprintf("%d cells for %s: it takes %d (more payloads, pipelines or commands)", e.Have, e.Form, e.Want)
}

// Alike says that the cells do not distinguish a form's terms.
type Alike struct{ Form Form }

func (e *Alike) Error() string {
	return fmt.Sprintf("the cells do not distinguish %s: it takes cells of different %s", e.Form, map[Form]string{Fixed: "kinds", Shared: "pipelines", Sized: "pipelines and payloads, apart from one another"}[e.Form])
}

// ErrNoBlock says that no block has all cells.
var ErrNoBlock = errors.New("no block has every cell, on the baseline and in the place")

// Model is a fitted one.
type Model struct {
	Form Form
	// Request is a request's own cost and Batch that of what it shares, in
	// microseconds; Byte is that of a byte. Those that the form has not are zero
	// values.
	Request, Batch, Byte stats.Estimate

	blocks       []int
	coefficients [][]float64 // by block
	level        float64
	seed         int64
}

// Fit fits a form to cells. The error is a *TooFew, an *Alike, ErrNoBlock, or says what
// of a cell is no measurement.
func Fit(form Form, cells []Cell, level float64, seed int64) (*Model, error) {
	if err := check(form, cells); err != nil {
		return nil, err
	}
	return fit(form, cells, common(cells), level, seed)
}

func check(form Form, cells []Cell) error {
	if !form.known() {
		return fmt.Errorf("unknown form %q: want one of %v", form, Forms)
	}
	if len(cells) < form.needs() {
		return &TooFew{form, len(cells), form.needs()}
	}
	for _, c := range cells {
		if !(c.Pipeline >= 1) || !(c.Bytes >= 0) || math.IsInf(c.Pipeline, 0) || math.IsInf(c.Bytes, 0) {
			return fmt.Errorf("cell %s has a pipeline of %g and %g bytes: want 1 or more, and 0 or more", c.Name, c.Pipeline, c.Bytes)
		}
		for _, times := range []map[int]float64{c.Base, c.With} {
			for block, v := range times {
				if !(v > 0) || math.IsInf(v, 0) {
					return fmt.Errorf("cell %s takes %g µs a request in block %d: want a time above 0", c.Name, v, block)
				}
			}
		}
	}
	if len(common(cells)) == 0 {
		return ErrNoBlock
	}
	return nil
}

// common are the blocks that have every cell.
func common(cells []Cell) []int {
	if len(cells) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(cells[0].Base)), func(block int) bool {
		return slices.ContainsFunc(cells, func(c Cell) bool {
			_, base := c.Base[block]
			_, with := c.With[block]
			return !base || !with
		})
	})
}

// cost is what the place adds to a request in a block.
func (c Cell) cost(block int) float64 { return c.With[block] - c.Base[block] }

// weight is of a cell's deviations: they count in parts of its request's time, which
// is the mean over blocks so that a block's noise has no part in it.
func (c Cell) weight(blocks []int) float64 {
	var sum float64
	for _, b := range blocks {
		sum += c.Base[b]
	}
	return float64(len(blocks)) / sum
}

// worstCondition is that of a matrix above which its terms count as not distinguished
// apart.
const worstCondition = 1e8

// fit fits, in each of the blocks, whatever the number of cells.
func fit(form Form, cells []Cell, blocks []int, level float64, seed int64) (*Model, error) {
	terms := form.terms()
	if len(cells) < len(terms) {
		return nil, &TooFew{form, len(cells), len(terms)}
	}
	design := mat.NewDense(len(cells), len(terms), nil)
	weights := make([]float64, len(cells))
	// Columns of one size, so that the condition is of their directions alone.
	sizes := make([]float64, len(terms))
	for i, c := range cells {
		weights[i] = c.weight(blocks)
		for j, v := range form.at(c.Pipeline, c.Bytes) {
			design.Set(i, j, v*weights[i])
			sizes[j] = math.Hypot(sizes[j], v*weights[i])
		}
	}
	for j, size := range sizes {
		if size == 0 {
			return nil, &Alike{form}
		}
		for i := range cells {
			design.Set(i, j, design.At(i, j)/size)
		}
	}
	var qr mat.QR
	qr.Factorize(design)
	if !(qr.Cond() < worstCondition) {
		return nil, &Alike{form}
	}
	m := &Model{Form: form, blocks: blocks, level: level, seed: seed}
	for _, block := range blocks {
		cost := mat.NewVecDense(len(cells), nil)
		for i, c := range cells {
			cost.SetVec(i, c.cost(block)*weights[i])
		}
		var solved mat.VecDense
		if err := qr.SolveVecTo(&solved, false, cost); err != nil {
			return nil, fmt.Errorf("fit %s in block %d: %w", form, block, err)
		}
		own := make([]float64, len(terms))
		for j := range own {
			own[j] = solved.AtVec(j) / sizes[j]
		}
		m.coefficients = append(m.coefficients, own)
	}
	for j, to := range []*stats.Estimate{&m.Request, &m.Batch, &m.Byte}[:len(terms)] {
		one := make([]float64, len(terms))
		one[j] = 1
		*to = m.estimate(func(i int) float64 { return m.sum(i, one) })
	}
	return m, nil
}

// sum is of a block's coefficients, each times a factor.
func (m *Model) sum(block int, factors []float64) (sum float64) {
	for j, f := range factors {
		sum += f * m.coefficients[block][j]
	}
	return sum
}

// estimate is the mean over blocks of what of gives for each, by its place.
func (m *Model) estimate(of func(i int) float64) stats.Estimate {
	each := make([]float64, len(m.coefficients))
	for i := range each {
		each[i] = of(i)
	}
	return stats.MeanBy(stats.MethodT, each, m.level, m.seed)
}

// Cost is what the place adds to a request, in microseconds.
func (m *Model) Cost(pipeline, bytes float64) stats.Estimate {
	at := m.Form.at(pipeline, bytes)
	return m.estimate(func(i int) float64 { return m.sum(i, at) })
}

// Loss is the part of the baseline's rate, in requests a second, that the place
// takes from it: 0.05 is 5 %. It is that of a rate which the baseline reaches by some
// pipeline and payload, and grows with the rate; below nothing the place is faster.
func (m *Model) Loss(rate, pipeline, bytes float64) stats.Estimate {
	e := m.Cost(pipeline, bytes)
	of := func(cost float64) float64 { return lost(cost * rate / 1e6) }
	e.Value, e.Interval.Low, e.Interval.High = of(e.Value), of(e.Interval.Low), of(e.Interval.High)
	return e
}

// lost is the loss of rate by an overhead of time; it grows with it. A request cannot
// take less than no time, so that an overhead of -1 and below has no rate.
func lost(overhead float64) float64 {
	if !(overhead > -1) {
		return math.NaN()
	}
	return overhead / (1 + overhead)
}

// Prediction is of a cell by a model that has not seen it.
type Prediction struct {
	Cell  Cell
	Base  stats.Estimate // microseconds a request on the baseline
	Cost  stats.Estimate // predicted, in microseconds a request
	Found stats.Estimate // measured, likewise
	// Loss and Lost are the parts of the baseline's rate, predicted and measured.
	Loss, Lost stats.Estimate
	// Off is the predicted time of a request against the measured, paired by block:
	// 1.01 where the request is faster than predicted by 1 %.
	Off stats.Estimate
	// Why says why the others do not predict it; empty where they do.
	Why string
}

// Held reports whether the request's time is what was predicted within the smallest
// effect of interest, its whole interval: 0.02 is 2 %.
func (p Prediction) Held(smallest float64) bool {
	return p.Why == "" && stats.EquivalentWithin(p.Off, smallest)
}

// Missed reports whether it is not, the whole interval being outside.
func (p Prediction) Missed(smallest float64) bool {
	return p.Why == "" && p.Off.Known() && (p.Off.Interval.Low > 1+smallest || p.Off.Interval.High < 1/(1+smallest))
}

// LeaveOneOut predicts each cell by a fit on the others, in every block on its own.
// Errors are Fit's.
func LeaveOneOut(form Form, cells []Cell, level float64, seed int64) ([]Prediction, error) {
	if err := check(form, cells); err != nil {
		return nil, err
	}
	blocks := common(cells)
	all := make([]Prediction, len(cells))
	for i, c := range cells {
		others := slices.Delete(slices.Clone(cells), i, i+1)
		m, err := fit(form, others, blocks, level, seed)
		all[i] = c.found(blocks, level, seed)
		if err != nil {
			all[i].Why = "without it, " + strings.TrimPrefix(err.Error(), "the cells ")
			continue
		}
		all[i].by(m)
	}
	return all, nil
}

// found is a cell as it was measured.
func (c Cell) found(blocks []int, level float64, seed int64) Prediction {
	var base, cost, lost []float64
	for _, b := range blocks {
		base, cost, lost = append(base, c.Base[b]), append(cost, c.cost(b)), append(lost, 1-c.Base[b]/c.With[b])
	}
	mean := func(values []float64) stats.Estimate { return stats.MeanBy(stats.MethodT, values, level, seed) }
	absent := stats.Estimate{
		Value:    math.NaN(),
		Interval: stats.Interval{Low: math.NaN(), High: math.NaN(), Level: level},
	}
	return Prediction{
		Cell:  c,
		Base:  mean(base),
		Found: mean(cost),
		Lost:  mean(lost),
		Cost:  absent,
		Loss:  absent,
		Off:   absent,
	}
}

// by predicts with a model of other cells.
func (p *Prediction) by(m *Model) {
	at := m.Form.at(p.Cell.Pipeline, p.Cell.Bytes)
	var measured, predicted []float64
	for i, b := range m.blocks {
		measured, predicted = append(measured, p.Cell.With[b]), append(predicted, p.Cell.Base[b]+m.sum(i, at))
	}
	p.Cost = m.Cost(p.Cell.Pipeline, p.Cell.Bytes)
	p.Loss = m.estimate(func(i int) float64 { return lost(m.sum(i, at) / p.Cell.Base[m.blocks[i]]) })
	p.Off = stats.PairedRatio(measured, predicted, m.level, m.seed)
}

// Simplest is the form of the fewest terms by which every cell was predicted within
// the smallest effect, with all tests that were possible.
func Simplest(cells []Cell, smallest, level float64, seed int64) (holds Form, tests map[Form][]Prediction) {
	tests = map[Form][]Prediction{}
	for _, form := range Forms {
		predictions, err := LeaveOneOut(form, cells, level, seed)
		if err != nil {
			continue // the cells do not say: the form goes without a test
		}
		tests[form] = predictions
		if holds == "" && !slices.ContainsFunc(predictions, func(p Prediction) bool { return !p.Held(smallest) }) {
			holds = form
		}
	}
	return holds, tests
}
