package foreign

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tare/record"
	"tare/workload"
)

// The smallest effect of interest and the level of intervals where none is said:
// those of tare's own runs.
const (
	defaultSmallestEffect = 0.02
	defaultLevel          = 0.95
)

// arrangement is a run in the making.
type arrangement struct {
	*told
	cells      []string // factors that make the cells, in the order in which they are told
	constants  []level  // factors that are the same throughout
	blocks     map[string]int
	conditions []*arranged
	byID       map[string]*arranged
}

// arranged is a condition with its trials.
type arranged struct {
	record.Condition
	trials  []record.Trial
	byBlock map[int]int         // places of trials
	count   map[string]int      // of values, by metric
	at      map[string]position // of the value of a metric in a block
	samples map[string]int      // of that value, where it is a mean
	files   map[string]bool
	// processes are those that its values are known to come from.
	processes map[string]bool
}

// arrange makes a run of observations: groups in the order in which they are first
// told, and in each the baseline first.
func (t *told) arrange(ctx context.Context, all []observation) (record.Run, error) {
	if err := t.compared(ctx, all); err != nil {
		return record.Run{}, err
	}
	a := &arrangement{told: t, byID: map[string]*arranged{}}
	if err := a.split(ctx, all); err != nil {
		return record.Run{}, err
	}
	a.number(all)
	for i := range all {
		if err := stopped(ctx, i); err != nil {
			return record.Run{}, err
		}
		if err := a.add(&all[i]); err != nil {
			return record.Run{}, err
		}
	}
	if err := a.leftOver(ctx, all); err != nil {
		return record.Run{}, err
	}
	run := a.run()
	run.Plan.Imported = &record.Import{FewProcesses: a.fewProcesses()}
	run.Plan.Imported.Unjudged, run.Plan.Imported.UnjudgedOf = a.unjudged()
	return run, nil
}

// compared settles what the conditions are and which is the baseline.
func (t *told) compared(ctx context.Context, all []observation) error {
	if len(t.Condition) == 0 && t.Format == Hyperfine {
		t.Condition = []string{FactorCommand}
	}
	if len(t.Condition) == 0 {
		var have []string
		for _, l := range all[0].factors {
			have = append(have, l.factor)
		}
		return wanted("condition", "say which factor's levels are compared; the data have %s", listed(have))
	}
	if slices.Contains(t.Condition, t.Block) {
		return wanted("block", "%s is what is compared, and cannot count repetitions", t.Block)
	}
	if len(t.Condition) == 1 && len(t.Baseline) > 1 { // a level with commas, at which the flag was split
		t.Baseline = []string{strings.Join(t.Baseline, ",")}
	}
	var labels []string
	seen := map[string]bool{}
	for i := range all {
		if err := stopped(ctx, i); err != nil {
			return err
		}
		label, err := t.label(&all[i])
		if err != nil {
			return err
		}
		if !seen[label] {
			seen[label] = true
			labels = append(labels, label)
		}
		if len(labels) > mostConditions {
			return wanted("condition", "%s has more than %d levels: it is no condition", strings.Join(t.Condition, ", "), mostConditions)
		}
	}
	if len(t.Baseline) == 0 && (t.Format == Hyperfine || len(labels) == 1) {
		t.Baseline = nil
		for _, factor := range t.Condition {
			first, _ := all[0].of(factor)
			t.Baseline = append(t.Baseline, first)
		}
		return nil
	}
	if len(t.Baseline) == 0 {
		return wanted("baseline", "say which the others are compared with: %s", listed(labels))
	}
	if !slices.Contains(labels, spaced(t.Baseline)) {
		return wanted("baseline", "%s is none of the conditions: %s", spaced(t.Baseline), listed(labels))
	}
	return nil
}

// label names the condition of an observation among others of its cell.
func (t *told) label(o *observation) (string, error) {
	var words []string
	for _, factor := range t.Condition {
		word, ok := o.of(factor)
		if !ok {
			return "", wanted("condition", "%s has no level of %s: give it one by --rename '%s:=LEVEL', or leave it out by --only", o.at, factor, factor)
		}
		words = append(words, word)
	}
	return spaced(words), nil
}

// spaced are levels of several factors in one text, in which no two lists are alike: one
// that has a space stands in quotes.
func spaced(levels []string) string {
	if len(levels) == 1 {
		return levels[0]
	}
	words := make([]string, len(levels))
	for i, l := range levels {
		words[i] = within(l, ` "`)
	}
	return strings.Join(words, " ")
}

