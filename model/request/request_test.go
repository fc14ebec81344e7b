package request

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"tare/stats"
)

// truth is a container whose costs are known.
type truth struct{ batch, request, byte float64 }

// measured makes cells of it: pipelines and payloads, each block with noise of its
// own, in parts of the request's time.
func (t truth) measured(blocks int, noise float64) []Cell {
	random := rand.New(rand.NewPCG(3, 4))
	var cells []Cell
	for _, pipeline := range []float64{1, 3, 10} {
		for _, bytes := range []float64{3, 1000, 10_000} {
			c := Cell{Name: "made", Pipeline: pipeline, Bytes: bytes, Base: map[int]float64{}, With: map[int]float64{}}
			base := 9/pipeline + 1 + 0.0006*bytes
			for block := 1; block <= blocks; block++ {
				drift := 1 + 0.05*random.NormFloat64() // shared by the pair
				c.Base[block] = base * drift
				c.With[block] = base*drift*(1+noise*random.NormFloat64()) + t.batch/pipeline + t.request + t.byte*bytes
			}
			cells = append(cells, c)
		}
	}
	return cells
}

func holds(e stats.Estimate, v float64) bool {
	return e.Known() && e.Interval.Low <= v && v <= e.Interval.High
}

func TestFitRecoversTheTruth(t *testing.T) {
	for name, c := range map[string]struct {
		form Form
		is   truth
	}{
		"one cost":                {Fixed, truth{request: 0.4}},
		"shared by a batch":       {Shared, truth{batch: 3, request: 0.2}},
		"of bytes too":            {Sized, truth{batch: 3, request: 0.2, byte: 2e-4}},
		"a place that is faster":  {Shared, truth{batch: -0.5, request: -0.05}},
		"more terms than it has":  {Sized, truth{request: 0.4}},
		"of the batch alone":      {Shared, truth{batch: 5}},
		"much more than the base": {Shared, truth{batch: 50, request: 20}},
	} {
		m, err := Fit(c.form, c.is.measured(12, 0.005), 0.99, 1)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, of := range []struct {
			term string
			got  stats.Estimate
			want float64
			has  bool
		}{{"request", m.Request, c.is.request, true}, {"batch", m.Batch, c.is.batch, c.form != Fixed}, {"byte", m.Byte, c.is.byte, c.form == Sized}} {
			if of.has && !holds(of.got, of.want) && math.Abs(of.got.Value-of.want) > 1e-9 {
				t.Errorf("%s: %s is %+v, want %g", name, of.term, of.got, of.want)
			}
		}
	}
}

