package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"tare/image"
	"tare/lab"
	"tare/report"
	"tare/study/kit"
	"tare/terminal"
)

// progress shows what happens: one line that is written over on a terminal,
// and a line for each block or round elsewhere.
type progress struct {
	mu     sync.Mutex
	out    io.Writer
	tty    bool
	drawn  bool
	began  time.Time
	shown  time.Time // when an interim table was shown last
	tables int
	noted  time.Time // when a line that stays was written last, of an image
	// Of groups that are measured by rounds: the table that was shown last, and what is known
	// of each condition, with the half-width at which that was last said in a line.
	tabled map[string]string
	live   []report.Live
	said   map[string]float64
	lines  int // of live that stand above the line that is written over
}

// narrowed is to what part of what was last said a half-width has to shrink to be said again.
const narrowed = 0.8

// table reports whether a table of a group is due, which is of its pilot or of its rounds: the
// first of each is.
func (p *progress) table(group string, pilot bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := "rounds"
	if pilot {
		of = "pilot"
	}
	if p.tabled[group] == of {
		return false
	}
	if p.tabled == nil {
		p.tabled = map[string]string{}
	}
	p.tabled[group] = of
	return true
}

// know shows what is known so far of conditions: on a terminal in lines that are written
// over, elsewhere in a line where an interval has narrowed noticeably.
func (p *progress) know(rows []report.Live) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	if p.said == nil {
		p.said = map[string]float64{}
	}
	for _, row := range rows {
		if last, ok := p.said[row.Condition]; !p.tty && (!ok || row.HalfWidth <= narrowed*last) {
			p.said[row.Condition] = row.HalfWidth
			terminal.Fprintln(p.out, row.Text)
		}
		i := slices.IndexFunc(p.live, func(l report.Live) bool { return l.Condition == row.Condition })
		if i < 0 {
			p.live = append(p.live, row)
		} else {
			p.live[i] = row
		}
	}
}

func newProgress(out io.Writer) *progress {
	return &progress{out: out, tty: isTerminal(out), began: time.Now()}
}

// firstTable and laterTables say when interim tables are due: the first as soon
// as there is one, the later ones seldom enough to be read.
const laterTables = time.Minute

func (p *progress) due() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tables > 0 && time.Since(p.shown) < laterTables {
		return false
	}
	p.tables++
	p.shown = time.Now()
	return true
}

func (p *progress) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	p.noted = time.Now()
	terminal.Fprintln(p.out, text)
}

// stepEvery is how often a log says how far a slow step of an image is.
const stepEvery = 30 * time.Second

// step shows how far a slow step of an image is: on a terminal in the line that is written over.
func (p *progress) step(s image.Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := s.What + ": "
	if s.Of > 0 {
		text += fmt.Sprintf("%d done, ", s.Done)
	}
	text += "for " + kit.Exact(s.Took.Round(time.Second))
	p.line(terminal.Line(text))
	if !p.tty && time.Since(p.noted) >= stepEvery {
		p.noted = time.Now()
		terminal.Fprintln(p.out, text)
	}
}

func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

func (p *progress) erase() {
	if p.drawn {
		terminal.Overwrite(p.out, "", 0)
		p.drawn = false
	}
	for ; p.lines > 0; p.lines-- {
		terminal.LineUp.Print(p.out)
		terminal.Overwrite(p.out, "", 0)
	}
}

func (p *progress) event(e lab.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.Text = terminal.Line(e.Text) // an error's lines on one
	switch e.Kind {
	case lab.Warned:
		p.erase()
		terminal.Fprintln(p.out, "warning: "+e.Text)
	case lab.Tainted:
		p.erase()
		terminal.Fprintf(p.out, "%s in %s is made again at its end: %s\n", cmp.Or(e.Label, conditionName(e.Condition)), where(e), e.Text)
	case lab.Preparing:
		p.line("preparing " + e.Text)
	case lab.Started:
		p.line(fmt.Sprintf("%s: %s %s%s", where(e), e.Group, cmp.Or(e.Label, conditionName(e.Condition)), leftText(e.Left)))
	case lab.Stripped:
		p.line(fmt.Sprintf("%s: %s %s%s", where(e), e.Group, e.Text, leftText(e.Left)))
	case lab.Reported:
		p.line(fmt.Sprintf("%s: %s", cmp.Or(e.Label, conditionName(e.Condition)), e.Text))
		if !p.tty {
			terminal.Fprintf(p.out, "%s: %s\n", cmp.Or(e.Label, conditionName(e.Condition)), e.Text)
		}
	case lab.Ended:
		if e.Text != "" {
			p.erase()
			terminal.Fprintf(p.out, "%s in %s yielded nothing: %s\n", e.Condition, where(e), e.Text)
		}
	case lab.Blocked:
		if !p.tty {
			terminal.Fprintf(p.out, "%s: %s done%s\n", e.Group, where(e), leftText(e.Left))
		}
	}
}

// line draws the line that is written over; elsewhere than on a terminal there is none.
func (p *progress) line(text string) {
	if !p.tty {
		return
	}
	width := terminalWidth(p.out)
	if p.lines == 0 && len(p.live) > 0 {
		p.erase()
		for _, row := range p.live {
			terminal.Overwrite(p.out, row.Text, width)
			terminal.Fprintln(p.out)
			p.lines++
		}
	}
	terminal.Overwrite(p.out, text, width)
	p.drawn = true
}

// where is the place of an event in a run: "round 3".
func where(e lab.Event) string {
	block, first := "block", "warm-up"
	if e.Rounds {
		block, first = "round", "pilot"
	}
	if e.Block == 0 {
		return first
	}
	return fmt.Sprintf("%s %d", block, e.Block)
}

func leftText(left time.Duration) string {
	if left <= 0 {
		return ""
	}
	return ", " + kit.Exact(left.Round(time.Second)) + " left"
}

func conditionName(id string) string {
	if _, after, ok := strings.Cut(id, "@"); ok {
		return after
	}
	return id
}

// workloadName is a group's workload without its varied parameters.
func workloadName(group string) string {
	name, _, _ := strings.Cut(group, "[")
	return name
}

func isTerminal(w io.Writer) bool {
	_, ok := terminal.Behind(w)
	return ok && os.Getenv("NO_COLOR") == ""
}

// terminalWidth is the width to write for: the terminal's, within reason, and
// 80 columns elsewhere.
func terminalWidth(w io.Writer) int {
	fd, ok := terminal.Behind(w)
	if !ok {
		return 80
	}
	width, _, err := term.GetSize(fd)
	if err != nil || width <= 0 {
		return 80
	}
	return min(max(width, 60), 120)
}
