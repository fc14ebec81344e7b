package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// What a trip over a bridge costs, in microseconds, for messages of 1 to 100 KB,
// in five blocks: some 20 us a trip, and next to nothing a byte.
func ExampleLineBy() {
	bytes := []float64{1e3, 10e3, 30e3, 50e3, 70e3, 100e3}
	var blocks [][2][]float64
	for _, cost := range [][]float64{
		{20.4, 20.1, 21.0, 20.9, 21.3, 21.6},
		{19.2, 19.9, 19.8, 20.6, 20.4, 21.1},
		{22.0, 21.5, 22.6, 22.3, 22.9, 23.2},
		{20.9, 21.2, 21.1, 21.9, 21.6, 22.4},
		{19.8, 20.3, 20.2, 20.5, 21.2, 21.0},
	} {
		blocks = append(blocks, [2][]float64{bytes, cost})
	}
	l := LineBy(blocks, 0.95, 1)
	fmt.Printf("%.1f us (%.1f to %.1f) a trip\n", l.Intercept.Value, l.Intercept.Interval.Low, l.Intercept.Interval.High)
	fmt.Printf("%.3f us (%.3f to %.3f) a KB\n", 1e3*l.Slope.Value, 1e3*l.Slope.Interval.Low, 1e3*l.Slope.Interval.High)
	more := l.Combination(1, -100e3)
	fmt.Printf("fixed part less what 100 KB cost: %.1f us (%.1f to %.1f)\n", more.Value, more.Interval.Low, more.Interval.High)
	// Output:
	// 20.5 us (19.4 to 21.6) a trip
	// 0.014 us (0.012 to 0.016) a KB
	// fixed part less what 100 KB cost: 19.1 us (17.9 to 20.2)
}

// A walk over 1 to 32 layers whose time is no line: it grows with the square.
func ExampleLineBy_bent() {
	layers := []float64{1, 2, 4, 8, 16, 32}
	random := rand.New(rand.NewPCG(1, 2))
	var blocks [][2][]float64
	for range 8 {
		var times []float64
		for _, n := range layers {
			times = append(times, 40+n*n/32+0.2*random.NormFloat64())
		}
		blocks = append(blocks, [2][]float64{layers, times})
	}
	l := LineBy(blocks, 0.95, 1)
	fmt.Printf("a line leaves %.1f %% (%.1f to %.1f); by noise alone: p below 0.001: %v\n",
		100*l.Left.Value, 100*l.Left.Interval.Low, 100*l.Left.Interval.High, l.Bent < 0.001)
	// Output: a line leaves 6.0 % (5.8 to 6.2); by noise alone: p below 0.001: true
}

// Anscombe's (1973) four sets of points have one line, y = 3 + x/2, and one R²,
// 0.67, whatever their shape.
func TestLineAgreesWithAnscombe(t *testing.T) {
	x := []float64{10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5}
	for i, c := range [][2][]float64{
		{x, {8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68}},
		{x, {9.14, 8.14, 8.74, 8.77, 9.26, 8.10, 6.13, 3.10, 9.13, 7.26, 4.74}},
		{x, {7.46, 6.77, 12.74, 7.11, 7.81, 8.84, 6.08, 5.39, 8.15, 6.42, 5.73}},
		{{8, 8, 8, 8, 8, 8, 8, 19, 8, 8, 8}, {6.58, 5.76, 7.71, 8.84, 8.47, 7.04, 5.25, 12.50, 5.56, 7.91, 6.89}},
	} {
		intercept, slope, left := Line(c[0], c[1])
		if math.Abs(intercept-3) > 0.01 || math.Abs(slope-0.5) > 0.001 || math.Abs(1-left-0.667) > 0.001 {
			t.Errorf("set %d: %v + %v x, leaving %v", i+1, intercept, slope, left)
		}
	}
}

func TestLineOfPointsOnOne(t *testing.T) {
	intercept, slope, left := Line([]float64{1e3, 1e4, 1e5}, []float64{21, 30, 120})
	near(t, "intercept", intercept, 20, 1e-10)
	near(t, "slope", slope, 1e-3, 1e-15)
	near(t, "left", left, 0, 1e-12)
	if _, slope, left := Line([]float64{1, 2, 3}, []float64{5, 5, 5}); slope != 0 || !math.IsNaN(left) {
		t.Errorf("level points: slope %v, left %v, want 0 and nothing to explain", slope, left)
	}
}