// The loss at a rate is the cost times the rate, of the time that a request then takes.
func TestLoss(t *testing.T) {
	m, err := Fit(Shared, truth{batch: 5, request: 0.5}.measured(8, 0), 0.95, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ rate, pipeline, want float64 }{
		{100_000, 1, 0.55 / 1.55},
		{1_000_000, 10, 1. / 2},
		{1, 1, 5.5e-6},
	} {
		if got := m.Loss(c.rate, c.pipeline, 3); math.Abs(got.Value/c.want-1) > 1e-4 {
			t.Errorf("at %g a second by %g: %g, want %g", c.rate, c.pipeline, got.Value, c.want)
		}
	}
	faster, err := Fit(Fixed, truth{request: -1}.measured(8, 0), 0.95, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := faster.Loss(100_000, 1, 3); !(got.Value < 0) {
		t.Errorf("a faster place loses %g", got.Value)
	}
	if got := faster.Loss(1.5e6, 1, 3); !math.IsNaN(got.Value) {
		t.Errorf("a request of less than no time has a loss of %g", got.Value)
	}
}

// Each form predicts what it has the terms for, and misses what it has not.
func TestLeaveOneOut(t *testing.T) {
	const smallest = 0.02
	for name, c := range map[string]struct {
		is   truth
		want Form // the simplest that holds
	}{
		"one cost":          {truth{request: 0.4}, Fixed},
		"shared by a batch": {truth{batch: 3, request: 0.2}, Shared},
		"of bytes too":      {truth{batch: 3, request: 0.2, byte: 5e-4}, Sized},
		"nothing at all":    {truth{}, Fixed},
	} {
		got, tests := Simplest(c.is.measured(10, 0.005), smallest, 0.95, 1)
		if got != c.want {
			t.Errorf("%s: %q holds, want %q", name, got, c.want)
		}
		if len(tests) != len(Forms) {
			t.Errorf("%s: %d forms tested", name, len(tests))
		}
		for _, p := range tests[c.want] {
			if p.Why != "" || !p.Held(smallest) || p.Missed(smallest) {
				t.Errorf("%s: %s by %g: %+v (%s)", name, p.Cell.Name, p.Cell.Pipeline, p.Off, p.Why)
			}
			if math.Abs(p.Loss.Value-p.Lost.Value) > 0.02 {
				t.Errorf("%s: a loss of %g was predicted where %g was found", name, p.Loss.Value, p.Lost.Value)
			}
		}
		missed := 0
		for _, p := range tests[Fixed] {
			if p.Missed(smallest) {
				missed++
			}
		}
		if (missed > 0) != (c.want != Fixed) {
			t.Errorf("%s: one cost misses %d cells", name, missed)
		}
	}
}

// A held-out cell has no part in what predicts it.
func TestAPredictionHasNotSeenItsCell(t *testing.T) {
	cells := truth{batch: 3, request: 0.2}.measured(6, 0.01)
	before, err := LeaveOneOut(Shared, cells, 0.95, 1)
	if err != nil {
		t.Fatal(err)
	}
	for block := range cells[4].With {
		cells[4].With[block] *= 3
	}
	after, err := LeaveOneOut(Shared, cells, 0.95, 1)
	if err != nil {
		t.Fatal(err)
	}
	if before[4].Cost.Value != after[4].Cost.Value {
		t.Errorf("predicted %g, and %g after the cell itself had changed", before[4].Cost.Value, after[4].Cost.Value)
	}
	if before[3].Cost.Value == after[3].Cost.Value {
		t.Error("the other cells' predictions did not change")
	}
	if !after[4].Missed(0.02) {
		t.Errorf("three times as long counts as predicted: %+v", after[4].Off)
	}
}

func TestFitRefuses(t *testing.T) {
	cells := truth{request: 0.4}.measured(4, 0.01)
	for _, form := range Forms {
		_, err := Fit(form, cells[:2], 0.95, 1)
		if few := (*TooFew)(nil); !errors.As(err, &few) || few.Have != 2 || few.Want < 3 {
			t.Errorf("%s of two cells: %v", form, err)
		}
		if _, err := LeaveOneOut(form, cells[:2], 0.95, 1); err == nil {
			t.Errorf("%s of two cells was tested", form)
		}
	}
	same := []Cell{cells[0], cells[1], cells[2]} // one pipeline
	if alike := (*Alike)(nil); !errors.As(second(Fit(Shared, same, 0.95, 1)), &alike) {
		t.Error("one pipeline determines what is shared")
	}
	if _, err := Fit(Fixed, same, 0.95, 1); err != nil {
		t.Errorf("one cost takes no two pipelines: %v", err)
	}
	apart := cells[:4]
	apart[3].Base, apart[3].With = map[int]float64{77: 1}, map[int]float64{77: 2}
	if _, err := Fit(Fixed, apart, 0.95, 1); !errors.Is(err, ErrNoBlock) {
		t.Errorf("of no common block: %v", err)
	}
	for name, spoil := range map[string]func(*Cell){
		"no time":            func(c *Cell) { c.Base = map[int]float64{1: 0} },
		"not a number":       func(c *Cell) { c.With = map[int]float64{1: math.NaN()} },
		"a pipeline of none": func(c *Cell) { c.Pipeline = 0 },
		"less than no bytes": func(c *Cell) { c.Bytes = -1 },
	} {
		cells := truth{request: 0.4}.measured(4, 0.01)
		spoil(&cells[1])
		if _, err := Fit(Fixed, cells, 0.95, 1); err == nil {
			t.Errorf("%s: fitted", name)
		}
	}
	if _, err := Fit("cubic", cells, 0.95, 1); err == nil {
		t.Error("an unknown form was fitted")
	}
}

// Where the one cell of another pipeline is left out, the rest do not determine the
// batch's part.
func TestACellThatOthersDoNotPredict(t *testing.T) {
	all := truth{batch: 3, request: 0.2}.measured(5, 0.01)
	cells := []Cell{all[0], all[1], all[2], all[6]}
	predictions, err := LeaveOneOut(Shared, cells, 0.95, 1)
	if err != nil {
		t.Fatal(err)
	}
	if last := predictions[3]; last.Why == "" || last.Held(0.02) || !last.Found.Known() {
		t.Errorf("%+v", last)
	}
	if predictions[0].Why != "" {
		t.Error(predictions[0].Why)
	}
}

func second[T any](_ T, err error) error { return err }
