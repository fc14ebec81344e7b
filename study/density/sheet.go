package density

import (
	"fmt"
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
// ended and what the kernel did not tell; those that cannot be read are told as a banner.
var Study = kit.Alone(kit.Member{
	Judge: Judge, Page: page, SoFar: soFar, NextOf: next,
	Note: "S3 had 256 GiB, neighbours of 34 GiB and a disk of its own to swap to; here all is smaller in proportion. Places are judged by memory asked for over memory granted, not by numbers of neighbours.",
})

func page(run record.Run, attached kit.Attachments) report.Sheet {
	r := read(run, attached)
	return report.Sheet{
		Title: r.title(), Answer: r.answer(), Together: report.HoldTogether, Facts: r.facts(), Banners: r.banners(),
		Parts: slices.Concat(r.parts(), advise.Part(r.advice()), r.untested()), Weight: kit.OwnTime(r.Reading, ", both loads included"),
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
		return "What idle neighbours cost cannot be told yet: no sweep has ended."
	}
	r = r.together(2 + 2*len(r.devices())) // throughput and tail, beside neighbours and on each device
	a := bases[0]
	text := r.said(r.lead(a))
	if !a.measured() {
		text = fmt.Sprintf("The base, %s, was not measured, so that nothing is set against it. Under %s: %s", r.name(a), r.name(r.lead(a)), text)
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
	reach := fmt.Sprintf("%.1f times the memory (%d of them)", r.overcommit(a, a.settled()).Value, a.settled())
	var text string
	switch {
	case throughput.found():
		text = fmt.Sprintf("Idle neighbours cost %s no throughput up to %s; from there on %s", name, r.upTo(a, throughput), fall(throughput))
		if tail.found() {
			text += fmt.Sprintf(" and the p99 %s", rise(tail))
			if tail.Before != throughput.Before {
				text += fmt.Sprintf(", from %s on", r.upTo(a, tail))
			}
		}
	case tail.found():
		text = fmt.Sprintf("Idle neighbours cost %s no throughput that could be told up to %s, but from %s on the p99 %s", name, reach, r.upTo(a, tail), rise(tail))
	case len(a.numbers) < 2:
		text = fmt.Sprintf("What %s loses to idle neighbours takes two numbers of them to tell, and there is one, %s: policies alone are compared", name, reach)
	case len(a.sweeps) < fewestForInterval:
		text = fmt.Sprintf("What idle neighbours cost %s up to %s cannot be told yet: an interval takes three sweeps, and there %s", name, reach, isAre(len(a.sweeps)))
		if rate, tail := r.throughputRatio(a, a.settled()).Value, r.quantileRatio(a, a.settled(), open, 0.99).Value; rate == rate && tail == tail && a.settled() != a.first() {
			text = fmt.Sprintf("In %s %s had %.2f times the throughput, and %.2g times the p99, with %d idle neighbours (%.1f times the memory) as with %d; an interval takes three sweeps",
				report.Counted(len(a.sweeps), "sweep"), name, rate, tail, a.settled(), r.overcommit(a, a.settled()).Value, a.first())
		}
	case r.worse(a) != "":
		text = fmt.Sprintf("With %s %s has %s; where it begins takes more numbers of neighbours, or more sweeps, to tell", reach, name, r.worse(a))
	default:
		text = fmt.Sprintf("Idle neighbours cost %s nothing that could be told, up to %s", name, reach)
	}
	if all := a.halts(); len(all) > 0 {
		text += fmt.Sprintf("; %d of %d sweeps ended early", len(all), len(a.sweeps))
		if _, _, ok := span(all); ok {
			text += fmt.Sprintf(", at %s times", haltCell(a).Text)
		}
	}
	return text + "."
}

// worse says what is told to be worse at the greatest number that every sweep went
// through than at the least; empty where nothing is.
func (r reading) worse(a arm) string {
	var told []string
	if e := r.throughputRatio(a, a.settled()); e.Known() && e.Interval.High < 1-r.Report.SmallestEffect {
		told = append(told, report.Said(e, 1)+" times the throughput")
	}
	if e := r.quantileRatio(a, a.settled(), open, 0.99); e.Known() && e.Interval.Low > 1+r.Report.SmallestEffect {
		told = append(told, report.Said(e, 1)+" times the p99")
	}
	if len(told) == 0 {
		return ""
	}
	return strings.Join(told, " and ") + fmt.Sprintf(" that it has with %d", a.first())
}

func isAre(n int) string {
	if n == 1 {
		return "is 1"
	}
	return fmt.Sprintf("are %d", n)
}

// upTo is the last place that is as before, and its number.
func (r reading) upTo(a arm, c cliff) string {
	return fmt.Sprintf("%.1f times the memory (%g of them)", r.overcommitAt(a, c.Before), c.Before)
}

// fall and rise say what happens past a cliff.
func fall(c cliff) string {
	times := c.Times.Value
	switch {
	case c.Shape == stats.RampChange:
		return fmt.Sprintf("throughput falls steadily, to %.2g %% of what it was at the end", 100*times)
	case times < 0.1:
		return fmt.Sprintf("throughput falls to %.2g %% of what it was", 100*times)
	case times > 0.45 && times < 0.55:
		return "throughput halves"
	}
	return fmt.Sprintf("%.0f %% of throughput is lost", 100*(1-times))
}

func rise(c cliff) string {
	if c.Shape == stats.RampChange {
		return fmt.Sprintf("rises to %.2g times as long at the end", c.Times.Value)
	}
	return fmt.Sprintf("takes %.2g times as long", c.Times.Value)
}

// deviceSaid says whether another swap device changes it, where both reached.
func (r reading) deviceSaid(d compared) string {
	both := shared(d.base, d.other)
	name := d.other.factor(FactorSwap)
	if len(both) == 0 {
		return fmt.Sprintf("Whether %s is better cannot be told.", name)
	}
	n := both[len(both)-1]
	rate, tail := r.throughputAgainst(d.base, d.other, n), r.quantileAgainst(d.base, d.other, n, open, 0.99)
	at := fmt.Sprintf("with %.1f times the memory asked for", r.overcommit(d.base, n).Value)
	switch {
	case tail.ToldFrom(1):
		return fmt.Sprintf("On %s the p99 is %s times that on %s %s.", name, report.Said(tail, 1), d.base.factor(FactorSwap), at)
	case rate.ToldFrom(1):
		return fmt.Sprintf("On %s throughput is %s times that on %s %s.", name, report.Said(rate, 1), d.base.factor(FactorSwap), at)
	}
	return fmt.Sprintf("That %s differs from %s could not be told %s.", name, d.base.factor(FactorSwap), at)
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
	case !slices.ContainsFunc(r.arms, func(b arm) bool { return !slices.Contains([]string{"", "none"}, b.factor(FactorProtect)) }):
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
		boxes, orders, policies = append(boxes, a.factor(FactorBox)), append(orders, a.order), append(policies, a.policy)
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
			more = append(more, "order: neighbours were added one after another, so that what drifts with time looks as they do; --order interleaved tells the two apart")
		}
		more = append(more, a.untold()...)
		if n := a.repeated(); n > 0 {
			more = append(more, fmt.Sprintf("disturbed: in %s the loads of a step were made again %s, for something foreign to them: what came before is not kept", r.name(a), timesText(n)))
		}
		if n, steps := a.overHalf(); n > 0 {
			more = append(more, fmt.Sprintf("swap of %s was more than half full at the end of %d of %s: above half (of all the host's swap) the kernel gives up the place there of each page that is used again, so that all that leaves is written: give a larger --swap-size", r.name(a), n, report.Counted(steps, "step")))
		}
		for _, note := range a.notes() {
			more = append(more, fmt.Sprintf("box of %s: %s", r.name(a), note))
		}
	}
	for _, a := range r.arms {
		if n := len(slices.DeleteFunc(slices.Clone(a.sweeps), func(s sweep) bool { return !s.tainted })); n > 0 {
			more = append(more, fmt.Sprintf("%s: its figures rest on %s, %d of which tainted: none was undisturbed", r.name(a), report.Counted(len(a.sweeps), "sweep"), n))
		}
	}
	return report.RunBanners(r.Reading, more...)
}

// notes are what is to be known of an arm's box, each with the steps that it is of. Those
// that differ in amounts alone are one, and its amounts are those of the first.
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
	var told []string
	for _, n := range all {
		with := ""
		if n.alike {
			with = ", with these figures or others"
		}
		told = append(told, fmt.Sprintf("%s (%d of %s%s)", n.text, n.steps, report.Counted(steps, "step"), with))
	}
	return told
}

// amounts are what notes that are alike may differ in: numbers with a unit, durations, and how many
// containers it is of and which is the first. Other numbers name things, such as a rule.
var amounts = regexp.MustCompile(`\(containers: [^)]*\)|[0-9]+(\.[0-9]+)?( of [0-9]+(\.[0-9]+)?)? (%|[KMGT]iB\b|[mu]?s\b)|\b([0-9]+(\.[0-9]+)?(h|ms|m|us|µs|ns|s))+\b`)

// overHalf is at the end of how many steps swap was more than half full.
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

// untold are the figures that the kernel did not tell, by the reason.
func (a arm) untold() []string {
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
		all = append(all, fmt.Sprintf("not told: %s: %s", strings.Join(names, ", "), why))
	}
	return all
}
