package main

import (
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// powerBudgets are the times that the power table is for.
var powerBudgets = []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

// powerShare is the share of a budget that rounds take: the pilot and what no further round
// fits into take the rest.
const powerShare = 0.85

// power is a row of the power table: what one run tells of others.
type power struct {
	run      line
	figure   figure // with the measured half-width
	expected []float64
}

// powers gives, of each run of one program by rounds, the half-width in percent that each of
// powerBudgets would have: Student's quantile × standard deviation of rounds / √rounds, the
// standard deviation being that which the run's own interval rests on, and the number of
// rounds that which fits.
func powers(lines []line) []power {
	var all []power
	for _, l := range lines {
		if l.Short || l.Part != "redis2m" && l.Part != "designs" {
			continue
		}
		for _, f := range l.Figures {
			headline := f.Kind == primaryKind(f.Metric)
			rounds, strips := float64(l.Values[f.Workload+" rounds"]), float64(l.Values[f.Workload+" strips_all"])
			if !f.Primary || !headline || rounds < 2 || strips == 0 || f.N < 2 {
				continue
			}
			each := float64(l.Values[f.Workload+" round_s"]) + strips/rounds*float64(l.Values[f.Workload+" strip_s"])
			p := power{run: l, figure: f}
			_, se := f.logError()
			for _, budget := range powerBudgets {
				p.expected = append(
					p.expected,
					expectedHalfWidth(se*math.Sqrt(float64(f.N)), int(powerShare*budget.Seconds()/each)),
				)
			}
			all = append(all, p)
		}
	}
	return all
}

// expectedHalfWidth is in percent; +Inf where there would be no interval.
func expectedHalfWidth(sd float64, rounds int) float64 {
	if rounds < 2 {
		return math.Inf(1)
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(rounds - 1)}.Quantile(0.5 + level/2)
	return 100 * math.Expm1(t*sd/math.Sqrt(float64(rounds)))
}

// cells are the row's.
func (p power) cells() []string {
	cells := []string{
		p.figure.Workload,
		p.figure.Metric,
		p.figure.Kind,
		fmt.Sprintf("%.0f", p.run.Seconds),
		fmt.Sprintf("%.2f", p.figure.halfWidth()),
	}
	for _, half := range p.expected {
		cells = append(cells, fmt.Sprintf("%.2f", half))
	}
	return append(cells, fmt.Sprint(p.run.Runs))
}

// powerColumns are the table's heads.
func powerColumns() []string {
	heads := []string{"program", "metric", "estimate", "s", "half-width measured, %"}
	for _, b := range powerBudgets {
		heads = append(heads, fmt.Sprintf("expected in %g min, %%", b.Minutes()))
	}
	return append(heads, "run")
}
