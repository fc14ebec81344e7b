package pages

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/claim"
	"tare/record"
	"tare/stats"
)

// Judge reaches verdicts on S1.5 to S1.12 from a run, as far as it holds what
// decides them. The rules and thresholds are the claims' own (package claim).
func Judge(run record.Run) []claim.Judgement {
	r := read(run)
	of, aslr := r.judged()
	// Of fewer there is no mean over applications to speak of, and with one copy
	// nothing to be shared.
	const fewest = 3
	if len(of) < fewest || copiesOf(of[0].Condition) < 2 {
		return nil
	}
	c := verdicts{reading: r, of: of, aslr: aslr}
	var all []claim.Judgement
	for _, judge := range []func() (claim.Judgement, bool){
		c.start, c.steady, c.active, c.huge, c.duplicated, c.perInstruction, c.types, c.copying,
	} {
		if j, ok := judge(); ok {
			all = append(all, j)
		}
	}
	return all
}

func copiesOf(c record.Condition) int {
	n, err := strconv.Atoi(c.Factors[factorCopies])
	if err != nil {
		return 0
	}
	return n
}

// verdicts reads a run with the applications that are judged.
type verdicts struct {
	reading
	of   []subject
	aslr string
}

// together widens the intervals so that n of them hold together.
func (c verdicts) together(n int) verdicts {
	c.Reading = c.Reading.Together(n)
	return c
}

// published are S1's numbers of copies, and of the span of its recordings.
const (
	s1Copies = 4
	s1Data   = 500 // MB, of each application
	s1Window = 10 * time.Second
	s1Steady = 2 * time.Minute
)

// over adds what a verdict rests on: its applications, and where the measurement differs
// from S1's. A verdict on fewer applications than S1 has of the kind cannot confirm or
// refute a claim about all of them. One of another kind of measurement is qualified at best.
func (c verdicts) over(
	j claim.Judgement, of []subject, blocks int, kind func(application) bool, watched ...func(subject) string,
) claim.Judgement {
	var stand, apart []string
	standIns, least := 0, math.Inf(1) // MiB of data
	for _, f := range of {
		if f.standIn != "" {
			stand = append(stand, f.standIn)
			standIns++
		}
		if data, err := strconv.ParseFloat(f.Params["data"], 64); err == nil {
			least = min(least, data)
		}
		if set := f.set(); set != "" {
			stand = append(stand, set)
		}
		for _, differs := range watched {
			if text := differs(f); text != "" && !slices.Contains(apart, text) {
				apart = append(apart, text)
			}
		}
	}
	all := 0
	for _, a := range applications {
		if kind(a) {
			all++
		}
	}
	if n := copiesOf(of[0].Condition); n != s1Copies {
		apart = append(apart, fmt.Sprintf("%d copies, where S1 had %d", n, s1Copies))
	}
	if standIns > 0 {
		apart = append(apart, fmt.Sprintf("%d programs stand in for S1's", standIns))
	}
	if least < s1Data {
		apart = append(apart, fmt.Sprintf("data sets of %g MiB and more, where S1's had %d", least, s1Data))
	}
	text := fmt.Sprintf("%d of S1's %d applications, %d copies each, address randomisation %s, %d blocks",
		len(of), all, copiesOf(of[0].Condition), c.aslr, blocks)
	switch word := of[0].Factors[factorHuge]; {
	case word == "":
	case j.Claim == "S1.8":
		text += "; huge pages set to " + word + " for the trials"
	default:
		apart = append(apart, "huge pages set to "+word+" for the trials")
	}
	if len(stand) > 0 {
		text += "; " + strings.Join(stand, ", ")
	}
	if len(apart) > 0 {
		text += "; " + strings.Join(apart, "; ")
	}
	j.Rests = text + j.Rests
	switch {
	case len(of) < all && (j.Verdict == claim.Confirmed || j.Verdict == claim.Refuted || j.Verdict == claim.Qualified):
		j.Rests += fmt.Sprintf("; %s for these applications only", j.Verdict)
		j.Verdict = claim.Inconclusive
	case len(apart) > 0 && j.Verdict == claim.Confirmed:
		j.Verdict = claim.Qualified
	}
	return j
}

func ofAll(application) bool       { return true }
func isService(a application) bool { return a.service }

// sooner is how much earlier than S1's the steady state was measured; empty where it was not.
func sooner(f subject) string {
	d, err := time.ParseDuration(f.Factors[factorSteady])
	if err != nil || d >= s1Steady {
		return ""
	}
	return fmt.Sprintf("steady state after %v of work, where S1 waited two minutes", d)
}

