package density

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/claim"
	"tare/report"
	"tare/stats"
)

// judgedExtended is the claim that runs with and without a memory extension decide.
const judgedExtended = "S3.2"

// extension is the evidence on the claim of one arm with the extension and of the arm that differs
// from it in nothing else.
type extension struct {
	without, with arm
	before, after densityOf
	gained        stats.Estimate   // density with it over that without
	price         stats.Estimate   // throughput lost to it at fewest neighbours
	latency       []stats.Estimate // of [judgedLatencies], times that without it, at fewest neighbours
	verdict       claim.Verdict
	why           string
}

// judgeExtended reaches a verdict on S3.2 from the arms of which one has the extension and
// the other nothing at all.
func (r reading) judgeExtended() []claim.Judgement {
	var pairs [][2]arm
	alone := false       // with the extension, and nothing to set it against
	beside := []string{} // protections beside which alone there is something
	for _, with := range r.arms {
		if with.factor(FactorExtend) != ExtendAnnex || !with.measured() {
			continue
		}
		i := slices.IndexFunc(r.arms, func(a arm) bool {
			return a.group == with.group && a.order == with.order && a.measured() && differ(a, with, FactorExtend)
		})
		if i < 0 {
			alone = true
			continue
		}
		if a := r.arms[i]; !plain(a) {
			if p := a.factor(FactorProtect); !slices.Contains(beside, p) {
				beside = append(beside, p)
			}
			continue
		}
		pairs = append(pairs, [2]arm{r.arms[i], with})
	}
	switch {
	case len(pairs) > 0:
	case len(beside) > 0:
		return []claim.Judgement{
			{
				Claim:   judgedExtended,
				Verdict: claim.Inconclusive,
				Rests:   fmt.Sprintf("the extension was measured only beside --protect %s, and the claim compares it with no protection: tare density --extend none,annex", strings.Join(beside, ",")),
			},
		}
	case !alone:
		return nil
	default:
		return []claim.Judgement{{Claim: judgedExtended, Verdict: claim.Inconclusive, Rests: "no condition without the extension was measured: tare density --extend none,annex"}}
	}
	r = r.together((2 + len(judgedLatencies)) * len(pairs)) // the gain and the price of each, and its latencies
	var all []extension
	for _, p := range pairs {
		all = append(all, r.extension(p[0], p[1]))
	}
	j := claim.Judgement{Claim: judgedExtended, Verdict: verdictOn(all)}
	var why, ours []string
	for _, e := range all {
		named := ""
		if len(all) > 1 {
			named = r.name(e.with) + ": "
		}
		why = append(why, named+e.why)
		ours = append(ours, named+r.describeExtended(e))
		if text := e.with.condition.NotRepresentative; text != "" && !strings.Contains(j.NotRepresentative, text) {
			j.NotRepresentative = strings.TrimPrefix(j.NotRepresentative+"; "+text, "; ")
		}
	}
	if j.NotRepresentative != "" && j.Verdict != claim.Inconclusive {
		j.Verdict = claim.Inconclusive
		why = append(why, "figures of an emulated machine decide nothing")
	}
	if j.Verdict == claim.Inconclusive {
		why = append(why, r.largerExtended(all))
	}
	a := all[0].with
	rests := fmt.Sprintf("%s beside %s, %s of %d to %d neighbours, %s", a.critical(), a.noise(), report.Counted(len(a.sweeps), "sweep"), a.first(), a.greatest(),
		a.order)
	j.Ours, j.Rests, j.Figures = strings.Join(ours, "; "), strings.Join(append([]string{rests}, why...), "; "),
		r.extendedFigures(all)
	return []claim.Judgement{j}
}

// extension applies the claim's rule to a pair of arms.
func (r reading) extension(without, with arm) extension {
	e := extension{without: without, with: with, verdict: claim.Inconclusive, price: stats.Absent(r.Report.Level)}
	e.before, e.after = r.density(without), r.density(with)
	e.gained = r.gained(e.before, e.after)
	if both := shared(without, with); len(both) > 0 {
		e.price = lossOf(r.throughputAgainst(without, with, both[0]))
		for _, l := range judgedLatencies {
			e.latency = append(e.latency, r.latencyAgainst(without, with, both[0], l.quantile))
		}
	}
	wanted, most := claim.Threshold(judgedExtended, "density gained"), claim.Threshold(judgedExtended, "throughput lost to the extension")
	first := r.overcommit(without, without.first()).Value
	if first >= 1 {
		e.gained, e.price = stats.Absent(r.Report.Level), stats.Absent(r.Report.Level)
	}
	gained, isCheap := claim.NotBelow(e.gained, wanted), claim.NotAbove(e.price, most/100)
	isAsFast, within := claim.True, r.harm(without)
	var slower []string
	for i, l := range e.latency {
		asFast := claim.NotAbove(l, within.latency[i])
		isAsFast = claim.Every(isAsFast, asFast)
		if asFast != claim.True {
			slower = append(slower, judgedLatencies[i].name)
		}
	}
	tail := fmt.Sprintf("the extension's %s at fewest neighbours", strings.Join(slower, ", "))
	reached, price := fmt.Sprintf("at least %g times the density without harm", wanted), fmt.Sprintf("%g %% of the throughput", most)
	e.verdict, e.why = claim.Decide(
		claim.When(claim.Is(math.IsNaN(first)), claim.Inconclusive, "memory demand with fewest neighbours could not be read"),
		claim.When(claim.Is(first >= 1), claim.Inconclusive, fmt.Sprintf("memory demand is %.2f times the memory with fewest neighbours already: there is nothing to compare with", first)),
		claim.When(claim.Is(!e.gained.Known() || !e.price.Known()), claim.Inconclusive, "the gain of the extension is unknown"),
		// A sweep without harm to its end is a bound, of the one upwards, of the other downwards.
		claim.When(
			claim.Is(e.before.Reached > 0),
			claim.Inconclusive,
			fmt.Sprintf("without the extension, %d of %d sweeps saw no harm up to their end", e.before.Reached, e.before.Sweeps),
		),
		claim.When(claim.Every(gained, isCheap, isAsFast), claim.Confirmed, reached),
		claim.When(claim.Every(gained, claim.Not(isCheap)), claim.Qualified, reached+", but with fewest neighbours the extension costs more than "+price),
		claim.When(claim.Every(gained, claim.Not(isAsFast)), claim.Qualified, reached+", but "+tail+" is significantly higher"),
		claim.When(claim.Every(gained, isCheap), claim.Inconclusive, reached+"; whether "+tail+" is higher is undecided"),
		claim.When(gained, claim.Inconclusive, reached+"; whether the extension costs less than "+price+" is undecided"),
		claim.When(
			claim.Every(claim.Not(gained), claim.Is(e.after.Reached == 0)),
			claim.Refuted,
			fmt.Sprintf("less than %g times the density without harm", wanted),
		),
		claim.When(
			claim.Is(e.after.Reached > 0),
			claim.Inconclusive,
			fmt.Sprintf("with the extension, %d of %d sweeps saw no harm up to their end: the density gained is a lower bound", e.after.Reached, e.after.Sweeps),
		),
		claim.When(claim.True, claim.Inconclusive, fmt.Sprintf("whether it reaches %g times the density is undecided", wanted)),
	)
	return e
}

