package pages

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tare/claim"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// Judge reaches verdicts on S1.5 to S1.12 from a run, as far as it holds what
// decides them. The rules and thresholds are the claims' own (package claim).
func Judge(run record.Run) []claim.Judgement {
	r := read(run)
	of, aslr := r.judged()
	// Of fewer there is no mean over applications to speak of.
	const fewest = 3
	if len(of) < fewest {
		return nil
	}
	c := court{reading: r, of: of, aslr: aslr}
	var all []claim.Judgement
	for _, judge := range []func() (claim.Judgement, bool){c.start, c.steady, c.active, c.huge, c.duplicated, c.perInstruction, c.types, c.copying} {
		if j, ok := judge(); ok {
			all = append(all, j)
		}
	}
	return all
}

// court is a run with the applications that are judged.
type court struct {
	reading
	of   []found
	aslr string
}

// rests is the common part of what a verdict rests on.
func (c court) rests(of []found, n int) string {
	var ids, stand []string
	for _, f := range of {
		ids = append(ids, f.published)
		if f.standIn != "" {
			stand = append(stand, f.standIn)
		}
	}
	text := fmt.Sprintf("%d of S1's applications, %s copies each, address randomisation %s, %d blocks", len(ids), of[0].Factors[factorCopies], c.aslr, n)
	if len(stand) > 0 {
		text += "; " + strings.Join(stand, ", ")
	}
	return text
}

// too says that there are too few blocks.
func tooFew(j claim.Judgement, e stats.Estimate) (claim.Judgement, bool) {
	j.Verdict = claim.Inconclusive
	j.Rests = fmt.Sprintf("%d blocks are too few for an interval", e.N)
	return j, true
}

// value of one of the applications; absent where it is not among them.
func (c court) value(published, metric string) stats.Estimate {
	for _, f := range c.of {
		if f.published == published {
			return settled(c.Value(f.Condition, metric))
		}
	}
	return stats.Estimate{Value: math.NaN(), Interval: stats.Interval{Low: math.NaN(), High: math.NaN()}}
}

// extremes gives the names with the largest and the smallest value.
func (c court) extremes(metric string) (largest, smallest string) {
	high, low := math.Inf(-1), math.Inf(1)
	for _, f := range c.of {
		v := c.Value(f.Condition, metric).Value
		if v > high {
			high, largest = v, f.published
		}
		if v < low {
			low, smallest = v, f.published
		}
	}
	return largest, smallest
}

// start is S1.5: about half of all entries are groupable just after the start.
func (c court) start() (claim.Judgement, bool) {
	const id = "S1.5"
	j := claim.Judgement{Claim: id}
	name := string(start) + "-" + groupable
	over, n := c.mean(c.of, c.metric(name))
	if n == 0 {
		return j, false
	}
	if !over.Known() {
		return tooFew(j, over)
	}
	between, _ := c.mean(c.of, c.metric(string(start)+"-"+across))
	largest, smallest := c.extremes(name)
	j.Figures = claim.Measured(claim.Ours("groupable, mean", over, 1, "%"), claim.Ours("groupable over containers, mean", between, 1, "%"),
		claim.Ours("groupable, httpd", c.value("httpd", name), 1, "%"), claim.Ours("groupable, FIO", c.value("FIO", name), 1, "%"))
	j.Ours = fmt.Sprintf("mean %s %% over processes, %s %% over containers; most %s, least %s", report.Said(over, 1), report.Said(between, 1), largest, smallest)
	j.Rests = c.rests(c.of, over.N)
	least := claim.Threshold(id, "groupable")
	switch {
	case over.Interval.High < least:
		j.Verdict = claim.Refuted
	case over.Interval.Low > least && largest == "httpd" && smallest == "FIO":
		j.Verdict = claim.Confirmed
		if between.Interval.Low <= least {
			j.Verdict = claim.Qualified
			j.Rests += "; it does not hold over containers"
		}
	case over.Interval.Low > least:
		j.Verdict = claim.Qualified
		j.Rests += fmt.Sprintf("; the mean is as claimed, but %s has the largest share and %s the smallest", largest, smallest)
	default:
		j.Verdict = claim.Inconclusive
	}
	return j, true
}

// twoMinutes is when S1 took services to be in their steady state.
const twoMinutes = 2 * time.Minute

// sooner qualifies a verdict on a steady state that was looked at earlier than
// S1 did.
func sooner(j claim.Judgement, of []found) claim.Judgement {
	d, err := time.ParseDuration(of[0].Factors[factorSteady])
	if err != nil || d >= twoMinutes {
		return j
	}
	j.Rests += fmt.Sprintf("; after %v of work, where S1 waited two minutes", d)
	if j.Verdict == claim.Confirmed {
		j.Verdict = claim.Qualified
	}
	return j
}