// otherWindow is how long services' faults were recorded; empty where it was as long as S1's.
func otherWindow(f subject) string {
	d, err := time.ParseDuration(f.Factors[factorWindow])
	if err != nil || !f.service || d == s1Window {
		return ""
	}
	return fmt.Sprintf("services' faults of %v, where S1 recorded 10 seconds", d)
}

// generations names a kernel that has generations instead of two lists; empty where it has lists.
func (c verdicts) generations(subject) string {
	if !generations(c.Run.Host) {
		return ""
	}
	return "this kernel sorts pages into generations, not onto an active and an inactive list"
}

// tooFew is the verdict where there are too few blocks.
func tooFew(j claim.Judgement, e stats.Estimate) (claim.Judgement, bool) {
	j.Verdict = claim.Inconclusive
	j.Rests = claim.TooFew(e.N)
	return j, true
}

// value of one of the applications; absent where it is not among them.
func (c verdicts) value(published, metric string) stats.Estimate {
	for _, f := range c.of {
		if f.published == published {
			return settled(c.Value(f.Condition, metric))
		}
	}
	return stats.Estimate{Value: math.NaN(), Interval: stats.Interval{Low: math.NaN(), High: math.NaN()}}
}

// extreme reports whether an application has the largest value of a metric, or the
// smallest where sign is -1. It is yes where the interval lies beyond all others', and
// no where another interval lies wholly beyond it.
func (c verdicts) extreme(published, metric string, sign float64) (yes, no bool) {
	own := c.value(published, metric)
	if !own.Known() {
		return false, false
	}
	yes = true
	for _, f := range c.of {
		other := settled(c.Value(f.Condition, metric))
		if f.published == published || other.Value != other.Value {
			continue
		}
		if !other.Known() {
			yes = false
			continue
		}
		if sign > 0 {
			yes = yes && own.Interval.Low > other.Interval.High
			no = no || other.Interval.Low > own.Interval.High
		} else {
			yes = yes && own.Interval.High < other.Interval.Low
			no = no || other.Interval.High < own.Interval.Low
		}
	}
	return yes, no
}

// start judges S1.5: about half of all entries are groupable just after the start.
func (c verdicts) start() (claim.Judgement, bool) {
	const id = "S1.5"
	c = c.together(2 + len(c.of)) // the means, and one application against all others
	j := claim.Judgement{Claim: id}
	name := atMoment(start, asS1)
	over, of := c.mean(c.of, c.metric(name))
	if len(of) == 0 {
		return j, false
	}
	if !over.Known() {
		return tooFew(j, over)
	}
	between, _ := c.mean(c.of, c.metric(atMoment(start, across)))
	most, notMost := c.extreme("httpd", name, 1)
	least, notLeast := c.extreme("FIO", name, -1)
	j.Figures = claim.Measured(
		claim.Ours("groupable, mean", over, 1, "%"), claim.Ours("groupable over containers, mean", between, 1, "%"),
		claim.Ours("groupable, httpd", c.value("httpd", name), 1, "%"), claim.Ours("groupable, FIO", c.value("FIO", name), 1, "%"))
	j.Ours = fmt.Sprintf("groupable: mean %s %% between processes, %s %% between containers; httpd %s %%, FIO %s %%",
		said(over), said(between), said(c.value("httpd", name)), said(c.value("FIO", name)))
	half := claim.Threshold(id, "groupable")
	switch {
	case over.Interval.High < half:
		j.Verdict = claim.Refuted
	case over.Interval.Low > half && (notMost || notLeast):
		j.Verdict = claim.Qualified
		if notMost {
			j.Rests += "; httpd does not have the largest share"
		}
		if notLeast {
			j.Rests += "; FIO does not have the smallest share"
		}
	case over.Interval.Low > half && most && least:
		j.Verdict = claim.Confirmed
		if between.Interval.Low <= half {
			j.Verdict = claim.Qualified
			j.Rests += "; it does not hold between containers"
		}
	default:
		j.Verdict = claim.Inconclusive
	}
	return c.over(j, of, over.N, ofAll), true
}

