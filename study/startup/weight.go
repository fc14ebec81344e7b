package startup

import (
	"fmt"
	"strings"

	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/kit"
)

// looks names the observers of a burst.
var looks = map[string]string{"profile": "the CPU profile", "watch": "the watch for first instructions"}

// weight is what the instrument itself cost.
func (p *page) weight() report.Weight {
	var w report.Weight
	var latest *report.WeightItem
	for _, c := range p.of(kindRamp) {
		if e := p.Value(c, late+"-p99"); e.Value == e.Value && (latest == nil || e.Value > latest.Estimate.Value) {
			latest = &report.WeightItem{
				What: fmt.Sprintf("lateness of the load generator, p99, worst case (%s on %s at %g/s)", workloadOf(c), c.Platform, rate(c)),
				Unit: "us", Estimate: e,
			}
		}
	}
	if latest != nil {
		w = append(w, *latest)
	}
	for _, c := range p.of(kindBurst) {
		row := p.Row(c, throughput)
		if row.Baseline || row.Ratio.N == 0 {
			continue
		}
		cost := row.Ratio
		cost.Value = 100 * (1 - cost.Value)
		cost.Interval.Low, cost.Interval.High = 100*(1-row.Ratio.Interval.High), 100*(1-row.Ratio.Interval.Low)
		w = append(w, report.WeightItem{
			What: fmt.Sprintf("throughput of starts lost to %s (%s on %s)", looks[c.Factors[factorProbe]], workloadOf(c), c.Platform),
			Unit: "%", Estimate: cost, Difference: true,
		})
	}
	for _, kind := range []string{kindProfile, kindBlocked, kindTrace} {
		for _, c := range p.of(kind) {
			if lost, n := p.sum(c, lostSamples); n > 0 {
				w = append(w, report.WeightItem{
					What: fmt.Sprintf("lost records of the %s on %s", c.Factors[factorKind], c.Platform), Unit: "records",
					Estimate: counted(lost, n, p.Report.Level),
				})
			}
		}
	}
	for _, of := range []struct{ covariate, what, unit string }{
		{lostExecs, "lost events of the watch for first instructions", "events"},
		{unseenFirsts, "answered starts whose first instruction was not seen", "starts"},
		{"throttled_samples", "samples withheld by the kernel", "times"},
	} {
		sum, n := 0.0, 0
		for _, t := range p.Run.Trials {
			if v, ok := t.Covariates[of.covariate]; ok && t.Block > 0 && t.Error == "" {
				sum += v
				n++
			}
		}
		if n > 0 {
			w = append(w, report.WeightItem{What: of.what, Unit: of.unit, Estimate: counted(sum, n, p.Report.Level)})
		}
	}
	if own := kit.Covariates(p.Reading, "tare_cpu_share", 100); len(own) > 0 {
		w = append(w, report.WeightItem{
			What: "CPU time of tare itself during a trial, of one CPU", Unit: "%",
			Estimate: stats.Mean(own, p.Report.Level, p.Run.Seed),
		})
	}
	return w
}

// counted is a count over n trials.
func counted(value float64, n int, level float64) stats.Estimate {
	return stats.Estimate{
		Value: value, N: n, Method: "count", Interval: stats.Interval{Low: value, High: value, Level: level},
	}
}

// sum adds a metric's samples over a condition's trials; n is how many there are.
func (p *page) sum(c record.Condition, metric string) (sum float64, n int) {
	for _, t := range p.Trials(c) {
		for _, s := range t.Samples {
			if s.Metric == metric {
				sum += s.Value
				n++
			}
		}
	}
	return sum, n
}

// next is the command to run after a run.
func next(run record.Run) string {
	r := read(run)
	switch {
	case len(r.of(kindProfile)) == 0 && len(r.platforms()) > 0:
		workload, _, _ := strings.Cut(r.workloads()[0], " ") // without its parameters
		return "tare startup --platform " + r.platforms()[0] + " --workload " + workload + " --rate 4 --profile"
	case len(r.of(kindRamp)) > 0:
		return "tare claims S1.1 S1.3 S1.4"
	}
	return "tare export " + run.ID + " --format csv"
}
