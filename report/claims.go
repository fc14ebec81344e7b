package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"tare/claim"
	"tare/record"
	"tare/terminal"
)

// ClaimList writes claims a line each, with their verdicts on this host, paper
// by paper, and below each paper the commands that judge what is not yet run.
func ClaimList(w io.Writer, here record.Host, rows []claim.Row, notes []string, opt TerminalOptions) error {
	s := newScreen(opt.Width, opt.Color)
	s.paragraph(bold, ClaimsAnswer(rows))
	s.blank()
	s.field("host", hostText(here))
	for from := 0; from < len(rows); {
		to := from
		for to < len(rows) && rows[to].Paper.Key == rows[from].Paper.Key {
			to++
		}
		s.blank()
		s.claimTable(rows[from:to])
		from = to
	}
	s.blank()
	s.claimNotes(notes)
	for i, command := range opt.Next {
		s.copyable(first(i, "next"), clean(command))
	}
	return s.flush(w)
}

// ClaimTexts writes claims whole: what is claimed, what was published and what
// we found, and by what rule the one judges the other.
func ClaimTexts(w io.Writer, rows []claim.Row, notes []string, opt TerminalOptions) error {
	s := newScreen(opt.Width, opt.Color)
	for _, r := range rows {
		s.blank()
		s.claimText(r)
	}
	s.blank()
	s.claimNotes(notes)
	return s.flush(w)
}

// JudgedClaims makes the rows of a [Judgements] part of settled judgements, in
// the order of the claims.
func JudgedClaims(judgements []claim.Judgement) []Judgement {
	var rows []Judgement
	for _, c := range claim.All() {
		i := slices.IndexFunc(judgements, func(j claim.Judgement) bool { return j.Claim == c.ID })
		if i < 0 {
			continue
		}
		rows = append(rows, JudgedClaim(c, judgements[i]))
	}
	return rows
}

// JudgedClaim is the row of one claim.
func JudgedClaim(c claim.Claim, j claim.Judgement) Judgement {
	why := j.Rests
	for _, more := range []string{c.Inconsistency, j.NotRepresentative} {
		if more != "" {
			why += ". " + strings.TrimSuffix(more, ".")
		}
	}
	var published []string
	for i, f := range c.Published {
		if i == mostPublished {
			published = append(published, fmt.Sprintf("and %d more (tare claims %s)", len(c.Published)-i, c.ID))
			break
		}
		published = append(published, f.Name+" "+f.Text())
	}
	if len(published) == 0 {
		published = []string{c.Remark}
	}
	return Judgement{
		Claim: c.ID, Says: c.Says, Published: strings.Join(published, ", "), Ours: j.Ours,
		Verdict: string(j.Verdict), Why: strings.TrimPrefix(why, ". "), Tone: ClaimTone(j.Verdict),
	}
}

// mostPublished is how many of a claim's figures stand beside ours in a row;
// tables of them are the studies' to show.
const mostPublished = 12

// ClaimTone is how the verdict on a claim is to be taken.
func ClaimTone(v claim.Verdict) Tone {
	switch v {
	case claim.Confirmed:
		return Good
	case claim.Refuted:
		return Bad
	case claim.Inconclusive, claim.NotYetRun:
		return Faint
	}
	return Plain
}

// claimStyle colours the verdict on a claim; the word says the same.
func claimStyle(v claim.Verdict) terminal.Sequence {
	switch v {
	case claim.Confirmed:
		return green
	case claim.Refuted:
		return red
	case claim.Qualified:
		return cyan
	case claim.Inconclusive:
		return yellow
	}
	return faint
}