// steady is S1.6: services have more groupable entries after two minutes.
func (c verdicts) steady() (claim.Judgement, bool) {
	const id = "S1.6"
	c = c.together(2)
	j := claim.Judgement{Claim: id}
	grown, of := c.mean(services(c.of), c.growth(asS1))
	if len(of) == 0 {
		return j, false
	}
	if !grown.Known() {
		return tooFew(j, grown)
	}
	name, alone := atMoment(steady, asS1), atMoment(steady, exclusive)
	then, _ := c.mean(of, c.metric(name))
	own := c.value("Graphchi", alone)
	j.Figures = claim.Measured(claim.Ours("groupable, mean", then, 1, "%"), claim.Ours("growth", grown, 1, "points"),
		claim.Ours("exclusive, MongoDB", c.value("MongoDB", alone), 1, "%"),
		claim.Ours("groupable, FIO", c.value("FIO", name), 1, "%"), claim.Ours("exclusive, Graphchi", own, 1, "%"))
	j.Ours = fmt.Sprintf("groupable: mean %s %%, %s points more than at the start; exclusive: MongoDB's stand-in %s %%, Graphchi's stand-in %s %%",
		said(then), said(grown), said(c.value("MongoDB", alone)), said(own))
	none, half := claim.Threshold(id, "no change"), claim.Threshold(id, "exclusive, Graphchi")
	switch {
	case grown.Interval.High < none:
		j.Verdict = claim.Refuted
	case grown.Interval.Low > none && own.Known() && own.Interval.Low > half:
		j.Verdict = claim.Confirmed
	case grown.Interval.Low > none && own.Known() && own.Interval.High < half:
		j.Verdict = claim.Qualified
		j.Rests = fmt.Sprintf("; the exclusive share of Graphchi's stand-in is below %g %%", half)
	default:
		j.Verdict = claim.Inconclusive
	}
	return c.over(j, of, grown.N, isService, sooner), true
}

// active is S1.7: most active entries are groupable, and more are active later.
func (c verdicts) active() (claim.Judgement, bool) {
	const id = "S1.7"
	c = c.together(2)
	j := claim.Judgement{Claim: id}
	grown, of := c.mean(services(c.of), c.growth(active))
	if len(of) == 0 {
		return j, false
	}
	if !grown.Known() {
		return tooFew(j, grown)
	}
	// S1's figure at the start has the functions in it, that of the steady state not.
	before, _ := c.mean(c.of, c.metric(atMoment(start, active)))
	after, _ := c.mean(of, c.metric(atMoment(steady, active)))
	both, _ := c.mean(of, c.metric(atMoment(steady, activeGroup)))
	among, _ := c.mean(of, c.metric(atMoment(steady, groupOfActive)))
	j.Figures = claim.Measured(
		claim.Ours("active at start", before, 1, "%"), claim.Ours("active in steady state", after, 1, "%"),
		claim.Ours("active and groupable, of all entries", both, 1, "%"),
		claim.Ours("groupable among active", among, 1, "%"), claim.Ours("growth, services", grown, 1, "points"))
	j.Ours = fmt.Sprintf("active: %s %% at the start (functions included), %s %% in the steady state; services gain %s points; %s %% of active entries are groupable",
		said(before), said(after), said(grown), said(among))
	least := claim.Threshold(id, "groupable among active")
	j.Verdict = claim.Every(claim.Above(grown, 0), claim.Above(among, least)).Verdict()
	return c.over(j, of, grown.N, isService, sooner, c.generations), true
}

// huge is S1.8: huge pages hardly occur, and never where pages are shared.
func (c verdicts) huge() (claim.Judgement, bool) {
	const id = "S1.8"
	c = c.together(len(c.of))
	j := claim.Judgement{Claim: id}
	most := claim.Threshold(id, "huge among active")
	worst := stats.Estimate{Value: math.Inf(-1)}
	var in string
	var of []subject
	blocks := 0
	above, unsure := false, false
	var shared []string
	for _, f := range c.of {
		at := start
		if f.service && c.has(f.Condition, atMoment(steady, hugeOfActive)) {
			at = steady
		}
		e := settled(c.Value(f.Condition, atMoment(at, hugeOfActive)))
		if e.Value != e.Value {
			continue
		}
		of, blocks = append(of, f), max(blocks, e.N)
		j.Figures = append(j.Figures, claim.Measured(claim.Ours("huge among active, "+f.published, e, 1, "%"))...)
		if e.Value > worst.Value {
			worst, in = e, f.published
		}
		above = above || e.Known() && e.Interval.Low > most
		unsure = unsure || !e.Known() || e.Interval.High > most
		if c.Value(f.Condition, atMoment(at, hugeOfGroup)).Value > 0 {
			shared = append(shared, f.published)
		}
	}
	if len(of) == 0 {
		return j, false
	}
	j.Ours = fmt.Sprintf("at most %s %% of active entries are huge (%s)", said(worst), in)
	if len(shared) > 0 {
		j.Ours += "; groupable huge pages in " + strings.Join(shared, ", ")
	}
	setting := c.hugeSetting()
	j.Rests = "; huge pages are set to " + setting
	var why string
	j.Verdict, why = claim.Decide(
		claim.When(claim.Is(above || len(shared) > 0), claim.Refuted, ""),
		claim.When(claim.Is(setting != "always"), claim.Inconclusive,
			"; only memory that asks for them can be huge, so that their absence shows nothing: run "+
				"tare pages --huge-pages always --disruptive"),
		claim.When(claim.Is(!unsure), claim.Confirmed, ""))
	j.Rests += why
	return c.over(j, of, blocks, ofAll), true
}

