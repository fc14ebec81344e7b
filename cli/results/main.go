// Command results fills pages of results from the runs that are kept for them, so that no page says
// anything else than its runs do.
//
//	go run ./cli/results [-check] docs/results
//
// The runs lie in runs.db.gz of that directory: a store of tare's. A page has blocks:
//
//	<!-- made: tare latency cpu | CPU quotas -->
//	...
//	<!-- end -->
//
// The command names the newest run whose command line begins so, and what follows a part of its page
// by title; "answer" is its first sentence. "tare reproduce S4" is the page of all runs, for the
// claims that it names.
//
// A file of figures for a plot, NAME.csv, has lines of comment that say where its rows come from: a
// table, a column, and the column of published figures, where there is one:
//
//	# rows: tare latency cpu | CPU quotas | p99, µs | S4's p99, µs
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare/cli"
	"tare/report"
	"tare/terminal"
)

func main() {
	check := flag.Bool("check", false, "write nothing: fail where a page is not as its runs")
	book := flag.String("book", "", "file for the page of all claims, with the runs' plots")
	flag.Parse()
	if flag.NArg() != 1 {
		terminal.Fprintln(os.Stderr, "usage: results [-check] [-book FILE] DIRECTORY")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *check, *book); err != nil {
		terminal.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

func run(dir string, check bool, book string) error {
	home, err := unpacked(filepath.Join(dir, "runs.db.gz"))
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	results, err := cli.ReadResults(home)
	if err != nil {
		return err
	}
	s := source{sheets: map[string]report.Sheet{}, read: results.Sheet}
	var failed error
	for pattern, filled := range map[string]func(string) (string, error){"*.md": s.page, "*.csv": s.figures} {
		paths, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, path := range paths {
			failed = errors.Join(failed, rewrite(path, filled, check))
		}
	}
	if failed != nil || book == "" {
		return failed
	}
	return results.Book(book)
}

// unpacked is a state directory with a store that lies packed.
func unpacked(path string) (home string, err error) {
	packed, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer packed.Close()
	store, err := gzip.NewReader(packed)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if home, err = os.MkdirTemp("", "tare-results-"); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(home)
		}
	}()
	f, err := os.OpenFile(filepath.Join(home, "tare.db"), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := io.Copy(f, store); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return home, f.Close()
}

func rewrite(path string, filled func(string) (string, error), check bool) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := filled(string(old))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case text == string(old):
		return nil
	case check:
		return fmt.Errorf("%s is not as its runs: make results", path)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// source has the pages of runs, by command.
type source struct {
	sheets map[string]report.Sheet
	read   func(command string) (report.Sheet, error)
}

func (s source) sheet(command string) (report.Sheet, error) {
	if sheet, ok := s.sheets[command]; ok {
		return sheet, nil
	}
	sheet, err := s.read(command)
	s.sheets[command] = sheet
	return sheet, err
}

// part finds "tare latency cpu | CPU quotas".
func (s source) part(command, title string) (report.Part, error) {
	sheet, err := s.sheet(command)
	if err != nil {
		return nil, err
	}
	if title == "answer" {
		return report.Prose{Text: sheet.Answer}, nil
	}
	part, ok := sheet.Titled(title)
	if !ok {
		return nil, fmt.Errorf("%s has no part %q: it has %q", command, title, sheet.Titles())
	}
	return part, nil
}

const (
	begins, begun = "<!-- made: ", " -->\n"
	ends          = "<!-- end -->\n"
	rows          = "# rows: "
)

// page fills the blocks of a page.
func (s source) page(text string) (string, error) {
	var b strings.Builder
	for {
		before, rest, more := strings.Cut(text, begins)
		b.WriteString(before)
		if !more {
			return b.String(), nil
		}
		from, rest, closed := strings.Cut(rest, begun)
		_, rest, ended := strings.Cut(rest, ends)
		fields := strings.Split(from, " | ")
		if !closed || !ended || len(fields) != 2 {
			return "", fmt.Errorf("want %sCOMMAND | TITLE%s...\n%s not %q", begins, begun, ends, from)
		}
		part, err := s.part(fields[0], fields[1])
		if err != nil {
			return "", err
		}
		b.WriteString(begins + from + begun + "\n")
		if err := report.Markdown(&b, part); err != nil {
			return "", err
		}
		b.WriteString("\n" + ends)
		text = rest
	}
}

// figures makes the rows of a file for a plot.
func (s source) figures(text string) (string, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write([]string{"group", "label", "value", "low", "high", "published"})
	var comments strings.Builder
	made := false
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "# ") {
			continue
		}
		comments.WriteString(line)
		from, ok := strings.CutPrefix(strings.TrimSpace(line), rows)
		if !ok {
			continue
		}
		made = true
		fields := append(strings.Split(from, " | "), "")
		if len(fields) < 4 {
			return "", fmt.Errorf("want %sCOMMAND | TITLE | COLUMN [| PUBLISHED], not %q", rows, from)
		}
		part, err := s.part(fields[0], fields[1])
		if err != nil {
			return "", err
		}
		if long, ok := part.(report.Long); ok {
			part = long.Part
		}
		table, ok := part.(report.Table)
		if !ok {
			return "", fmt.Errorf("%q is no table", fields[1])
		}
		if err := tableRows(w, table, fields[2], fields[3]); err != nil {
			return "", err
		}
	}
	if w.Flush(); !made {
		return text, nil
	}
	return comments.String() + b.String(), nil
}

// tableRows writes a row for each of a table that has a figure.
func tableRows(w *csv.Writer, t report.Table, column, published string) error {
	at := func(head string) (int, error) {
		i := slices.IndexFunc(t.Columns, func(c report.Column) bool { return c.Head == head })
		if i < 0 {
			return 0, fmt.Errorf("%q has no column %q", t.Title, head)
		}
		return i, nil
	}
	value, err := at(column)
	if err != nil {
		return err
	}
	paper := -1
	if published != "" {
		if paper, err = at(published); err != nil {
			return err
		}
	}
	absent := report.Absent().Text
	for _, row := range t.Rows {
		if len(row) <= value || row[value].Text == absent {
			continue
		}
		low, high, _ := strings.Cut(row[value].Detail, " to ")
		theirs := ""
		if paper >= 0 && paper < len(row) && row[paper].Text != absent {
			theirs = row[paper].Text
		}
		if err := w.Write([]string{t.Title, row[0].Text, row[value].Text, low, high, theirs}); err != nil {
			return err
		}
	}
	return nil
}
