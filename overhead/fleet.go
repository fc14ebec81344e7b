package overhead

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/record"
	"tare/stats"
	"tare/workload"
)

// Fleet is what runs of one design found on several nodes, each a host of its own: what a
// condition costs on each, over all, and on another node like them.
//
// A node gives an effect, the condition against the baseline of the same run, with an interval
// over its own blocks or rounds. Effects are pooled on the log scale by a random-effects model
// ([stats.RandomEffectsOf]): nodes differ, and are a sample of all that there could be.
type Fleet struct {
	Nodes []FleetNode // by name
	// Level is that of intervals, and SmallestEffect the first run's smallest effect of interest.
	Level, SmallestEffect float64
	Rows                  []FleetRow // in the order of the first run
	// LeftOut names the runs that are no part of the fleet, each with the reason.
	LeftOut  []string
	Warnings []string
}

// FleetNode is a node of a fleet.
type FleetNode struct {
	Name, Run string // of a cluster's node or a host, and the ID of the run
	Host      record.Host
}

// FleetRow is one metric of one condition over a fleet.
type FleetRow struct {
	Workload, Condition, Label, Platform string
	Against                              string // label of the baseline
	Metric, Unit                         string
	Primary                              bool // it carries the verdict of a run
	HigherIsBetter                       bool
	Quantile                             float64
	Nodes                                []NodeEffect // by name
	Missing                              []int        // in Fleet.Nodes: without a figure of it
	// Effect is the ratio to the baseline over the fleet. A quantile's is that of the histograms of
	// all nodes merged, in which each request counts once, with an interval over nodes; all
	// others' is the mean of the model.
	Effect stats.Estimate
	// Value and BaseValue are a quantile's levels in the merged histograms. Zero elsewhere: the
	// mean of a level over unlike machines says nothing.
	Value, BaseValue stats.Estimate
	// Model is of the nodes' own effects: their mean, how they differ, and what another node has.
	Model stats.RandomEffects
	// Differs tells that nodes differ by more than their own noise, adjusted for all rows of the
	// family (Holm).
	Differs    bool
	Covariates []Covariate
	// Percent is Effect in percent, positive where the condition is worse; New is the prediction
	// for another node.
	Percent, PercentLow, PercentHigh, New, NewLow, NewHigh float64
}

// NodeEffect is what one node found.
type NodeEffect struct {
	Node   int            // in Fleet.Nodes
	Effect stats.Estimate // ratio to the baseline
	// Percent is Effect in percent, positive where the condition is worse.
	Percent, PercentLow, PercentHigh float64
	// Residual is its distance from all other nodes in standard errors. Odd tells that this is
	// more than chance gives any node of any row of the family (Holm).
	Residual float64
	Odd      bool
}

// Covariate is a property in which nodes differ, and what goes with it.
type Covariate struct {
	Name string // "kernel"
	stats.Explained
	// Explains tells that its labels differ, adjusted for all covariates of all rows of the
	// family (Holm).
	Explains bool
	// Alike are the covariates that divide these nodes in the same way: nothing tells which it is.
	Alike []string
}

// covariates are the properties of nodes that are looked at.
var covariates = []struct {
	name string
	of   func(record.Host, record.Condition) string
}{
	{"kernel", func(h record.Host, _ record.Condition) string { return h.Kernel }},
	{"CPU", func(h record.Host, _ record.Condition) string { return h.CPUModel }},
	{"runtime version", func(_ record.Host, c record.Condition) string { return c.Version }},
}

// Node is what a fleet keeps of a run: no trials.
type Node struct {
	run     record.Run
	effects []nodeEffect
}

// name is the node's: a cluster's, where it has one. Machines of a cluster may share a host name.
func (n Node) name() string {
	if p := n.run.Plan.Part; p != nil {
		return p.Node
	}
	return n.run.Host.Hostname
}

// nodeEffect is one metric of one condition on one node.
type nodeEffect struct {
	key       string // of what it is
	against   string // label of the baseline
	condition record.Condition
	metric    workload.Metric
	primary   bool
	unread    bool // it is known that there is one, and no more
	ratio     stats.Estimate
	// base and own are of a quantile, merged over blocks; empty where there are none. Encoded they
	// are a hundredth as large: a thousand nodes have tens of thousands of them.
	base, own record.Histogram
}

