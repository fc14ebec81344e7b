package foreign

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/workload"
)

// factorMetric stands for the metric's name where factors are renamed and chosen.
const factorMetric = "metric"

// bytesPerSecond are the units of a rate of bytes, which are kept as B/s.
var bytesPerSecond = map[string]float64{
	"B/s": 1, "kB/s": 1e3, "KB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9,
	"KiB/s": 1 << 10, "MiB/s": 1 << 20, "GiB/s": 1 << 30,
}

// betterUnits are units that tell themselves whether more is better.
var betterUnits = map[string]workload.Better{
	"B/s": workload.Higher, "requests/s": workload.Higher, "ops/s": workload.Higher, "op/s": workload.Higher,
	"s": workload.Lower, "ms": workload.Lower, "us": workload.Lower, "ns": workload.Lower, "sec/op": workload.Lower,
	"B/op": workload.Lower, "allocs/op": workload.Lower,
}

// ratioOnly tells whether a unit is of a rate or a time, of which zero and less mean
// that nothing was measured. Counts may be zero.
func ratioOnly(unit string) bool {
	switch unit {
	case "s", "ms", "us", "µs", "ns", "sec", "min", "h":
		return true
	}
	return strings.HasSuffix(unit, "/s") || strings.HasSuffix(unit, "/sec") || unit == "sec/op" || unit == "ns/op"
}

// reword gives factors, levels and metrics the names that were said, adds what is the
// same for all, and leaves out what was not asked for.
func (t *told) reword(ctx context.Context, all []observation) ([]observation, error) {
	if err := t.known(ctx, all); err != nil {
		return nil, err
	}
	if err := t.measured(ctx, all); err != nil {
		return nil, err
	}
	var kept []observation
	for i, o := range all {
		if err := stopped(ctx, i); err != nil {
			return nil, err
		}
		o.factors = slices.DeleteFunc(o.factors, func(l level) bool { return slices.Contains(t.Ignore, l.factor) })
		for _, r := range t.renames {
			o.rename(r)
		}
		for _, r := range t.renames { // after all: a factor may have its name by one
			if to, ok := r.levels[""]; ok && r.factor != factorMetric {
				if _, has := o.of(r.factor); !has {
					o.set(r.factor, to)
				}
			}
		}
		for _, s := range t.scales {
			if err := o.scale(s); err != nil {
				return nil, err
			}
		}
		for _, c := range t.constants {
			if was, ok := o.of(c.factor); ok && was != c.level {
				return nil, wanted("factor", "%s=%s, but %s has %s", c.factor, c.level, o.at, was)
			}
			o.set(c.factor, c.level)
		}
		if !t.chosen(&o) {
			continue
		}
		if err := t.measure(&o); err != nil {
			return nil, err
		}
		kept = append(kept, o)
	}
	if len(kept) == 0 {
		return nil, wanted("only", "leaves nothing of %d values", len(all))
	}
	return kept, nil
}

// known refuses flags that name factors which the data have not: a slip of the pen
// would else be read as a wish that happens to be met.
func (t *told) known(ctx context.Context, all []observation) error {
	var have []string
	has := map[string]bool{}
	add := func(name string) {
		if !has[name] {
			has[name] = true
			have = append(have, name)
		}
	}
	add(factorMetric)
	for i := range all {
		if err := stopped(ctx, i); err != nil {
			return err
		}
		for _, l := range all[i].factors {
			add(l.factor)
		}
	}
	if t.Format == CSV { // its columns are ignored before they are read
		for _, name := range t.Ignore {
			add(name)
		}
	}
	need := func(flag, name string) error {
		if has[name] {
			return nil
		}
		return wanted(flag, "the data have no factor %q: they have %s", name, listed(have))
	}
	for _, name := range t.Ignore {
		if err := need("ignore", name); err != nil {
			return err
		}
	}
	for _, r := range t.renames {
		if _, empty := r.levels[""]; !empty || len(r.levels) > 1 {
			if err := need("rename", r.factor); err != nil {
				return err
			}
		}
		if r.to != "" {
			add(r.to)
		}
		if _, fills := r.levels[""]; fills {
			add(r.factor)
		}
	}
	for _, s := range t.scales {
		if err := need("scale", s.factor); err != nil {
			return err
		}
	}
	for _, c := range t.constants {
		add(c.factor)
	}
	for _, f := range t.only {
		if err := need("only", f.factor); err != nil {
			return err
		}
	}
	for _, name := range t.Condition {
		if err := need("condition", name); err != nil {
			return err
		}
	}
	if t.Block != "" {
		return need("block", t.Block)
	}
	return nil
}

