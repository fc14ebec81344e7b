package overhead

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"tare/record"
	"tare/workload"
)

var csvHeader = []string{"run", "block", "attempt", "position", "condition", "metric", "unit", "value", "taint", "strip"}

// CSV writes one row a sample, of every attempt and of the warm-up (block
// 0). In a run of rounds of slices it is one row a slice and metric: block is then the
// round, 0 the pilot's, and strip the slice's strip within the round, which is 0 in all
// other rows. Slices of controls are left out. A metric that is a quantile of a histogram has a row a trial, with the
// trial's own quantile: these serve to look at, but are not to be averaged.
// Trials that yielded nothing have no rows. taint holds the causes, separated
// by "; ".
func CSV(w io.Writer, run record.Run) error {
	out := csv.NewWriter(w)
	put := func(row []string) { _ = out.Write(row) } // an error stays with the writer until Flush
	put(csvHeader)
	definitions := metricsByCondition(run)
	var l layout // only for its reading of trials
	for i := range run.Trials {
		t := &run.Trials[i]
		if t.Error != "" {
			continue
		}
		strip, taint := 0, t.Taint
		if len(t.Slices) == 1 { // an execution
			strip = t.Slices[0].Strip
		}
		write := func(metric, unit string, value float64) {
			put([]string{
				run.ID, strconv.Itoa(t.Block), strconv.Itoa(t.Attempt), strconv.Itoa(t.Position), t.Condition,
				metric, unit, strconv.FormatFloat(value, 'g', -1, 64), strings.Join(taint, "; "), strconv.Itoa(strip),
			})
		}
		units := map[string]string{}
		for _, m := range definitions[t.Condition] {
			units[m.Name] = m.Unit
		}
		for _, s := range t.Samples {
			write(s.Metric, units[s.Metric], s.Value)
		}
		for j := range t.Slices {
			s := &t.Slices[j]
			if s.Control != "" {
				continue
			}
			strip, taint = s.Strip, s.Taint
			for _, m := range definitions[t.Condition] {
				if value, ok := figureOf(s, m); ok {
					write(m.Name, m.Unit, value)
				}
			}
		}
		strip, taint = 0, t.Taint
		if len(t.Histograms) == 0 {
			continue
		}
		measured := l.measure(t)
		for _, m := range definitions[t.Condition] {
			if m.Quantile == 0 {
				continue
			}
			if value, ok := measured.value(m); ok {
				write(m.Name, m.Unit, value)
			}
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write run %s as CSV: %w", run.ID, err)
	}
	return nil
}

func metricsByCondition(run record.Run) map[string][]workload.Metric {
	m := map[string][]workload.Metric{}
	for _, c := range run.Conditions {
		m[c.ID] = c.Metrics
	}
	return m
}
