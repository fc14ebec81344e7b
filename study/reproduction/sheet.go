package reproduction

import (
	"fmt"
	"slices"
	"strings"

	"tare/claim"
	"tare/record"
	"tare/report"
	"tare/terminal"
)

// Result is what a reproduction came to.
type Result struct {
	Rows []claim.Row // in the papers' order
	Here record.Host
	On   *claim.Abilities // what this host is able to; nil where nothing says
	// Runs are those that the verdicts rest on.
	Runs []record.Run
	// Pages are the runs' own, by ID: their charts stand in the chapters.
	Pages map[string]report.Sheet
	Notes []string
}

// Sheet is the page. A screen has the first part of it: what somebody reads in two minutes.
// The chapters, one a paper, are left to the page.
func (r Result) Sheet() report.Sheet {
	s := report.Sheet{
		Title:  "tare reproduce",
		Answer: report.ClaimsAnswer(r.Rows),
		Facts:  append([]string{report.HostFact(r.Here)}, r.Notes...),
		Runs:   true,
	}
	s.Parts = report.Filled(r.verdicts(), r.atOdds(), r.left(), r.partly())
	for from := 0; from < len(r.Rows); {
		to := from
		for to < len(r.Rows) && r.Rows[to].Paper.Key == r.Rows[from].Paper.Key {
			to++
		}
		for _, part := range r.chapter(r.Rows[from:to]) {
			s.Parts = append(s.Parts, report.Long{Part: part})
		}
		from = to
	}
	return s
}

// verdicts is the table of all claims.
func (r Result) verdicts() report.Table {
	t := report.Table{
		Title: "Claims",
		Note: "Of each claim the figure that stands for it, as published and as measured here, with the interval. " +
			"An asterisk marks a claim whose paper contradicts itself: it is qualified at best.",
		Columns: []report.Column{{Head: "claim"}, {Head: "published"}, {Head: "here"}, {Head: "verdict"}},
	}
	for _, row := range r.Rows {
		published, ours := beside(row)
		mark := ""
		if row.Inconsistency != "" {
			mark = "*"
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: row.ID + mark + " " + row.Short}, published, ours,
			{Text: string(row.Judgement.Verdict), Tone: report.ClaimTone(row.Judgement.Verdict)},
		})
	}
	return t
}

// beside are the figures that stand for a claim: the first that the paper and we both have, else our first
// beside none. Of a claim that is not judged, the paper's first.
func beside(row claim.Row) (published, ours report.Cell) {
	var own []claim.Figure
	if row.Judgement.Verdict != claim.NotYetRun {
		own = row.Judgement.Figures
	}
	for _, p := range row.Published {
		if i := slices.IndexFunc(own, func(f claim.Figure) bool { return f.Name == p.Name }); i >= 0 {
			return report.Cell{Text: p.Name + ": " + p.Text()}, ownCell("", own[i])
		}
	}
	published = report.Cell{Text: "no figure", Tone: report.Faint}
	switch {
	case len(row.Published) > 0 && len(own) > 0:
		published.Text = "none to compare"
	case len(row.Published) > 0:
		published = report.Cell{Text: row.Published[0].Name + ": " + row.Published[0].Text()}
	}
	ours = report.Cell{Text: "–", Tone: report.Faint}
	switch {
	case len(own) > 0:
		ours = ownCell(own[0].Name+": ", own[0])
	case row.Judgement.Ours != "":
		ours = report.Cell{Text: row.Judgement.Ours}
	}
	return published, ours
}

func ownCell(name string, f claim.Figure) report.Cell {
	value, interval := report.OwnFigure(f)
	return report.Cell{Text: name + value, Detail: interval}
}

// atOdds lists where papers contradict themselves.
func (r Result) atOdds() report.Table {
	t := report.Table{
		Title:   "Where papers contradict themselves",
		Columns: []report.Column{{Head: "claim"}, {Head: "at odds"}},
	}
	for _, row := range r.Rows {
		if row.Inconsistency != "" {
			t.Rows = append(t.Rows, []report.Cell{{Text: row.ID}, {Text: row.Inconsistency}})
		}
	}
	return t
}

