package foreign

import (
	"encoding/csv"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// table is a csv file in its course.
type table struct {
	file   string
	reader *csv.Reader
	head   []string
	headAt position
}

func (t *told) openTable(file string, r io.Reader) (*table, error) {
	c := csv.NewReader(r)
	c.TrimLeadingSpace = true
	c.Comment = '#'
	tab := &table{file: file, reader: c}
	head, at, err := tab.next()
	if errors.Is(err, io.EOF) {
		return nil, malformed(position{file: file}, "is empty: want a row of headings and rows of figures")
	}
	if err != nil {
		return nil, err
	}
	if len(head) > mostColumns {
		return nil, malformed(at, "%d columns, more than %d: is it a table of results?", len(head), mostColumns)
	}
	head[0] = strings.TrimPrefix(head[0], "\ufeff") // which spreadsheets put first
	tab.head, tab.headAt = head, at
	return tab, nil
}

// next gives a row, which has as many fields as the first; io.EOF after the last.
func (tab *table) next() ([]string, position, error) {
	row, err := tab.reader.Read()
	var syntax *csv.ParseError
	switch {
	case errors.As(err, &syntax):
		return nil, position{}, malformed(position{tab.file, syntax.Line}, "%v", syntax.Err)
	case err != nil:
		return nil, position{}, err
	}
	line, _ := tab.reader.FieldPos(0)
	for i := range row {
		row[i] = strings.TrimSpace(row[i])
	}
	return row, position{tab.file, line}, nil
}

// readRows reads a table of which each row holds a value, or one of each of some
// metrics, and the levels of the factors that its other columns are.
func (t *told) readRows(file string, r io.Reader) ([]observation, error) {
	tab, err := t.openTable(file, r)
	if err != nil {
		return nil, err
	}
	columns, err := t.rowColumns(tab)
	if err != nil {
		return nil, err
	}
	var all observations
	for {
		row, at, err := tab.next()
		if errors.Is(err, io.EOF) {
			return all.all, nil
		}
		if err != nil {
			return nil, err
		}
		var factors []level
		for _, i := range columns.factors {
			if row[i] != "" { // an empty level is none: --rename gives it one
				factors = append(factors, level{tab.head[i], row[i]})
			} else if to, ok := t.emptyLevel(tab.head[i]); ok {
				factors = append(factors, level{tab.head[i], to})
			}
		}
		for _, i := range columns.values {
			if row[i] == "" {
				continue // not measured
			}
			o := observation{metric: tab.head[i], factors: slices.Clone(factors), at: at}
			if o.value, err = number(row[i], at); err != nil {
				return nil, err
			}
			if columns.metric >= 0 {
				o.metric = row[columns.metric]
			}
			if columns.unit >= 0 {
				o.unit = row[columns.unit]
			}
			if err := all.add(o); err != nil {
				return nil, err
			}
		}
	}
}

// emptyLevel is the level that --rename gives to a factor's empty one.
func (t *told) emptyLevel(factor string) (string, bool) {
	for _, r := range t.renames {
		if r.to != "" && r.factor == factor {
			factor = r.to
		}
		if to, ok := r.levels[""]; ok && r.factor == factor {
			return to, true
		}
	}
	return "", false
}

// rowColumns are the places of a table's columns.
type rowColumns struct {
	values, factors []int
	metric, unit    int // -1 where there is none
}

func (t *told) rowColumns(tab *table) (rowColumns, error) {
	c := rowColumns{metric: -1, unit: -1}
	columns := map[string]int{} // the first of each name
	for i, name := range tab.head {
		if _, twice := columns[name]; !twice {
			columns[name] = i
		}
	}
	find := func(flag, name string) (int, error) {
		i, ok := columns[name]
		if !ok {
			return -1, wanted(flag, "%s has no column %q: it has %s", tab.headAt, name, listed(tab.head))
		}
		return i, nil
	}
	values := t.Values
	if len(values) == 0 {
		if !slices.Contains(tab.head, "value") {
			return c, wanted("value", "say which columns of %s hold the values: it has %s; for a matrix say what its headings tell, by --columns", tab.headAt, listed(tab.head))
		}
		values = []string{"value"}
	}
	var err error
	for _, v := range values {
		i, err := find("value", v)
		if err != nil {
			return c, err
		}
		c.values = append(c.values, i)
	}
	if t.Metric != "" {
		if len(values) > 1 {
			return c, wanted("metric", "several columns of values are metrics of their own: name one by --value, or leave --metric out")
		}
		if c.metric, err = find("metric", t.Metric); err != nil {
			return c, err
		}
	}
	if t.UnitColumn != "" {
		if c.unit, err = find("unit-column", t.UnitColumn); err != nil {
			return c, err
		}
	}
	for i, name := range tab.head {
		if slices.Contains(c.values, i) || i == c.metric || i == c.unit || slices.Contains(t.Ignore, name) {
			continue
		}
		if name == "" || columns[name] != i {
			return c, malformed(tab.headAt, "column %d has no name of its own (%q): every column that is no value is a factor; name it, or leave the column out", i+1, name)
		}
		c.factors = append(c.factors, i)
	}
	return c, fewFactors(tab.headAt, len(c.factors))
}

// readMatrix reads a table of which each row is a metric and each column a cell.
func (t *told) readMatrix(file string, r io.Reader) ([]observation, error) {
	tab, err := t.openTable(file, r)
	if err != nil {
		return nil, err
	}
	cells := make([][]level, len(tab.head))
	for i, heading := range tab.head[1:] {
		levels, ok := t.columns.match(heading)
		if !ok {
			return nil, wanted("columns", "heading %q of %s is not of the form %s", heading, tab.headAt, t.columns.text)
		}
		cells[i+1] = levels
	}
	var all observations
	for row := 0; ; row++ {
		fields, at, err := tab.next()
		if errors.Is(err, io.EOF) {
			if len(t.Rows) > 0 && row != len(t.Rows) {
				return nil, wanted("rows", "names %d rows and %s has %d", len(t.Rows), file, row)
			}
			return all.all, nil
		}
		if err != nil {
			return nil, err
		}
		metric := fields[0]
		if len(t.Rows) > 0 {
			if row >= len(t.Rows) {
				return nil, wanted("rows", "names %d rows and %s has more", len(t.Rows), file)
			}
			metric = t.Rows[row]
		}
		if metric == "" {
			return nil, wanted("rows", "%s has no name in its first column: name the rows", at)
		}
		for i := 1; i < len(fields); i++ {
			if fields[i] == "" {
				continue
			}
			o := observation{metric: metric, factors: slices.Clone(cells[i]), at: at}
			if o.value, err = number(fields[i], at); err != nil {
				return nil, err
			}
			if err := all.add(o); err != nil {
				return nil, err
			}
		}
	}
}

// number reads a value, which must be a finite one.
func number(text string, at position) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, malformed(at, "%q is not a number: leave a value empty that was not measured", text)
	}
	return v, nil
}

// listed names columns or factors in a sentence, and no more than one can read.
func listed(all []string) string {
	const shown = 12
	if len(all) == 0 {
		return "none"
	}
	text := strings.Join(all[:min(len(all), shown)], ", ")
	if len(all) > shown {
		text += ", and " + strconv.Itoa(len(all)-shown) + " more"
	}
	return text
}
