package foreign

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"

	"tare/record"
)

// FactorBenchmark is the factor of a benchmark's base name.
const FactorBenchmark = "benchmark"

// hostKeys are what the Go tool says of the host, and no factors. Its package and
// system are: two packages may have a benchmark of one name.
var hostKeys = map[string]func(*record.Host, string){
	"goarch": func(h *record.Host, v string) { h.Arch = v },
	"cpu":    func(h *record.Host, v string) { h.CPUModel = v },
}

// readBenchfmt reads the Go benchmark format. The parts of a name are factors
// (/network=bridge, or part1, part2 where they have no key; procs for what follows a
// dash), the base name is one (benchmark), and so are the configuration lines but
// those of the host. A metric is named by its unit, or by the factor that --metric
// names, as in what tare itself exports.
func (t *told) readBenchfmt(file string, r io.Reader, host *record.Host) ([]observation, error) {
	reader := benchfmt.NewReader(r, file)
	var all observations
	for reader.Scan() {
		switch is := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			_, line := is.Pos()
			return nil, malformed(position{file, line}, "%s", is.Msg)
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
		better := reader.Units().GetBetter(all.all[i].unit)
		all.all[i].higher, all.all[i].lower = better > 0, better < 0
	}
	return all.all, nil
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
		text := string(part)
		if procs, ok := strings.CutPrefix(text, "-"); ok {
			factors.set("procs", procs)
		} else if key, value, ok := strings.Cut(strings.TrimPrefix(text, "/"), "="); ok {
			factors.set(key, value)
		} else {
			factors.set(fmt.Sprintf("part%d", i+1), strings.TrimPrefix(text, "/"))
		}
	}
	for _, c := range is.Config {
		if told, ok := hostKeys[c.Key]; ok {
			told(host, string(c.Value))
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
	for _, v := range is.Values {
		if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
			return malformed(at, "%v %s is not a measurement", v.Value, v.Unit)
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
