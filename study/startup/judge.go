package startup

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"tare/claim"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// judged is the platform on which S1's claims are made, floor the workload that is no application (what a
// start costs without one), and database the one that S1.2 sets apart.
const (
	judged   = "docker"
	floor    = "empty"
	database = "docstore"
)

// Judge reaches verdicts on S1.1 to S1.4 (published study of container start-up)
// from a run, as far as it holds what decides them. The rules and thresholds are the claims' own (package claim).
func Judge(run record.Run) []claim.Judgement {
	r := read(run)
	var all []claim.Judgement
	for _, judge := range []func(reading) (claim.Judgement, bool){
		judgeRates, judgeApplications, judgeKernel, judgeGroups,
	} {
		if j, ok := judge(r); ok {
			all = append(all, j)
		}
	}
	return all
}

const (
	perMilli  = 1e-3 // microseconds to milliseconds
	perSecond = 1e-6
)

// atRate is one rate, of all applications that are judged.
type atRate struct {
	rate float64
	of   []record.Condition // by application
}

// asked are the rates of the applications that were asked for the most of them, in order.
// The floor counts where there is nothing else.
func (r reading) asked() (rates []atRate, applications []string) {
	var all [][]record.Condition
	for _, w := range r.workloads() {
		if ramps := r.ramps(w, judged); len(ramps) > 1 {
			all = append(all, ramps)
		}
	}
	if len(all) > 1 {
		all = slices.DeleteFunc(all, func(ramps []record.Condition) bool { return workloadOf(ramps[0]) == floor })
	}
	most := 0
	for _, ramps := range all {
		most = max(most, len(ramps))
	}
	rates = make([]atRate, most)
	for _, ramps := range all {
		if len(ramps) < most {
			continue
		}
		applications = append(applications, workloadOf(ramps[0]))
		for i, c := range ramps {
			rates[i].rate = rate(c)
			rates[i].of = append(rates[i].of, c)
		}
	}
	return rates, applications
}

// beyond says why a rate says nothing of itself; empty where it does.
func (r reading) beyond(s atRate) string {
	switch {
	case slices.ContainsFunc(s.of, r.past):
		return "the engine does not keep up"
	case slices.ContainsFunc(s.of, r.failing):
		return "starts failed"
	}
	return ""
}

// mean is a metric's mean over the applications.
func (r reading) mean(s atRate, metric string) stats.Estimate {
	if len(s.of) == 1 {
		return r.Value(s.of[0], metric)
	}
	return r.share(s.of, metric)
}

// growths are those from one rate to another, of the mean and of the p95 over that of the
// mean: by block, the geometric means over applications. The two intervals hold together.
func (r reading) growths(low, high atRate) (mean, tail stats.Estimate) {
	means, tails, counts := map[int]float64{}, map[int]float64{}, map[int]int{}
	for i := range low.of {
		before, after := r.PerBlock(low.of[i], answer+"-mean"), r.PerBlock(high.of[i], answer+"-mean")
		for block, tail := range r.tailGrowths(low.of[i], high.of[i], 0.95) {
			if !(before[block] > 0 && after[block] > 0 && tail > 0) {
				continue
			}
			means[block] += math.Log(after[block]/before[block]) / float64(len(low.of))
			tails[block] += math.Log(tail) / float64(len(low.of))
			counts[block]++
		}
	}
	inAll := func(logs map[int]float64) []float64 {
		all := map[int]float64{}
		for block, v := range logs {
			if counts[block] == len(low.of) {
				all[block] = math.Exp(v)
			}
		}
		return overhead.InOrder(all)
	}
	const estimates = 2
	level, seed := 1-(1-r.Level())/estimates, r.Run.Seed
	return stats.GeometricMean(inAll(means), level, seed), stats.GeometricMean(inAll(tails), level, seed)
}

