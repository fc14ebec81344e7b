package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"tare/annex"
)

// Text has a trace written readably, one event a line.
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
