package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page's template, style and script
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"tare/overhead"
	"tare/record"
)

var (
	//go:embed frame.gohtml
	frameText string // what the pages of this package share
	//go:embed page.gohtml
	pageText string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string

	pageTemplate = template.Must(template.Must(template.New("page").Parse(frameText)).Parse(pageText))
)

// HTMLOptions say what stands in the page around the figures.
type HTMLOptions struct {
	Next   []string // commands to run next
	Weight Weight   // what measuring itself cost
}

// HTML writes a run as one file that needs nothing else: no network, no font,
// no script of anyone's. The page's own policy forbids whatever is not in it.
// Without scripts it shows the same figures; the script only folds metrics and
// copies a command.
func HTML(w io.Writer, run record.Run, rep overhead.Report, opt HTMLOptions) error {
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, newPage(run, rep, opt)); err != nil {
		return fmt.Errorf("laying out the report of run %s: %w", run.ID, err)
	}
	_, err := out.WriteTo(w)
	return err
}

// page is what the template shows. Only drawings, style and script are markup;
// every string is text.
type page struct {
	Title     string
	Answer    string
	Together  string // what the verdicts hold for
	Long      bool   // the answer is, and stands smaller
	Study     string
	RunID     string
	Version   string
	Started   string
	Cautions  []caution
	InRounds  bool // a workload is measured by rounds of slices
	InBlocks  bool // a workload is not
	Facts     []fact
	Groups    []groupPage
	Level     string
	Smallest  string
	Reproduce string
	Next      []string
	Weight    []string
	Host      []fact
	Settings  []settingsTable
	Around    surroundings
	Warnings  []string
	Notes     []string
	Failures  []fact
	Style     template.CSS
	Script    template.JS
	Policy    string
}

// Title and Text of a caution, for the template.
func (c caution) Title() string { return c.title }

// Text is what the caution says.
func (c caution) Text() string { return c.text }

type groupPage struct {
	Index    int
	Workload string
	Params   string
	Answer   string // empty where the run has one workload: the page's says it
	Blocks   string
	Metrics  []metricPage
	Curves   []percentilePlot
	Effects  figuresPage
	Loads    []figuresPage
	Rounds   bool
	Warnings []string
}

// figuresPage is a table of figures, the last column of which is words.
type figuresPage struct {
	Head  []string
	Rows  [][]string
	Notes []string
}

func newFiguresPage(t table) figuresPage {
	p := figuresPage{Head: t.head, Notes: together(t.notes)}
	for _, r := range t.rows {
		cells := make([]string, len(r.cells))
		for i, c := range r.cells {
			cells[i] = typeset(c)
		}
		p.Rows = append(p.Rows, cells)
	}
	return p
}

type metricPage struct {
	ID        string
	Name      string
	Exported  string // its name in exports, where that is another
	Rounds    bool   // its blocks are rounds
	Direction string
	Unit      string
	Primary   bool
	Doc       string
	Axis      template.HTML
	Rows      []rowPage
	Notes     []string
	Resolved  string // noise floor and A/A
	Rungs     []rowPage
	Drift     []driftPlot
	Reach     string
	Strips    []strip
	StripAxis template.HTML
}

type rowPage struct {
	Label    string
	Overhead string
	Interval string
	Why      string // what stands for the interval where there is none
	Value    string
	Verdict  string
	Class    string
	Drawing  template.HTML
	Marked   string
	Method   string
	Baseline bool
}

func newPage(run record.Run, rep overhead.Report, opt HTMLOptions) page {
	answer := Answer(run, rep)
	p := page{
		Title: answer, Answer: typeset(answer), Together: typeset(Together(run, rep)), Long: len(answer) > 150, Study: clean(run.Study), RunID: clean(run.ID), Version: clean(run.Version),
		Cautions: cautions(run, rep), Level: strings.TrimSuffix(levelText(rep.Level), " interval"), Smallest: ratioText(rep.SmallestEffect),
		Reproduce: Reproduce(run), Next: opt.Next, Host: fingerprint(run.Host), Settings: settingsTables(run),
		Around: surroundingsOf(run), Warnings: cleaned(rep.Warnings), Notes: cleaned(run.Plan.Notes), Failures: failures(run),
		Style: template.CSS(pageStyle), Script: template.JS(pageScript),
	}
	p.Policy = policy(pageStyle, pageScript)
	if !run.Started.IsZero() {
		p.Started = run.Started.UTC().Format("2 January 2006, 15:04 ") + "UTC"
	}
	for _, item := range opt.Weight {
		p.Weight = append(p.Weight, typeset(item.text()))
	}
	p.Facts = pageFacts(run, rep)
	for i, g := range rep.Groups {
		p.Groups = append(p.Groups, newGroupPage(i, run, rep, g))
		p.InRounds, p.InBlocks = p.InRounds || g.Rounds, p.InBlocks || !g.Rounds
	}
	return p
}

