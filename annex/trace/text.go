package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"tare/annex"
)

// Text has a trace written readably, one event a line. ParseText reads it back.
//
//	annex-trace 1 {"host":"made", ...}
//	1500 woke 0
//	1500 touched 0 7@9 took=400 write 100+8 50
//	1900 slept 0 cpu=400
//	2000 scanned 0 7@9 took=10 100:5*8,2*1
//
// Moments and times are nanoseconds. 100+8 is eight pages from 100 on; 100:5*8,2*1 is eight pages
// of state 5 from 100 on, then one of state 2.
func Text(w io.Writer, from Source) error {
	out := bufio.NewWriter(w)
	header, err := json.Marshal(from.Header())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "annex-trace 1 %s\n", header)
	for {
		e, err := from.Next()
		if err != nil {
			flushed := out.Flush()
			if errors.Is(err, io.EOF) {
				return flushed
			}
			return err
		}
		if _, err := fmt.Fprintln(out, e); err != nil {
			return err
		}
	}
}

// String is the event's line in a text.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %v", int64(e.At), e.Kind)
	if e.Kind == Lost {
		fmt.Fprintf(&b, " %d", e.Count)
		return b.String()
	}
	fmt.Fprintf(&b, " %d", e.Container)
	if e.Kind.hasSpace() {
		fmt.Fprintf(&b, " %v", e.Space)
	}
	if e.Kind.hasCPU() {
		fmt.Fprintf(&b, " cpu=%d", int64(e.CPU))
	}
	if e.Kind.hasSpace() {
		fmt.Fprintf(&b, " took=%d", int64(e.Took))
	}
	if e.Write {
		b.WriteString(" write")
	}
	if e.More {
		b.WriteString(" more")
	}
	for i := 0; i < len(e.Pages); {
		n := 1
		for i+n < len(e.Pages) && e.Pages[i+n] == e.Pages[i]+annex.Page(n) {
			n++
		}
		fmt.Fprintf(&b, " %d", e.Pages[i])
		if n > 1 {
			fmt.Fprintf(&b, "+%d", n)
		}
		i += n
	}
	for _, s := range e.Stretches {
		fmt.Fprintf(&b, " %d:", s.First)
		for i, r := range s.Runs {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%d*%d", r.State, r.Pages)
		}
	}
	return b.String()
}

// ParseText begins to read what Text wrote. It is a Source.
func ParseText(r io.Reader) (Source, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, blockMost)
	t := &textReader{lines: lines}
	line, err := t.line()
	if err != nil {
		return nil, err
	}
	text, ok := strings.CutPrefix(line, "annex-trace 1 ")
	if !ok {
		return nil, fmt.Errorf("line 1 of the text: want annex-trace 1 and a header")
	}
	if err := json.Unmarshal([]byte(text), &t.header); err != nil {
		return nil, t.wrong(err)
	}
	if err := t.header.Check(); err != nil {
		return nil, t.wrong(err)
	}
	return t, nil
}

type textReader struct {
	lines  *bufio.Scanner
	header Header
	number int
}

func (t *textReader) wrong(err error) error {
	return fmt.Errorf("line %d of the text: %w", t.number, err)
}

func (t *textReader) line() (string, error) {
	t.number++
	if t.lines.Scan() {
		return t.lines.Text(), nil
	}
	if err := t.lines.Err(); err != nil {
		return "", t.wrong(err)
	}
	return "", io.EOF
}

func (t *textReader) Header() Header { return t.header }

func (t *textReader) Next() (Event, error) {
	line, err := t.line()
	if err != nil {
		return Event{}, err
	}
	e, err := parseEvent(line)
	if err == nil {
		err = e.check(len(t.header.Containers))
	}
	if err != nil {
		return Event{}, t.wrong(err)
	}
	return e, nil
}

// words are those of a line that are left, and the first thing that was wrong.
type words struct {
	left []string
	err  error
}

func (w *words) next() string {
	if len(w.left) == 0 {
		w.fail(errShort)
		return ""
	}
	word := w.left[0]
	w.left = w.left[1:]
	return word
}

func (w *words) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *words) int(text string) int64 {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		w.fail(err)
	}
	return v
}

func (w *words) uint(text string, bits int) uint64 {
	v, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		w.fail(err)
	}
	return v
}

func (w *words) named(name string) time.Duration {
	word := w.next()
	text, ok := strings.CutPrefix(word, name+"=")
	if !ok {
		w.fail(fmt.Errorf("%q: want %s=", word, name))
	}
	return time.Duration(w.int(text))
}

func (w *words) flag(name string) bool {
	if len(w.left) == 0 || w.left[0] != name {
		return false
	}
	w.left = w.left[1:]
	return true
}

func parseEvent(line string) (Event, error) {
	w := &words{left: strings.Fields(line)}
	e := Event{At: annex.Moment(w.int(w.next()))}
	kind := w.next()
	for k := Started; k <= Lost; k++ {
		if kinds[k] == kind {
			e.Kind = k
		}
	}
	if e.Kind == Lost {
		e.Count = w.uint(w.next(), 64)
	} else if e.Kind.valid() {
		w.rest(&e)
	}
	if w.err == nil && len(w.left) > 0 {
		w.fail(fmt.Errorf("%q is too much", w.left[0]))
	}
	return e, w.err
}

func (w *words) rest(e *Event) {
	e.Container = int(w.uint(w.next(), 31))
	if e.Kind.hasSpace() {
		pid, started, ok := strings.Cut(w.next(), "@")
		if !ok {
			w.fail(errors.New("want a space as process@start"))
		}
		v, err := strconv.ParseInt(pid, 10, 32)
		if err != nil {
			w.fail(err)
		}
		e.Space = annex.Space{PID: int32(v), Started: w.uint(started, 64)}
	}
	if e.Kind.hasCPU() {
		e.CPU = w.named("cpu")
	}
	if e.Kind.hasSpace() {
		e.Took = w.named("took")
	}
	e.Write, e.More = w.flag("write"), w.flag("more")
	switch {
	case e.Kind.hasPages():
		w.pages(e)
	case e.Kind == Scanned:
		w.stretches(e)
	}
}

func (w *words) pages(e *Event) {
	for len(w.left) > 0 && w.err == nil {
		first, count, several := strings.Cut(w.next(), "+")
		p, n := annex.Page(w.uint(first, 64)), uint64(1)
		if several {
			n = w.uint(count, 64)
		}
		if n > uint64(Most-len(e.Pages)) {
			w.fail(fmt.Errorf("more than %d pages", Most))
			return
		}
		for i := range annex.Page(n) {
			e.Pages = append(e.Pages, p+i)
		}
	}
}

func (w *words) stretches(e *Event) {
	for len(w.left) > 0 && w.err == nil {
		first, runs, _ := strings.Cut(w.next(), ":")
		s := Stretch{First: annex.Page(w.uint(first, 64))}
		for text := range strings.SplitSeq(runs, ",") {
			if runs == "" {
				break
			}
			state, pages, _ := strings.Cut(text, "*")
			s.Runs = append(s.Runs, States{annex.State(w.uint(state, 8)), w.uint(pages, 64)})
		}
		e.Stretches = append(e.Stretches, s)
	}
}