// within is a word in a list, in quotes where it has what separates words there.
func within(word, separators string) string {
	if strings.ContainsAny(word, separators) {
		return strconv.Quote(word)
	}
	return word
}

// split tells the factors that make cells from those that are the same throughout.
func (a *arrangement) split(ctx context.Context, all []observation) error {
	first := map[string]string{}
	times := map[string]int{}
	varies := map[string]bool{}
	var order []string
	for i := range all {
		if err := stopped(ctx, i); err != nil {
			return err
		}
		for _, l := range all[i].factors {
			if slices.Contains(a.Condition, l.factor) || l.factor == a.Block {
				continue
			}
			if times[l.factor]++; times[l.factor] == 1 {
				order = append(order, l.factor)
				first[l.factor] = l.level
			}
			varies[l.factor] = varies[l.factor] || l.level != first[l.factor]
		}
	}
	for _, factor := range order {
		if varies[factor] || times[factor] < len(all) {
			a.cells = append(a.cells, factor)
		} else {
			a.constants = append(a.constants, level{factor, first[factor]})
		}
	}
	return nil
}

// number gives the levels of the factor that counts repetitions their numbers: in
// order of size where they are numbers, else as they come.
func (a *arrangement) number(all []observation) {
	a.blocks = map[string]int{}
	if a.Block == "" {
		return
	}
	var levels []string
	seen := map[string]bool{}
	numbers := true
	for i := range all {
		l, _ := all[i].of(a.Block)
		if !seen[l] {
			seen[l] = true
			levels = append(levels, l)
			_, err := strconv.ParseFloat(l, 64)
			numbers = numbers && err == nil
		}
	}
	if numbers {
		slices.SortFunc(levels, func(a, b string) int {
			x, _ := strconv.ParseFloat(a, 64)
			y, _ := strconv.ParseFloat(b, 64)
			return cmp.Compare(x, y)
		})
	}
	for i, l := range levels {
		a.blocks[l] = i + 1
	}
}

// add puts an observation in its place.
func (a *arrangement) add(o *observation) error {
	c, err := a.condition(o)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(c.Metrics, func(m workload.Metric) bool { return m.Name == o.metric }); i < 0 {
		if len(c.Metrics) == mostMetrics {
			return wanted("metric", "%s has more than %d metrics: another column names them", c.ID, mostMetrics)
		}
		better := workload.Lower
		if o.higher {
			better = workload.Higher
		}
		c.Metrics = append(c.Metrics, workload.Metric{Name: o.metric, Unit: o.unit, Better: better, Primary: true})
	} else if c.Metrics[i].Unit != o.unit {
		return wanted("unit", "%s is in %s at %s and was in %s before: say one by --unit, or import them apart", o.metric, o.unit, o.at, c.Metrics[i].Unit)
	}
	c.count[o.metric]++
	c.files[o.at.file] = true
	process := fmt.Sprint(o.process, " ", o.at.file)
	block, samples := c.count[o.metric], 1
	if a.Block != "" {
		l, ok := o.of(a.Block)
		if !ok {
			return wanted("block", "%s has no level of %s", o.at, a.Block)
		}
		block, process = a.blocks[l], l // each of which is a run of the program
		key := o.metric + "\x00" + strconv.Itoa(block)
		was, twice := c.at[key]
		if twice && !a.Mean {
			return malformed(o.at,
				"%s of %s in repetition %s is there already, at %s: a factor that tells the two apart is missing, "+
					"or, where they are repetitions, another --block; of samples of one repetition give --mean", o.metric, c.ID, l, was)
		}
		c.at[key] = o.at
		if o.failed == "" {
			c.samples[key]++
			samples = c.samples[key]
		}
	}
	c.processes[process] = true
	i, known := c.byBlock[block]
	if !known {
		if i = len(c.trials); i == mostRepetitions {
			return wanted("block",
				"%s has more than %d values of %s: these are no repetitions but samples of some; name what counts repetitions, and give --mean", c.ID, mostRepetitions, o.metric)
		}
		c.byBlock[block] = i
		c.trials = append(
			c.trials,
			record.Trial{Condition: c.ID, Workload: c.Workload, Block: block, Attempt: 1, Started: a.When},
		)
	}
	trial := &c.trials[i]
	if o.failed != "" {
		trial.Error = o.failed
		return nil
	}
	if samples > 1 {
		at := slices.IndexFunc(trial.Samples, func(s record.Sample) bool { return s.Metric == o.metric })
		trial.Samples[at].Value += (o.value - trial.Samples[at].Value) / float64(samples)
		return nil
	}
	trial.Samples = append(trial.Samples, record.Sample{Metric: o.metric, Value: o.value})
	return nil
}

