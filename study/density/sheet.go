package density

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"tare/advise"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/kit"
)

// Study is what the command and the page need of it. With attachments a page says why sweeps
// ended and what the kernel did not report. A banner names attachments that cannot be read.
var Study = kit.Alone(kit.Member{
	Judge: Judge, Advice: Advice, Page: page, SoFar: soFar, NextOf: next,
	Note: "S3 (published study of density) had 256 GiB, neighbours of 34 GiB each, and a disk of its own for swap. " +
		"Here all is smaller in proportion. Verdicts compare memory demand over memory granted, not numbers of neighbours.",
})

func page(run record.Run, attached kit.Attachments) report.Sheet {
	r := read(run, attached)
	return report.Sheet{
		Title: r.title(), Answer: r.answer(), Together: report.HoldTogether, Facts: r.facts(), Banners: r.banners(),
		Parts:  slices.Concat(r.parts(), advise.Part(r.advice()), r.untested()),
		Weight: kit.OwnTime(r.Reading, ", both loads included"),
	}
}

// soFar has the table of the first policy as far as it has come.
func soFar(run record.Run) report.Sheet {
	r := read(run, nil)
	s := report.Sheet{Title: r.title(), Answer: r.answer()}
	if bases := r.bases(); len(bases) > 0 {
		s.Parts = []report.Part{r.sweepTable(r.lead(bases[0]))}
	}
	return s
}

// Answer is the sentence that the reader came for.
func Answer(run record.Run) string { return read(run, nil).answer() }

func (r reading) answer() string {
	bases := r.bases()
	if len(bases) == 0 {
		return "The effect of idle neighbours is unknown: no sweep has ended yet."
	}
	r = r.together(2 + 2*len(r.devices())) // throughput and tail, beside neighbours and on each device
	a := bases[0]
	text := r.said(r.lead(a))
	if !a.measured() {
		return fmt.Sprintf("The base, %s, was not measured, so that nothing is compared with it. Under %s: %s", r.name(a), r.name(r.lead(a)), text)
	}
	for _, d := range r.devices() {
		if d.base.policy != a.policy || d.base.order != a.order || d.base.group != a.group {
			continue
		}
		text += " " + r.deviceSaid(d)
	}
	return text
}

// said is the answer of one arm.
func (r reading) said(a arm) string {
	throughput, tail := r.throughputCliff(a), r.tailCliff(a)
	name := a.critical()
	reach := demand(float64(a.settled()), r.overcommit(a, a.settled()).Value)
	var text string
	switch {
	case throughput.found():
		text = fmt.Sprintf("Up to %s, %s keeps its throughput. Beyond that, %s", r.upTo(a, throughput), name, fall(throughput))
		switch {
		case tail.found() && tail.Before == throughput.Before:
			text += fmt.Sprintf(", and the p99 %s", rise(tail))
		case tail.found():
			text += fmt.Sprintf(". Beyond %s, the p99 %s", r.upTo(a, tail), rise(tail))
		}
	case tail.found():
		text = fmt.Sprintf("Beyond %s, %s's p99 %s. No loss of throughput was found up to %s", r.upTo(a, tail), name, rise(tail), reach)
	case len(a.numbers) < 2:
		text = fmt.Sprintf("The effect of idle neighbours on %s is unknown: one number of them was measured, %d. Policies alone are compared", name, a.first())
	case len(a.sweeps) < fewestForInterval:
		text = r.withoutIntervals(a, reach)
	case r.worse(a) != "":
		text = fmt.Sprintf("With %s, %s has %s. Where the change begins is unknown: that requires more numbers of neighbours, or more sweeps", reach, name, r.worse(a))
	default:
		text = fmt.Sprintf("No effect of idle neighbours on %s was found, up to %s", name, reach)
	}
	if all := a.halts(); len(all) > 0 {
		text += fmt.Sprintf(". %d of %d sweeps ended early", len(all), len(a.sweeps))
		if _, _, ok := span(all); ok {
			text += fmt.Sprintf(", at %s times the memory", haltCell(a).Text)
		}
	}
	return text + "."
}

// withoutIntervals is the answer of an arm with too few sweeps for an interval.
func (r reading) withoutIntervals(a arm, reach string) string {
	only := fmt.Sprintf("Only %s: no intervals, which require %d", report.Counted(len(a.sweeps), "sweep"), fewestForInterval)
	rate, tail := r.throughputRatio(a, a.settled()).Value, r.quantileRatio(a, a.settled(), open, 0.99).Value
	if math.IsNaN(rate) || math.IsNaN(tail) || a.settled() == a.first() {
		return fmt.Sprintf("The effect of idle neighbours on %s is unknown up to %s. %s", a.critical(), reach, only)
	}
	return fmt.Sprintf("With %s, compared with %d, %s's p99 is %s times as long; throughput is %.2f times as high. %s",
		reach, a.first(), a.critical(), report.Rounded(tail, 2), rate, only)
}

