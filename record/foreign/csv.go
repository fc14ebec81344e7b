package foreign

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// table is a csv file in its course.
type table struct {
	*told
	file   string
	data   []byte
	reader *csv.Reader
	head   []string
	headAt position
	line   int // of the next byte of data
}

func (t *told) openTable(file string, r io.Reader, data []byte) (*table, error) {
	c := csv.NewReader(r)
	c.TrimLeadingSpace = true
	c.Comment = '#'
	tab := &table{told: t, file: file, data: data, reader: c, line: 1}
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
	tab.head, tab.headAt = head, at
	if len(head) == 1 {
		if err := tab.separated(); err != nil {
			return nil, err
		}
	}
	if strings.HasPrefix(head[0], "sep=") {
		return nil, malformed(at,
			"%q is a spreadsheet's mark and no row of headings: remove the line", strings.Join(head, ","))
	}
	if before := at.line - 1; before > 0 {
		return tab, tab.skipped(data, 1, before)
	}
	return tab, nil
}

// separated refuses a table whose columns something else separates than commas; nil where
// its headings do not look so.
func (tab *table) separated() error {
	head := strings.Join(tab.head, ",")
	for _, by := range []struct{ separator, shown string }{{";", ";"}, {"\t", `\t`}, {"|", "|"}} {
		if strings.Count(head, by.separator) > strings.Count(head, ",") {
			return malformed(tab.headAt,
				"columns are separated by %q and not by commas: convert it, with points for decimal commas, by: tr ',%s' '.,' < %s > NEW.csv",
				by.separator, by.shown, tab.file)
		}
	}
	return nil
}

// next gives a row, which has as many fields as the first; io.EOF after the last.
func (tab *table) next() ([]string, position, error) {
	from := tab.reader.InputOffset()
	row, err := tab.reader.Read()
	var syntax *csv.ParseError
	switch {
	case errors.As(err, &syntax):
		return nil, position{}, tab.malformed(syntax, len(row))
	case err != nil && !errors.Is(err, io.EOF):
		return nil, position{}, err
	}
	between := tab.data[from:tab.reader.InputOffset()]
	first, lines := tab.line, bytes.Count(between, []byte("\n"))
	tab.line += lines
	if err != nil { // the end, before which comments may stand
		if err := tab.skipped(between, first, lines+1); err != nil {
			return nil, position{}, err
		}
		return nil, position{}, io.EOF
	}
	line, _ := tab.reader.FieldPos(0)
	if tab.head != nil { // else the headings are not known yet
		if err := tab.skipped(between, first, line-first); err != nil {
			return nil, position{}, err
		}
	}
	for i := range row {
		row[i] = strings.TrimSpace(row[i])
	}
	return row, position{tab.file, line}, nil
}

// malformed says what is wrong with a row, and what to do.
func (tab *table) malformed(syntax *csv.ParseError, fields int) error {
	at := position{tab.file, syntax.Line}
	if errors.Is(syntax.Err, csv.ErrFieldCount) {
		return malformed(at,
			"%d fields, and %d headings: give the row a field for each; one that holds a comma stands in quotes", fields, len(tab.head))
	}
	return malformed(at,
		"%v: a field that holds a comma or a quote stands in quotes, and its quotes are doubled", syntax.Err)
}

// skipped counts the lines that begin with # among so many, which the reader passed over.
// One that has the form of the headings or of a row is refused.
func (tab *table) skipped(data []byte, first, lines int) error {
	for i := range lines {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		if !bytes.HasPrefix(line, []byte("#")) {
			continue
		}
		at, fields := position{tab.file, first + i}, strings.Split(strings.TrimSpace(string(line)), ",")
		form := tab.isRow
		if at.line < tab.headAt.line {
			form = tab.areHeadings
		}
		if len(fields) > 1 && len(fields) == len(tab.head) && form(fields) {
			return malformed(at,
				"begins with # and has the form of a row: write a space after the # if it is a comment; else write its first field in quotes")
		}
		tab.unread.add(comments, at, string(line))
	}
	return nil
}

// isRow tells that fields of a line that begins with # may be a row: no space follows the #,
// and there is a number wherever a value belongs.
func (tab *table) isRow(fields []string) bool {
	if strings.HasPrefix(fields[0], "# ") {
		return false
	}
	for i, f := range fields {
		isValue := tab.columns == nil && tab.isValue(tab.head[i]) || tab.columns != nil && i > 0
		if f = strings.TrimSpace(f); isValue && f != "" && !decimal.MatchString(f) {
			return false
		}
	}
	return true
}

// areHeadings tells that fields of a line that begins with # may be the headings.
func (tab *table) areHeadings(fields []string) bool {
	for i, f := range fields {
		f = strings.TrimSpace(strings.TrimPrefix(f, "#"))
		if tab.columns == nil && tab.isValue(f) {
			return true
		}
		if tab.columns != nil && i > 0 {
			_, ok := tab.columns.match(f)
			return ok
		}
	}
	return false
}

// isValue tells that a heading is of a column of values.
func (t *told) isValue(heading string) bool {
	if len(t.Values) == 0 {
		return heading == "value"
	}
	return slices.Contains(t.Values, heading)
}

// readRows reads a table of which each row holds a value, or one of each of some
// metrics, and the levels of the factors that its other columns are.
func (t *told) readRows(tab *table) ([]observation, error) {
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
				t.unread.add(empty, at, "")
				continue
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
			if err := tab.separated(); err != nil {
				return -1, err
			}
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
func (t *told) readMatrix(tab *table) ([]observation, error) {
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
				return nil, wanted("rows", "names %d rows and %s has %d", len(t.Rows), tab.file, row)
			}
			return all.all, nil
		}
		if err != nil {
			return nil, err
		}
		metric := fields[0]
		if len(t.Rows) > 0 {
			if row >= len(t.Rows) {
				return nil, wanted("rows", "names %d rows and %s has more", len(t.Rows), tab.file)
			}
			metric = t.Rows[row]
		}
		if metric == "" {
			return nil, wanted("rows", "%s has no name in its first column: name the rows", at)
		}
		for i := 1; i < len(fields); i++ {
			if fields[i] == "" {
				t.unread.add(empty, at, "")
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

// decimal is a number as results have it: no hexadecimal one, and no word.
var decimal = regexp.MustCompile(`^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$`)

// number reads a value, which must be a finite one.
func number(text string, at position) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case decimal.MatchString(text) && err == nil:
		return v, nil
	case strings.ContainsRune(text, ',') && decimal.MatchString(strings.ReplaceAll(text, ",", "")):
		return 0, malformed(at,
			"%q has a comma, which separates decimals or thousands: write a decimal point, and nothing between thousands", text)
	}
	return 0, malformed(at,
		"%q is not a number: write digits and a decimal point alone, or leave a value empty that was not measured", text)
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
