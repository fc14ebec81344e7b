package kit

import (
	"tare/advise"
	"tare/record"
	"tare/stats"
)

// Evidence is a figure of a run that a piece of advice rests on, with the conditions that it
// is of.
func Evidence(
	run record.Run,
	says, unit string,
	figure stats.Estimate,
	conditions ...record.Condition,
) advise.Evidence {
	e := advise.Evidence{Run: run.ID, Says: says, Figure: figure, Unit: unit}
	for _, c := range conditions {
		e.Conditions = append(e.Conditions, c.ID)
	}
	return e
}
