package keyvalue

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/claim"
	"tare/model/request"
	"tare/platform"
	"tare/record"
	"tare/stats"
	"tare/study/io/place"
)

// judged is the claim that this study decides.
const judged = "S5.3"

// S5's values and pipelines, by which the claim is judged.
const (
	smallValue    = 3
	largestValue  = 1000
	noPipeline    = 1
	longPipeline  = 10
	loadThreads   = 24 // of the figures that it was published with
	figureCommand = "get"
)

// Judge reaches a verdict on S5.3 from a run that has volume or bind mount against
// bare metal at two rates or more, measured here or elsewhere. The rule and its
// threshold are the claim's own (package claim).
func Judge(run record.Run) []claim.Judgement {
	r := read(run)
	return r.together(2*r.lossesRead() + len(engines(r.memory))).judge()
}

func (r reading) judge() []claim.Judgement {
	var host, bridged side
	for _, s := range spots(r.reference()) {
		if s.storage != string(platform.StorageVolume) && s.storage != string(platform.StorageBind) {
			continue
		}
		g, ok := r.growth(s)
		switch {
		case !ok:
		case s.bridged():
			bridged = append(bridged, g)
		default:
			host = append(host, g)
		}
	}
	if len(host)+len(bridged) == 0 {
		return nil
	}
	j := claim.Judgement{Claim: judged}
	var why string
	j.Verdict, why = r.verdict(host, bridged)
	rests := []string{why}
	var ours []string
	for _, g := range slices.Concat(host, bridged) {
		ours = append(ours, r.losing(g))
	}
	j.Ours = strings.Join(ours, "; ")
	j.Figures = r.figures()
	// What S5's cells were is more than a run need have.
	if lacking := r.lacking(); len(lacking) > 0 {
		rests = append(rests, "this run has no "+strings.Join(lacking, ", no "))
		if j.Verdict == claim.Confirmed {
			j.Verdict = claim.Qualified
		}
	}
	if idle := r.idle(); len(idle) > 0 {
		rests = append(rests, "on bare metal the server was not busy throughout ("+strings.Join(idle, ", ")+"): the load hides a part of the cost")
	}
	count := fmt.Sprintf("%d kinds of requests in %s, without persistence",
		len(r.reference()), place.Blocks(r.Run, slices.Concat(host, bridged)[0].fastLoss.N))
	j.Rests = strings.Join(append([]string{count}, rests...), "; ")
	return []claim.Judgement{j}
}

// lacking names the levels of S5 that a run does not have.
func (r reading) lacking() []string {
	var all []string
	for _, of := range []struct {
		want  int64
		what  string
		level func(cell) int64
	}{
		{smallValue, "values of %d bytes", cell.ofPayload}, {largestValue, "values of %d bytes", cell.ofPayload},
		{noPipeline, "pipeline of %d", cell.ofPipeline}, {longPipeline, "pipeline of %d", cell.ofPipeline},
	} {
		if !slices.Contains(levels(r.reference(), of.level), of.want) {
			all = append(all, fmt.Sprintf(of.what, of.want))
		}
	}
	return all
}

// growth is a place's loss at the lowest and at the highest rate, and whether one
// cost makes both.
type growth struct {
	spot               spot
	slow, fast         cell
	slowLoss, fastLoss stats.Estimate
	grows, flat        claim.Truth // the loss grows with the rate; it does not
	oneCost            claim.Truth // one cost predicts every cell
	untested           claim.Truth // the cells are too few to test that, or their values are not paired
	// worse is the cell with the largest loss, of those that are slower than the fastest
	// and lose more, intervals apart. against is true where there is one: the loss does not
	// follow the rate.
	worse     cell
	worseLoss stats.Estimate
	against   claim.Truth
}

// slower is the part by which a cell's rate must be below the highest to count as lower.
const slower = 0.1

// growth compares the slowest of the reference cells that a place has with the
// fastest.
func (r reading) growth(s spot) (growth, bool) {
	limit := claim.Threshold(judged, "smallest effect") / 100
	cells := slices.DeleteFunc(r.reference(), func(c cell) bool {
		p, ok := c.at(s)
		return !ok || math.IsNaN(r.loss(c, p).Value)
	})
	if len(cells) < 2 {
		return growth{}, false
	}
	g := growth{spot: s, slow: cells[0], fast: cells[len(cells)-1]}
	at := func(c cell) stats.Estimate { p, _ := c.at(s); return r.loss(c, p) }
	g.slowLoss, g.fastLoss = at(g.slow), at(g.fast)
	g.grows = claim.Every(claim.More(g.fastLoss, g.slowLoss), claim.Above(g.fastLoss, 0))
	g.flat = claim.Every(claim.Needs(g.slowLoss.Known() && g.fastLoss.Known()),
		claim.Any(claim.Is(furthest(g.slowLoss, g.fastLoss) < limit), claim.Below(g.fastLoss, limit)))
	for _, c := range cells {
		loss := at(c)
		if r.rate(c, c.base).Value < (1-slower)*r.rate(g.fast, g.fast.base).Value &&
			claim.More(loss, g.fastLoss) == claim.True &&
			(g.against != claim.True || loss.Value > g.worseLoss.Value) {
			g.worse, g.worseLoss, g.against = c, loss, claim.True
		}
	}
	m, ok := r.model(s)
	tests := m.tests[request.Fixed]
	switch {
	case !ok || len(tests) == 0:
		g.untested = claim.True
	case m.missed(request.Fixed, limit) > 0:
		g.oneCost = claim.False
	case m.held(request.Fixed, limit) == len(tests):
		g.oneCost = claim.True
	}
	return g, true
}

