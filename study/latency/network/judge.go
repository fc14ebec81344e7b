package network

import (
	"fmt"
	"slices"
	"strings"

	"tare/claim"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// judged is the claim that this study decides.
const judged = "S4.4"

// Judge reaches a verdict on S4.4 from a run that compares a published port with the
// host's network, over kept connections. The rule and its thresholds are the claim's
// own (package claim).
func Judge(run record.Run) []claim.Judgement {
	of := slices.DeleteFunc(trips(overhead.Read(run)), func(t trip) bool {
		return t.path != NAT || t.place != apart || t.connection != Kept
	})
	of = together(of, 3) // the fixed part, its excess over the bytes', and a small message
	if len(of) == 0 {
		return nil
	}
	return []claim.Judgement{fixed(of)}
}

// s4 is what S4's service and client were written in.
const s4 = "python"

// fixed judges whether a bridge adds a fixed time to each request.
func fixed(of []trip) claim.Judgement {
	j := claim.Judgement{Claim: judged}
	most, far := claim.Threshold(judged, "ratio at 1 KB"), claim.Threshold(judged, "largest message")*kilobyte
	var costs, rests, departures []string
	verdicts := map[claim.Verdict]int{}
	for _, t := range of {
		small, ok := t.at(kilobyte)
		if !ok || float64(t.largest()) < far {
			rests = append(rests, fmt.Sprintf("service %ss: the run lacks messages of %s or of %s", t.direction, sizeText(kilobyte), sizeText(int(far))))
			verdicts[claim.Inconclusive]++
			continue
		}
		line := t.fit(median)
		ratio, excess := t.ratio(small, median), line.Combination(1, -far)
		j.Figures = append(j.Figures, claim.Measured(
			claim.Ours("fixed part, service "+t.direction+"s", line.Intercept, 1, "us"),
			claim.Ours("part of the bytes at 100 KB, service "+t.direction+"s", line.Combination(0, far), 1, "us"),
			claim.Ours("ratio at 1 KB, service "+t.direction+"s", ratio, 1, "times"),
			claim.Ours("fixed part of the mean, service "+t.direction+"s", t.fit(mean).Intercept, 1, "us"))...)
		costs = append(costs, fmt.Sprintf("service %ss: %s µs per request and %s µs for the bytes of %s; %s times the host's latency at %s", t.direction,
			report.Said(line.Intercept, 1), report.Said(line.Combination(0, far), 1), sizeText(int(far)),
			report.Said(ratio, 1), sizeText(kilobyte)))
		v, why := verdict(line, excess, ratio, most)
		verdicts[v]++
		if why != "" {
			rests = append(rests, "service "+t.direction+"s: "+why)
		}
		if line.Bent < doubtful {
			rests = append(rests, fmt.Sprintf("service %ss: the cost is not linear in size (p %s), so the fixed part is not quite the cost of a small message", t.direction, chance(line.Bent)))
		}
		for _, p := range []struct{ what, is string }{{"service", t.server}, {"client", t.by}} {
			text := fmt.Sprintf("the %s is in %s, S4's was in Python", p.what, p.is)
			if p.is != s4 && p.is != "" && !slices.Contains(departures, text) {
				departures = append(departures, text)
			}
		}
	}
	j.Ours = strings.Join(costs, "; ")
	switch {
	case verdicts[claim.Refuted] > 0:
		j.Verdict = claim.Refuted
	case verdicts[claim.Inconclusive] > 0:
		j.Verdict = claim.Inconclusive
	case verdicts[claim.Qualified] > 0:
		j.Verdict = claim.Qualified
	default:
		j.Verdict = claim.Confirmed
	}
	if len(of) < len(Directions) {
		departures = append(departures, "only one direction was measured")
	}
	if len(departures) > 0 && j.Verdict == claim.Confirmed {
		j.Verdict = claim.Qualified
	}
	blocks := of[0].fit(median).Intercept.N
	rests = append(rests, departures...)
	j.Rests = strings.Join(append([]string{fmt.Sprintf("medians of %d sizes over %d blocks; client and service on one host", len(of[0].levels), blocks)}, rests...), "; ")
	return j
}

// doubtful is the probability below which a cost counts as not linear.
const doubtful = 0.01

// verdict is that of one direction. excess is the fixed part less the bytes' part
// of the largest message.
func verdict(line stats.Lines, excess, ratio stats.Estimate, most float64) (v claim.Verdict, why string) {
	switch {
	case !excess.Known() || !ratio.Known():
		return claim.Inconclusive, claim.TooFew(excess.N)
	case excess.Interval.High < 0:
		return claim.Refuted, "the bytes of the largest message cost more than the fixed part"
	case !(line.Intercept.Interval.Low > 0):
		return claim.Inconclusive, "the fixed part is not significant"
	case !(excess.Interval.Low > 0):
		return claim.Inconclusive, "the fixed part does not differ significantly from the bytes' part"
	case ratio.Interval.High < most:
		return claim.Confirmed, ""
	case ratio.Interval.Low > most:
		return claim.Qualified, fmt.Sprintf("fixed, but a small message takes more than %s times the host's latency, as expected of a faster service", report.Rounded(most, 2))
	}
	return claim.Inconclusive, "the ratio of a small message does not differ significantly from the published bound"
}
