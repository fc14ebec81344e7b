package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page's template, style and script
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"reflect"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	//go:embed page.gohtml
	pageText string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string

	pageTemplate = template.Must(template.New("page").Parse(pageText))
)

// SheetHTML writes a sheet as one file that needs nothing else: no network, no font,
// no script of anyone's. The page's own policy forbids whatever is not in it.
// Without scripts it shows the same figures: the script shows at once what is
// pointed at, folds metrics, enlarges the boxes of a flame graph and copies a command.
func SheetHTML(w io.Writer, s Sheet) error {
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, newPage(s)); err != nil {
		return fmt.Errorf("laying out %q as HTML: %w", clean(s.Title), err)
	}
	_, err := out.WriteTo(w)
	return err
}

// page is what the template shows. Only drawings, style and script are markup;
// every string is text.
type page struct {
	Title     string
	Answer    string
	Together  string
	Long      bool // the answer is, and stands smaller
	Study     string
	Version   string
	Banners   []fact
	Remarks   []string // what must be known before the figures
	Facts     []fact
	Reproduce string
	Next      []string
	Weight    []string
	Style     template.CSS
	Script    template.JS
	Policy    string

	Runs        bool
	Parts, Foot []partPage
}

// A partPage holds one part; of the pointers and lists one is set.
type partPage struct {
	Title    string
	Chapter  int // its number from 1, where the part begins one
	Notes    []string
	Method   []string
	Table    *tablePage
	Metrics  *metricsPage
	Chart    *chartPage
	Bars     *barsPage
	Heat     *heatPage
	Timeline *timelinePage
	Flame    *flamePage
	Judged   []judgedPage
	List     *factList
	Warnings []string
	Prose    []string
}

func newPage(s Sheet) page {
	answer := orElse(clean(s.Answer), clean(s.Title))
	title := clean(s.Title)
	p := page{
		Title:     orElse(title, answer),
		Answer:    typeset(answer),
		Together:  typeset(clean(s.Together)),
		Long:      len(answer) > 150,
		Study:     strings.TrimSpace(strings.TrimPrefix(title, "tare")),
		Version:   clean(s.Version),
		Banners:   bannersOf(s),
		Reproduce: clean(s.Command),
		Next:      cleaned(s.Next),
		Runs:      s.Runs,
		Style:     template.CSS(pageStyle),
		Script:    template.JS(pageScript),
		Policy:    policy(pageStyle, pageScript),
	}
	for _, f := range s.Facts {
		name, value := factOf(f)
		if name == "undecided" || name == "note" {
			p.Remarks = append(p.Remarks, typeset(capital(value)))
			continue
		}
		p.Facts = append(p.Facts, fact{capital(name), typeset(value)})
	}
	for _, item := range s.Weight {
		p.Weight = append(p.Weight, typeset(item.text()))
	}
	var colours colouring
	chapters := 0
	for _, part := range partsOf(s.Parts) {
		one := newPartPage(part, &colours)
		if one.Chapter > 0 {
			chapters++
			one.Chapter = chapters
		}
		p.Parts = append(p.Parts, one)
	}
	for _, part := range partsOf(s.Foot) {
		p.Foot = append(p.Foot, newPartPage(part, &colours))
	}
	return p
}

// colouring holds the palettes of a page, whose names share their colours.
type colouring struct{ lines, segments, kinds palette }

// partsOf gives the parts as values: a pointer to one is a part too.
func partsOf(all []Part) []Part {
	var parts []Part
	for _, part := range all {
		if v := reflect.ValueOf(part); v.Kind() == reflect.Pointer {
			if v.IsNil() {
				continue
			}
			part = v.Elem().Interface().(Part)
		}
		if part != nil {
			parts = append(parts, part)
		}
	}
	return parts
}

func newPartPage(part Part, colours *colouring) partPage {
	if long, ok := part.(Long); ok {
		part = long.Part
	}
	p := partPage{Title: typeset(clean(part.heading()))}
	note, method := noteOf(part)
	switch part := part.(type) {
	case Table:
		p.Table = newTablePage(part)
	case metricTables:
		p.Metrics = newMetricsPage(part)
	case Chart:
		p.Chart = newChartPage(part, &colours.lines)
	case Bars:
		p.Bars = newBarsPage(part, &colours.segments)
	case Heat:
		p.Heat = newHeatPage(part)
	case Timeline:
		p.Timeline = newTimelinePage(part)
	case Flame:
		p.Flame = newFlamePage(part, &colours.kinds)
	case Judgements:
		p.Judged = newJudgedPages(part)
	case factList:
		p.List = &part
	case warnings:
		p.Warnings = cleaned(part)
	case Prose:
		p.Prose = typesetAll(paragraphs(part.Text))
	case Chapter:
		p.Chapter, p.Prose = 1, typesetAll(paragraphs(part.Text))
	}
	p.Notes, p.Method = typesetAll(paragraphs(note)), typesetAll(paragraphs(method))
	return p
}

// paragraphs parts a text at its empty lines.
func paragraphs(text string) []string {
	var parts []string
	var lines []string
	for _, l := range append(strings.Split(text, "\n"), "") {
		if l = clean(l); l != "" {
			lines = append(lines, l)
		} else if len(lines) > 0 {
			parts = append(parts, strings.Join(lines, " "))
			lines = nil
		}
	}
	return parts
}

// bannersOf parts each banner in what names it and what it says.
func bannersOf(s Sheet) []fact {
	var banners []fact
	for _, b := range s.Banners {
		b = clean(b)
		const longest = 24 // what is longer is a sentence with a colon in it
		title, text, ok := strings.Cut(b, ": ")
		if !ok || columns(title) > longest {
			title, text = "note", b
		}
		banners = append(banners, fact{strings.ToLower(title), text})
	}
	return banners
}

// factOf parts "host: scales, 2 CPUs" in its name and value; a fact without a
// name is a value.
func factOf(text string) (name, value string) {
	text = clean(text)
	const longest = 20
	if name, value, ok := strings.Cut(text, ": "); ok && columns(name) <= longest {
		return name, value
	}
	return "", text
}

// capital writes a name as it stands at the beginning of a line.
func capital(name string) string {
	r, size := utf8.DecodeRuneInString(name)
	if size == 0 {
		return name
	}
	return string(unicode.ToUpper(r)) + name[size:]
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

func typesetAll(texts []string) []string {
	for i, text := range texts {
		texts[i] = typeset(text)
	}
	return texts
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
