package claim

import (
	"math"
	"slices"

	"tare/stats"
)

// Threshold is a limit of a claim, for its judge. It panics where there is none
// of that name: the registry is part of the program, and so is the judge.
func Threshold(id, name string) float64 {
	c, err := Lookup(id)
	if err != nil {
		panic(err)
	}
	f, ok := c.Limit(name)
	if !ok {
		panic("claim " + id + " has no limit " + name)
	}
	return f.Value
}

// Ours is an estimate times scale as a figure.
func Ours(name string, e stats.Estimate, scale float64, unit string) Figure {
	f := Figure{Name: name, Value: e.Value * scale, Unit: unit, N: e.N}
	if e.N >= 2 && e.Known() {
		f.Low, f.High = e.Interval.Low*scale, e.Interval.High*scale
	}
	return f
}

// Measured are those of figures that have a value.
func Measured(all ...Figure) []Figure {
	return slices.DeleteFunc(all, func(f Figure) bool { return math.IsNaN(f.Value) })
}
