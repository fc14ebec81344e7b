package foreign_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"tare/record/foreign"
)

// Bounds are told by the file, before work that grows with the square of what is
// beyond them.
func TestBounds(t *testing.T) {
	csv := foreign.Options{Format: foreign.CSV, Units: []string{"MB/s"}, Condition: []string{"storage"}, Baseline: []string{"bare"}}
	matrix := csv
	matrix.Columns = "{storage}_{n}"
	bench := foreign.Options{Format: foreign.Benchfmt, Better: []string{"lower"}, Condition: []string{"at"}, Baseline: []string{"bare"}}
	numbered := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	row := func(n int) string {
		return "storage,value" + numbered(n, ",f%d") + "\nbare,1" + strings.Repeat(",x", n) + "\n"
	}
	for what, c := range map[string]struct {
		opt      foreign.Options
		contents string
		says     string // empty where it is read
	}{
		"many columns":         {csv, row(199), ""},
		"too many factors":     {csv, row(200), "201 factors"},
		"a million columns":    {csv, row(1_000_000), "columns"},
		"a wide matrix":        {matrix, "" + numbered(9999, ",bare_%d") + "\ncopy" + strings.Repeat(",1", 9999) + "\n", ""},
		"too wide a matrix":    {matrix, numbered(10_000, ",bare_%d") + "\ncopy" + strings.Repeat(",1", 10_000) + "\n", "10001 columns"},
		"many keys":            {bench, numbered(198, "k%d: x\n") + "BenchmarkX/at=bare 1 2 ns/op\n", ""},
		"too many keys":        {bench, numbered(300, "k%d: x\n") + "BenchmarkX/at=bare 1 2 ns/op\n", "302 factors"},
		"too many parts":       {bench, "BenchmarkX/at=bare" + strings.Repeat("/y", 1000) + " 1 2 ns/op\n", "factors"},
		"too many parameters":  {foreign.Options{Format: foreign.Hyperfine}, `{"results":[{"command":"x","times":[1],"parameters":{"p":"x"` + numbered(300, `,"p%d":"x"`) + `}}]}`, "factors"},
		"values beyond number": {csv, "storage,value\n" + strings.Repeat("bare,1\n", 1<<20+1), "values"},
	} {
		_, err := text(c.opt, c.contents)
		var malformed *foreign.Malformed
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", what, err)
		case c.says != "" && (!errors.As(err, &malformed) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
}

// ending is a file that ends a context when so many bytes of it were read.
type ending struct {
	io.Reader
	after int
	end   func()
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if e.after -= n; e.after <= 0 {
		e.end()
	}
	return n, err
}

// Reading ends with its context, and says why; files whose turn did not come were not
// opened.
func TestReadEndsWithItsContext(t *testing.T) {
	because := errors.New("a test's")
	rows := "storage,value\n" + strings.Repeat("bare,1\n", 100_000)
	opt := foreign.Options{Format: foreign.CSV, Units: []string{"MB/s"}, Condition: []string{"storage"}, Baseline: []string{"bare"}}
	for what, after := range map[string]int{"in the course of a file": 1000, "with its last byte": len(rows)} {
		ctx, cancel := context.WithCancelCause(t.Context())
		second := foreign.File{Name: "second.csv", Open: func() (io.ReadCloser, error) {
			t.Errorf("%s: the second file was opened", what)
			return nil, errors.ErrUnsupported
		}}
		first := holding("first.csv", &ending{strings.NewReader(rows), after, func() { cancel(because) }})
		if _, err := foreign.Read(ctx, []foreign.File{first, second}, opt); !errors.Is(err, because) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// closing counts the files that are open.
type closing struct {
	io.Reader
	open *int
}

func (c closing) Close() error { *c.open--; return nil }

// However many files there are, one is open.
func TestOneFileIsOpen(t *testing.T) {
	open := 0
	var files []foreign.File
	for i := range 50 {
		files = append(files, foreign.File{Name: fmt.Sprintf("%d.csv", i), Open: func() (io.ReadCloser, error) {
			if open++; open > 1 {
				t.Errorf("%d files are open", open)
			}
			return closing{strings.NewReader(fmt.Sprintf("storage,value\nbare,%d\n", i+1)), &open}, nil
		}})
	}
	if _, err := foreign.Read(t.Context(), files, foreign.Options{Format: foreign.CSV, Units: []string{"MB/s"}, Condition: []string{"storage"}, Baseline: []string{"bare"}}); err != nil {
		t.Fatal(err)
	}
	if open != 0 {
		t.Errorf("%d files were left open", open)
	}
}