// measured refuses units and directions of metrics which the data have not, under the
// names that --rename gives them.
func (t *told) measured(ctx context.Context, all []observation) error {
	var have []string
	has := map[string]bool{"": true} // of all metrics
	for i := range all {
		if err := stopped(ctx, i); err != nil {
			return err
		}
		is := observation{metric: all[i].metric}
		for _, r := range t.renames {
			is.rename(r)
		}
		if !has[is.metric] {
			has[is.metric] = true
			have = append(have, is.metric)
		}
	}
	for _, said := range []struct {
		flag    string
		metrics []string
	}{{"unit", slices.Sorted(maps.Keys(t.units))}, {"better", slices.Sorted(maps.Keys(t.better))}} {
		for _, metric := range said.metrics {
			if !has[metric] {
				return wanted(said.flag, "the data have no metric %q: they have %s", metric, listed(have))
			}
		}
	}
	return nil
}

func (o *observation) rename(r rename) {
	if r.factor == factorMetric {
		if to, ok := r.levels[o.metric]; ok {
			o.metric = to
		}
		return
	}
	for i := range o.factors {
		l := &o.factors[i]
		if l.factor != r.factor {
			continue
		}
		if r.to != "" {
			l.factor = r.to
		} else if to, ok := r.levels[l.level]; ok {
			l.level = to
		}
	}
}

func (o *observation) scale(s scale) error {
	was, ok := o.of(s.factor)
	if !ok {
		return nil
	}
	v, err := strconv.ParseFloat(was, 64)
	if err != nil {
		return wanted("scale", "%s of %s is %q, which is not a number", s.factor, o.at, was)
	}
	o.set(s.factor, whole(strconv.FormatFloat(v*s.by, 'g', 15, 64)))
	return nil
}

func (t *told) chosen(o *observation) bool {
	for _, f := range t.only {
		is := o.metric
		if f.factor != factorMetric {
			is, _ = o.of(f.factor)
		}
		if !slices.Contains(f.levels, is) {
			return false
		}
	}
	return true
}

// measure gives an observation its unit and direction.
func (t *told) measure(o *observation) error {
	for _, of := range []string{"", o.metric} {
		if unit, ok := t.units[of]; ok {
			o.unit = unit
		}
	}
	if o.unit == "" {
		return wanted("unit", "say what %s (%s) is measured in: MB/s, requests/s, s", o.metric, o.at)
	}
	if !(o.value > 0) && o.failed == "" && ratioOnly(o.unit) {
		return malformed(o.at, "%s is %g %s: a rate or a time that is not positive has no ratio to another; leave empty what was not measured, or leave %s out by --only", o.metric, o.value, o.unit, o.metric)
	}
	if factor, ok := bytesPerSecond[o.unit]; ok {
		o.value, o.unit = o.value*factor, "B/s"
	}
	if math.IsInf(o.value, 0) {
		return malformed(o.at, "the value of %s is beyond what can be computed with", o.metric)
	}
	way := betterUnits[o.unit]
	switch {
	case o.higher:
		way = workload.Higher
	case o.lower:
		way = workload.Lower
	}
	for _, of := range []string{"", o.metric} {
		if said, ok := t.better[of]; ok {
			way = said
		}
	}
	if way == "" {
		return wanted("better", "say whether more of %s (%s) is better: higher or lower", o.metric, o.unit)
	}
	o.higher, o.lower = way == workload.Higher, way == workload.Lower
	return nil
}