// judgeRates is S1.1: the mean grows with the rate and less than it, the p95
// more than the mean.
func judgeRates(r reading) (claim.Judgement, bool) {
	const id = "S1.1"
	j := claim.Judgement{Claim: id}
	asked, applications := r.asked()
	if len(asked) < 2 {
		return j, false
	}
	// Up to the first rate that is not kept up with, or at which starts failed.
	var kept []atRate
	beyond := ""
	var rates []string
	for _, s := range asked {
		mean, tail := r.mean(s, answer+"-mean"), r.mean(s, answer+"-p95")
		at := fmt.Sprintf(", %g a second", s.rate) // the name of a stored figure
		if mean.Value == mean.Value {
			j.Figures = append(j.Figures,
				claim.Measured(claim.Ours("mean"+at, mean, perSecond, "s"), claim.Ours("p95"+at, tail, perSecond, "s"))...)
		}
		text := fmt.Sprintf("at %g/s mean %s ms, p95 %s ms", s.rate, report.Said(mean, perMilli), report.Said(tail, perMilli))
		if why := r.beyond(s); why != "" {
			text += " (" + why + ")"
			if beyond == "" {
				beyond = fmt.Sprintf("; at %g/s %s", s.rate, why)
			}
		}
		if beyond == "" {
			kept = append(kept, s)
		}
		rates = append(rates, text)
	}
	names := strings.Join(applications, ", ")
	j.Ours = names + ": " + strings.Join(rates, "; ")
	if len(kept) < 2 {
		j.Verdict = claim.Inconclusive
		j.Rests = fmt.Sprintf("%d of %d rates are sustained here: too few to compare", len(kept), len(asked))
		return j, true
	}
	low, high := kept[0], kept[len(kept)-1]
	mean, tail := r.growths(low, high)
	if !mean.Known() || !tail.Known() {
		j.Verdict = claim.Inconclusive
		j.Rests = claim.TooFew(mean.N)
		return j, true
	}
	least, span := claim.Threshold(id, "growth"), high.rate/low.rate
	j.Figures = append(j.Figures,
		claim.Ours("growth of the mean", mean, 1, "times"),
		claim.Ours("growth of the p95 over that of the mean", tail, 1, "times"))
	j.Rests = fmt.Sprintf("%s, %d blocks: from %g/s to %g/s the mean grows %s times, the p95 %s times as much as the mean",
		names, mean.N, low.rate, high.rate, report.Said(mean, 1), report.Said(tail, 1))
	grows := claim.Every(claim.Above(mean, least), claim.Below(mean, span), claim.Above(tail, least))
	j.Verdict = grows.Verdict()
	if j.Verdict == claim.Confirmed && len(kept) < len(asked) {
		j.Verdict = claim.Qualified
		j.Rests += beyond
	}
	return limited(j, applications...), true
}

// judgeApplications is S1.2: applications start alike, but for the document
// database.
func judgeApplications(r reading) (claim.Judgement, bool) {
	const id = "S1.2"
	j := claim.Judgement{Claim: id}
	// The highest rate that all keep up with.
	byRate := map[float64]map[string]record.Condition{}
	applications := 0
	for _, w := range r.workloads() {
		ramps := r.ramps(w, judged)
		if len(ramps) == 0 || w == floor {
			continue
		}
		applications++
		for _, c := range ramps {
			if r.past(c) || r.failing(c) || !r.Value(c, answer+"-mean").Known() {
				continue
			}
			if byRate[rate(c)] == nil {
				byRate[rate(c)] = map[string]record.Condition{}
			}
			byRate[rate(c)][w] = c
		}
	}
	if applications < 3 {
		return j, false
	}
	top := 0.0
	for at, of := range byRate {
		if len(of) == applications {
			top = max(top, at)
		}
	}
	if top == 0 {
		j.Verdict, j.Rests = claim.Inconclusive, "no rate is sustained by all applications in enough blocks"
		return j, true
	}
	perApplication := map[string]map[int]float64{}
	for w, c := range byRate[top] {
		perApplication[w] = r.PerBlock(c, answer+"-mean")
	}
	alike := claim.Threshold(id, "alike") / 100
	verdict := claim.Confirmed
	decides := r.together(applications)
	var ratios, outside []string
	blocks := 0
	for _, w := range r.workloads() {
		of, ok := perApplication[w]
		if !ok {
			continue
		}
		ratio := decides.Ratio(mediansOfOthers(perApplication, w), of)
		blocks = ratio.N
		if !ratio.Known() {
			j.Verdict, j.Rests = claim.Inconclusive, claim.TooFew(ratio.N)
			return j, true
		}
		j.Figures = append(j.Figures, claim.Ours(w+" against the median", ratio, 1, "times"))
		ratios = append(ratios, fmt.Sprintf("%s %s", w, report.Said(ratio, 1)))
		within := ratio.Interval.Low >= 1-alike && ratio.Interval.High <= 1+alike
		above, below := ratio.Interval.Low > 1+alike, ratio.Interval.High < 1-alike
		switch {
		case w == database && (within || below), w != database && (above || below):
			verdict = claim.Refuted
			outside = append(outside, w)
		case w == database && above, w != database && within:
		case verdict != claim.Refuted:
			verdict = claim.Inconclusive
		}
	}
	j.Ours = fmt.Sprintf("time to the answer at %g/s, as a ratio to the median of the others: %s", top, strings.Join(ratios, ", "))
	j.Rests = fmt.Sprintf("%d applications at %g/s, %d blocks", applications, top, blocks)
	if _, ok := perApplication[database]; !ok {
		verdict = claim.Inconclusive
		j.Rests += "; the document database was not among them"
	}
	if len(outside) > 0 && verdict == claim.Refuted {
		j.Rests += "; contrary to the claim: " + strings.Join(outside, ", ")
	}
	j.Verdict = verdict
	if stand := standIns(slices.Sorted(maps.Keys(perApplication))); len(stand) > 0 && verdict == claim.Confirmed {
		j.Verdict = claim.Qualified
		j.Rests += "; not S1's own programs: " + strings.Join(stand, ", ")
	}
	return j, true
}

