package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
)

const (
	beginMarker = "<!-- coverage tables: begin; made by go generate ./stats/coverage -->"
	endMarker   = "<!-- coverage tables: end -->"
)

// splice puts text between the markers of page.
func splice(page, text []byte) ([]byte, error) {
	before, rest, began := bytes.Cut(page, []byte(beginMarker))
	_, after, ended := bytes.Cut(rest, []byte(endMarker))
	if !began || !ended {
		return nil, fmt.Errorf("no place for the tables: want a line %q and, below it, %q", beginMarker, endMarker)
	}
	return bytes.Join([][]byte{before, []byte(beginMarker), []byte("\n\n"), text, []byte(endMarker), after}, nil), nil
}

// insert puts the texts of tables into page: all between the markers, or some,
// each in place of what is there under its title.
func insert(page []byte, made []*table, texts [][]byte, all bool) ([]byte, error) {
	if all {
		return splice(page, bytes.Join(texts, nil))
	}
	for i, t := range made {
		var err error
		if page, err = spliceTable(page, t.title, texts[i]); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// spliceTable puts text in place of the table of that title, which ends where
// the next one begins or all end.
func spliceTable(page []byte, title string, text []byte) ([]byte, error) {
	before, rest, found := bytes.Cut(page, []byte("\n### "+title+"\n"))
	if !found {
		return nil, fmt.Errorf("no table %q to replace; leave out -only to write all", title)
	}
	for _, mark := range []string{"\n### ", "\n" + endMarker} {
		if end := bytes.Index(rest, []byte(mark)); end >= 0 {
			return bytes.Join([][]byte{before, []byte("\n"), text, rest[end+1:]}, nil), nil
		}
	}
	return nil, fmt.Errorf("table %q has no end: want a line %q below it", title, endMarker)
}

// The band within which an interval at 95 % is taken to cover.
const coversFrom, coversTo = 93, 97

// write sets a table of results in Markdown. Coverages outside the band are bold.
func (t *table) write(w io.Writer, results []result, seed uint64) {
	fmt.Fprintf(w, "### %s\n\n%s\n\n", t.title, t.text)
	fmt.Fprintf(w, "%s. %d replications a row, seed %d", t.kind, t.replications, seed)
	if t.kind == coverage {
		fmt.Fprintf(w, ". Standard error of a figure near 95: %.1f", 100*math.Sqrt(0.95*0.05/float64(t.replications)))
	}
	fmt.Fprintf(w, ".\n\n| %s | n | %s |\n", t.rowName, strings.Join(t.columns, " | "))
	fmt.Fprintf(w, "|---|---:|%s\n", strings.Repeat("---:|", len(t.columns)))
	for _, r := range results {
		fmt.Fprintf(w, "| %s | %d |", r.row.name, r.n)
		for c, v := range r.means {
			fmt.Fprintf(w, " %s |", t.cell(c, v))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// cell sets one figure.
func (t *table) cell(column int, mean float64) string {
	switch {
	case math.IsNaN(mean): // it never came to this
		return ""
	case column < t.plain || t.kind == share:
		return fmt.Sprintf("%.1f", 100*mean)
	case t.kind == coverage:
		percent := 100 * mean
		text := fmt.Sprintf("%.1f", percent)
		if percent < coversFrom || percent > coversTo {
			text = "**" + text + "**"
		}
		return text
	default:
		return fmt.Sprintf("%.2f", math.Exp(mean))
	}
}