// furthest is the upper end of the interval by which b exceeds a, where the two were
// measured apart (Zou and Donner 2008, of two intervals).
func furthest(a, b stats.Estimate) float64 {
	return b.Value - a.Value + math.Hypot(b.Interval.High-b.Value, a.Value-a.Interval.Low)
}

// side are the places of one kind of network.
type side []growth

// all states that something holds of every place; of none nothing is known.
func (s side) all(of func(growth) claim.Truth) claim.Truth {
	holds := claim.Needs(len(s) > 0)
	for _, g := range s {
		holds = claim.Every(holds, of(g))
	}
	return holds
}

// some states that it holds of one.
func (s side) some(of func(growth) claim.Truth) claim.Truth {
	holds := claim.False
	for _, g := range s {
		holds = claim.Any(holds, of(g))
	}
	return holds
}

func grows(g growth) claim.Truth    { return g.grows }
func flat(g growth) claim.Truth     { return g.flat }
func oneCost(g growth) claim.Truth  { return g.oneCost }
func untested(g growth) claim.Truth { return g.untested }
func against(g growth) claim.Truth  { return g.against }

// exception is a cell that is slower than the fastest and loses more.
func (s side) exception() string {
	for _, g := range s {
		if g.against == claim.True {
			return fmt.Sprintf("%s loses %s, more than the fastest does", g.worse.name(), place.Percent(g.worseLoss, 100))
		}
	}
	return ""
}

// verdict decides by the places on the host's network, or on one that an imported run does
// not name, and by those on the engine's network where they decide more.
func (r reading) verdict(host, bridged side) (claim.Verdict, string) {
	const network = "the network accounts for the loss, not storage"
	const flatly, grown = "the loss does not grow with the rate", "the loss grows with the rate; "
	const open = "whether the loss grows with the rate is undecided"
	if len(host) == 0 {
		const why = "no container used the host's network, so storage and network are not separated"
		return claim.Decide(
			claim.When(bridged.all(grows), claim.Qualified, why),
			claim.When(bridged.all(flat), claim.Refuted, why+"; "+flatly),
			claim.When(claim.True, claim.Inconclusive, why+"; "+open))
	}
	mostly := claim.Is(r.networksOwn())
	isUnnamed := func(g growth) claim.Truth { return claim.Is(g.spot.network == "") }
	both := claim.Every(host.all(grows), host.all(oneCost))
	return claim.Decide(
		claim.When(claim.Every(host.all(flat), bridged.all(grows)), claim.Qualified,
			network+": on the host's network the loss does not grow with the rate, on the engine's it does"),
		claim.When(
			claim.Every(host.all(flat), claim.Any(claim.Is(len(bridged) == 0), bridged.all(flat))),
			claim.Refuted,
			flatly,
		),
		claim.When(claim.Every(host.all(against), claim.Is(host.some(grows) != claim.True)), claim.Refuted,
			"the loss does not follow the rate: "+host.exception()),
		claim.When(
			claim.Every(host.all(grows), claim.Not(host.all(oneCost))),
			claim.Qualified,
			r.severalCosts(host, mostly),
		),
		claim.When(claim.Every(both, host.some(isUnnamed)), claim.Qualified,
			"one cost predicts every kind of request; the run does not name its network"),
		claim.When(claim.Every(both, mostly), claim.Qualified, network+", for most of what a container on the bridge loses"),
		claim.When(both, claim.Confirmed, "one cost predicts every kind of request"),
		claim.When(claim.Every(bridged.all(grows), mostly), claim.Qualified,
			network+": the bridge costs more than all the rest; on the host's network the loss is undecided"),
		claim.When(claim.Every(host.all(grows), claim.Is(r.Run.Plan.Unpaired())), claim.Inconclusive,
			grown+"whether one cost explains it is not tested, as the repetitions are not paired"),
		claim.When(claim.Every(host.all(grows), host.some(untested)), claim.Inconclusive,
			grown+"too few kinds of requests to test whether one cost explains it"),
		claim.When(host.all(grows), claim.Inconclusive, grown+"whether one cost explains it is undecided"),
		claim.When(claim.True, claim.Inconclusive, open))
}

