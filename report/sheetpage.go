package report

import (
	"bytes"
	_ "embed" // the sheet's template, style and script
	"fmt"
	"html/template"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	//go:embed sheet.gohtml
	sheetText string
	//go:embed sheet.css
	sheetStyle string
	//go:embed sheet.js
	sheetScript string

	sheetTemplate = template.Must(template.Must(template.New("sheet").Parse(frameText)).Parse(sheetText))
)

// SheetHTML writes a sheet as one file that needs nothing else, under the same
// policy as [HTML]. Without scripts it shows the same figures: the script
// shows at once what is pointed at, enlarges the boxes of a flame graph and
// copies a command. Of opt, Next and Weight are added to the sheet's own.
func SheetHTML(w io.Writer, s Sheet, opt HTMLOptions) error {
	var out bytes.Buffer
	if err := sheetTemplate.Execute(&out, newSheetPage(s, opt)); err != nil {
		return fmt.Errorf("laying out %q as HTML: %w", clean(s.Title), err)
	}
	_, err := out.WriteTo(w)
	return err
}

// A sheetPage is what the template shows; the names of its first part are
// those of [page], whose frame it has.
type sheetPage struct {
	Title     string
	Answer    string
	Together  string
	Long      bool
	Study     string
	RunID     string
	Version   string
	Started   string
	Cautions  []caution
	Facts     []fact
	Reproduce string
	Next      []string
	Weight    []string
	Style     template.CSS
	Script    template.JS
	Policy    string

	Parts []partPage
}

// A partPage holds one part; of the pointers one is set.
type partPage struct {
	Title, Note string
	Table       *tablePage
	Chart       *chartPage
	Bars        *barsPage
	Heat        *heatPage
	Timeline    *timelinePage
	Flame       *flamePage
	Judged      []judgedPage
	Prose       []string
}

func newSheetPage(s Sheet, opt HTMLOptions) sheetPage {
	answer := orElse(clean(s.Answer), clean(s.Title))
	title := clean(s.Title)
	style := pageStyle + sheetStyle
	if slices.ContainsFunc(partsOf(s), func(part Part) bool { _, ok := part.(Heat); return ok }) {
		style += heatStyle
	}
	p := sheetPage{
		Title: orElse(title, answer), Answer: typeset(answer), Together: typeset(clean(s.Together)), Long: len(answer) > 150,
		Study:    strings.TrimSpace(strings.TrimPrefix(title, "tare")),
		Cautions: bannersOf(s), Reproduce: clean(s.Command),
		Style: template.CSS(style), Script: template.JS(pageScript + sheetScript),
	}
	p.Policy = policy(style, pageScript+sheetScript)
	for _, f := range s.Facts {
		name, value := factOf(f)
		p.Facts = append(p.Facts, fact{capital(name), typeset(value)})
	}
	p.Next = append(cleaned(s.Next), cleaned(opt.Next)...)
	for _, item := range append(append(Weight(nil), s.Weight...), opt.Weight...) {
		p.Weight = append(p.Weight, typeset(item.text()))
	}
	var lines, segments, kinds palette
	for _, part := range partsOf(s) {
		p.Parts = append(p.Parts, newPartPage(part, &lines, &segments, &kinds))
	}
	return p
}

// partsOf gives the parts as values: a pointer to one is a part too.
func partsOf(s Sheet) []Part {
	var parts []Part
	for _, part := range s.Parts {
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

func newPartPage(part Part, lines, segments, kinds *palette) partPage {
	p := partPage{Title: typeset(clean(part.heading()))}
	note := ""
	switch part := part.(type) {
	case Table:
		p.Table, note = newTablePage(part), part.Note
	case Chart:
		p.Chart, note = newChartPage(part, lines), part.Note
	case Bars:
		p.Bars, note = newBarsPage(part, segments), part.Note
	case Heat:
		p.Heat, note = newHeatPage(part), part.Note
	case Timeline:
		p.Timeline, note = newTimelinePage(part), part.Note
	case Flame:
		p.Flame, note = newFlamePage(part, kinds), part.Note
	case Judgements:
		p.Judged, note = newJudgedPages(part), part.Note
	case Prose:
		for _, text := range paragraphs(part.Text) {
			p.Prose = append(p.Prose, typeset(text))
		}
	}
	p.Note = typeset(clean(note))
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
func bannersOf(s Sheet) []caution {
	var found []caution
	for _, b := range s.Banners {
		b = clean(b)
		const longest = 24 // what is longer is a sentence with a colon in it
		title, text, ok := strings.Cut(b, ": ")
		if !ok || columns(title) > longest {
			title, text = "note", b
		}
		found = append(found, caution{strings.ToLower(title), text})
	}
	return found
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