// steady is S1.6: services have more groupable entries after two minutes.
func (c court) steady() (claim.Judgement, bool) {
	const id = "S1.6"
	j := claim.Judgement{Claim: id}
	of := services(c.of)
	grown, n := c.mean(of, c.growth(groupable))
	if n == 0 {
		return j, false
	}
	if !grown.Known() {
		return tooFew(j, grown)
	}
	name := string(steady) + "-" + groupable
	then, _ := c.mean(of, c.metric(name))
	own := c.value("Graphchi", string(steady)+"-"+exclusive)
	j.Figures = claim.Measured(claim.Ours("groupable, mean", then, 1, "%"), claim.Ours("growth", grown, 1, "points"),
		claim.Ours("exclusive, MongoDB", c.value("MongoDB", string(steady)+"-"+exclusive), 1, "%"),
		claim.Ours("groupable, FIO", c.value("FIO", name), 1, "%"), claim.Ours("exclusive, Graphchi", own, 1, "%"))
	j.Ours = fmt.Sprintf("mean %s %%, %s points more than at the start; exclusive: MongoDB's stand-in %s %%, Graphchi's %s %%",
		report.Said(then, 1), report.Said(grown, 1), report.Said(c.value("MongoDB", string(steady)+"-"+exclusive), 1), report.Said(own, 1))
	j.Rests = c.rests(of, grown.N)
	none, half := claim.Threshold(id, "no change"), claim.Threshold(id, "exclusive, Graphchi")
	switch {
	case grown.Interval.High < none:
		j.Verdict = claim.Refuted
	case grown.Interval.Low > none && own.Interval.Low > half:
		j.Verdict = claim.Confirmed
	case grown.Interval.Low > none && own.Value == own.Value:
		j.Verdict = claim.Qualified
		j.Rests += "; Graphchi's stand-in keeps less to itself"
	default:
		j.Verdict = claim.Inconclusive
	}
	return sooner(j, of), true
}

// active is S1.7: most active entries are groupable, and more are active later.
func (c court) active() (claim.Judgement, bool) {
	const id = "S1.7"
	j := claim.Judgement{Claim: id}
	of := services(c.of)
	grown, n := c.mean(of, c.growth(active))
	if n == 0 {
		return j, false
	}
	if !grown.Known() {
		return tooFew(j, grown)
	}
	before, _ := c.mean(of, c.metric(string(start)+"-"+active))
	after, _ := c.mean(of, c.metric(string(steady)+"-"+active))
	both, _ := c.mean(of, c.metric(string(steady)+"-"+activeGroup))
	among, _ := c.mean(of, c.metric(string(steady)+"-"+groupOfActive))
	j.Figures = claim.Measured(claim.Ours("active at start", before, 1, "%"), claim.Ours("active in steady state", after, 1, "%"),
		claim.Ours("active and groupable, of all entries", both, 1, "%"), claim.Ours("groupable among active", among, 1, "%"))
	j.Ours = fmt.Sprintf("active %s %% at the start, %s %% in the steady state; %s %% of active entries are groupable", report.Said(before, 1), report.Said(after, 1), report.Said(among, 1))
	j.Rests = c.rests(of, grown.N)
	most := claim.Threshold(id, "groupable among active")
	switch {
	case grown.Interval.High < 0 || among.Known() && among.Interval.High < most:
		j.Verdict = claim.Refuted
	case grown.Interval.Low > 0 && among.Known() && among.Interval.Low > most:
		j.Verdict = claim.Confirmed
	default:
		j.Verdict = claim.Inconclusive
	}
	return sooner(j, of), true
}

