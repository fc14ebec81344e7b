package predict

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/annex"
)

// The files in testdata are histories and what is to be predicted from them, line by line:
//
//	options bursts=2 pages=8
//	began 10s / ended 10s20ms / lost
//	touch 1 2 5..8 8..5          first touches, a millisecond apart, in the order written
//	swapped 1 2                  likewise, of pages that had left memory
//	left 1..8 / gone 9 / mapped 3 / brought 1 2 at 9s
//	forget                       the space
//	= pages 1..4! 9              what Pages gives: runs in order, ! is certain
//	= next 19s: 19.9s 20s 20.1s  what Next gives at a moment, to the millisecond; none
//	= score record on 0.95 0.80  precision and recall, to a hundredth
//
// Whole blocks are repeated by "repeat 3 10s" ... "end", the moments in them moved on by so much
// each time.
type history struct {
	t       *testing.T
	c       *Context
	space   annex.Space
	now     annex.Moment
	shift   annex.Moment
	options Options
}

func TestGoldenHistories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var lines []string
			for in := bufio.NewScanner(f); in.Scan(); {
				line, _, _ := strings.Cut(in.Text(), "#")
				lines = append(lines, strings.TrimSpace(line))
			}
			h := &history{t: t, space: annex.Space{PID: 7, Started: 1}}
			h.c = New(h.options)
			checks := 0
			for i := 0; i < len(lines); i++ {
				var times int
				var by time.Duration
				words := strings.Fields(lines[i])
				if len(words) == 3 && words[0] == "repeat" {
					times, by = h.number(words[1]), h.duration(words[2])
					from := i + 1
					for lines[i] != "end" {
						i++
					}
					for n := range times {
						h.shift = annex.Moment(time.Duration(n) * by)
						for k := from; k < i; k++ {
							checks += h.line(k+1, lines[k])
						}
					}
					h.shift = 0
					continue
				}
				checks += h.line(i+1, lines[i])
			}
			if checks == 0 {
				t.Error("it checks nothing")
			}
		})
	}
}

// line plays one, and gives how many checks it was.
func (h *history) line(n int, line string) int {
	h.t.Helper()
	if line == "" {
		return 0
	}
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "options":
		for _, o := range strings.Fields(rest) {
			name, value, _ := strings.Cut(o, "=")
			switch name {
			case "bursts":
				h.options.Bursts = h.number(value)
			case "pages":
				h.options.Pages = h.number(value)
			default:
				h.t.Fatalf("line %d: no option %s", n, name)
			}
		}
		if err := h.options.Check(); err != nil {
			h.t.Fatalf("line %d: %v", n, err)
		}
		h.c = New(h.options)
	case "began":
		h.now = h.moment(rest)
		h.c.Began(h.now)
	case "ended":
		h.now = h.moment(rest)
		h.c.Ended(h.now)
	case "lost":
		h.c.Lost()
	case "touch", "swapped":
		for _, page := range h.pages(rest) {
			h.now = h.now.After(time.Millisecond)
			h.c.Touched([]annex.Fault{{Space: h.space, Page: page, At: h.now, Swapped: word == "swapped"}})
		}
	case "left":
		h.c.Left(h.runs(rest))
	case "gone":
		h.c.Gone(h.runs(rest))
	case "mapped":
		h.c.Mapped(h.runs(rest))
	case "brought":
		pages, at, _ := strings.Cut(rest, " at ")
		h.c.Brought(h.runs(pages), h.moment(at))
	case "forget":
		h.c.Forget(h.space)
	case "=":
		if got := h.answer(rest); got != rest {
			h.t.Errorf("line %d:\nwant %s\n got %s", n, rest, got)
		}
		return 1
	default:
		h.t.Fatalf("line %d: no word %q", n, word)
	}
	return 0
}

// answer writes what is predicted as the line does that asks for it.
func (h *history) answer(line string) string {
	words := strings.Fields(line)
	var out strings.Builder
	switch words[0] {
	case "pages":
		out.WriteString("pages")
		for _, r := range h.c.Pages() {
			writeRun(&out, r.Run, h.space)
			if r.Certain {
				out.WriteByte('!')
			}
		}
	case "next":
		at := strings.TrimSuffix(words[1], ":")
		fmt.Fprintf(&out, "next %s:", at)
		f, ok := h.c.Next(h.moment(at))
		if !ok {
			out.WriteString(" none")
			break
		}
		for _, m := range []annex.Moment{f.Earliest, f.Likely, f.Latest} {
			fmt.Fprintf(&out, " %v", time.Duration(m-h.shift).Round(time.Millisecond))
		}
	case "score":
		for _, s := range h.c.Scores() {
			if string(s.Kind) == words[1] {
				on := "off"
				if s.On {
					on = "on"
				}
				fmt.Fprintf(&out, "score %s %s %.2f %.2f", s.Kind, on, s.Precision, s.Recall)
			}
		}
	default:
		h.t.Fatalf("nothing to ask for is called %q", words[0])
	}
	return out.String()
}

func writeRun(out *strings.Builder, r annex.Run, of annex.Space) {
	fmt.Fprintf(out, " %d", r.First)
	if r.Pages > 1 {
		fmt.Fprintf(out, "..%d", r.End()-1)
	}
	if r.Space != of {
		fmt.Fprintf(out, "@%s", r.Space)
	}
}

func (h *history) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *history) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		h.t.Fatal(err)
	}
	return d
}

func (h *history) moment(s string) annex.Moment { return annex.Moment(h.duration(s)) + h.shift }

func (h *history) pages(s string) []annex.Page {
	var pages []annex.Page
	for _, word := range strings.Fields(s) {
		low, high, ok := strings.Cut(word, "..")
		if !ok {
			high = low
		}
		from, to := h.number(low), h.number(high)
		for ; from < to; from++ {
			pages = append(pages, annex.Page(from))
		}
		for ; from > to; from-- {
			pages = append(pages, annex.Page(from))
		}
		pages = append(pages, annex.Page(to))
	}
	return pages
}

func (h *history) runs(s string) []annex.Run {
	var runs []annex.Run
	for _, p := range h.pages(s) {
		runs = append(runs, annex.Run{Space: h.space, First: p, Pages: 1})
	}
	return runs
}
