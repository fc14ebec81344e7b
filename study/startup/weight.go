package startup

import (
	"fmt"

	"tare/record"
	"tare/report"
	"tare/stats"
)

// weight is what the instrument itself cost.
func (p *page) weight() report.Weight {
	var w report.Weight
	for _, c := range p.of(kindRamp) {
		if e := p.value(c, late+"-p99"); e.Value == e.Value {
			w = append(w, report.WeightItem{What: fmt.Sprintf("%s on %s at %g/s: p99 of the generator's own lateness", workloadOf(c), c.Platform, rate(c)), Unit: "us", Estimate: e})
		}
	}
	for _, c := range p.of(kindBurst) {
		row := p.rows[c.ID][throughput]
		if row.Baseline || row.Ratio.N == 0 {
			continue
		}
		cost := row.Ratio
		cost.Value = 100 * (1 - cost.Value)
		cost.Interval.Low, cost.Interval.High = 100*(1-row.Ratio.Interval.High), 100*(1-row.Ratio.Interval.Low)
		w = append(w, report.WeightItem{What: fmt.Sprintf("profiling %s on %s takes of its start throughput", workloadOf(c), c.Platform), Unit: "%", Estimate: cost, Difference: true})
	}
	for _, kind := range []string{kindProfile, kindBlocked} {
		for _, c := range p.of(kind) {
			if lost, n := p.sum(c, lostSamples); n > 0 {
				w = append(w, report.WeightItem{
					What: fmt.Sprintf("%s on %s: records lost", c.Factors[factorKind], c.Platform), Unit: "records",
					Estimate: stats.Estimate{Value: lost, N: n, Method: "count", Interval: stats.Interval{Low: lost, High: lost, Level: p.analysis.Level}},
				})
			}
		}
	}
	var own []float64
	for _, t := range p.run.Trials {
		if v, ok := t.Covariates["tare_cpu_share"]; ok && t.Block > 0 && t.Error == "" {
			own = append(own, 100*v)
		}
	}
	if len(own) > 0 {
		w = append(w, report.WeightItem{What: "tare itself, while a trial ran, used of one CPU", Unit: "%", Estimate: stats.Mean(own, p.analysis.Level, p.run.Seed)})
	}
	return w
}

// sum adds a metric's samples over a condition's trials; n is how many there are.
func (p *page) sum(c record.Condition, metric string) (sum float64, n int) {
	for _, t := range p.trials(c) {
		for _, s := range t.Samples {
			if s.Metric == metric {
				sum += s.Value
				n++
			}
		}
	}
	return sum, n
}

// Interim is a run's page in its midst: its tables alone.
func Interim(run record.Run) report.Sheet {
	p := page{reading: read(run)}
	s := report.Sheet{Title: "tare startup, so far", Answer: p.answer(), Facts: p.facts()}
	for _, part := range append(p.knees(), p.ramps()...) {
		if t, ok := part.(report.Table); ok {
			s.Parts = append(s.Parts, t)
		}
	}
	return s
}

// Next is the command to run after a run.
func Next(run record.Run) string {
	r := read(run)
	switch {
	case len(r.of(kindProfile)) == 0 && len(r.platforms()) > 0:
		return "tare startup --platform " + r.platforms()[0] + " --workload " + r.workloads()[0] + " --rate 4 --profile"
	case len(r.of(kindRamp)) > 0:
		return "tare claims S1.1 S1.3 S1.4"
	}
	return "tare export " + run.ID + " --format csv"
}