// severalCosts says how one cost fails.
func (r reading) severalCosts(host side, mostly claim.Truth) string {
	why := "the loss grows with the rate, but one cost does not predict every kind of request" + r.instead(host)
	if exception := host.exception(); exception != "" {
		why += "; " + exception
	}
	if mostly == claim.True {
		why += "; the network accounts for most of what a container on the bridge loses, not storage"
	}
	return why
}

// networksOwn is whether, at the highest rate, the bridge costs more than container and
// storage together, on some engine.
func (r reading) networksOwn() bool {
	for _, engine := range engines(r.memory) {
		if all := r.separate(engine); len(all) > 0 {
			if s := all[len(all)-1]; s.excess.Known() && s.excess.Interval.Low > 0 {
				return true
			}
		}
	}
	return false
}

// instead names the form that predicts what one cost does not.
func (r reading) instead(of side) string {
	for _, g := range of {
		if m, ok := r.model(g.spot); ok && m.holds != "" && m.holds != request.Fixed {
			return fmt.Sprintf(" (%s: %s does)", named(g.spot, r.memory), m.holds)
		}
	}
	return ""
}

// figures are ours, under the names of the published ones where they measure the same: on
// the host's network, or on one that is not named.
func (r reading) figures() []claim.Figure {
	reference := r.reference()
	var all []claim.Figure
	at := func(c cell, storage string) stats.Estimate {
		for _, p := range c.places {
			if s := spotOf(p); s.storage == storage && !s.bridged() {
				return r.loss(c, p)
			}
		}
		return stats.Absent(r.Report.Level)
	}
	storages := []struct{ storage, name string }{
		{string(platform.StorageVolume), "volume"}, {string(platform.StorageBind), "bind mount"},
	}
	if c, ok := find(reference, figureCommand, smallValue, longPipeline); ok {
		for _, s := range storages {
			all = append(all, claim.Ours("overhead, GET of 3 bytes, "+s.name, at(c, s.storage), 100, "%"))
		}
		if one, ok := find(reference, figureCommand, smallValue, noPipeline); ok {
			gain := r.Ratio(r.PerBlock(one.base, one.metric), r.PerBlock(c.base, c.metric))
			all = append(all, claim.Ours("requests a second with pipeline 10", gain, 1, "times"))
		}
	}
	if c, ok := find(reference, "mset", largestValue, longPipeline); ok {
		all = append(all, claim.Ours("overhead, MSET of 1000 bytes", at(c, string(platform.StorageBind)), 100, "%"))
	}
	threads := r.underThreads()
	for _, pipeline := range []struct {
		of   int64
		name string
	}{{longPipeline, "pipeline 10"}, {noPipeline, "no pipeline"}} {
		for _, s := range storages {
			for _, n := range []int64{1, 2, 4, 8} {
				with := slices.DeleteFunc(slices.Clone(r.memory), func(c cell) bool {
					return c.threads != threads || c.ioThreads != n
				})
				c, ok := find(with, figureCommand, smallValue, pipeline.of)
				if !ok {
					continue
				}
				change := at(c, s.storage)
				name := fmt.Sprintf("change in the data, GET of 3 bytes, %s, %s, %d io-thread", pipeline.name, s.name, n)
				if n > 1 {
					name += "s"
				}
				change.Interval.Low, change.Interval.High = change.Interval.High, change.Interval.Low
				all = append(all, claim.Ours(name, change, -100, "%"))
			}
		}
	}
	for _, engine := range engines(r.memory) {
		if of := r.separate(engine); len(of) > 0 {
			s := of[len(of)-1]
			prefix := ""
			if len(engines(r.memory)) > 1 {
				prefix = engine + ", "
			}
			all = append(all, claim.Ours(prefix+"the bridge, "+s.cell.name(), s.network, 1, "us"),
				claim.Ours(prefix+"the container on the host's network, "+s.cell.name(), s.container, 1, "us"))
			for _, of := range storages {
				if e := s.storage[of.storage]; e.N > 0 {
					all = append(all, claim.Ours(prefix+of.name+" against the "+s.reference+", "+s.cell.name(), e, 1, "us"))
				}
			}
		}
	}
	all = claim.Measured(all...)
	slices.SortStableFunc(all, func(a, b claim.Figure) int { return strings.Compare(rank(a.Name), rank(b.Name)) })
	return all
}

// underThreads is the number of the load's threads under which io-threads are compared: as in the published
// figures, or the most that the run has.
func (r reading) underThreads() int64 {
	all := levels(r.memory, cell.ofThreads)
	if len(all) == 0 || slices.Contains(all, loadThreads) {
		return loadThreads
	}
	return all[len(all)-1]
}

// rank keeps figures in one order: published ones as published, others by name.
func rank(name string) string {
	c, err := claim.Lookup(judged)
	if err != nil {
		return name
	}
	if i := slices.IndexFunc(c.Published, func(f claim.Figure) bool { return f.Name == name }); i >= 0 {
		return fmt.Sprintf("%03d", i)
	}
	return "~" + name
}