// mediansOfOthers are, by block, the medians of the applications but for one, which may be the median
// itself, and the document database, which is to differ.
func mediansOfOthers(all map[string]map[int]float64, but string) map[int]float64 {
	values, others := map[int][]float64{}, 0
	for w, of := range all {
		if w == but || w == database {
			continue
		}
		others++
		for block, v := range of {
			values[block] = append(values[block], v)
		}
	}
	medians := map[int]float64{}
	for block, of := range values {
		if len(of) == others {
			slices.Sort(of)
			medians[block] = (of[(others-1)/2] + of[others/2]) / 2
		}
	}
	return medians
}

// fewest is of how many applications at least a mean over applications is spoken of.
const fewest = 3

// limited gives the verdict that some applications allow on a claim about all: of few, or of
// programs that stand in for S1's, it is qualified at best, and few refute nothing.
func limited(j claim.Judgement, applications ...string) claim.Judgement {
	stand := standIns(applications)
	few := len(applications) < fewest
	switch {
	case few && j.Verdict == claim.Refuted:
		j.Verdict = claim.Inconclusive
		j.Rests += "; contrary to the claim"
	case j.Verdict != claim.Confirmed && j.Verdict != claim.Qualified:
		return j
	case few || len(stand) > 0:
		j.Verdict = claim.Qualified
	}
	if few {
		j.Rests += "; of " + strings.Join(applications, " and ") + " alone, where S1 has the mean of its applications"
	}
	if len(stand) > 0 {
		j.Rests += "; not S1's own programs: " + strings.Join(stand, ", ")
	}
	return j
}

// standIns are the programs among applications that stand in for S1's.
func standIns(applications []string) (stand []string) {
	for _, name := range applications {
		if instead := standsFor(name); instead != "" {
			stand = append(stand, instead)
		}
	}
	return stand
}

// profiles are the profiled conditions on which S1.3 and S1.4 are judged, one of each application.
func (r reading) profiles() (all []record.Condition) {
	for _, c := range r.of(kindProfile) {
		if c.Platform == judged {
			all = append(all, c)
		}
	}
	return all
}

// share is a metric's mean over conditions, of the blocks that all have.
func (r reading) share(of []record.Condition, metric string) stats.Estimate {
	sums, counts := map[int]float64{}, map[int]int{}
	for _, c := range of {
		for block, v := range r.PerBlock(c, metric) {
			sums[block] += v / float64(len(of))
			counts[block]++
		}
	}
	maps.DeleteFunc(sums, func(block int, _ float64) bool { return counts[block] < len(of) })
	if len(sums) == 0 {
		return stats.Absent(r.Report.Level)
	}
	return r.Mean(sums)
}

// unprofiled says why a mean over applications has no interval.
func (r reading) unprofiled(of []record.Condition) string {
	var without []string
	for _, c := range of {
		if len(r.PerBlock(c, kernelShare)) == 0 {
			without = append(without, workloadOf(c))
		}
	}
	if len(without) > 0 && len(without) < len(of) {
		return "no profile of " + strings.Join(without, ", ") + ", whose starts failed"
	}
	return "too few profiled blocks for an interval"
}

