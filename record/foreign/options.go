package foreign

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/workload"
)

// Options say what of the files is what, in the words of `tare import`'s flags: what
// is wrong with one is told by the flag's name.
type Options struct {
	Format Format
	// Workload is what the figures are of, and names the groups; the format's own name
	// where it is empty.
	Workload string

	// Name reads factors out of file names: "{storage}-{block}.csv". Of the path as
	// many elements count as it has; * is any text.
	Name string
	// Factors are the same for all of the data: "network=host".
	Factors []string

	// Unsaid are factors that tell a reader of the run what it is of, and of which no
	// note tells that they are the same throughout.
	Unsaid []string

	// Columns reads factors out of the headings of a matrix: "{elements}_{processes}".
	// A csv file is a matrix where it is given, and has a row a value where not.
	Columns string
	// Rows name the rows of a matrix, where its first column does not.
	Rows []string
	// Values are the columns that hold values, where a row holds some; "value" by
	// default. Several are metrics under their own names.
	Values []string
	// Metric is the factor or column that names the metric.
	Metric string
	// UnitColumn is the column that names the unit.
	UnitColumn string
	// Ignore are columns or factors of no account.
	Ignore []string

	// Units are "MB/s" for all metrics, or "copy=MB/s" for one. Bytes a second of any
	// size are kept as B/s, as tare's own are.
	Units []string
	// Better is "higher" or "lower" for all metrics, or "copy=higher" for one.
	Better []string

	// Cells name the cells of a file that gives its figures in their order, the last
	// factor running fastest: "particles=1e6,2.5e6 ranks=1,2,4,8".
	Cells string

	// Rename gives a factor another name ("io_threads=io-threads") or its levels
	// ("storage:local=bare,bindMount=bind"); "metric" is the factor of metrics' names.
	Rename []string
	// Scale multiplies the levels of a factor: "elements=1e6".
	Scale []string
	// Only leaves out what is at none of the levels: "metric:get,set".
	Only []string

	// Condition are the factors of which the levels are compared.
	Condition []string
	// Baseline are the levels of those, in their order, that the others are compared
	// with.
	Baseline []string
	// Block is the factor that counts repetitions; where it is empty, values of one
	// cell and condition are repetitions in their order.
	Block string
	// Paired says that what has one level of Block belongs together under all
	// conditions: it was measured together, or alike.
	Paired bool
	// Mean says that several values of one level of Block are samples of one repetition,
	// whose value is their mean.
	Mean bool

	Order string // in which conditions were measured, in words
	Host  string // the machine, in words
	// When is the time of reading, and stands for that of measuring, which is not told.
	When time.Time

	SmallestEffect, Level float64
}

// told are options, read.
type told struct {
	Options
	name, columns *pattern
	constants     []level
	renames       []rename
	scales        []scale
	only          []filter
	units         map[string]string // by metric; "" for all
	better        map[string]workload.Better
	cells         []series

	// What reading the files adds, to be said with the run.
	unread unread
	notes  []string
}

type rename struct {
	factor string
	to     string            // the factor's name; empty where levels are renamed
	levels map[string]string // by the old one
}

type scale struct {
	factor string
	by     float64
}

type filter struct {
	factor string
	levels []string
}

// series is a factor with its levels in order.
type series struct {
	factor string
	levels []string
}

