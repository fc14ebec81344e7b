package claim

import (
	"math"
	"strconv"
)

// Figure is a number with its name and unit: one that a paper published, a
// threshold, or one of ours.
type Figure struct {
	Name  string  // "mean, 4 a second"
	Value float64 // in Unit; without meaning where Bound is Between
	Unit  string  // "s", "%", "us", "times"; empty for a count
	// Low and High are the interval around a figure of ours, at the run's level,
	// or the ends of what was published as Between; both 0 where there is none.
	Low, High float64
	Bound     Bound
	N         int // of what ours is computed from: trials, starts; 0 where it is not told
}

// Bound says how a published figure is to be taken.
type Bound string

// The kinds of figures.
const (
	Exactly Bound = ""
	AtLeast Bound = "at least"
	AtMost  Bound = "at most"
	About   Bound = "about" // in words only: "about half"
	Between Bound = "between"
)

// Ends gives the least and the greatest value that a figure allows, without
// regard to an interval: infinities where it is open, the value itself for
// Exactly and About.
func (f Figure) Ends() (least, greatest float64) {
	switch f.Bound {
	case AtLeast:
		return f.Value, math.Inf(1)
	case AtMost:
		return math.Inf(-1), f.Value
	case Between:
		return f.Low, f.High
	}
	return f.Value, f.Value
}

// Interval tells whether the figure has an interval or a range.
func (f Figure) Interval() bool { return f.Low != 0 || f.High != 0 }

// Text is the figure without its name, every digit as it was given: "at most
// 0.07 %", "0.5 to 0.7 %".
func (f Figure) Text() string {
	unit := ""
	if f.Unit != "" {
		unit = " " + f.UnitText()
	}
	switch f.Bound {
	case Between:
		return digits(f.Low) + " to " + digits(f.High) + unit
	case Exactly:
		return digits(f.Value) + unit
	}
	return string(f.Bound) + " " + digits(f.Value) + unit
}

// UnitText is the unit as pages have it: in data µs is "us".
func (f Figure) UnitText() string {
	if f.Unit == "us" {
		return "µs"
	}
	return f.Unit
}

// digits writes a number as briefly as it can be told from others, and none in
// exponents: 104996, 0.07.
func digits(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// fault says what is wrong with a figure; empty where nothing is.
func (f Figure) fault() string {
	for _, v := range []float64{f.Value, f.Low, f.High} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "is not finite"
		}
	}
	switch {
	case f.Name == "":
		return "has no name"
	case f.Low > f.High:
		return "has an interval that ends before it begins"
	case f.N < 0:
		return "rests on less than nothing"
	case f.Bound == Between && !f.Interval():
		return "lies between nothing and nothing"
	}
	return ""
}

// The constructors below keep the papers' tables readable.

func exactly(name string, value float64, unit string) Figure {
	return Figure{Name: name, Value: value, Unit: unit}
}

func atLeast(name string, value float64, unit string) Figure {
	return Figure{Name: name, Value: value, Unit: unit, Bound: AtLeast}
}

func atMost(name string, value float64, unit string) Figure {
	return Figure{Name: name, Value: value, Unit: unit, Bound: AtMost}
}

func about(name string, value float64, unit string) Figure {
	return Figure{Name: name, Value: value, Unit: unit, Bound: About}
}

func between(name string, low, high float64, unit string) Figure {
	return Figure{Name: name, Low: low, High: high, Unit: unit, Bound: Between}
}

// row is a line of a paper's table.
type row struct {
	name   string
	values []float64
}

// grid makes a figure of each cell of a table, named "row, column".
func grid(unit string, columns []string, rows ...row) []Figure {
	var figures []Figure
	for _, r := range rows {
		for i, column := range columns {
			figures = append(figures, exactly(r.name+", "+column, r.values[i], unit))
		}
	}
	return figures
}