// ClaimsAnswer counts the verdicts in a sentence.
func ClaimsAnswer(rows []claim.Row) string {
	count := map[claim.Verdict]int{}
	for _, r := range rows {
		count[r.Judgement.Verdict]++
	}
	var parts []string
	for _, v := range []claim.Verdict{claim.Confirmed, claim.Qualified, claim.Refuted, claim.Inconclusive,
		claim.NotYetRun} {
		if n := count[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	if len(parts) == 0 {
		return "No claim was asked for."
	}
	return fmt.Sprintf("Of %s on this host: %s.", Counted(len(rows), "published claim"), Listed(parts))
}

// The columns of a list of claims. The verdict's holds the longest of them.
const (
	claimWidth   = len("S2.10")
	verdictWidth = len(claim.Inconclusive)
)

func (s *screen) claimTable(rows []claim.Row) {
	p := rows[0].Paper
	s.paragraph(bold, fmt.Sprintf("%s: %s (%s)", p.Key, p.Title, p.Name))
	room := s.width - claimWidth - verdictWidth - 2*gap
	for _, r := range rows {
		short := r.Short
		if r.Judgement.NotRepresentative != "" {
			short += " [not representative]"
		}
		for i, l := range wrap(short, room) {
			id, verdict := "", ""
			if i == 0 {
				id, verdict = r.ID, string(r.Judgement.Verdict)
			}
			s.line(
				piece{plain, left(id, claimWidth+gap)},
				piece{claimStyle(r.Judgement.Verdict), left(verdict, verdictWidth)},
				piece{plain, strings.Repeat(" ", gap) + l},
			)
		}
	}
	for _, c := range commandsFor(rows) {
		if !c.runnable {
			s.hang(faint, c.claims+":", "not yet: "+c.command)
			continue
		}
		s.line(piece{faint, c.claims + ":"})
		s.copyable("", c.command)
	}
}

// ClaimRun is a command with the claims that it decides; without a command nothing is run for them.
type ClaimRun struct {
	Claims  []claim.Claim
	Command []string
	Says    string // how long it takes, or why nothing is run
}

// ClaimRuns writes runs as they are planned.
func ClaimRuns(w io.Writer, runs []ClaimRun, total string, opt TerminalOptions) error {
	s := newScreen(opt.Width, opt.Color)
	for _, r := range runs {
		s.hang(plain, ClaimSpans(r.Claims)+":", clean(r.Says))
		if r.Command != nil {
			s.copyable("", terminal.Shell(r.Command...))
		}
	}
	s.blank()
	s.paragraph(bold, total)
	return s.flush(w)
}

// claimCommand is a command with the claims that it judges.
type claimCommand struct {
	claims, command string
	runnable        bool
}

// commandsFor gives the commands that judge what is not yet run, in the order
// of the claims. Of a study that this tare does not have only the name is known.
func commandsFor(rows []claim.Row) []claimCommand {
	var commands []claimCommand
	of := map[string][]int{} // by command, the places of its claims among the rows
	for i, r := range rows {
		if r.Judgement.Verdict != claim.NotYetRun {
			continue
		}
		c := claimCommand{command: terminal.Shell(r.Command...), runnable: r.Runnable}
		if !r.Runnable {
			c.command = terminal.Shell(r.Command[:min(2, len(r.Command))]...)
		}
		if of[c.command] == nil {
			commands = append(commands, c)
		}
		of[c.command] = append(of[c.command], i)
	}
	for i := range commands {
		commands[i].claims = claimSpans(rows, of[commands[i].command])
	}
	return commands
}

// ClaimSpans names claims among all: "S1.1, S1.5 to S1.12".
func ClaimSpans(claims []claim.Claim) string {
	var rows []claim.Row
	var at []int
	for i, c := range claim.All() {
		rows = append(rows, claim.Row{Claim: c})
		if slices.ContainsFunc(claims, func(one claim.Claim) bool { return one.ID == c.ID }) {
			at = append(at, i)
		}
	}
	return claimSpans(rows, at)
}

// claimSpans names the claims at some places among rows: "S1.1, S1.5 to S1.12".
func claimSpans(rows []claim.Row, at []int) string {
	var spans []string
	for from := 0; from < len(at); {
		to := from
		for to+1 < len(at) && at[to+1] == at[to]+1 {
			to++
		}
		switch to - from {
		case 0:
			spans = append(spans, rows[at[from]].ID)
		case 1:
			spans = append(spans, rows[at[from]].ID, rows[at[to]].ID)
		default:
			spans = append(spans, rows[at[from]].ID+" to "+rows[at[to]].ID)
		}
		from = to + 1
	}
	return strings.Join(spans, ", ")
}

func (s *screen) claimNotes(notes []string) {
	for _, n := range notes {
		s.hang(yellow, "note:", clean(n))
	}
}

func (s *screen) claimText(r claim.Row) {
	j := r.Judgement
	s.rule(r.ID + "  " + r.Short)
	line := []piece{{faint, left("verdict", fieldWidth)}, {claimStyle(j.Verdict), string(j.Verdict)}}
	if j.NotRepresentative != "" {
		line = append(line, piece{plain, " [not representative]"})
	}
	s.line(line...)
	s.field("claim", r.Says)
	if j.Verdict != claim.NotYetRun {
		s.claimJudgement(j)
	}
	s.field("source", fmt.Sprintf("%s, %s, %s", r.Paper.Name, r.Paper.Title, r.Paper.Kind))
	s.field("there", r.Paper.Bench)
	if r.Inconsistency != "" {
		s.field("at odds", r.Inconsistency)
	}
	s.field("judged", r.HowJudged)
	if t := figuresTable(r.Published, j.Figures); len(t.Rows) > 0 {
		s.blank()
		s.rowTable(t)
	}
	if r.Remark != "" {
		s.paragraph(faint, r.Remark)
	}
	s.blank()
	if r.Runnable {
		s.copyable("run", terminal.Shell(r.Command...))
	} else {
		s.field("run", "not yet: "+terminal.Shell(r.Command[:min(2, len(r.Command))]...)+", a study that this tare does not have")
	}
}

func (s *screen) claimJudgement(j claim.Judgement) {
	if j.Ours != "" {
		s.field("ours", clean(j.Ours))
	}
	s.field("rests on", clean(j.Rests))
	if j.NotRepresentative != "" {
		s.field("caution", "not representative: "+clean(j.NotRepresentative))
	}
	s.field("measured", fmt.Sprintf("%s, %s", clean(j.Run), j.When.Local().Format(time.DateTime)))
	s.field("on", clean(j.Host))
	for i, c := range j.Since {
		s.field(first(i, "since"), clean(c))
	}
}

// figuresTable sets ours beside the published figures of the same name; ours
// that have none stand below.
func figuresTable(published, ours []claim.Figure) Table {
	t := Table{Columns: []Column{{Head: "figure"}, {Head: "published", Number: true}}}
	if len(ours) > 0 {
		t.Columns = append(
			t.Columns,
			Column{Head: "ours", Number: true},
			Column{Head: "interval", Number: true},
			Column{Head: "n", Number: true},
		)
	}
	row := func(name, there string, f *claim.Figure) {
		cells := []Cell{{Text: name}, {Text: there}}
		if f != nil {
			cells = append(cells, ownFigure(*f)...)
		}
		t.Rows = append(t.Rows, cells)
	}
	taken := map[string]bool{}
	for _, p := range published {
		taken[p.Name] = true
		var own *claim.Figure
		if i := slices.IndexFunc(ours, func(f claim.Figure) bool { return f.Name == p.Name }); i >= 0 {
			own = &ours[i]
		}
		row(p.Name, p.Text(), own)
	}
	for i := range ours {
		if !taken[ours[i].Name] {
			row(clean(ours[i].Name), "", &ours[i])
		}
	}
	return t
}

// OwnFigure writes a figure of ours to the digits that its interval supports; interval is empty where it
// has none.
func OwnFigure(f claim.Figure) (value, interval string) {
	cells := ownFigure(f)
	return cells[0].Text, cells[1].Text
}

func ownFigure(f claim.Figure) []Cell {
	value, span, n := "", "", ""
	unit := ""
	if f.Unit != "" {
		unit = " " + clean(f.UnitText())
	}
	if f.Interval() {
		value, span = fixed(f.Value, decimalsOf(f.Value, f.Low, f.High))+unit, plainSpan(f.Low, f.High)
	} else {
		value = fixed(f.Value, significant(f.Value)) + unit
	}
	if f.N > 0 {
		n = fmt.Sprint(f.N)
	}
	return []Cell{{Text: value}, {Text: span}, {Text: n}}
}