// huge is S1.8: huge pages hardly occur, and never where pages are shared.
func (c court) huge() (claim.Judgement, bool) {
	const id = "S1.8"
	j := claim.Judgement{Claim: id, Verdict: claim.Confirmed}
	most := claim.Threshold(id, "huge among active")
	worst := stats.Estimate{Value: math.Inf(-1)}
	var of string
	n := 0
	for _, f := range c.of {
		at := start
		if len(services([]found{f})) > 0 {
			at = steady
		}
		e := settled(c.Value(f.Condition, string(at)+"-"+hugeOfActive))
		if e.Value != e.Value {
			continue
		}
		n = max(n, e.N)
		j.Figures = append(j.Figures, claim.Measured(claim.Ours("huge among active, "+f.published, e, 1, "%"))...)
		if e.Value > worst.Value {
			worst, of = e, f.published
		}
		shared := c.Value(f.Condition, string(at)+"-"+hugeOfGroup)
		switch {
		case e.Known() && e.Interval.Low > most:
			j.Verdict = claim.Refuted
		case j.Verdict == claim.Confirmed && (!e.Known() || e.Interval.High > most):
			j.Verdict = claim.Inconclusive
		case shared.Value > 0 && j.Verdict != claim.Refuted:
			j.Verdict = claim.Refuted
			j.Rests = f.published + " has groupable huge pages; "
		}
	}
	if of == "" {
		return j, false
	}
	j.Ours = fmt.Sprintf("most: %s %% of active entries, in %s", report.Said(worst, 1), of)
	j.Rests += c.rests(c.of, n) + "; huge pages are set to " + hugeSetting(c.Run.Host) + " here"
	return j, true
}

// hugeSetting is the kernel's setting of transparent huge pages.
func hugeSetting(h record.Host) string {
	if h.THP == "" {
		return "an unknown value"
	}
	return h.THP
}

// duplicated is S1.9: many faults are taken by several containers.
func (c court) duplicated() (claim.Judgement, bool) {
	const id = "S1.9"
	j := claim.Judgement{Claim: id}
	share, n := c.mean(c.of, c.metric(duplicated))
	if n == 0 {
		return j, false
	}
	if !share.Known() {
		return tooFew(j, share)
	}
	// Every sequential one's interval against every random one's.
	apart, reversed := true, true
	var low, high []string
	for _, f := range c.of {
		e := settled(c.Value(f.Condition, duplicated))
		if e.Value != e.Value {
			continue
		}
		j.Figures = append(j.Figures, claim.Measured(claim.Ours("duplicated, "+f.published, e, 1, "%"))...)
		text := fmt.Sprintf("%s %.1f", f.published, e.Value)
		if !f.sequential {
			low = append(low, text)
			continue
		}
		high = append(high, text)
		for _, other := range c.of {
			o := settled(c.Value(other.Condition, duplicated))
			if other.sequential || o.Value != o.Value {
				continue
			}
			apart = apart && e.Interval.Low > o.Interval.High
			reversed = reversed && e.Interval.High < o.Interval.Low
		}
	}
	j.Figures = append(claim.Measured(claim.Ours("duplicated, mean", share, 1, "%")), j.Figures...)
	j.Ours = fmt.Sprintf("mean %s %%; in order: %s; at random: %s", report.Said(share, 1), strings.Join(high, ", "), strings.Join(low, ", "))
	j.Rests = c.rests(c.of, share.N)
	least := claim.Threshold(id, "duplicated, mean")
	switch {
	case len(low) == 0 || len(high) == 0:
		j.Verdict = claim.Inconclusive
		j.Rests += "; there are not both kinds among them"
	case reversed || share.Interval.High < least:
		j.Verdict = claim.Refuted
	case apart && share.Interval.Low > least:
		j.Verdict = claim.Confirmed
	default:
		j.Verdict = claim.Inconclusive
	}
	return j, true
}

// perInstruction is S1.10: about fifteen faults in a million instructions.
func (c court) perInstruction() (claim.Judgement, bool) {
	const id = "S1.10"
	j := claim.Judgement{Claim: id, Verdict: claim.Inconclusive}
	if _, n := c.mean(c.of, c.metric(duplicated)); n == 0 {
		return j, false
	}
	rate, n := c.mean(c.of, c.metric(perMillion))
	if n < len(c.of) {
		j.Rests = "this host counts no instructions of services"
		var told []string
		for _, f := range c.of {
			e := c.Value(f.Condition, perMillion)
			if e.Value != e.Value {
				continue
			}
			j.Figures = append(j.Figures, claim.Measured(claim.Ours(f.published, e, 1, "faults per 10^6 instructions"))...)
			told = append(told, f.published+" "+report.Said(e, 1))
		}
		if len(told) > 0 {
			j.Ours = strings.Join(told, "; ") + " faults per 10^6 instructions"
			j.Rests += "; those of functions were counted by simulating the processor"
		}
		return j, true
	}
	if !rate.Known() {
		return tooFew(j, rate)
	}
	published, err := claim.Lookup(id)
	if err != nil {
		panic(err)
	}
	theirs, ok := published.Figure("mean")
	if !ok {
		panic("claim " + id + " publishes no mean")
	}
	factor := claim.Threshold(id, "factor")
	most, _ := c.extremes(perMillion)
	j.Figures = claim.Measured(claim.Ours("mean", rate, 1, "faults per 10^6 instructions"), claim.Ours("httpd", c.value("httpd", perMillion), 1, "faults per 10^6 instructions"))
	j.Ours = fmt.Sprintf("mean %s faults per 10^6 instructions, most in %s", report.Said(rate, 1), most)
	j.Rests = c.rests(c.of, rate.N)
	within := rate.Interval.Low > theirs.Value/factor && rate.Interval.High < theirs.Value*factor
	outside := rate.Interval.High < theirs.Value/factor || rate.Interval.Low > theirs.Value*factor
	switch {
	case within && most == "httpd":
		j.Verdict = claim.Confirmed
	case outside || most != "httpd":
		j.Verdict = claim.Refuted
	}
	return j, true
}