func pageFacts(run record.Run, rep overhead.Report) []fact {
	var facts []fact
	if text := RunThresholdAnswer(run, rep); text != "" {
		facts = append(facts, fact{"Threshold", typeset(text)})
	}
	if len(rep.Groups) == 1 {
		g := rep.Groups[0]
		facts = append(facts, fact{"Workload", workloadText(run, g)}, fact{sentenceStart(unitOf(g)) + "s", blocksText(run, g)})
	}
	if took := elapsed(run); took > 0 {
		facts = append(facts, fact{"Time taken", durationText(took)})
	}
	return append(facts, fact{"Seed", fmt.Sprint(run.Seed)}, fact{"Host", hostText(run.Host)})
}

func newGroupPage(index int, run record.Run, rep overhead.Report, g overhead.Group) groupPage {
	p := groupPage{
		Index: index, Workload: clean(g.Workload), Params: sharedParams(run, g.Workload), Blocks: blocksText(run, g),
		Curves: percentilePlots(run, g.Workload), Warnings: cleaned(g.Warnings),
	}
	p.Rounds = g.Rounds
	if t, any := effectsTable(g, rep.Level); any {
		p.Effects = newFiguresPage(t)
	}
	for _, t := range loadTables(g, rep.Level) {
		p.Loads = append(p.Loads, newFiguresPage(t))
	}
	if len(rep.Groups) > 1 {
		p.Answer = typeset(strings.TrimSuffix(groupAnswer(rep, g), ".") + ".")
	}
	leading := map[string]bool{}
	for _, m := range g.Primaries() {
		leading[m.Name] = true
	}
	// Primary metrics first, so that the first one shown carries the verdict.
	for _, first := range []bool{true, false} {
		for _, m := range g.Metrics {
			if leading[m.Name] == first {
				id := fmt.Sprintf("g%d-m%d", index, len(p.Metrics))
				page := newMetricPage(id, run, rep, m, first)
				if text := secondaryText(g); !first && text != "" {
					page.Notes = append(page.Notes, text)
				}
				p.Metrics = append(p.Metrics, page)
			}
		}
	}
	return p
}

func newMetricPage(id string, run record.Run, rep overhead.Report, m overhead.MetricReport, primary bool) metricPage {
	t := metricTable(run, m, rep, true)
	col := newColumn(m)
	p := metricPage{
		ID: id, Name: title(m), Exported: exportedName(m), Direction: direction(m), Unit: clean(col.unit), Primary: primary, Doc: metricDoc(run, m.Name),
		Notes: together(t.notes), Resolved: typeset(strings.TrimSpace(floorText([]overhead.MetricReport{m}) + " " + selfText([]overhead.MetricReport{m}))),
	}
	p.Rounds = m.Rounds
	for i, note := range p.Notes {
		p.Notes[i] = typeset(note)
	}
	f := newForest(m, rep.SmallestEffect)
	p.Axis = f.axis()
	if len(f.beyond) > 0 {
		p.Notes = append(p.Notes, list(f.beyond)+": beyond the plot; the figures are in the table.")
	}
	rows := worstFirst(m.Rows)
	if run.Plan.Ladder {
		rows = rungOrder(run, m.Rows)
		for _, r := range Ladder(run, []overhead.MetricReport{m}, rep.Level)[0] {
			p.Rungs = append(p.Rungs, rungPage(r))
		}
	}
	for _, r := range rows {
		p.Rows = append(p.Rows, newRowPage(run, r, col, f, rep.SmallestEffect))
	}
	var reach float64
	p.Drift, reach = drift(rows)
	p.Reach = fixed(reach, significant(reach)-1)
	p.Strips, p.StripAxis = strips(rows, col.scale)
	return p
}