// condition finds the condition of an observation, or makes it.
func (a *arrangement) condition(o *observation) (*arranged, error) {
	label, err := a.label(o)
	if err != nil {
		return nil, err
	}
	var parts []string
	for _, factor := range a.cells {
		if l, ok := o.of(factor); ok {
			parts = append(parts, within(factor, `,="`)+"="+within(l, `,="`))
		}
	}
	group := a.Workload
	if group == "" {
		group = string(a.Format)
	}
	if len(parts) > 0 {
		group += "[" + strings.Join(parts, ",") + "]"
	}
	id := group + "@" + label
	if c := a.byID[id]; c != nil {
		return c, nil
	}
	if len(a.conditions) == mostConditions {
		return nil, malformed(o.at, "more than %d conditions: leave some out by --only, or name what counts repetitions by --block", mostConditions)
	}
	c := &arranged{
		Condition: record.Condition{
			ID: id, Label: label, Workload: group, Platform: label, Factors: map[string]string{},
			Baseline: label == spaced(a.Baseline),
		},
		byBlock: map[int]int{}, count: map[string]int{}, at: map[string]position{},
		samples: map[string]int{}, files: map[string]bool{}, processes: map[string]bool{},
	}
	for _, l := range o.factors {
		if l.factor != a.Block {
			c.Factors[l.factor] = l.level
		}
	}
	a.byID[id] = c
	a.conditions = append(a.conditions, c)
	return c, nil
}

// run is what was arranged.
func (a *arrangement) run() record.Run {
	run := record.Run{
		Status:   record.Imported,
		Started:  a.When,
		Finished: a.When,
		Plan: record.Plan{
			SmallestEffect: cmp.Or(a.SmallestEffect, defaultSmallestEffect),
			Level:          cmp.Or(a.Level, defaultLevel),
			Notes:          a.notes(),
		},
	}
	var groups []string
	place := map[string]int{}
	for _, c := range a.conditions {
		if _, ok := place[c.Workload]; !ok {
			place[c.Workload] = len(groups)
			groups = append(groups, c.Workload)
		}
	}
	slices.SortStableFunc(a.conditions, func(x, y *arranged) int {
		return cmp.Or(cmp.Compare(place[x.Workload], place[y.Workload]), last(x.Baseline)-last(y.Baseline))
	})
	for _, c := range a.conditions {
		run.Conditions = append(run.Conditions, c.Condition)
		slices.SortStableFunc(c.trials, func(x, y record.Trial) int { return cmp.Compare(x.Block, y.Block) })
		run.Trials = append(run.Trials, c.trials...)
	}
	return run
}

func last(baseline bool) int {
	if baseline {
		return 0
	}
	return 1
}

// notes say what is the same throughout, and where there is nothing to compare with.
func (a *arrangement) notes() []string {
	all := append(a.told.notes, a.unread.notes()...)
	var parts []string
	for _, l := range a.constants {
		if !slices.Contains(a.Unsaid, l.factor) {
			parts = append(parts, l.factor+"="+l.level)
		}
	}
	if len(parts) > 0 {
		all = append(all, "the same throughout: "+strings.Join(parts, ", "))
	}
	if a.Format == Hyperfine && a.name == nil {
		for _, c := range a.conditions {
			if len(c.files) > 1 {
				all = append(all, fmt.Sprintf("%s is in %s, and counts as one condition: to compare the files give --name '{file}.json' --condition file",
					brief(c.Label), in(c.files)))
			}
		}
	}
	if apart := a.apart(); apart != "" {
		return append(all, apart)
	}
	based := map[string]bool{}
	var without []string
	for _, c := range a.conditions {
		based[c.Workload] = based[c.Workload] || c.Baseline
	}
	for _, c := range a.conditions {
		if !based[c.Workload] && !slices.Contains(without, c.Workload) {
			without = append(without, c.Workload)
		}
	}
	if len(without) > 0 {
		all = append(all, fmt.Sprintf(
			"without %s, with which the others are compared: %s", spaced(a.Baseline), listed(without)))
	}
	return all
}