func (o Options) parse() (*told, error) {
	t := &told{Options: o, units: map[string]string{}, better: map[string]workload.Better{}}
	var err error
	if o.Name != "" {
		if t.name, err = newPattern(o.Name); err != nil {
			return nil, wanted("name", "%v", err)
		}
	}
	if o.Columns != "" {
		if t.columns, err = newPattern(o.Columns); err != nil {
			return nil, wanted("columns", "%v", err)
		}
	}
	if o.Paired && o.Block == "" {
		return nil, wanted("block", "--paired needs the factor that says what belongs together")
	}
	if o.Mean && o.Block == "" {
		return nil, wanted("block", "--mean needs the factor that counts the repetitions, of which each has samples")
	}
	if len(o.Rows) > 0 && t.columns == nil {
		return nil, wanted("columns", "--rows is for a matrix: say what its headings tell, such as {elements}_{processes}")
	}
	if (o.Columns != "" || len(o.Values) > 0) && o.Format != CSV {
		return nil, wanted("format", "--columns and --value are for csv, not for %s", o.Format)
	}
	if (o.Cells == "") != (o.Format != Haccio) {
		if o.Format == Haccio {
			return nil, wanted("cells", "say in which order the cells are measured, the last factor running fastest: --cells 'particles=1e6,2.5e6 ranks=1,2,4,8'")
		}
		return nil, wanted("cells", "is for haccio, whose output does not say what was run; not for %s", o.Format)
	}
	for _, text := range o.Factors {
		factor, to, ok := strings.Cut(text, "=")
		if !ok || factor == "" || to == "" {
			return nil, wanted("factor", "%q: want FACTOR=LEVEL", text)
		}
		t.constants = append(t.constants, level{factor, to})
	}
	for _, text := range o.Rename {
		r, err := parseRename(text)
		if err != nil {
			return nil, err
		}
		t.renames = append(t.renames, r)
	}
	for _, text := range o.Scale {
		factor, by, _ := strings.Cut(text, "=")
		v, err := strconv.ParseFloat(by, 64)
		if factor == "" || err != nil || v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, wanted("scale", "%q: want FACTOR=NUMBER, such as elements=1e6", text)
		}
		t.scales = append(t.scales, scale{factor, v})
	}
	for _, text := range o.Only {
		factor, levels, ok := strings.Cut(text, ":")
		if !ok || factor == "" || levels == "" {
			return nil, wanted("only", "%q: want FACTOR:LEVEL,LEVEL", text)
		}
		t.only = append(t.only, filter{factor, strings.Split(levels, ",")})
	}
	for _, text := range o.Units {
		metric, unit, ok := strings.Cut(text, "=")
		if !ok {
			metric, unit = "", text
		}
		t.units[metric] = unit
	}
	for _, text := range o.Better {
		metric, way, ok := strings.Cut(text, "=")
		if !ok {
			metric, way = "", text
		}
		if way != string(workload.Higher) && way != string(workload.Lower) {
			return nil, wanted("better", "%q: want higher or lower, or METRIC=higher", text)
		}
		t.better[metric] = workload.Better(way)
	}
	if o.Cells != "" {
		if t.cells, err = parseCells(o.Cells); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func parseRename(text string) (rename, error) {
	bad := wanted("rename", "%q: want OLD=NEW for a factor, or FACTOR:OLD=NEW,OLD=NEW for its levels", text)
	head, tail, leveled := strings.Cut(text, ":")
	if equals := strings.IndexByte(text, '='); equals >= 0 && equals < len(head) {
		leveled = false
	}
	if !leveled {
		from, to, ok := strings.Cut(text, "=")
		if !ok || from == "" || to == "" {
			return rename{}, bad
		}
		return rename{factor: from, to: to}, nil
	}
	r := rename{factor: head, levels: map[string]string{}}
	for _, pair := range strings.Split(tail, ",") {
		from, to, ok := strings.Cut(pair, "=")
		if !ok || to == "" || head == "" {
			return rename{}, bad
		}
		r.levels[from] = to
	}
	return r, nil
}

func parseCells(text string) ([]series, error) {
	var all []series
	product := 1
	for _, field := range strings.Fields(text) {
		factor, list, ok := strings.Cut(field, "=")
		if !ok || factor == "" || list == "" {
			return nil, wanted("cells", "%q: want FACTOR=LEVEL,LEVEL, factors parted by spaces", field)
		}
		s := series{factor: factor}
		for _, l := range strings.Split(list, ",") {
			s.levels = append(s.levels, whole(l))
		}
		if product *= len(s.levels); product > mostConditions {
			return nil, wanted("cells", "more than %d cells", mostConditions)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, wanted("cells", "names no factor")
	}
	return all, nil
}

// cell gives the levels of the i-th cell, the last factor running fastest.
func cell(all []series, i int) []level {
	levels := make([]level, len(all))
	for at := len(all) - 1; at >= 0; at-- {
		s := all[at]
		levels[at] = level{s.factor, s.levels[i%len(s.levels)]}
		i /= len(s.levels)
	}
	return levels
}

// whole writes a number without its exponent ("2.5e6" is "2500000"), as factors of
// tare's own runs are; what is none stays as it is.
func whole(text string) string {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.Abs(v) >= 1e15 {
		return text
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// pattern reads factors out of text: "{storage}-{block}.csv".
type pattern struct {
	text    string
	regexp  *regexp.Regexp
	factors []string
}

var factorName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

func newPattern(text string) (*pattern, error) {
	p := &pattern{text: text}
	expression := "^"
	for rest := text; rest != ""; {
		switch at := strings.IndexAny(rest, "{*"); {
		case at < 0:
			expression += regexp.QuoteMeta(rest)
			rest = ""
		case rest[at] == '*':
			expression += regexp.QuoteMeta(rest[:at]) + ".*?"
			rest = rest[at+1:]
		default:
			expression += regexp.QuoteMeta(rest[:at])
			name, tail, ok := strings.Cut(rest[at+1:], "}")
			if !ok || !factorName.MatchString(name) {
				return nil, fmt.Errorf("%q: want names of factors in braces, such as {storage}-{block}.csv", text)
			}
			if slices.Contains(p.factors, name) {
				return nil, fmt.Errorf("%q names %s twice", text, name)
			}
			p.factors = append(p.factors, name)
			expression += "(.+?)"
			rest = tail
		}
	}
	if len(p.factors) == 0 {
		return nil, fmt.Errorf("%q names no factor: want them in braces, such as {storage}-{block}.csv", text)
	}
	var err error
	p.regexp, err = regexp.Compile(expression + "$")
	return p, err
}

func (p *pattern) match(text string) ([]level, bool) {
	m := p.regexp.FindStringSubmatch(text)
	if m == nil {
		return nil, false
	}
	levels := make([]level, len(p.factors))
	for i, f := range p.factors {
		levels[i] = level{f, m[i+1]}
	}
	return levels, true
}