// NodeFigures is what [NewNode] reads of a run.
func NodeFigures(run record.Run, leading bool) (f record.Figures) {
	for _, l := range layouts(run, Options{}) {
		if _, explains := run.Plan.Layers[l.workload]; explains {
			continue
		}
		f.Workloads = append(f.Workloads, l.workload)
		for _, m := range l.metrics {
			if !leading || l.carries(m.Name) {
				f.Parts = append(f.Parts, m.Part, histogram(m))
			}
		}
	}
	return f
}

// NewNode reads a run for a fleet. Tainted blocks are left out, and what does not carry the run's
// verdict where leading is set: the fleet has no rows of it.
func NewNode(run record.Run, leading bool) Node {
	opt := Options{}.from(run)
	n := Node{run: run}
	n.run.Trials, n.run.Conditions = nil, slices.Clone(run.Conditions)
	for i := range n.run.Conditions {
		n.run.Conditions[i].Metrics = nil
	}
	for _, l := range layouts(run, opt) {
		if _, explains := run.Plan.Layers[l.workload]; explains {
			continue
		}
		for _, m := range l.metrics {
			for _, c := range l.conditions {
				if !l.hasOverhead(c.ID) {
					continue
				}
				e := nodeEffect{condition: c, metric: m, primary: l.carries(m.Name)}
				e.condition.Metrics = nil
				if b := conditionOf(run, l.baselineID()); b != nil {
					e.against = label(*b)
				}
				e.key = strings.Join([]string{c.ID, m.Name, m.Unit, string(m.Better), l.baselineID()}, "\x00")
				if e.unread = leading && !e.primary; e.unread {
					n.effects = append(n.effects, e)
					continue
				}
				p := l.pair(m, c.ID, false)
				if e.ratio = p.ratio(opt); m.Quantile != 0 && len(p.blocks) > 0 {
					e.base, e.own = encoded(together(histograms(p.base))), encoded(together(histograms(p.treatment)))
				}
				n.effects = append(n.effects, e)
			}
		}
	}
	return n
}

// encoded encodes what was decoded before.
func encoded(h *hdrhistogram.Histogram) record.Histogram {
	text, err := record.EncodeHistogram(h)
	if err != nil {
		panic(err)
	}
	return text
}

func decoded(h record.Histogram) *hdrhistogram.Histogram {
	histogram, err := h.Decode()
	if err != nil {
		panic(err) // it is encoded's
	}
	return histogram
}

// NewFleet sets runs of one design on several nodes beside each other. What is one design with
// the first of them is pooled; the others are named with the reason. Of several runs of one node
// the newest counts.
func NewFleet(all []Node) Fleet {
	var f Fleet
	if len(all) == 0 {
		return f
	}
	first := all[0]
	opt := Options{}.from(first.run)
	f.Level, f.SmallestEffect = opt.Level, opt.SmallestEffect
	newest := map[string]int{}
	for i, n := range all {
		why := noNode(n.run, first.run)
		if why == "" && !slices.ContainsFunc(first.effects, n.has) {
			why = fmt.Sprintf("it has no condition with a baseline and a metric in common with %s", first.run.ID)
		}
		if why != "" {
			f.leaveOut(n, why)
			continue
		}
		name := n.name()
		before, again := newest[name]
		switch {
		case !again:
			newest[name] = i
		case n.run.Started.After(all[before].run.Started):
			f.leaveOut(all[before], n.run.ID+" of the same node is newer")
			newest[name] = i
		default:
			f.leaveOut(n, all[before].run.ID+" of the same node is no older")
		}
	}
	var nodes []Node
	for _, i := range newest {
		nodes = append(nodes, all[i])
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.name(), b.name()) })
	for _, n := range nodes {
		f.Nodes = append(f.Nodes, FleetNode{Name: n.name(), Run: n.run.ID, Host: n.run.Host})
		f.Warnings = append(f.Warnings, otherImages(first, n)...)
		if n.run.Status != record.Complete {
			f.Warnings = append(f.Warnings, fmt.Sprintf("%s: its run is not complete: it is %s", n.name(), n.run.Status))
		}
	}
	made := map[string]bool{}
	for _, n := range slices.Insert(slices.Clone(nodes), 0, first) {
		for _, e := range n.effects {
			if !made[e.key] && !e.unread && slices.ContainsFunc(nodes, func(n Node) bool { return n.has(e) }) {
				f.Rows = append(f.Rows, f.row(e, nodes))
			}
			made[e.key] = true
		}
	}
	f.adjust()
	return f
}

