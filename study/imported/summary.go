package imported

import (
	"tare/claim"
	"tare/report"
	"tare/stats"
)

// summaries set what a paper published of each figure beside what its data are by our statistics: of each
// claim that was judged, where they have figures of one name.
func summaries(judgements []claim.Judgement) []report.Part {
	t := report.Table{
		Title: "Published summary, and its data by our statistics",
		Note:  "Within: whether the interval of the data and the published range have a value in common.",
		Columns: []report.Column{
			{Head: "claim"}, {Head: "figure"}, {Head: "published", Number: true}, {Head: "data", Number: true},
			{Head: "interval", Number: true}, {Head: "unit"}, {Head: "within"},
		},
	}
	for _, j := range judgements {
		c, err := claim.Lookup(j.Claim)
		if err != nil {
			continue // a claim of another version's
		}
		for _, published := range c.Published {
			for _, ours := range j.Figures {
				if ours.Name == published.Name {
					t.Rows = append(t.Rows, summary(c.ID, published, ours))
				}
			}
		}
	}
	return report.Filled(t)
}

func summary(id string, published, ours claim.Figure) []report.Cell {
	unit := ours.Unit
	published.Unit = ""
	cell := report.Estimated(stats.Estimate{
		Value: ours.Value, Interval: stats.Interval{Low: ours.Low, High: ours.High}, N: ours.N,
	}, 1)
	interval, within := report.Absent(), report.Absent()
	if ours.Interval() {
		least, greatest := published.Ends()
		interval = report.Cell{Text: cell.Detail}
		within = report.Cell{Text: "no", Tone: report.Bad}
		if ours.Low <= greatest && least <= ours.High {
			within = report.Cell{Text: "yes"}
		}
	} else {
		cell = report.Measured(ours.Value)
	}
	return []report.Cell{
		{Text: id}, {Text: ours.Name}, {Text: published.Text()}, {Text: cell.Text}, interval, {Text: unit}, within,
	}
}
