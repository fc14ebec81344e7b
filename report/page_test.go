package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"tare/stats"
)

func sheetOf(t testing.TB, s Sheet) string {
	t.Helper()
	var out bytes.Buffer
	if err := SheetHTML(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// hostileTexts try to leave their place in an element, an attribute, a
// drawing, a script, a style, a terminal.
var hostileTexts = []string{
	"\x1b[2J\x1b]0;owned\x07</script><img src=x onerror=alert(1)>\"'`\u202e\r\n" + strings.Repeat("長", 90),
	`"><svg onload=alert(1)><style>*{display:none}</style></title></desc></svg>`,
	`--></text><foreignObject><iframe src="javascript:alert(1)"></iframe>&lt;{{.}}`,
	"\x00\xff\xfe]]><!--</style><a href=http://example.invalid>x",
	"", " ", "\n\n",
}

// hostileSheet is the ordinary sheet with every text replaced.
func hostileSheet(text string) Sheet {
	s := startup()
	s.Title, s.Answer, s.Command = text, text, text
	s.Facts, s.Banners, s.Next = []string{text, text + ": " + text, "x: " + text}, []string{text, "x: " + text}, []string{text}
	s.Weight = Weight{{What: text, Unit: text, Estimate: stats.Estimate{Value: 1, N: 1}}, {What: text, Reason: text}}
	for i, part := range s.Parts {
		switch p := part.(type) {
		case Table:
			p.Title, p.Note = text, text
			for j := range p.Columns {
				p.Columns[j].Head = text
			}
			for _, row := range p.Rows {
				for j := range row {
					row[j] = Cell{text, text, Tone(text)}
				}
			}
			s.Parts[i] = p
		case Chart:
			p.Title, p.Note, p.X.Label, p.X.Unit, p.Y.Label, p.Y.Unit = text, text, text, text, text, text
			for j := range p.Series {
				p.Series[j].Name, p.Series[j].Group = text, text
			}
			for j := range p.Marks {
				p.Marks[j].Label, p.Marks[j].Group = text, text
			}
			s.Parts[i] = p
		case Bars:
			p.Title, p.Note, p.Unit = text, text, text
			for j := range p.Rows {
				p.Rows[j].Label = text
				for k := range p.Rows[j].Segments {
					p.Rows[j].Segments[k].Name = text + strconv.Itoa(k)
				}
			}
			s.Parts[i] = p
		case Timeline:
			p.Title, p.Note = text, text
			for j := range p.Phases {
				p.Phases[j].Name = text
			}
			for j := range p.Lanes {
				p.Lanes[j].Name = text
				for k := range p.Lanes[j].Spans {
					sp := &p.Lanes[j].Spans[k]
					sp.Label = text
					if k%2 == 1 {
						sp.Kind = SpanKind(text)
					}
				}
			}
			s.Parts[i] = p
		case Flame:
			p.Title, p.Note, p.Unit = text, text, text
			walk(p.Root, func(f *Frame) { f.Name, f.Kind = text, text })
			s.Parts[i] = p
		case Judgements:
			p.Title, p.Note = text, text
			for j := range p.Rows {
				p.Rows[j] = Judgement{text, text, text, text, text, text, Tone(text)}
			}
			s.Parts[i] = p
		case Prose:
			s.Parts[i] = Prose{text, text}
		}
	}
	return s
}

// marks counts a page's elements and attributes, and fails where one of them
// acts.
func marks(t *testing.T, page string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	parse(t, page, func(e xml.StartElement) {
		counts[e.Name.Local]++
		for _, a := range e.Attr {
			name := strings.ToLower(a.Name.Local)
			if strings.HasPrefix(name, "on") || name == "src" || name == "style" || name == "action" {
				t.Errorf("<%s %s=%q>", e.Name.Local, name, a.Value)
			}
			if name == "href" && a.Value != "data:," {
				t.Errorf("<%s> points to %q", e.Name.Local, a.Value)
			}
			if name == "class" && !plainClass.MatchString(a.Value) {
				t.Errorf("<%s> has the class %q", e.Name.Local, a.Value)
			}
			counts["@"+name]++
		}
	}, func(string) {})
	return counts
}

var plainClass = regexp.MustCompile(`^[a-z0-9 -]*$`)

// Whatever a sheet carries, it adds no element, no attribute, no class and no
// address that a tame sheet does not have.
func TestSheetHoldsNothingForeign(t *testing.T) {
	tame := marks(t, sheetOf(t, startup()))
	for _, kind := range []string{"dd", "small"} { // of facts without a name, and of details: the tame one has them
		if tame[kind] == 0 {
			t.Fatalf("the tame sheet has no <%s>", kind)
		}
	}
	for _, text := range hostileTexts {
		got := marks(t, sheetOf(t, hostileSheet(text)))
		for kind := range got {
			if tame[kind] == 0 {
				t.Errorf("%q adds %s", text, kind)
			}
		}
		for _, kind := range []string{"script", "style", "meta", "link", "title"} {
			if kind != "title" && got[kind] != tame[kind] {
				t.Errorf("%q makes %d of <%s>, a tame sheet %d", text, got[kind], kind, tame[kind])
			}
		}
	}
}

// No text breaks out of the page or its drawings, and none reaches a terminal.
func FuzzSheet(f *testing.F) {
	for _, text := range hostileTexts {
		f.Add(text, 1.5)
	}
	f.Add("docker", math.NaN())
	f.Add("docker", math.Inf(-1))
	f.Add("-5 to -3 %", 1e300)
	f.Add("docker", 5e-324)
	f.Add("docker", math.MaxFloat64)
	f.Add("docker", -1e-300)
	f.Add("docker", 9007199254740993.0)
	plot := func(text string, v float64) Sheet {
		return Sheet{
			Title: text, Answer: text, Facts: []string{text}, Banners: []string{text}, Next: []string{text}, Command: text,
			Parts: []Part{
				Table{Title: text, Columns: []Column{{Head: text}, {Head: text, Number: true}}, Rows: [][]Cell{{{text, text, Bad}, {text, text, Faint}, {text, text, Good}}, {}}},
				Chart{Title: text, X: Axis{Label: text, Log: true}, Y: Axis{Unit: text, Ticks: []float64{v}}, Series: []Series{{Name: text, Group: text, Points: []Point{{X: 1, Y: v}, {X: v, Y: 2, Low: v, High: v * v}, {X: 3, Y: 4, Low: 1, High: 5}}}}, Marks: []Mark{{v, v, 2 * v, text, text}}},
				Bars{Title: text, Unit: text, Rows: []Bar{{text, []Segment{{Name: text, Value: v, Low: v, High: v}, {Name: text + "2", Value: 2}}}, {text, nil}}},
				Timeline{Title: text, Length: time.Duration(1e6), Lanes: []Lane{{text, []Span{{0, 1e5, Waits, text}, {2e5, 1e5, SpanKind(text), text}}}}, Phases: []Phase{{text, 0, 5e5}}},
				Flame{Title: text, Unit: text, Root: &Frame{Name: text, Value: 10, Kind: text, Children: []*Frame{{Name: text, Value: v}, {Name: text, Value: 4}, nil}}},
				Judgements{Title: text, Rows: []Judgement{{text, text, text, text, text, text, Tone(text)}}},
				Prose{text, text},
			},
		}
	}
	f.Fuzz(func(t *testing.T, text string, v float64) {
		page := sheetOf(t, plot(text, v))
		got, tame := marks(t, page), marks(t, sheetOf(t, plot("x", v)))
		for kind := range got {
			// An empty text leaves elements out, and adds none.
			if got[kind] > 0 && tame[kind] == 0 && !optionalMark[kind] {
				t.Errorf("%q adds %s", text, kind)
			}
		}
		numbersOnly(t, page)
		for _, l := range strings.Split(sheetScreen(t, plot(text, v), TerminalOptions{}), "\n") {
			for _, r := range l {
				if !unicode.IsGraphic(r) {
					t.Fatalf("the screen of %q holds %U", text, r)
				}
			}
		}
	})
}

// optionalMark are elements that stand for what a text lacks or has too much of.
var optionalMark = map[string]bool{"small": true, "p": true, "b": true, "dt": true, "desc": true, "ul": true, "li": true}

var svgNumber = regexp.MustCompile(`^-?\d+(\.\d+)?%?$`)

// numbersOnly fails where a coordinate is none.
func numbersOnly(t *testing.T, page string) {
	t.Helper()
	parse(t, page, func(e xml.StartElement) {
		for _, a := range e.Attr {
			switch a.Name.Local {
			case "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "dx", "dy", "width", "height":
				if !svgNumber.MatchString(a.Value) {
					t.Errorf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
				}
			case "d":
				if strings.ContainsAny(a.Value, "NI") {
					t.Errorf("path %q", a.Value)
				}
			}
		}
	}, func(string) {})
}

// edges is a sheet of what drawings stumble over.
func edges() Sheet {
	nan, inf := math.NaN(), math.Inf(1)
	many := Chart{Title: "Twenty lines", X: Axis{Label: "rate"}, Y: Axis{Label: "latency", Unit: "ms"}}
	for i := range 20 {
		line := Series{Name: fmt.Sprintf("line %d", i)}
		for k := range 5 {
			line.Points = append(line.Points, Point{X: float64(k), Y: float64(10 + i*3 + k*k)})
		}
		many.Series = append(many.Series, line)
	}
	segments := Bars{Title: "Twenty segments", Unit: "%"}
	bar := Bar{Label: "all"}
	for i := range 20 {
		bar.Segments = append(bar.Segments, Segment{Name: fmt.Sprintf("part %d", i), Value: 5})
	}
	segments.Rows = []Bar{bar}
	long := strings.Repeat("a-very-long-name/", 8)
	return Sheet{
		Title: "tare edges",
		Parts: []Part{
			Table{Title: "An empty table", Columns: []Column{{Head: "a"}}},
			Table{Title: "A ragged table with long names", Columns: []Column{{Head: "name"}, {Head: "value", Number: true}, {Head: "word"}}, Rows: [][]Cell{{{Text: long}, {Text: "1"}}, {{Text: "short"}}, {}, {{Text: "x"}, {Text: "no figure", Tone: Faint}, {Text: long}, {Text: "beyond"}}}},
			Chart{Title: "An empty chart"},
			Chart{Title: "One point", X: Axis{Label: "x"}, Y: Axis{Label: "y"}, Series: []Series{{Name: "one", Points: []Point{{X: 3, Y: 7}}}}},
			Chart{Title: "One point at zero", X: Axis{Log: true}, Y: Axis{Log: true}, Series: []Series{{Name: "zero", Points: []Point{{X: 0, Y: 0}}}}},
			Chart{Title: "Not numbers", Series: []Series{{Name: "nan", Points: []Point{{X: nan, Y: 1}, {X: 1, Y: nan}, {X: inf, Y: inf}, {X: 2, Y: -3, Low: -inf, High: inf}}}}, Marks: []Mark{{X: nan, Label: "nowhere"}}},
			Chart{Title: "Nine orders", X: Axis{Label: "size", Unit: "B", Log: true}, Y: Axis{Label: "time", Unit: "s", Log: true}, Series: []Series{{Name: "line", Points: []Point{{X: 1, Y: 1e-6}, {X: 1e4, Y: 1e-2, Low: 0, High: 0.1}, {X: 1e9, Y: 1e3}}}}},
			Chart{Title: "Below zero", Series: []Series{{Name: "loss", Points: []Point{{X: -2, Y: -5}, {X: 0, Y: 0}, {X: 2, Y: 5}}}}},
			many,
			Bars{Title: "Empty bars"},
			Bars{Title: "Bars of nothing", Unit: "ms", Rows: []Bar{{"none", nil}, {"zero", []Segment{{Name: "a", Value: 0}, {Name: "b", Value: nan}, {Name: "c", Value: -3}}}}},
			Bars{Title: "Bars over nine orders", Unit: "s", Rows: []Bar{{"x", []Segment{{Name: "tiny", Value: 1e-6}, {Name: "huge", Value: 1e3}}}, {"y", []Segment{{Name: "huge", Value: 4e2, Low: 3.9e2, High: 4.2e2}}}}},
			segments,
			Timeline{Title: "An empty time line"},
			Timeline{Title: "A moment", Length: time.Nanosecond, Lanes: []Lane{{"lane", []Span{{0, 1, Runs, "all"}, {0, 0, Waits, "nothing"}, {5, 3, Ready, "backwards"}}}}},
			Flame{Title: "An empty flame graph"},
			Flame{Title: "A flame graph whose children hold more than it", Root: &Frame{Name: "root", Value: 1, Children: []*Frame{{Name: "a", Value: 2}, nil, {Name: "b", Value: nan}, {Name: "c", Value: 2}}}},
			Judgements{Title: "No judgements"},
			Judgements{Rows: []Judgement{{}}},
			Prose{},
		},
	}
}

// Every drawing's coordinates are numbers, whatever the figures are, and what
// is not a figure is not shown as one.
func TestSheetDrawingsHoldNumbersOnly(t *testing.T) {
	for name, s := range map[string]Sheet{"startup": startup(), "edges": edges()} {
		page := sheetOf(t, s)
		numbersOnly(t, page)
		parse(t, page, func(xml.StartElement) {}, func(s string) {
			if strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
				t.Errorf("%s: text %q", name, s)
			}
		})
	}
}

// The page's own policy admits its style and its script by their digests; an
// edit that broke either would show as an unstyled page.
func TestSheetPolicyMatchesWhatIsInThePage(t *testing.T) {
	page := sheetOf(t, startup())
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if policy == nil {
		t.Fatal("no policy")
	}
	for element, source := range map[string]string{"style": "style-src", "script": "script-src"} {
		body := regexp.MustCompile(`(?s)<` + element + `>(.*?)</` + element + `>`).FindStringSubmatch(page)
		if body == nil {
			t.Fatalf("no <%s>", element)
		}
		// Attributes have their apostrophes and signs escaped.
		want := source + " '" + digest(body[1]) + "'"
		if got := strings.NewReplacer("&#39;", "'", "&#43;", "+").Replace(policy[1]); !strings.Contains(got, want) {
			t.Errorf("the policy is %q, want it to hold %q", got, want)
		}
	}
}

func TestSheetFetchesNothing(t *testing.T) {
	page := sheetOf(t, startup()) + sheetOf(t, suite().sheet())
	for _, bad := range []string{"http:", "https:", "@import", "@font-face"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	for _, at := range regexp.MustCompile(`url\([^)]*\)`).FindAllString(page, -1) {
		if !strings.HasPrefix(at, "url(#") {
			t.Errorf("the page holds %q", at)
		}
	}
}

// Each drawing says in words what it shows, and has its figures in a table.
func TestDrawingsAreAccessible(t *testing.T) {
	page := sheetOf(t, startup())
	images, titled := 0, 0
	parse(t, page, func(e xml.StartElement) {
		for _, a := range e.Attr {
			if a.Name.Local == "role" && a.Value == "img" {
				images++
			}
		}
	}, func(string) {})
	titled = strings.Count(page, `role="img"><title>`)
	if images == 0 || titled != images {
		t.Errorf("%d of %d drawings have a title", titled, images)
	}
	figures := strings.Count(page, "<figure")
	tables := strings.Count(page, "<summary>The figures</summary>") + strings.Count(page, "legend-of") - strings.Count(page, ".legend-of")
	if figures == 0 || figures != tables {
		t.Errorf("%d drawings have %d tables of their figures", figures, tables)
	}
}

// The page says what the terminal says: every figure of the tables, bars and
// judgements.
func TestSheetPageAndTerminalAgree(t *testing.T) {
	s := startup()
	var text strings.Builder
	parse(t, sheetOf(t, s), func(xml.StartElement) {}, func(s string) { text.WriteString(s + " ") })
	plain := func(s string) string {
		return strings.NewReplacer("\u00a0", " ", minus, "-").Replace(strings.Join(strings.Fields(s), " "))
	}
	page, screen := plain(text.String()), plain(sheetScreen(t, s, TerminalOptions{Width: 200}))
	check := func(what, want string) {
		for where, have := range map[string]string{"page": page, "screen": screen} {
			if !strings.Contains(have, plain(want)) {
				t.Errorf("the %s lacks %q of %s", where, want, what)
			}
		}
	}
	check("the answer", s.Answer)
	for _, part := range s.Parts {
		switch p := part.(type) {
		case Table:
			for _, row := range p.Rows {
				for i, c := range row {
					check(p.Title, cellText(c, p.Columns[i]))
				}
			}
		case Bars:
			for _, row := range p.Rows {
				for _, seg := range row.Segments {
					figure, _ := seg.written(commonDecimals(p))
					check(p.Title, figure)
				}
			}
		case Judgements:
			for _, j := range p.Rows {
				check(j.Claim, j.Ours)
				check(j.Claim, j.Verdict)
			}
		}
	}
}

func TestColoursStayWithTheirNames(t *testing.T) {
	var p palette
	p.assign([]string{"a", "b", "c"})
	p.assign([]string{"d", "c"})
	if p.places["c"] != 2 || p.places["d"] != 0 {
		t.Errorf("places are %v: c must keep its own, d may have the first that c's company leaves", p.places)
	}
	seen := map[string]string{}
	var names []string
	for i := range 32 {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	var many palette
	many.assign(names)
	for _, n := range names {
		look := many.colour(n) + many.texture(n)
		if seen[look] != "" {
			t.Errorf("%s looks like %s", n, seen[look])
		}
		seen[look] = n
	}
}

// Boxes lie within their parent, side by side, and are as wide as their share.
func TestFlameLayout(t *testing.T) {
	root := flameOf(3000).Root
	if n := count(root); n != 3000 {
		t.Fatalf("the fixture has %d frames", n)
	}
	boxes, pruned, cut := layout(root, leastBox)
	if cut != 0 {
		t.Errorf("%d frames are cut off", cut)
	}
	shown, gathered := 0, 0
	ends := map[int]float64{}
	for _, b := range boxes {
		if b.x < ends[b.depth]-1e-9 {
			t.Errorf("a box at depth %d begins at %.4f, within one that ends at %.4f", b.depth, b.x, ends[b.depth])
		}
		ends[b.depth] = b.x + b.width
		if b.frame == nil {
			gathered += b.gathered
			continue
		}
		shown++
		if want := 100 * b.frame.Value / root.Value; math.Abs(b.width-want) > 1e-6 {
			t.Errorf("%s is %.4f wide, want %.4f", b.frame.Name, b.width, want)
		}
	}
	if shown+pruned != 3000 {
		t.Errorf("%d shown and %d pruned of 3000", shown, pruned)
	}
	if gathered == 0 || gathered > pruned {
		t.Errorf("%d frames gathered in boxes, %d pruned", gathered, pruned)
	}
}

// Tens of thousands of frames, spans, points and rows make no page that cannot
// be sent.
func TestSheetSizeIsBounded(t *testing.T) {
	wide := &Frame{Name: "root", Value: 100000}
	for i := range 300 {
		child := &Frame{Name: fmt.Sprintf("github.com/example/project/package.(*Type%d).Method", i), Value: 330}
		for j := range 200 {
			child.Children = append(child.Children, &Frame{Name: fmt.Sprintf("leaf%d", j), Value: 1.5})
		}
		wide.Children = append(wide.Children, child)
	}
	lane := Lane{Name: "runc"}
	for i := range 50000 {
		lane.Spans = append(lane.Spans, Span{From: time.Duration(i) * 1000, To: time.Duration(i)*1000 + 900, Kind: []SpanKind{Runs, Waits}[i%2], Label: "waits for RCU"})
	}
	line := Series{Name: "backlog"}
	for i := range 100000 {
		line.Points = append(line.Points, Point{X: float64(i), Y: float64(i % 977)})
	}
	page := sheetOf(t, Sheet{Title: "tare many", Parts: []Part{
		Flame{Title: "flame", Unit: "samples", Root: wide}, Timeline{Title: "lanes", Length: 50 * time.Millisecond, Lanes: []Lane{lane}}, Chart{Title: "line", Series: []Series{line}},
	}})
	if len(page) > 3<<20 {
		t.Errorf("the page has %d bytes", len(page))
	}
	for _, want := range []string{"frames narrower than", "spans too short to be seen", "thinned"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestThinnedLinesKeepTheirPeaks(t *testing.T) {
	points := make([]placedPoint, 100000)
	for i := range points {
		points[i] = placedPoint{x: float64(i) / 1000, y: 50}
	}
	points[77777].y, points[33333].y = 3, 97
	kept := thinnedPoints(points)
	if len(kept) > mostDrawn+2 {
		t.Errorf("%d points are drawn", len(kept))
	}
	least, most := 50.0, 50.0
	for i, p := range kept {
		least, most = min(least, p.y), max(most, p.y)
		if i > 0 && p.x < kept[i-1].x {
			t.Fatal("the line goes back")
		}
	}
	if least != 3 || most != 97 {
		t.Errorf("peaks are %v and %v", least, most)
	}
}

func TestMeasurePlacesByItsScale(t *testing.T) {
	log := newMeasure([]float64{1, 1000}, Axis{Log: true}, true)
	one, _ := log.place(1)
	ten, _ := log.place(10)
	hundred, _ := log.place(100)
	if math.Abs((ten-one)-(hundred-ten)) > 1e-9 {
		t.Errorf("decades lie at %v, %v, %v", one, ten, hundred)
	}
	if _, ok := log.place(0); ok {
		t.Error("zero has a place on a logarithmic axis")
	}
	if zero, _ := newMeasure([]float64{5, 10}, Axis{}, true).place(0); zero != 0 {
		t.Errorf("zero lies at %v of an axis of lengths", zero)
	}
	for _, m := range []measure{log, newMeasure([]float64{0.001, 1e6}, Axis{Log: true}, true), newMeasure([]float64{3}, Axis{}, true), newMeasure(nil, Axis{}, true), newMeasure([]float64{-1e308, 1e308}, Axis{}, false)} {
		if n := len(m.ticks(6)); n < 1 || n > 12 {
			t.Errorf("%+v has %d ticks", m, n)
		}
	}
}

func TestAmount(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 8: "8", 0.25: "0.25", 1000: "1000", 250000: "250000", 1e5: "10⁵", 10000: "10000", 1e6: "10⁶", 2.5e7: "2.5×10⁷", 1e-6: "10⁻⁶", -20: minus + "20"} {
		if got := amount(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}

func TestBareName(t *testing.T) {
	for name, want := range map[string]string{
		"github.com/docker/docker/daemon.(*Daemon).containerStart": "daemon.(*Daemon).containerStart",
		"runtime.mallocgc":        "runtime.mallocgc",
		"slices.Sort[go.shape/x]": "slices.Sort[go.shape/x]",
		"/":                       "/",
		"operator/ (a)":           "operator/ (a)",
	} {
		if got := bareName(name); got != want {
			t.Errorf("%q is drawn as %q, want %q", name, got, want)
		}
	}
}

func BenchmarkSheetHTML(b *testing.B) {
	s := startup()
	size := 0
	for range b.N {
		size = len(sheetOf(b, s))
	}
	b.ReportMetric(float64(size), "bytes")
}
