package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"tare/lab"
	"tare/terminal"
)

// progress tells what happens: one line that is written over on a terminal,
// and a line for each block elsewhere.
type progress struct {
	mu     sync.Mutex
	out    io.Writer
	tty    bool
	drawn  bool
	began  time.Time
	shown  time.Time // when an interim table was shown last
	tables int
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
	terminal.Fprintln(p.out, text)
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
		terminal.Fprintf(p.out, "%s in block %d is made again at its end: %s\n", cmp.Or(e.Label, conditionName(e.Condition)), e.Block, e.Text)
	case lab.Preparing:
		p.line("preparing " + e.Text)
	case lab.Started:
		what := fmt.Sprintf("block %d", e.Block)
		if e.Block == 0 {
			what = "warm-up"
		}
		p.line(fmt.Sprintf("%s: %s %s%s", what, e.Group, cmp.Or(e.Label, conditionName(e.Condition)), leftText(e.Left)))
	case lab.Told:
		p.line(fmt.Sprintf("%s: %s", cmp.Or(e.Label, conditionName(e.Condition)), e.Text))
		if !p.tty {
			terminal.Fprintf(p.out, "%s: %s\n", cmp.Or(e.Label, conditionName(e.Condition)), e.Text)
		}
	case lab.Ended:
		if e.Text != "" {
			p.erase()
			terminal.Fprintf(p.out, "%s in block %d yielded nothing: %s\n", e.Condition, e.Block, e.Text)
		}
	case lab.Blocked:
		if !p.tty {
			terminal.Fprintf(p.out, "%s: block %d done%s\n", e.Group, e.Block, leftText(e.Left))
		}
	}
}

// line draws the line that is written over; elsewhere than on a terminal there is none.
func (p *progress) line(text string) {
	if !p.tty {
		return
	}
	terminal.Overwrite(p.out, text, terminalWidth(p.out))
	p.drawn = true
}

func leftText(left time.Duration) string {
	if left <= 0 {
		return ""
	}
	return ", " + left.Round(time.Second).String() + " left"
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