func TestLineUndefined(t *testing.T) {
	for name, c := range map[string][2][]float64{
		"nothing":     {},
		"one point":   {{1}, {2}},
		"same x":      {{1, 1}, {1, 2}},
		"unequal":     {{1, 2}, {1}},
		"not numbers": {{1, 2}, {1, math.NaN()}},
		"endless":     {{1, math.Inf(1)}, {1, 2}},
	} {
		if intercept, slope, left := Line(c[0], c[1]); !math.IsNaN(intercept) || !math.IsNaN(slope) || !math.IsNaN(left) {
			t.Errorf("%s: %v %v %v, want NaN", name, intercept, slope, left)
		}
		l := LineBy([][2][]float64{{{1, 2, 3}, {1, 2, 4}}, {{1, 2, 3}, {1, 2, 5}}, c}, 0.95, 1)
		for _, e := range []Estimate{l.Intercept, l.Slope, l.Left, l.Combination(1, 1)} {
			if e.Known() || len(e.Warnings) == 0 || !strings.Contains(e.Warnings[0], "block 3") {
				t.Errorf("%s: %+v, want nothing, and block 3 named", name, e)
			}
		}
		if !math.IsNaN(l.Bent) {
			t.Errorf("%s: bent %v", name, l.Bent)
		}
	}
	if l := LineBy(nil, 0.95, 1); l.Slope.Known() || l.Left.Known() || len(l.Slope.Warnings) == 0 {
		t.Errorf("of no blocks: %+v", l)
	}
}

