// Package advise holds recommendations: what to set, for whom, and the measured
// evidence that each rests on. A recommendation without evidence of this host is
// none: a study that measured nothing of the kind gives no such advice.
//
// The rules are the studies' own, beside the figures that decide them; here is
// only what a recommendation consists of, and how it is shown.
package advise

import (
	"fmt"
	"strings"

	"tare/report"
	"tare/stats"
)

// Advice is one recommendation.
type Advice struct {
	Rule string // a name that stays: "shares-not-quota"
	// Set is what to do, in the imperative, with the knob's name.
	Set string
	// For says for whom: of what kind of service it is true.
	For string
	// Unless says when not; may be empty.
	Unless   string
	Source   string // who drew it first: "S4"
	Evidence []Evidence
}

// Evidence is a measured figure and where it stands.
type Evidence struct {
	Run        string   // its ID
	Conditions []string // the IDs of the conditions that it compares
	Says       string   // what the figure is of: "p99 under 3ms/10ms against none"
	Figure     stats.Estimate
	Unit       string
}

// Holds reports whether the advice may be given: it rests on something, all of
// which has an interval.
func (a Advice) Holds() bool {
	for _, e := range a.Evidence {
		if !e.Figure.Known() {
			return false
		}
	}
	return len(a.Evidence) > 0
}

// Part shows those recommendations that hold; nil where none does.
func Part(all []Advice) []report.Part {
	t := report.Table{
		Title:   "What to set",
		Note:    "Each rests on figures of this run alone; intervals as in the tables above.",
		Columns: []report.Column{{Head: "do"}, {Head: "for"}, {Head: "since here"}, {Head: "rule", Optional: true}},
	}
	for _, a := range all {
		if !a.Holds() {
			continue
		}
		var statements []string
		for _, e := range a.Evidence {
			statement := fmt.Sprintf("%s: %s %s", e.Says, report.Said(e.Figure, 1), e.Unit)
			statements = append(statements, strings.TrimSpace(statement))
		}
		whom := a.For
		if a.Unless != "" {
			whom += "; not where " + a.Unless
		}
		t.Rows = append(
			t.Rows,
			[]report.Cell{
				{Text: a.Set},
				{Text: whom},
				{Text: strings.Join(statements, "; ")},
				{Text: a.Rule + " (" + a.Source + ")", Tone: report.Faint},
			},
		)
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return []report.Part{t}
}