// types is S1.11: the table of types.
func (c court) types() (claim.Judgement, bool) {
	const id = "S1.11"
	j := claim.Judgement{Claim: id}
	published, err := claim.Lookup(id)
	if err != nil {
		panic(err)
	}
	theirs := func(application, kind string) float64 {
		f, ok := published.Figure(application + ", " + kind)
		if !ok {
			panic("claim " + id + " publishes no " + application + ", " + kind)
		}
		return f.Value
	}
	agree, n, blocks := 0, 0, 0
	var other []string
	for _, f := range c.of {
		top, here := "", ""
		ours, their := math.Inf(-1), math.Inf(-1)
		for _, t := range types {
			name := t.String()
			if e := c.Value(f.Condition, typeMetric(t)); e.Value > ours {
				ours, here = e.Value, name
				blocks = max(blocks, e.N)
			}
			if v := theirs(f.published, name); v > their {
				their, top = v, name
			}
		}
		if here == "" {
			continue
		}
		n++
		if here == top {
			agree++
		} else {
			other = append(other, fmt.Sprintf("%s (%s, there %s)", f.published, here, top))
		}
	}
	if n == 0 {
		return j, false
	}
	near, wide := true, true
	distance := claim.Threshold(id, "distance")
	var told []string
	for _, t := range types {
		name := t.String()
		e, _ := c.mean(c.of, c.metric(typeMetric(t)))
		if !e.Known() {
			wide = false
			continue
		}
		j.Figures = append(j.Figures, claim.Measured(claim.Ours("mean, "+name, e, 1, "%"))...)
		told = append(told, fmt.Sprintf("%s %.1f", name, e.Value))
		near = near && math.Abs(e.Value-theirs("mean", name)) <= distance
	}
	if !wide {
		return tooFew(j, stats.Estimate{N: blocks})
	}
	j.Ours = "mean, %: " + strings.Join(told, ", ")
	j.Rests = c.rests(c.of, blocks) + fmt.Sprintf("; %d of %d have the same most frequent type", agree, n)
	if len(other) > 0 {
		j.Rests += ", not " + strings.Join(other, ", ")
	}
	switch {
	case 2*agree < n:
		j.Verdict = claim.Refuted
	case agree == n && near && !slices.ContainsFunc(c.of, func(f found) bool { return f.standIn != "" }):
		j.Verdict = claim.Confirmed
	case agree == n:
		j.Verdict = claim.Qualified
	default:
		j.Verdict = claim.Inconclusive
	}
	return j, true
}

// copying is S1.12: hardly any fault copies a page.
func (c court) copying() (claim.Judgement, bool) {
	const id = "S1.12"
	j := claim.Judgement{Claim: id}
	alone, n := c.mean(c.of, c.metric(typeMetric(types[1])))
	if n == 0 {
		return j, false
	}
	with, _ := c.mean(c.of, c.metric(copying))
	if !alone.Known() || !with.Known() {
		return tooFew(j, alone)
	}
	j.Figures = claim.Measured(claim.Ours("copy-on-write, mean", alone, 1, "%"), claim.Ours("with write-protect faults that may copy", with, 1, "%"))
	j.Ours = fmt.Sprintf("copy-on-write %s %%, with the write-protect faults that may copy %s %%", report.Said(alone, 1), report.Said(with, 1))
	j.Rests = c.rests(c.of, alone.N)
	most := claim.Threshold(id, "copying")
	switch {
	case with.Interval.High < most:
		j.Verdict = claim.Confirmed
	case alone.Interval.High < most && with.Interval.Low > most:
		j.Verdict = claim.Qualified
		j.Rests += "; not with the write-protect faults"
	case alone.Interval.Low > most:
		j.Verdict = claim.Refuted
	default:
		j.Verdict = claim.Inconclusive
	}
	return j, true
}