// has tells that a node measured what an effect is of.
func (n Node) has(effect nodeEffect) bool {
	return slices.ContainsFunc(n.effects, func(e nodeEffect) bool { return e.key == effect.key })
}

func (f *Fleet) leaveOut(n Node, why string) {
	f.LeftOut = append(f.LeftOut, fmt.Sprintf("%s (%s): %s", n.run.ID, orNone(n.name()), why))
}

// noNode says why a run is no node of the fleet of another; empty where it is.
func noNode(run, first record.Run) string {
	switch {
	case run.Status == record.Imported:
		return "it was measured elsewhere: nothing says that its figures are independent repetitions"
	case run.Host.Hostname == "":
		return "it names no host"
	case run.Study != first.Study:
		return fmt.Sprintf("it is a run of %s, and %s of %s", run.Study, first.ID, first.Study)
	case run.Plan.Code != first.Plan.Code:
		return fmt.Sprintf("tare measured it in another way than %s: measure both by one version", first.ID)
	}
	why, instead := differentWork(first, run)
	if why == "" {
		return ""
	}
	return why + ": " + instead
}

// otherImages warns where a node ran another image than the first.
func otherImages(first, n Node) (warnings []string) {
	for _, c := range n.run.Conditions {
		if was := conditionOf(first.run, c.ID); was != nil && was.Image != c.Image {
			warnings = append(warnings, fmt.Sprintf("%s: the image of %s is %s, and %s on %s",
				n.name(), c.ID, orNone(c.Image), orNone(was.Image), first.name()))
		}
	}
	return warnings
}

// row pools one metric of one condition.
func (f *Fleet) row(of nodeEffect, nodes []Node) FleetRow {
	const seed = 1 // the same runs give the same answer
	row := FleetRow{
		Workload: of.condition.Workload, Condition: of.condition.ID, Label: label(of.condition),
		Platform: of.condition.Platform, Against: of.against,
		Metric: of.metric.Name, Unit: of.metric.Unit, Primary: of.primary,
		HigherIsBetter: of.metric.Better == workload.Higher, Quantile: of.metric.Quantile,
	}
	var effects []stats.Estimate
	var base, own []*hdrhistogram.Histogram
	labels := make([][]string, len(covariates))
	for i, n := range nodes {
		at := slices.IndexFunc(n.effects, func(e nodeEffect) bool { return e.key == of.key })
		if at < 0 || !n.effects[at].ratio.Known() {
			row.Missing = append(row.Missing, i)
			continue
		}
		e := n.effects[at]
		effect := NodeEffect{Node: i, Effect: e.ratio}
		effect.Percent, effect.PercentLow, effect.PercentHigh = percent(e.ratio, of.metric.Better)
		row.Nodes, effects = append(row.Nodes, effect), append(effects, e.ratio)
		if e.base != "" {
			base, own = append(base, decoded(e.base)), append(own, decoded(e.own))
		}
		for j, c := range covariates {
			labels[j] = append(labels[j], cmp.Or(c.of(n.run.Host, e.condition), "unknown"))
		}
	}
	row.Model = stats.RandomEffectsOf(effects, f.Level)
	for i, r := range row.Model.Residuals {
		row.Nodes[i].Residual = r
	}
	if row.Effect = row.Model.Mean; row.Quantile != 0 {
		row.Effect = stats.QuantileRatio(base, own, row.Quantile, f.Level, seed)
		row.Value = stats.Quantile(own, row.Quantile, f.Level, seed)
		row.BaseValue = stats.Quantile(base, row.Quantile, f.Level, seed)
	}
	row.Percent, row.PercentLow, row.PercentHigh = percent(row.Effect, of.metric.Better)
	row.New, row.NewLow, row.NewHigh = percent(row.Model.New, of.metric.Better)
	for j, c := range covariates {
		if own := labels[j]; len(own) == 0 || !slices.ContainsFunc(own, func(l string) bool { return l != own[0] }) {
			continue // nodes do not differ in it
		}
		covariate := Covariate{Name: c.name, Explained: row.Model.By(labels[j])}
		for i, other := range covariates {
			if i != j && divideAlike(labels[i], labels[j]) {
				covariate.Alike = append(covariate.Alike, other.name)
			}
		}
		row.Covariates = append(row.Covariates, covariate)
	}
	return row
}