// left lists the claims for which nothing was run, by the reason.
func (r Result) left() report.Table {
	t := report.Table{
		Title:   "Not run on this host",
		Columns: []report.Column{{Head: "claims"}, {Head: "why"}},
	}
	var reasons []string
	of := map[string][]claim.Claim{}
	for _, row := range r.Rows {
		if row.Left == "" {
			continue
		}
		if of[row.Left] == nil {
			reasons = append(reasons, row.Left)
		}
		of[row.Left] = append(of[row.Left], row.Claim)
	}
	for _, why := range reasons {
		t.Rows = append(t.Rows, []report.Cell{{Text: report.ClaimSpans(of[why])}, {Text: why}})
	}
	return t
}

// partly lists what of claims another host could decide.
func (r Result) partly() report.Table {
	t := report.Table{
		Title:   "Seen in part on this host",
		Columns: []report.Column{{Head: "claim"}, {Head: "stays open"}, {Head: "could be decided on"}},
	}
	for _, row := range r.Rows {
		if r.On == nil || row.Elsewhere(*r.On) != "" {
			continue
		}
		for _, need := range row.Unmet(*r.On) {
			t.Rows = append(t.Rows, []report.Cell{{Text: row.ID}, {Text: need.Part}, {Text: need.Host}})
		}
	}
	return t
}

// chapter is all of one paper's claims.
func (r Result) chapter(rows []claim.Row) []report.Part {
	p := rows[0].Paper
	judged := report.Judgements{Title: p.Key + ": verdicts"}
	for _, row := range rows {
		one := report.JudgedClaim(row.Claim, row.Judgement)
		if row.Judgement.Verdict == claim.NotYetRun {
			one.Why = strings.Trim(row.Left+". "+row.Inconsistency, ". ")
		}
		judged.Rows = append(judged.Rows, one)
	}
	parts := []report.Part{report.Chapter{
		Title: p.Key + ": " + p.Title, Text: fmt.Sprintf("%s, %s. Measured there on %s", p.Name, p.Kind, p.Bench),
	}, judged}
	for _, t := range []report.Table{figures(p, rows), r.runs(p, rows)} {
		parts = append(parts, report.Filled(t)...)
	}
	for _, id := range deciding(rows) {
		for _, part := range r.Pages[id].Parts {
			switch part.(type) {
			case report.Chart, report.Bars:
				parts = append(parts, part)
			}
		}
	}
	return parts
}

// figures sets ours beside the published figures of the same name.
func figures(p claim.Paper, rows []claim.Row) report.Table {
	t := report.Table{
		Title: p.Key + ": figures that were published and measured here",
		Columns: []report.Column{
			{Head: "claim"}, {Head: "figure"}, {Head: "published", Number: true}, {Head: "here", Number: true},
			{Head: "interval", Number: true},
		},
	}
	for _, row := range rows {
		for _, published := range row.Published {
			i := slices.IndexFunc(row.Judgement.Figures, func(f claim.Figure) bool { return f.Name == published.Name })
			if i < 0 {
				continue
			}
			value, interval := report.OwnFigure(row.Judgement.Figures[i])
			t.Rows = append(t.Rows, []report.Cell{
				{Text: row.ID}, {Text: published.Name}, {Text: published.Text()}, {Text: value}, {Text: interval},
			})
		}
	}
	return t
}

// runs lists those that a paper's verdicts rest on.
func (r Result) runs(p claim.Paper, rows []claim.Row) report.Table {
	t := report.Table{
		Title:   p.Key + ": runs",
		Note:    "`tare show RUN` shows a run whole.",
		Columns: []report.Column{{Head: "run"}, {Head: "claims"}, {Head: "command"}, {Head: "by tare"}},
	}
	for _, id := range deciding(rows) {
		i := slices.IndexFunc(r.Runs, func(run record.Run) bool { return run.ID == id })
		if i < 0 {
			continue
		}
		var of []claim.Claim
		for _, row := range rows {
			if row.Judgement.Run == id {
				of = append(of, row.Claim)
			}
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: id}, {Text: report.ClaimSpans(of)},
			{Text: "tare " + terminal.Shell(plainLine(r.Runs[i].Command)...)}, {Text: r.Runs[i].Version},
		})
	}
	return t
}

// deciding are the runs that verdicts rest on.
func deciding(rows []claim.Row) (ids []string) {
	for _, row := range rows {
		if id := row.Judgement.Run; id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