// ofProfiles is what of profiles stands beside a verdict.
func ofProfiles(of []record.Condition, blocks int) (names []string, rests string) {
	for _, c := range of {
		names = append(names, workloadOf(c))
	}
	return names, fmt.Sprintf("%s at %g starts per second, %d profiled blocks", strings.Join(names, ", "), rate(of[0]), blocks)
}

// judgeKernel is S1.3: more than half is the kernel's.
func judgeKernel(r reading) (claim.Judgement, bool) {
	const id = "S1.3"
	j := claim.Judgement{Claim: id}
	of := r.profiles()
	if len(of) == 0 {
		return j, false
	}
	r = r.together(1 + len(of)) // the mean, and each application by itself
	kernel, user := r.share(of, kernelShare), r.share(of, userShare)
	if !kernel.Known() {
		j.Verdict, j.Rests = claim.Inconclusive, r.unprofiled(of)
		return j, true
	}
	half := claim.Threshold(id, "half")
	each := claim.True
	for _, c := range of {
		each = claim.Every(each, claim.Above(r.Value(c, kernelShare), half))
	}
	j.Figures = claim.Measured(claim.Ours("kernel", kernel, 1, "%"), claim.Ours("user", user, 1, "%"))
	j.Ours = fmt.Sprintf("kernel %s %%, user %s %%", report.Said(kernel, 1), report.Said(user, 1))
	names, rests := ofProfiles(of, kernel.N)
	var why string
	j.Verdict, why = claim.Decide(
		claim.When(claim.Every(claim.Above(kernel, half), each), claim.Confirmed, ""),
		claim.When(claim.Above(kernel, half), claim.Qualified, "; of the mean, and not of each application"),
		claim.When(claim.Below(kernel, half), claim.Refuted, ""))
	j.Rests = rests + why
	return limited(j, names...), true
}

// judgeGroups is S1.4: two groups explain about 40 %.
func judgeGroups(r reading) (claim.Judgement, bool) {
	const id, memoryName, heapName, bothName = "S1.4", "kernel memory and process start", "Go allocation and collection", "both groups"
	j := claim.Judgement{Claim: id}
	of := r.profiles()
	if len(of) == 0 {
		return j, false
	}
	published, err := claim.Lookup(id)
	if err != nil {
		panic(err)
	}
	theirs := func(name string) float64 {
		f, ok := published.Figure(name)
		if !ok {
			panic("claim " + id + " publishes no " + name)
		}
		return f.Value
	}
	r = r.together(3) // the groups, and their sum
	memory, heap, both := r.share(of, memoryShare), r.share(of, heapShare), r.share(of, bothShare)
	unassigned := r.share(of, unassignedShare)
	if !both.Known() {
		j.Verdict, j.Rests = claim.Inconclusive, r.unprofiled(of)
		return j, true
	}
	j.Figures = claim.Measured(
		claim.Ours(memoryName, memory, 1, "%"), claim.Ours(heapName, heap, 1, "%"),
		claim.Ours(bothName, both, 1, "%"), claim.Ours("unassigned", unassigned, 1, "%"))
	j.Ours = fmt.Sprintf("memory and process start in the kernel %s %%, Go allocation and collection %s %%, together %s %%",
		report.Said(memory, 1), report.Said(heap, 1), report.Said(both, 1))
	names, rests := ofProfiles(of, both.N)
	distance, centre := claim.Threshold(id, "distance"), theirs(bothName)
	near := claim.Inside(both, centre-distance, centre+distance)
	halves := claim.Every(claim.NotBelow(memory, theirs(memoryName)/2), claim.NotBelow(heap, theirs(heapName)/2))
	var why string
	j.Verdict, why = claim.Decide(
		claim.When(claim.Is(unassigned.Value > claim.Threshold(id, "unassigned")), claim.Inconclusive, ""),
		claim.When(claim.Not(near), claim.Refuted, ""),
		claim.When(claim.Every(near, halves), claim.Confirmed, ""),
		claim.When(near, claim.Qualified, "; only the sum agrees with the published one"))
	j.Rests = fmt.Sprintf("%s; %.1f %% of samples in no group%s", rests, unassigned.Value, why)
	return limited(j, names...), true
}