// divideAlike tells whether two labellings divide nodes into the same groups.
func divideAlike(a, b []string) bool {
	to, from := map[string]string{}, map[string]string{}
	for i := range a {
		x, seen := to[a[i]]
		y, also := from[b[i]]
		if seen && x != b[i] || also && y != a[i] {
			return false
		}
		to[a[i]], from[b[i]] = b[i], a[i]
	}
	return true
}

// adjust decides what differs, explains and is odd: of the rows that carry a verdict together, and
// of all others together.
func (f *Fleet) adjust() {
	for _, primary := range []bool{true, false} {
		var differ, explain, odd decisions
		for i := range f.Rows {
			row := &f.Rows[i]
			if row.Primary != primary {
				continue
			}
			differ.add(row.Model.P, &row.Differs)
			for j := range row.Covariates {
				explain.add(row.Covariates[j].P, &row.Covariates[j].Explains)
			}
			for j, p := range row.Model.ResidualP {
				odd.add(p, &row.Nodes[j].Odd)
			}
		}
		for _, d := range []decisions{differ, explain, odd} {
			d.decide(1 - f.Level)
		}
	}
}

// decisions are those of a family, by p-values.
type decisions struct {
	p    []float64
	what []*bool
}

func (d *decisions) add(p float64, what *bool) { d.p, d.what = append(d.p, p), append(d.what, what) }

func (d decisions) decide(alpha float64) {
	for i, p := range stats.Holm(d.p) {
		*d.what[i] = p <= alpha // not what is not a number
	}
}

// mostNamed is how many nodes of a kind a sentence names.
const mostNamed = 10

// oneDigit writes a figure to one decimal, or to its first digit where that comes later.
func oneDigit(v float64) string {
	decimals := 1
	if v > 0 {
		decimals = min(max(1, -int(math.Floor(math.Log10(v)))), 9)
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// Sentences say in words how nodes differ, what goes with it, and which nodes are odd.
func (f Fleet) Sentences(row FleetRow) []string {
	m := row.Model
	sd := func(variance float64) string { return oneDigit(100 * math.Expm1(math.Sqrt(variance))) }
	all := slices.Clone(m.Warnings)
	switch low, high := sd(m.Variance.Interval.Low), sd(m.Variance.Interval.High); {
	case !m.Mean.Known():
	case row.Differs:
		all = append(all, fmt.Sprintf(
			"Nodes differ with a standard deviation of %s %% (%s to %s %%). It is %.0f %% of the scatter of their effects; the rest is noise.",
			sd(m.Variance.Value), low, high, 100*m.Share))
	case !(m.Variance.Interval.High > 0):
		all = append(all, "Nodes do not differ significantly.")
	default:
		all = append(all, fmt.Sprintf(
			"Nodes do not differ significantly. A standard deviation of up to %s %% is not excluded.", high))
	}
	for _, c := range row.Covariates {
		if !c.Explains || math.IsNaN(c.Share) {
			continue
		}
		text := fmt.Sprintf("The %s explains %.0f %% of the variance between nodes", c.Name, 100*c.Share)
		if len(c.Alike) > 0 {
			text += fmt.Sprintf("; %s divides these nodes in the same way", strings.Join(c.Alike, " and "))
		}
		all = append(all, text+".")
	}
	odd := slices.DeleteFunc(slices.Clone(row.Nodes), func(n NodeEffect) bool { return !n.Odd })
	slices.SortStableFunc(odd, func(a, b NodeEffect) int {
		return cmp.Compare(math.Abs(b.Residual), math.Abs(a.Residual))
	})
	for i, n := range odd {
		if i == mostNamed {
			all = append(all, fmt.Sprintf("%d more nodes are odd.", len(odd)-mostNamed))
			break
		}
		way := "worse"
		if n.Percent < 0 {
			way = "better"
		}
		all = append(all, fmt.Sprintf("%s is odd: %s %% %s, %.1f standard errors from the other nodes.",
			f.Nodes[n.Node].Name, oneDigit(math.Abs(n.Percent)), way, math.Abs(n.Residual)))
	}
	if len(row.Missing) > 0 {
		var names []string
		for i, at := range row.Missing {
			if i == mostNamed {
				names = append(names, fmt.Sprintf("and %d more", len(row.Missing)-mostNamed))
				break
			}
			names = append(names, f.Nodes[at].Name)
		}
		all = append(all, "Without a figure: "+strings.Join(names, ", ")+".")
	}
	return all
}