// An unknown straightness does not take the line with it.
func TestLineByWithoutStraightness(t *testing.T) {
	for name, blocks := range map[string][][2][]float64{
		"two levels":   {{{1, 2}, {1, 2}}, {{1, 2}, {1, 2.5}}, {{1, 2}, {1.1, 2}}},
		"other levels": {{{1, 2, 3}, {1, 2, 3}}, {{1, 2, 4}, {1, 2.5, 3}}, {{1, 2, 3}, {1.1, 2, 3.2}}},
	} {
		l := LineBy(blocks, 0.95, 1)
		if !l.Slope.Known() || l.Left.Known() || len(l.Left.Warnings) == 0 || !math.IsNaN(l.Bent) {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// The order of blocks, and of the points in one, is of no account; a unit of x
// or y only changes the unit of the answer.
func TestLineByKnowsNoOrderAndNoUnit(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var blocks, turned, scaled [][2][]float64
	for range 7 {
		var x, y, rx, ry, sx, sy []float64
		for _, at := range []float64{1, 5, 10, 20} {
			v := 3 + 2*at + random.NormFloat64()
			x, y = append(x, at), append(y, v)
			rx, ry = append([]float64{at}, rx...), append([]float64{v}, ry...)
			sx, sy = append(sx, 1000*at), append(sy, v/100)
		}
		blocks = append(blocks, [2][]float64{x, y})
		turned = append([][2][]float64{{rx, ry}}, turned...)
		scaled = append(scaled, [2][]float64{sx, sy})
	}
	a, b, c := LineBy(blocks, 0.95, 1), LineBy(turned, 0.95, 1), LineBy(scaled, 0.95, 1)
	for name, pair := range map[string][2]Estimate{"intercept": {a.Intercept, b.Intercept}, "slope": {a.Slope, b.Slope}, "left": {a.Left, b.Left}} {
		near(t, name, pair[1].Value, pair[0].Value, 1e-10)
		near(t, name+" low", pair[1].Interval.Low, pair[0].Interval.Low, 1e-10)
		near(t, name+" high", pair[1].Interval.High, pair[0].Interval.High, 1e-10)
	}
	near(t, "bent", b.Bent, a.Bent, 1e-9)
	near(t, "slope in another unit", c.Slope.Value*1e5, a.Slope.Value, 1e-9)
	near(t, "left in another unit", c.Left.Value, a.Left.Value, 1e-10)
	near(t, "bent in another unit", c.Bent, a.Bent, 1e-9)
}

// Blocks differ in their level by far more than readings within one: the
// intervals hold all the same, and so does the test of straightness.
func TestLineByCoverage(t *testing.T) {
	const runs, fixed, each = 2000, 20.0, 0.05
	x := []float64{1, 10, 30, 50, 70, 100}
	for _, n := range []int{5, 10, 20} {
		random := rand.New(rand.NewPCG(uint64(n), 6))
		var intercept, slope, contrast, bent, falselyLeft int
		for range runs {
			blocks := make([][2][]float64, n)
			for i := range blocks {
				own := 5 * random.NormFloat64()
				y := make([]float64, len(x))
				for j := range x {
					y[j] = fixed + own + each*x[j] + random.NormFloat64()
				}
				blocks[i] = [2][]float64{x, y}
			}
			l := LineBy(blocks, 0.95, 1)
			holds := func(e Estimate, v float64) int {
				if e.Interval.Low <= v && v <= e.Interval.High {
					return 1
				}
				return 0
			}
			intercept += holds(l.Intercept, fixed)
			slope += holds(l.Slope, each)
			contrast += holds(l.Combination(1, -100), fixed-100*each)
			if l.Bent < 0.05 {
				bent++
			}
			if l.Left.Interval.Low > 0 {
				falselyLeft++
			}
		}
		t.Logf("%d blocks: intercept held %.1f %%, slope %.1f %%, contrast %.1f %%; called bent %.1f %%, left above zero %.1f %%", n,
			100*float64(intercept)/runs, 100*float64(slope)/runs, 100*float64(contrast)/runs, 100*float64(bent)/runs, 100*float64(falselyLeft)/runs)
		for name, of := range map[string]int{"intercept": intercept, "slope": slope, "contrast": contrast} {
			if share := float64(of) / runs; share < 0.93 || share > 0.97 {
				t.Errorf("%d blocks: 95 %% intervals of the %s held in %.1f %% of runs", n, name, 100*share)
			}
		}
		if share := float64(bent) / runs; share < 0.03 || share > 0.07 {
			t.Errorf("%d blocks: a straight line was called bent at 5 %% in %.1f %% of runs", n, 100*share)
		}
		if share := float64(falselyLeft) / runs; share > 0.05 {
			t.Errorf("%d blocks: of a straight line something was left in %.1f %% of runs", n, 100*share)
		}
	}
}

// The share that a line leaves of a curve is known here; its interval holds it,
// and its upper end seldom lies below it.
func TestLeftCoverage(t *testing.T) {
	const runs = 2000
	x := []float64{1, 2, 4, 8, 16, 32}
	for _, bend := range []float64{0.01, 0.03, 0.1} {
		truth := make([]float64, len(x))
		for j := range x {
			truth[j] = 40 + x[j] + bend*(x[j]-16)*(x[j]-16)
		}
		_, _, want := Line(x, truth)
		for _, n := range []int{5, 10, 20} {
			random := rand.New(rand.NewPCG(uint64(n), 7))
			held, below := 0, 0
			for range runs {
				blocks := make([][2][]float64, n)
				for i := range blocks {
					own := 3 * random.NormFloat64()
					y := make([]float64, len(x))
					for j := range x {
						y[j] = truth[j] + own + 0.5*random.NormFloat64()
					}
					blocks[i] = [2][]float64{x, y}
				}
				l := LineBy(blocks, 0.95, 1).Left
				if l.Interval.High < want {
					below++
				}
				if l.Interval.Low <= want && want <= l.Interval.High {
					held++
				}
			}
			t.Logf("%.2f %% left, %d blocks: held %.1f %%, wholly below %.1f %%", 100*want, n, 100*float64(held)/runs, 100*float64(below)/runs)
			if share := float64(held) / runs; share < 0.925 {
				t.Errorf("bend %v (%.1f %% left), %d blocks: held in %.1f %%, below the truth in %.1f %%", bend, 100*want, n, 100*share, 100*float64(below)/runs)
			}
		}
	}
}

// Noise that grows with x is what the test of straightness does not expect: it
// then calls a line bent more often than it should, and the share left does not.
func TestLineByOfGrowingNoise(t *testing.T) {
	const runs, n = 2000, 10
	random := rand.New(rand.NewPCG(8, 9))
	x := []float64{1, 10, 30, 50, 70, 100}
	slope, bent, left := 0, 0, 0
	for range runs {
		blocks := make([][2][]float64, n)
		for i := range blocks {
			y := make([]float64, len(x))
			for j := range x {
				y[j] = (20 + x[j]) * (1 + 0.05*random.NormFloat64())
			}
			blocks[i] = [2][]float64{x, y}
		}
		l := LineBy(blocks, 0.95, 1)
		if l.Slope.Interval.Low <= 1 && 1 <= l.Slope.Interval.High {
			slope++
		}
		if l.Bent < 0.05 {
			bent++
		}
		if l.Left.Interval.Low > 0 {
			left++
		}
	}
	t.Logf("slope held %.1f %%; called bent %.1f %%, left above zero %.1f %%", 100*float64(slope)/runs, 100*float64(bent)/runs, 100*float64(left)/runs)
	if share := float64(slope) / runs; share < 0.93 || share > 0.97 {
		t.Errorf("95 %% intervals of the slope held in %.1f %% of runs", 100*share)
	}
	if float64(left)/runs > 0.05 {
		t.Errorf("of a straight line something was left in %.1f %% of runs", 100*float64(left)/runs)
	}
}