// worse says which figures are significantly worse at the greatest number that every sweep
// completed than at the least. It is empty where none is.
func (r reading) worse(a arm) string {
	var worse []string
	if e := r.throughputRatio(a, a.settled()); e.Known() && e.Interval.High < 1-r.Report.SmallestEffect {
		worse = append(worse, report.Said(e, 1)+" times the throughput")
	}
	if e := r.quantileRatio(a, a.settled(), open, 0.99); e.Known() && e.Interval.Low > 1+r.Report.SmallestEffect {
		worse = append(worse, report.Said(e, 1)+" times the p99")
	}
	if len(worse) == 0 {
		return ""
	}
	return strings.Join(worse, " and ") + fmt.Sprintf(" that it has with %d", a.first())
}

// demand is a number of neighbours with the memory demand there.
func demand(neighbours, overcommit float64) string {
	noun := "neighbours"
	if neighbours == 1 {
		noun = "neighbour"
	}
	return fmt.Sprintf("%g idle %s (%.1f times the memory)", neighbours, noun, overcommit)
}

// upTo is the last place before a change.
func (r reading) upTo(a arm, c cliff) string { return demand(c.Before, r.overcommitAt(a, c.Before)) }

// fall and rise say what happens beyond a change.
func fall(c cliff) string {
	times := c.Times.Value
	switch {
	case c.Shape == stats.RampChange:
		return fmt.Sprintf("throughput falls steadily, to %s %% at the end", report.Rounded(100*times, 2))
	case times < 0.1:
		return fmt.Sprintf("throughput falls to %s %%", report.Rounded(100*times, 2))
	case times > 0.45 && times < 0.55:
		return "throughput halves"
	}
	return fmt.Sprintf("throughput falls by %.0f %%", 100*(1-times))
}

func rise(c cliff) string {
	if c.Shape == stats.RampChange {
		return fmt.Sprintf("rises steadily, to %s times as long at the end", report.Rounded(c.Times.Value, 2))
	}
	return fmt.Sprintf("is %s times as long", report.Rounded(c.Times.Value, 2))
}

// deviceSaid compares the base's swap device with another, at the greatest number of neighbours of both.
func (r reading) deviceSaid(d compared) string {
	both := shared(d.base, d.other)
	name, base := d.other.factor(FactorSwap), d.base.factor(FactorSwap)
	if len(both) == 0 {
		return fmt.Sprintf("%s cannot be compared with %s: they have no number of neighbours in common.", name, base)
	}
	n := both[len(both)-1]
	rate, tail := r.throughputAgainst(d.base, d.other, n), r.quantileAgainst(d.base, d.other, n, open, 0.99)
	at := fmt.Sprintf("At %.1f times the memory,", r.overcommit(d.base, n).Value)
	switch {
	case tail.DiffersFrom(1):
		return fmt.Sprintf("%s the p99 on %s is %s times that on %s.", at, name, report.Said(tail, 1), base)
	case rate.DiffersFrom(1):
		return fmt.Sprintf("%s throughput on %s is %s times that on %s.", at, name, report.Said(rate, 1), base)
	}
	return fmt.Sprintf("%s no significant difference between %s and %s was found.", at, name, base)
}

// next proposes what to run after a run.
func next(run record.Run) string {
	r := read(run, nil)
	bases := r.bases()
	if len(bases) == 0 {
		return "tare density --quick"
	}
	a := r.lead(bases[0])
	switch {
	case len(a.sweeps) < fewestSweeps:
		return fmt.Sprintf("tare density --blocks %d", fewestSweeps)
	case !r.throughputCliff(a).found() && len(a.halts()) == 0 && r.overcommit(a, a.greatest()).Value < enough():
		return "tare density --full"
	case len(r.devices()) == 0:
		return "tare density --swap file,zram"
	case !slices.ContainsFunc(r.arms, func(b arm) bool { p := b.factor(FactorProtect); return p != "" && p != "none" }):
		return "tare density --protect none,swappiness,limit,headroom"
	}
	return "tare claims S3"
}

func (r reading) title() string {
	if len(r.arms) == 0 {
		return "tare density"
	}
	var groups []string
	for _, a := range r.arms {
		if text := a.critical() + " beside idle " + a.noise(); !slices.Contains(groups, text) {
			groups = append(groups, text)
		}
	}
	return "tare density: " + strings.Join(groups, ", ")
}

func (r reading) facts() []string {
	var boxes, orders, policies, own []string
	for _, a := range r.arms {
		boxes, orders, policies = append(boxes, a.factor(FactorBox)), append(orders, a.order),
			append(policies, a.policy)
	}
	for _, f := range []struct {
		name string
		of   []string
	}{{"box", boxes}, {"order", orders}, {"policies", policies}} {
		if text := strings.Join(kit.Once(f.of), "; "); text != "" {
			own = append(own, f.name+": "+text)
		}
	}
	return kit.Facts(r.Reading, "", own...)
}