// verdictOn puts the pairs' verdicts together.
func verdictOn(all []extension) claim.Verdict {
	first := all[0].verdict
	if !slices.ContainsFunc(all, func(e extension) bool { return e.verdict != first }) {
		return first
	}
	if slices.ContainsFunc(all, func(e extension) bool { return e.verdict == claim.Inconclusive }) {
		return claim.Inconclusive
	}
	return claim.Qualified // it holds of some
}

// describeExtended is a pair in words.
func (r reading) describeExtended(e extension) string {
	if !e.gained.Known() {
		return "no figures to compare"
	}
	bound := ""
	if e.after.Reached > 0 {
		bound = "at least "
	}
	text := fmt.Sprintf("unharmed up to %s%.2f times the memory, without the extension up to %.2f: %s%s times the density", bound, e.after.Overcommit.Value, e.before.Overcommit.Value, bound, report.Said(e.gained, 1))
	if e.price.Known() {
		text += fmt.Sprintf("; throughput lost to the extension %s %%", report.Said(e.price, 100))
	}
	return text
}

// extendedFigures are ours, of the first pair under the published names.
func (r reading) extendedFigures(all []extension) []claim.Figure {
	var figures []claim.Figure
	for i, e := range all {
		prefix := ""
		if i > 0 {
			prefix = r.name(e.with) + ", "
		}
		figures = append(figures,
			claim.Ours(prefix+"neighbours without a fall", e.after.Neighbours, 1, ""),
			claim.Ours(prefix+"neighbours without a fall, unextended", e.before.Neighbours, 1, ""),
			claim.Ours(prefix+"memory asked for without harm", e.after.Overcommit, 1, "times"),
			claim.Ours(prefix+"memory asked for without harm, unextended", e.before.Overcommit, 1, "times"),
			claim.Ours(prefix+"density gained", e.gained, 1, "times"),
			claim.Ours(prefix+"throughput lost to the extension", e.price, 100, "%"))
		for i, l := range e.latency {
			figures = append(figures, claim.Ours(prefix+judgedLatencies[i].name+", extended over unextended", l, 1, "times"))
		}
	}
	return claim.Measured(figures...)
}

// largerExtended proposes a run that would decide, where this one could not.
func (r reading) largerExtended(all []extension) string {
	const again = "tare density --extend none,annex"
	for _, e := range all {
		if e.verdict != claim.Inconclusive && e.with.condition.NotRepresentative == "" {
			continue
		}
		first := r.overcommit(e.without, e.without.first()).Value
		switch {
		case e.with.condition.NotRepresentative != "":
			return "measure on a host with hardware virtualisation, or without a virtual machine: " + again
		case math.IsNaN(first):
			return "repeat the run where memory of the box can be read: " + again
		case first >= 1:
			return fmt.Sprintf("leave room for the first neighbours, by a larger --box, a smaller --neighbour-memory, or fewer than %d --neighbours (more repeats do not help): %s", e.without.first(), again)
		case min(len(e.with.sweeps), len(e.without.sweeps)) < fewestSweeps:
			return fmt.Sprintf("intervals are reliable from %d sweeps: %s --blocks %d", fewestSweeps, again, fewestSweeps)
		}
		for _, of := range []struct {
			arm
			densityOf
		}{{e.without, e.before}, {e.with, e.after}} {
			if of.Reached == 0 {
				continue
			}
			switch reached := r.overcommit(of.arm, of.greatest()).Value; {
			case len(of.halts()) > 0:
				return fmt.Sprintf("first mend what ended sweeps of %s (%s): %s", r.name(of.arm), of.halts()[0].why, again)
			case reached < enough():
				return "go to 6.5 times the memory, as S3 did: " + again + " --full"
			default:
				return fmt.Sprintf("go beyond %.1f times the memory, where this run ended: %s with --neighbours of more than %d, or a larger --neighbour-memory", reached, again, of.greatest())
			}
		}
	}
	return fmt.Sprintf("measure more repeats: %s --blocks %d", again, 2*len(all[0].with.sweeps))
}
