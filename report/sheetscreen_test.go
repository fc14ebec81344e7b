package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

func sheetScreen(t testing.TB, s Sheet, opt TerminalOptions) string {
	t.Helper()
	var out bytes.Buffer
	if err := SheetTerminal(&out, s, opt); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var withReport = TerminalOptions{Report: "tare-out/startup-20260102-150405-7f3a/report.html"}

func TestSheetGolden(t *testing.T) {
	for _, c := range []struct {
		name    string
		sheet   Sheet
		options TerminalOptions
	}{
		{"startup-60.txt", startup(), withWidth(withReport, 60)},
		{"startup-80.txt", startup(), withReport},
		{"startup-120.txt", startup(), withWidth(withReport, 120)},
		{"startup-interim-80.txt", startup(), TerminalOptions{Interim: true}},
		{"edges-80.txt", edges(), TerminalOptions{}},
	} {
		t.Run(c.name, func(t *testing.T) { golden(t, c.name, sheetScreen(t, c.sheet, c.options)) })
	}
}

// Every line keeps the width, whatever stands in it; a command or a path stands
// whole, to be copied.
func TestSheetKeepsTheWidth(t *testing.T) {
	sheets := map[string]Sheet{"startup": startup(), "edges": edges(), "hostile": hostileSheet(hostileTexts[0])}
	for name, b := range map[string]*bench{"redis": redis(), "suite": suite(), "ladder": ladder(), "hostile weigh": hostile()} {
		sheets[name], sheets[name+", interim"] = b.sheet(), InterimSheet(b.run, b.rep)
	}
	for name, sheet := range sheets {
		sheet.Command, sheet.Next = "", nil
		for _, width := range []int{0, 20, 60, 61, 67, 72, 80, 93, 100, 120, 200} {
			want := max(width, leastWidth)
			if width == 0 {
				want = defaultWidth
			}
			for _, opt := range []TerminalOptions{{Width: width}, {Width: width, Interim: true}, {Width: width, All: true}} {
				for i, l := range strings.Split(sheetScreen(t, sheet, opt), "\n") {
					if n := columns(l); n > want {
						t.Fatalf("%s at width %d: line %d has %d columns: %q", name, width, i+1, n, l)
					}
				}
			}
		}
	}
}

// Colours repeat the words: without them the same screen remains.
func TestSheetColourAddsNothing(t *testing.T) {
	for _, sheet := range []Sheet{startup(), suite().sheet()} {
		with := sheetScreen(t, sheet, TerminalOptions{Color: true})
		if !sgr.MatchString(with) {
			t.Fatal("no colour where it was asked for")
		}
		trailing := regexp.MustCompile(`(?m) +$`)
		got := trailing.ReplaceAllString(sgr.ReplaceAllString(with, ""), "")
		if diff := cmp.Diff(sheetScreen(t, sheet, TerminalOptions{}), got); diff != "" {
			t.Errorf("without its colours the screen differs (-plain +stripped):\n%s", diff)
		}
	}
}

func TestSheetTerminalHoldsNoForeignControl(t *testing.T) {
	for _, text := range hostileTexts {
		out := sheetScreen(t, hostileSheet(text), TerminalOptions{Report: text, Next: []string{text}})
		for _, r := range out {
			if r != '\n' && !unicode.IsGraphic(r) {
				t.Fatalf("the screen of %q holds %U", text, r)
			}
		}
	}
}

// A pointer to a part is a part; none is none.
func TestPartsMayBePointers(t *testing.T) {
	var none *Chart
	out := sheetScreen(t, Sheet{Parts: []Part{&Prose{Text: "by pointer"}, none, nil, Prose{Text: "by value"}}}, TerminalOptions{})
	if !strings.Contains(out, "by pointer\n") || !strings.Contains(out, "by value\n") {
		t.Errorf("got:\n%s", out)
	}
}

// No figure of a required column is lost, however narrow the screen.
func TestNarrowTableKeepsItsFigures(t *testing.T) {
	table := startup().Parts[0].(Table)
	for _, width := range []int{60, 70, 80, 120, 160} {
		out := sheetScreen(t, Sheet{Parts: []Part{table}}, TerminalOptions{Width: width})
		for _, row := range table.Rows {
			for i, c := range row {
				if table.Columns[i].Optional {
					continue
				}
				for _, word := range strings.Fields(c.Text) {
					if !strings.Contains(out, word) {
						t.Errorf("at width %d the table lacks %q", width, word)
					}
				}
				low, high, _ := strings.Cut(c.Detail, " to ")
				if !strings.Contains(out, low) || !strings.Contains(out, high) {
					t.Errorf("at width %d the table lacks the interval %q", width, c.Detail)
				}
			}
		}
	}
}

func TestOptionalColumnsGoFirstAndAreNamed(t *testing.T) {
	table := Table{
		Columns: []Column{{Head: "who"}, {Head: "first", Number: true}, {Head: "second", Number: true, Optional: true}, {Head: "third", Number: true, Optional: true}},
		Rows:    [][]Cell{{{Text: strings.Repeat("w", 40)}, {Text: "1.5"}, {Text: strings.Repeat("2", 12)}, {Text: strings.Repeat("3", 12)}}},
	}
	out := sheetScreen(t, Sheet{Parts: []Part{table}}, TerminalOptions{Width: 62})
	if strings.Contains(out, "333") || !strings.Contains(out, "222") || !strings.Contains(out, "Not shown at this width: third.") {
		t.Errorf("got:\n%s", out)
	}
}

func TestTonesShowWithoutColour(t *testing.T) {
	for tone, want := range map[Tone]string{Plain: "12.5", Good: "12.5 ✓", Bad: "12.5 !", Faint: "(12.5)"} {
		number := Column{Number: true}
		if got := cellText(Cell{Text: "12.5", Tone: tone}, number); got != want {
			t.Errorf("page: %q is written %q, want %q", tone, got, want)
		}
		if got := strings.TrimSpace(alignCells([]Cell{{Text: "12.5", Tone: tone}})[0]); got != want {
			t.Errorf("screen: %q is written %q, want %q", tone, got, want)
		}
	}
	got := alignCells([]Cell{{Text: "9.25"}, {Text: "1340", Tone: Faint}, {Text: "12", Tone: Bad}})
	for i, want := range []string{"    9.25  ", "(1340)    ", "   12 !   "} {
		if got[i] != want {
			t.Errorf("cell %d is %q, want %q", i, got[i], want)
		}
	}
}

func TestSparkline(t *testing.T) {
	line := newPlot(Chart{Series: []Series{{Points: []Point{{X: 0, Y: 0}, {X: 1, Y: 50}, {X: 2, Y: 100}}}}})
	from, to := line.extent()
	if got := Sparkline(line.series[0].heights(axis{from.x, to.x}, 6)); got != "▁··▄·█" {
		t.Errorf("got %q", got)
	}
}

// A stroke's length is its value's, and what is there is seen.
func TestStroke(t *testing.T) {
	for length, want := range map[float64]string{0: "", 0.001: "▏", 1: "█", 2.5: "██▌"} {
		if got := stroke(length); got != want {
			t.Errorf("%v is drawn %q, want %q", length, got, want)
		}
	}
}

func TestFlamePathsJoinWhatHandsItsTimeOn(t *testing.T) {
	leaf := &Frame{Name: "copy_page_range", Value: 58}
	out := sheetScreen(t, Sheet{Parts: []Part{Flame{Unit: "samples", Root: &Frame{Name: "all", Value: 100, Children: []*Frame{
		{Name: "fork", Value: 60, Children: []*Frame{{Name: "dup_mm", Value: 59, Children: []*Frame{leaf}}}},
		{Name: "exec", Value: 37}, {Name: "rare", Value: 3},
	}}}}}, TerminalOptions{})
	for _, want := range []string{"100.0 %  all\n", " 60.0 %    fork → 1 more → copy_page_range\n", " 37.0 %    exec\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the screen lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "rare") {
		t.Errorf("a path below the least share is shown:\n%s", out)
	}
}

// A part that is left to the page takes no room on a screen, unless all is asked for.
func TestLongPartsAreThePagesAlone(t *testing.T) {
	s := Sheet{Parts: []Part{Long{Flame{Title: "Where it waited", Unit: "ms", Root: &Frame{Name: "waited", Value: 5}}}}}
	if out := sheetScreen(t, s, TerminalOptions{}); strings.Contains(out, "waited") {
		t.Errorf("the screen shows it:\n%s", out)
	}
	if out := sheetScreen(t, s, TerminalOptions{All: true}); !strings.Contains(out, "waited") {
		t.Errorf("the screen does not show all:\n%s", out)
	}
	var page bytes.Buffer
	if err := SheetHTML(&page, s); err != nil || !strings.Contains(page.String(), "waited") {
		t.Errorf("the page does not show it: %v", err)
	}
}