func (r reading) banners() []string {
	more := slices.Clone(r.unreadable)
	for _, a := range r.arms {
		whys := map[string]int{}
		for _, h := range a.halts() {
			why := h.why
			if why == stoppedText {
				why = "its reason is in the attachment " + AttachmentSteps
			}
			whys[why]++
		}
		for why, n := range whys {
			more = append(more, fmt.Sprintf("ended early: %s of %s: %s", report.Counted(n, "sweep"), r.name(a), why))
		}
		if a.order == Continuous && (r.throughputCliff(a).found() || r.tailCliff(a).found()) {
			more = append(more, "order: neighbours were added one after another, so drift over time looks like their effect. --order interleaved separates the two")
		}
		more = append(more, a.unreported()...)
		if n := a.repeated(); n > 0 {
			more = append(more, fmt.Sprintf("disturbed: %s: the loads of a step were repeated %s, because other programs disturbed them. The disturbed loads were discarded", r.name(a), timesText(n)))
		}
		if n, steps := a.overHalf(); n > 0 {
			more = append(more, fmt.Sprintf("swap of %s was more than half full at the end of %d of %s: above half of all the host's swap, the kernel gives up the slot of each page that is used again. "+
				"Such a page is written once more when it leaves. Set a larger --swap-size", r.name(a), n, report.Counted(steps, "step")))
		}
		for _, note := range a.notes() {
			more = append(more, fmt.Sprintf("box of %s: %s", r.name(a), note))
		}
	}
	for _, a := range r.arms {
		if n := len(slices.DeleteFunc(slices.Clone(a.sweeps), func(s sweep) bool { return !s.tainted })); n > 0 {
			more = append(more, fmt.Sprintf("tainted: no sweep of %s was undisturbed: its figures rest on %s that others disturbed", r.name(a), report.Counted(n, "sweep")))
		}
	}
	return report.RunBanners(r.Reading, more...)
}

// notes are remarks on an arm's box, each with the number of steps that have it. Notes that
// differ in amounts alone are merged, with the amounts of the first.
func (a arm) notes() []string {
	type note struct {
		text  string
		steps int
		alike bool // some had other amounts
	}
	var all []*note
	by, steps := map[string]*note{}, 0
	for _, s := range a.sweeps {
		for _, step := range slices.Concat(s.steps, s.ended) {
			steps++
			seen := map[string]bool{}
			for _, text := range step.Notes {
				kind := amounts.ReplaceAllString(text, "0")
				n := by[kind]
				if n == nil {
					n = &note{text: text}
					by[kind], all = n, append(all, n)
				}
				if !seen[kind] { // before it and after it
					n.steps++
				}
				seen[kind] = true
				n.alike = n.alike || text != n.text
			}
		}
	}
	var texts []string
	for _, n := range all {
		with := ""
		if n.alike {
			with = ", some with other amounts"
		}
		texts = append(texts, fmt.Sprintf("%s (%d of %s%s)", n.text, n.steps, report.Counted(steps, "step"), with))
	}
	return texts
}

// amounts are what notes that are alike may differ in: numbers with a unit, durations, and how many
// containers it is of and which is the first. Other numbers name things, such as a rule.
var amounts = regexp.MustCompile(`\(containers: [^)]*\)|[0-9]+(\.[0-9]+)?( of [0-9]+(\.[0-9]+)?)? (%|[KMGT]iB\b|[muµ]?s\b)|\b([0-9]+(\.[0-9]+)?(h|ms|m|us|µs|ns|s))+\b`)

// overHalf counts the steps at whose end swap was more than half full.
func (a arm) overHalf() (n, steps int) {
	for _, s := range a.sweeps {
		for _, step := range s.steps {
			if steps++; step.overHalf(a.factor(FactorSwap)) {
				n++
			}
		}
	}
	return n, steps
}

// repeated is how often loads of an arm's steps were made again.
func (a arm) repeated() int {
	all := 0
	for _, s := range a.sweeps {
		all += s.repeated
	}
	return all
}

// timesText is "once", "7 times".
func timesText(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// unreported are the figures that the kernel did not report, by the reason.
func (a arm) unreported() []string {
	by := map[string][]string{}
	for _, s := range a.sweeps {
		for _, step := range s.steps {
			for name, why := range step.Absent {
				if !slices.Contains(by[why], name) {
					by[why] = append(by[why], name)
				}
			}
		}
	}
	var all []string
	for why, names := range by {
		slices.Sort(names)
		all = append(all, fmt.Sprintf("not reported: %s: %s", strings.Join(names, ", "), why))
	}
	return all
}
