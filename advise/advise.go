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
	Unless string
	Source string // who drew it first: "S4"
	// Against is the published practice that the evidence contradicts; empty where it does not.
	Against  string
	Setting  Setting
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

// Document is recommendations as they are exported.
type Document struct {
	Advice []DocumentAdvice `json:"advice"`
}

// DocumentAdvice is one recommendation.
type DocumentAdvice struct {
	Rule     string             `json:"rule"`
	Set      string             `json:"set"`
	For      string             `json:"for"`
	Unless   string             `json:"unless,omitempty"`
	Source   string             `json:"source"`
	Against  string             `json:"against,omitempty"`
	Settings map[string]string  `json:"settings,omitempty"` // by form
	Evidence []DocumentEvidence `json:"evidence"`
}

// DocumentEvidence is a figure with its interval.
type DocumentEvidence struct {
	Run        string   `json:"run"`
	Conditions []string `json:"conditions"`
	Says       string   `json:"says"`
	Unit       string   `json:"unit"`
	Value      float64  `json:"value"`
	Low        float64  `json:"low"`
	High       float64  `json:"high"`
}

// NewDocument exports those recommendations that hold.
func NewDocument(all []Advice) Document {
	d := Document{Advice: []DocumentAdvice{}}
	for _, a := range all {
		if !a.Holds() {
			continue
		}
		own := DocumentAdvice{
			Rule: a.Rule, Set: a.Set, For: a.For, Unless: a.Unless, Source: a.Source, Against: a.Against,
			Settings: map[string]string{},
		}
		for form, of := range forms {
			if text := of(a.Setting); text != "" {
				own.Settings[form] = text
			}
		}
		for _, e := range a.Evidence {
			own.Evidence = append(own.Evidence, DocumentEvidence{
				e.Run, e.Conditions, e.Says, e.Unit, e.Figure.Value, e.Figure.Interval.Low, e.Figure.Interval.High,
			})
		}
		d.Advice = append(d.Advice, own)
	}
	return d
}

// Part shows those recommendations that hold; nil where none does.
func Part(all []Advice) []report.Part {
	return report.Filled(table("What to set", "Each rests on figures of this run alone; intervals as in the tables above.", all))
}

// table has a row for each recommendation that holds.
func table(title, note string, all []Advice) report.Table {
	t := report.Table{
		Title: title, Note: note,
		Columns: []report.Column{{Head: "do"}, {Head: "for"}, {Head: "since here"}, {Head: "rule", Optional: true}},
	}
	for _, a := range all {
		if !a.Holds() {
			continue
		}
		whom := a.For
		if a.Unless != "" {
			whom += "; not where " + a.Unless
		}
		source := a.Source
		if a.Against != "" {
			source = "against " + source
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: a.Set}, {Text: whom}, {Text: a.since()}, {Text: a.Rule + " (" + source + ")", Tone: report.Faint},
		})
	}
	return t
}

// since is the evidence in a line.
func (a Advice) since() string {
	var statements []string
	for _, e := range a.Evidence {
		statements = append(statements, strings.TrimSpace(fmt.Sprintf("%s: %s %s", e.Says, report.Said(e.Figure, 1), e.Unit)))
	}
	return strings.Join(statements, "; ")
}
