package foreign

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/perf/benchfmt"

	"tare/record"
)

// FactorBenchmark is the factor of a benchmark's base name.
const FactorBenchmark = "benchmark"

// hostKeys are what the Go tool says of the host, and no factors. Its package and
// system are: two packages may have a benchmark of one name.
var hostKeys = map[string]func(*record.Host) *string{
	"goarch": func(h *record.Host) *string { return &h.Arch },
	"cpu":    func(h *record.Host) *string { return &h.CPUModel },
}

// printedKeys begin lines that a Go program prints when it dies or warns. They have the form
// of configuration, and are none.
var printedKeys = []string{"panic", "signal", "testing"}

// What the Go tool prints besides results: of a failure, and of none.
var (
	goFailure = regexp.MustCompile(`^(?:\s*--- FAIL|FAIL\b|panic: |fatal error: |exit status |signal: )`)
	goSilence = regexp.MustCompile(`^(?:PASS$|ok  |\?   |=== |Unit\s|\s*$)`)
	goSetting = regexp.MustCompile(`^\p{Ll}[^\s\p{Lu}:]*:(?:[ \t]|$)`)
)

// isSetting tells a line of configuration.
func isSetting(line string) bool {
	key, _, _ := strings.Cut(line, ":")
	return goSetting.MatchString(line) && !slices.Contains(printedKeys, key)
}

// ofHost notes what a file tells of its host. Files of two hosts are told: what differs
// between the hosts is then in whatever differs between the files.
func (t *told) ofHost(at position, to *string, is string) {
	if *to == "" || *to == is {
		*to = is
		return
	}
	note := fmt.Sprintf("several hosts: %s at first, and %s at %s", brief(*to), brief(is), at.file)
	if !slices.Contains(t.notes, note) {
		t.notes = append(t.notes, note)
	}
}

// unreadBenchfmt counts the lines that package benchfmt passes over.
func (t *told) unreadBenchfmt(file string, data []byte) {
	var began string // a benchmark's name alone on its line, as -v prints it first
	var beganAt position
	end := func(next string) {
		if began != "" && !strings.HasPrefix(next, began) {
			t.unread.add(noOutcome, beganAt, began)
		}
		began = ""
	}
	number := 0
	for raw := range bytes.Lines(data) {
		number++
		at, line := position{file, number}, strings.TrimRight(string(raw), "\r\n")
		switch {
		case strings.HasPrefix(line, "Benchmark"):
			end(line)
			if !strings.ContainsFunc(line, unicode.IsSpace) {
				began, beganAt = line, at
			}
		case goFailure.MatchString(line):
			t.unread.add(failures, at, line)
		case goSilence.MatchString(line), isSetting(line):
		default:
			t.unread.add(noResult, at, line)
		}
	}
	end("")
}

// readBenchfmt reads the Go benchmark format. The parts of a name are factors
// (/network=bridge, or part1, part2 where they have no key; procs for what follows a
// dash), the base name is one (benchmark), and so are the configuration lines but
// those of the host. A metric is named by its unit, or by the factor that --metric
// names, as in what tare itself exports.
func (t *told) readBenchfmt(file string, r io.Reader, data []byte, host *record.Host) ([]observation, error) {
	t.unreadBenchfmt(file, data)
	reader := benchfmt.NewReader(r, file)
	ends := endsOfProcesses(data)
	var all observations
	for reader.Scan() {
		switch is := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			_, line := is.Pos()
			return nil, malformed(position{file, line},
				"%s: want a name, a number of iterations, and values with units; "+
					"a benchmark that prints breaks its line in two", is.Msg)
		case *benchfmt.Result:
			if err := t.benchmark(&all, file, is, host); err != nil {
				return nil, err
			}
		}
	}
	if err := reader.Err(); err != nil {
		return nil, malformed(position{file: file}, "%v", err)
	}
	for i := range all.all {
		all.all[i].process, _ = slices.BinarySearch(ends, all.all[i].at.line)
		better := reader.Units().GetBetter(all.all[i].unit)
		all.all[i].higher, all.all[i].lower = better > 0, better < 0
	}
	return all.all, nil
}

// goEnd is what the Go tool, or a test binary, prints at the end of a process.
var goEnd = regexp.MustCompile(`^(?:PASS$|FAIL$|ok  |FAIL\t)`)

// endsOfProcesses are the lines at which the output of a process ends.
func endsOfProcesses(data []byte) (ends []int) {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if goEnd.Match(bytes.TrimRight(line, "\r\n")) {
			ends = append(ends, number)
		}
	}
	return ends
}

// benchmark adds the values of one line.
func (t *told) benchmark(all *observations, file string, is *benchfmt.Result, host *record.Host) error {
	_, line := is.Pos()
	at := position{file, line}
	base, parts := is.Name.Parts()
	if err := fewFactors(at, 1+len(parts)+len(is.Config)); err != nil {
		return err
	}
	factors := newUnique()
	factors.set(FactorBenchmark, string(base))
	for i, part := range parts {
		name, to := fmt.Sprintf("part%d", i+1), strings.TrimPrefix(string(part), "/")
		if procs, ok := strings.CutPrefix(string(part), "-"); ok {
			name, to = "procs", procs
		} else if key, value, ok := strings.Cut(to, "="); ok && factorName.MatchString(key) {
			name, to = key, value // else an equals sign within a nameless part: "TOML,sections=5"
		}
		if was, twice := factors.of(name); twice {
			return malformed(at,
				"the name has %s twice, as %s and %s: rename one of them in the file", name, brief(was), brief(to))
		}
		factors.set(name, to)
	}
	for _, c := range is.Config {
		if slices.Contains(printedKeys, c.Key) {
			continue
		}
		if told, ok := hostKeys[c.Key]; ok {
			t.ofHost(at, told(host), string(c.Value))
		} else if _, named := factors.of(c.Key); !named {
			factors.set(c.Key, string(c.Value))
		}
	}
	metric, named := "", false
	if t.Metric != "" {
		if metric, named = factors.of(t.Metric); !named {
			return wanted("metric", "%s has no factor %s", at, t.Metric)
		}
	}
	own := slices.DeleteFunc(factors.levels, func(l level) bool { return l.factor == t.Metric })
	units := map[string]bool{}
	for _, v := range is.Values {
		if units[v.Unit] {
			return malformed(at, "two values in %s on one line: leave one of them out", v.Unit)
		}
		units[v.Unit] = true
		if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
			return malformed(at, "%v %s is not a measurement: remove the line, and measure it again", v.Value, v.Unit)
		}
		o := observation{metric: v.Unit, value: v.Value, unit: v.Unit, at: at, factors: slices.Clone(own)}
		if named {
			o.metric = metric
		}
		if err := all.add(o); err != nil {
			return err
		}
	}
	return nil
}

// unique are levels of factors of which each has one, in the order in which they are
// first set.
type unique struct {
	levels []level
	at     map[string]int // in levels, by factor
}

func newUnique() *unique { return &unique{at: map[string]int{}} }

func (u *unique) of(factor string) (string, bool) {
	i, ok := u.at[factor]
	if !ok {
		return "", false
	}
	return u.levels[i].level, true
}

func (u *unique) set(factor, to string) {
	i, ok := u.at[factor]
	if !ok {
		u.at[factor] = len(u.levels)
		u.levels = append(u.levels, level{factor, to})
		return
	}
	u.levels[i].level = to
}