// hugeSetting is the kernel's setting of transparent huge pages while trials were made.
func (r reading) hugeSetting() string {
	for _, c := range r.Run.Conditions {
		if word := c.Factors[factorHuge]; word != "" {
			return word
		}
	}
	return cmp.Or(r.Run.Host.THP, "an unknown value")
}

// duplicated is S1.9: many faults are taken by several containers.
func (c verdicts) duplicated() (claim.Judgement, bool) {
	const id = "S1.9"
	c = c.together(1 + len(c.of))
	j := claim.Judgement{Claim: id}
	share, of := c.mean(c.of, c.metric(duplicated))
	if len(of) == 0 {
		return j, false
	}
	if !share.Known() {
		return tooFew(j, share)
	}
	// Every sequential one's interval against every random one's.
	apart, reversed := true, true
	var low, high []string
	for _, f := range of {
		e := settled(c.Value(f.Condition, duplicated))
		j.Figures = append(j.Figures, claim.Measured(claim.Ours("duplicated, "+f.published, e, 1, "%"))...)
		text := fmt.Sprintf("%s %.1f", f.published, e.Value)
		if !f.sequential {
			low = append(low, text)
			continue
		}
		high = append(high, text)
		for _, other := range of {
			if other.sequential {
				continue
			}
			o := settled(c.Value(other.Condition, duplicated))
			apart = apart && e.Interval.Low > o.Interval.High
			reversed = reversed && e.Interval.High < o.Interval.Low
		}
	}
	j.Figures = append(claim.Measured(claim.Ours("duplicated, mean", share, 1, "%")), j.Figures...)
	j.Ours = fmt.Sprintf("duplicated: mean %s %%; sequential access: %s; random access: %s",
		said(share), strings.Join(high, ", "), strings.Join(low, ", "))
	least := claim.Threshold(id, "duplicated, mean")
	switch {
	case len(low) == 0 || len(high) == 0:
		j.Verdict = claim.Inconclusive
		j.Rests = "; applications of one kind of access are missing"
	case reversed || share.Interval.High < least:
		j.Verdict = claim.Refuted
	case apart && share.Interval.Low > least:
		j.Verdict = claim.Confirmed
	default:
		j.Verdict = claim.Inconclusive
	}
	return c.over(j, of, share.N, ofAll, otherWindow), true
}

// perInstruction is S1.10: about fifteen faults in a million instructions.
func (c verdicts) perInstruction() (claim.Judgement, bool) {
	const id = "S1.10"
	c = c.together(1 + len(c.of))
	j := claim.Judgement{Claim: id, Verdict: claim.Inconclusive}
	if _, of := c.mean(c.of, c.metric(duplicated)); len(of) == 0 {
		return j, false
	}
	rate, of := c.mean(c.of, c.metric(perMillion))
	var rates []string
	for _, f := range of {
		e := c.Value(f.Condition, perMillion)
		j.Figures = append(j.Figures, claim.Measured(claim.Ours(f.published, e, 1, "faults per 10^6 instructions"))...)
		rates = append(rates, f.published+" "+said(e))
	}
	if len(rates) > 0 {
		j.Ours = strings.Join(rates, "; ") + " faults per 10^6 instructions"
	}
	if len(services(of)) == 0 {
		j.Rests = "instructions of services were not counted"
		if len(of) > 0 {
			j.Rests += "; those of functions were counted by simulating the processor"
		}
		return j, true
	}
	if !rate.Known() {
		return tooFew(j, rate)
	}
	published, err := claim.Lookup(id)
	if err != nil {
		panic(err) // the registry is part of the program
	}
	theirs, ok := published.Figure("mean")
	if !ok {
		panic("claim " + id + " publishes no mean")
	}
	factor := claim.Threshold(id, "factor")
	most, notMost := c.extreme("httpd", perMillion, 1)
	j.Figures = append(claim.Measured(claim.Ours("mean", rate, 1, "faults per 10^6 instructions")), j.Figures...)
	j.Ours = fmt.Sprintf("mean %s; ", said(rate)) + j.Ours
	within := rate.Interval.Low > theirs.Value/factor && rate.Interval.High < theirs.Value*factor
	outside := rate.Interval.High < theirs.Value/factor || rate.Interval.Low > theirs.Value*factor
	switch {
	case within && most:
		j.Verdict = claim.Confirmed
	case outside || notMost:
		j.Verdict = claim.Refuted
	}
	return c.over(j, of, rate.N, ofAll, otherWindow), true
}