func newRowPage(run record.Run, r overhead.Row, col column, f forest, smallest float64) rowPage {
	figure, span, unit, why := overheadText(r, col, run)
	p := rowPage{
		Label: label(r), Value: typeset(col.value(r.Value)), Interval: typeset(span), Verdict: typeset(verdictText(r, smallest)), Class: verdictClass(r.Verdict),
		Drawing: f.row(r), Marked: clean(r.NotRepresentative), Baseline: r.Baseline, Method: methodText(r),
	}
	switch {
	case figure == "":
		if !r.Baseline {
			p.Verdict, p.Class = "no figure", "none"
		}
	case unit != "":
		p.Overhead = typeset(figure + " " + unit)
	default:
		p.Overhead = typeset(figure + " %")
	}
	if p.Class == "none" && (figure != "" || r.Baseline) {
		p.Verdict = "no verdict"
	}
	p.Why = why
	return p
}

func rungPage(r Rung) rowPage {
	p := rowPage{Label: label(r.Row), Verdict: label(r.Before)}
	if bounded(r.Percent, r.PercentLow, r.PercentHigh) {
		p.Overhead = typeset(signed(r.Percent, decimals(r.PercentLow, r.PercentHigh)) + " %")
		p.Interval = typeset(spanText(r.PercentLow, r.PercentHigh))
	} else {
		p.Why = "no figure: " + r.Reason
	}
	return p
}

// exportedName is a metric's name where its title is another.
func exportedName(m overhead.MetricReport) string {
	if name := clean(m.Name); name != title(m) {
		return name
	}
	return ""
}

// sentenceStart raises the first letter.
func sentenceStart(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// methodText says how a row's ratio and interval were found.
func methodText(r overhead.Row) string {
	if r.Baseline || !present(r.Ratio) {
		return ""
	}
	return fmt.Sprintf("%s, n = %d", orElse(clean(r.Ratio.Method), "method not recorded"), r.Ratio.N)
}

var (
	hyphenBeforeNumber = regexp.MustCompile(`(^|[ (])-(\d)`)
	numberWithUnit     = regexp.MustCompile(`(\d) (ns|µs|us|ms|s|min|h|KiB|MiB|GiB)\b`)
	spanOfNumbers      = regexp.MustCompile(`(\d) to ([+` + minus + `]?\d)`)
)

// typeset puts the typographic minus before numbers, and keeps together what
// is one figure: a unit with its number, the ends of an interval.
func typeset(figure string) string {
	figure = hyphenBeforeNumber.ReplaceAllString(figure, "${1}"+minus+"${2}")
	figure = spanOfNumbers.ReplaceAllString(figure, "${1}\u00a0to\u00a0${2}")
	figure = numberWithUnit.ReplaceAllString(figure, "${1}\u00a0${2}")
	return strings.ReplaceAll(figure, " %", "\u00a0%")
}

func metricDoc(run record.Run, name string) string {
	for _, c := range run.Conditions {
		for _, m := range c.Metrics {
			if m.Name == name && m.Doc != "" {
				return clean(m.Doc)
			}
		}
	}
	return ""
}

// Reproduce gives the command that makes a run again, with its seed; empty where no
// command made it.
func Reproduce(run record.Run) string {
	if len(run.Command) == 0 {
		return ""
	}
	args := append([]string{filepath.Base(run.Command[0])}, run.Command[1:]...)
	at := len(args)
	for i, a := range args {
		if a == "--" {
			at = i
			break
		}
		if a == "--seed" || strings.HasPrefix(a, "--seed=") {
			return quote(args)
		}
	}
	seeded := append(append(append([]string(nil), args[:at]...), "--seed", fmt.Sprint(run.Seed)), args[at:]...)
	return quote(seeded)
}

// failures counts the trials that yielded nothing, by their error.
func failures(run record.Run) []fact {
	counts := map[string]int{}
	var order []string
	for _, t := range run.Trials {
		if !failed(run, t) {
			continue
		}
		key := clean(t.Condition) + ": " + clean(t.Error)
		if counts[key]++; counts[key] == 1 {
			order = append(order, key)
		}
	}
	const most = 20
	facts := make([]fact, 0, min(len(order), most))
	for i, key := range order {
		if i == most {
			facts = append(facts, fact{plural(len(order)-most, "other error"), "in the export of the run"})
			break
		}
		facts = append(facts, fact{plural(counts[key], "trial"), key})
	}
	return facts
}

func cleaned(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = clean(t)
	}
	return out
}

// policy forbids a page whatever is not in it: it admits this style and this
// script, and nothing else.
func policy(style, script string) string {
	return "default-src 'none'; img-src data:; style-src '" + digest(style) + "'; script-src '" + digest(script) + "'; base-uri 'none'; form-action 'none'"
}

// digest is a Content-Security-Policy source of exactly this text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