// types is S1.11: the table of types.
func (c verdicts) types() (claim.Judgement, bool) {
	const id = "S1.11"
	c = c.together(len(types)) // the means
	j := claim.Judgement{Claim: id}
	published, err := claim.Lookup(id)
	if err != nil {
		panic(err) // the registry is part of the program
	}
	theirs := func(application, kind string) float64 {
		f, ok := published.Figure(application + ", " + kind)
		if !ok {
			panic("claim " + id + " publishes no " + application + ", " + kind)
		}
		return f.Value
	}
	distance := claim.Threshold(id, "distance")
	agree, blocks := 0, 0
	var of []subject
	var other, open []string
	for _, f := range c.of {
		top := types[0]
		for _, t := range types {
			if theirs(f.published, t.String()) > theirs(f.published, top.String()) {
				top = t
			}
		}
		most := settled(c.Value(f.Condition, typeMetric(top)))
		if !most.Known() {
			continue
		}
		of, blocks = append(of, f), max(blocks, most.N)
		is, here := claim.True, top
		for _, t := range types {
			if theirs(f.published, top.String())-theirs(f.published, t.String()) < distance {
				continue // as frequent there
			}
			more := claim.More(most, settled(c.Value(f.Condition, typeMetric(t))))
			if is = claim.Every(is, more); more == claim.False {
				here = t
			}
		}
		switch is {
		case claim.True:
			agree++
		case claim.False:
			other = append(other, fmt.Sprintf("%s (%s; in S1 %s)", f.published, here, top))
		default:
			open = append(open, f.published)
		}
	}
	if len(of) == 0 {
		return j, false
	}
	near := claim.True
	var means []string
	for _, t := range types {
		e, _ := c.mean(of, c.metric(typeMetric(t)))
		if !e.Known() {
			return tooFew(j, e)
		}
		j.Figures = append(j.Figures, claim.Measured(claim.Ours("mean, "+t.String(), e, 1, "%"))...)
		means = append(means, fmt.Sprintf("%s %.1f", t, e.Value))
		near = claim.Every(near, claim.Inside(e, theirs("mean", t.String())-distance, theirs("mean", t.String())+distance))
	}
	j.Ours = "mean, %: " + strings.Join(means, ", ")
	j.Rests = fmt.Sprintf("; %d of %d have the same most frequent type as in S1", agree, len(of))
	if len(other) > 0 {
		j.Rests += ", not " + strings.Join(other, ", ")
	}
	if len(open) > 0 {
		j.Rests += "; two types are too near each other in " + strings.Join(open, ", ")
	}
	alike := claim.Is(agree == len(of))
	j.Verdict, _ = claim.Decide(
		claim.When(claim.Is(2*len(other) > len(of)), claim.Refuted, ""),
		claim.When(claim.Every(alike, near), claim.Confirmed, ""),
		claim.When(alike, claim.Qualified, ""))
	return c.over(j, of, blocks, ofAll, otherWindow), true
}

// copying is S1.12: hardly any fault copies a page.
func (c verdicts) copying() (claim.Judgement, bool) {
	const id = "S1.12"
	c = c.together(2)
	j := claim.Judgement{Claim: id}
	alone, of := c.mean(c.of, c.metric(typeMetric(types[1])))
	if len(of) == 0 {
		return j, false
	}
	with, _ := c.mean(of, c.metric(copying))
	if !alone.Known() || !with.Known() {
		return tooFew(j, alone)
	}
	j.Figures = claim.Measured(
		claim.Ours("copy-on-write, mean", alone, 1, "%"), claim.Ours("with write-protect faults that may copy", with, 1, "%"))
	j.Ours = fmt.Sprintf("copy-on-write %s %%; with write-protect faults that may copy %s %%", said(alone), said(with))
	most := claim.Threshold(id, "copying")
	switch {
	case with.Interval.High < most:
		j.Verdict = claim.Confirmed
	case alone.Interval.High < most && with.Interval.Low > most:
		j.Verdict = claim.Qualified
		j.Rests = "; not with write-protect faults included"
	case alone.Interval.Low > most:
		j.Verdict = claim.Refuted
	default:
		j.Verdict = claim.Inconclusive
	}
	return c.over(j, of, alone.N, ofAll, otherWindow), true
}
