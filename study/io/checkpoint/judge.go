package checkpoint

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/claim"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/stats"
)

const claimed = "S5.2"

// Judge reaches a verdict on S5.2 from a run, as far as it holds what decides it. The
// rule and its thresholds are the claim's own (package claim). The run may be one that
// was measured elsewhere, as S5's own.
func Judge(run record.Run) []claim.Judgement {
	r := readRun(run)
	// Of each mode a read and a write: what volume and bind mount lose, and between them.
	r = r.together(3 * len(metrics) * len(r.judged()))
	var found []finding
	for _, m := range r.judged() {
		if f, ok := r.find(m); ok {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		return r.undecided()
	}
	j := claim.Judgement{Claim: claimed}
	var ours, rests []string
	for _, f := range found {
		j.Figures = append(j.Figures, f.figures()...)
		ours = append(ours, f.says())
		rests = append(rests, f.rests())
	}
	var why string
	j.Verdict, why = together(found)
	if why != "" {
		rests = append(rests, why)
	}
	for _, more := range []string{r.fromMemory(), r.inVain(), r.leftOut()} {
		if more != "" {
			rests = append(rests, more)
		}
	}
	j.Ours, j.Rests = strings.Join(ours, "; "), strings.Join(rests, "; ")
	return []claim.Judgement{j}
}

// undecided is the judgement of a run that has what the claim is of, but nothing that
// may decide it; none where it has not.
func (r reading) undecided() []claim.Judgement {
	volume, bind := on(platform.StorageVolume), on(platform.StorageBind)
	of := having(r.cells, volume, bind)
	of = slices.DeleteFunc(of, func(c measured) bool {
		return c.memory || c.sync != NoSync || c.found != uneven && !r.crowded(c)
	})
	if len(of) == 0 {
		return nil
	}
	var rests []string
	for _, more := range []string{r.inVain(), r.leftOut()} {
		if more != "" {
			rests = append(rests, more)
		}
	}
	return []claim.Judgement{{Claim: claimed, Verdict: claim.Inconclusive, Ours: "no cell decides", Rests: strings.Join(rests, "; ")}}
}

// inVain says which cells were to be read from the disk, and were not.
func (r reading) inVain() string {
	var all, some []string
	for _, c := range r.cells {
		switch {
		case c.found == c.cache:
		case c.found == Kept:
			all = append(all, c.text())
		default:
			some = append(some, c.text())
		}
	}
	var says []string
	if len(all) > 0 {
		says = append(says, fmt.Sprintf("in %s more than %g %% of the files' pages were in the page cache when reading began: taken for kept", report.Listed(all), 100*mostCached))
	}
	if len(some) > 0 {
		says = append(says, fmt.Sprintf("in %s some places read from the page cache and others did not, which compares memory with a disk: left out", report.Listed(some)))
	}
	return strings.Join(says, "; ")
}

// leftOut says which cells decide nothing since their ranks take turns.
func (r reading) leftOut() string {
	n := 0
	for _, c := range r.cells {
		if r.crowded(c) {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return report.Counted(n, "cell") + " with more ranks than CPUs decide nothing: a rate is by the slowest rank's own time, in which the waiting for a CPU to begin on is not"
}

// judged are the modes that the claim is judged in: from the page cache, as S5 read,
// and from the disk, which is with the cache dropped, or else bypassed.
func (r reading) judged() []mode {
	kept, dropped, bypassed := mode{cache: Kept, sync: NoSync}, mode{cache: Dropped, sync: NoSync}, mode{cache: Bypassed, sync: NoSync}
	modes := []mode{kept, dropped}
	if len(having(r.decisive(dropped), on(platform.StorageVolume), on(platform.StorageBind))) == 0 {
		modes[1] = bypassed
	}
	return modes
}

// finding is what a mode says of the claim.
type finding struct {
	mode    mode
	cells   int
	floored bool                      // whether a floor has to stand beside
	counted string                    // what an interval is over: "block"
	volume  map[string]stats.Estimate // what is lost of bare metal's rate, in percent, by metric
	bind    map[string]stats.Estimate
	between map[string]stats.Estimate // the bind mount's rate in the volume's
	shaky   map[string]float64        // what the floor's scatter leaves uncertain, in percent; NaN where there is no floor
	moves   map[string]float64        // the floor's scatter
	// losing, gaining and open are how many intervals of single cells lie above nothing
	// lost, below, and across.
	losing, gaining, open int
	verdict               claim.Verdict
	why                   string
}

// find judges a mode by itself; false where it has not both storages.
func (r reading) find(m mode) (finding, bool) {
	volume, bind := on(platform.StorageVolume), on(platform.StorageBind)
	cells := having(r.decisive(m), volume, bind)
	f := finding{mode: m, cells: len(cells), floored: !r.imported(), counted: "block", volume: map[string]stats.Estimate{}, bind: map[string]stats.Estimate{}, between: map[string]stats.Estimate{}, shaky: map[string]float64{}, moves: map[string]float64{}}
	if len(cells) == 0 {
		return f, false
	}
	if r.imported() {
		f.counted = "repetition" // nothing says that they were made together
	}
	for _, metric := range metrics {
		f.volume[metric], f.bind[metric] = r.loss(cells, bare, volume, metric), r.loss(cells, bare, bind, metric)
		f.between[metric] = r.ratio(cells, volume, bind, metric)
		f.shaky[metric], f.moves[metric] = math.NaN(), math.NaN()
		if floored := having(cells, below(bare)); len(floored) == len(cells) {
			f.moves[metric], f.shaky[metric] = r.scatter(cells, below(bare), metric)
		}
	}
	f.tell(r, cells)
	f.verdict, f.why = f.judge()
	for _, at := range []pick{volume, bind} {
		if f.verdict != claim.Inconclusive && slices.ContainsFunc(cells, func(c measured) bool { of, _ := at(c); return elsewhere(c.base, of) }) {
			of, _ := at(cells[0])
			f.verdict, f.why = claim.Inconclusive, labelOf(of)+" lies on another disk than bare metal: the disks differ, whatever the platform does"
		}
	}
	if r.disturbed(cells) && f.verdict != claim.Inconclusive {
		f.verdict, f.why = claim.Inconclusive, "every block was disturbed by others"
	}
	return f, true
}

// tell counts the cells that tell a loss, or a gain, by themselves: what a few that
// scatter leave open, the others may show.
func (f *finding) tell(r reading, cells []measured) {
	for _, c := range cells {
		for _, at := range []pick{on(platform.StorageVolume), on(platform.StorageBind)} {
			for _, metric := range metrics {
				switch loss := r.loss([]measured{c}, bare, at, metric); {
				case !loss.Known():
				case loss.Interval.Low > 0:
					f.losing++
				case loss.Interval.High < 0:
					f.gaining++
				default:
					f.open++
				}
			}
		}
	}
}

// elsewhere tells whether two conditions lie on disks that are known to be different.
func elsewhere(a, b record.Condition) bool {
	one, other := a.Factors[factorDisk], b.Factors[factorDisk]
	return one != "" && other != "" && one != other
}

// judge applies the claim's rule to one mode.
func (f finding) judge() (claim.Verdict, string) {
	most, smallest := claim.Threshold(claimed, "overhead"), claim.Threshold(claimed, "smallest effect")
	equal, apart, below := 0, 0, true
	reversed := ""
	for _, metric := range metrics {
		volume, bind, between := f.volume[metric], f.bind[metric], f.between[metric]
		if !volume.Known() || !bind.Known() || !between.Known() {
			return claim.Inconclusive, report.Counted(min(volume.N, bind.N), f.counted) + " are too few for an interval"
		}
		for _, loss := range []stats.Estimate{volume, bind} {
			if loss.Interval.Low > most {
				return f.unlessShaky(claim.Refuted, metric, loss.Value, fmt.Sprintf("more than %g %% are lost of a %s", most, metric))
			}
			below = below && loss.Interval.High < most
		}
		switch {
		case stats.EquivalentWithin(between, smallest/100):
			equal++
		case bind.Interval.Low > volume.Interval.High:
			apart++
		case volume.Interval.Low > bind.Interval.High:
			reversed = metric
		}
	}
	switch {
	case equal == len(metrics):
		return f.unlessShaky(claim.Refuted, "", smallest, fmt.Sprintf("bind mount and volume are equivalent within %g %%", smallest))
	case reversed != "":
		return f.unlessShaky(claim.Refuted, reversed, f.gap(reversed), fmt.Sprintf("it is the volume that loses more of a %s", reversed))
	case !below:
		return claim.Inconclusive, fmt.Sprintf("an interval reaches beyond %g %%", most)
	case apart == len(metrics):
		return f.unlessShaky(claim.Confirmed, "", min(f.gap(write), f.gap(read)), "")
	case apart > 0 && apart+equal == len(metrics):
		of, other := read, write
		if stats.EquivalentWithin(f.between[read], smallest/100) {
			of, other = write, read
		}
		return f.unlessShaky(claim.Qualified, of, f.gap(of), fmt.Sprintf("of a %s alone; a %s loses as much through either", of, other))
	}
	return claim.Inconclusive, "bind mount and volume can neither be told apart nor called equal"
}

// gap is by how much more, in percent, the bind mount loses.
func (f finding) gap(metric string) float64 {
	return math.Abs(f.bind[metric].Value - f.volume[metric].Value)
}

// unlessShaky takes a verdict back where the floor, on which no platform acts, moves so much
// between blocks that its own level is not known to within the effect. metric is what
// the effect is of; empty is both. Where nothing shows what the floor does, a run of our
// own decides nothing; one that was measured elsewhere never had a floor.
func (f finding) unlessShaky(v claim.Verdict, metric string, effect float64, why string) (claim.Verdict, string) {
	for _, m := range metrics {
		switch {
		case metric != "" && m != metric:
		case math.IsNaN(f.shaky[m]) && f.floored:
			return claim.Inconclusive, fmt.Sprintf("how much the disk itself moves is not known: fio's %s beside it is missing, or was measured in too few blocks", m)
		case f.shaky[m] > effect:
			return claim.Inconclusive, fmt.Sprintf("what the disk itself gives moves: fio's %s is known to %.1f %% only, more than the %.1f %% that are to be told (it scatters by %.0f %% from block to block)", m, f.shaky[m], effect, f.moves[m])
		}
	}
	return v, why
}

// together makes one verdict of the modes'.
func together(found []finding) (claim.Verdict, string) {
	var cached, disk claim.Verdict
	for _, f := range found {
		if f.mode.cache == Kept {
			cached = f.verdict
		} else {
			disk = f.verdict
		}
	}
	holds := func(v claim.Verdict) bool { return v == claim.Confirmed || v == claim.Qualified }
	switch {
	case cached == claim.Confirmed && disk == claim.Confirmed:
		return claim.Confirmed, ""
	case holds(cached) && holds(disk):
		return claim.Qualified, ""
	case holds(cached):
		return claim.Qualified, "it holds from the page cache alone"
	case holds(disk):
		return claim.Qualified, "it holds from the disk alone"
	case cached == claim.Refuted && disk == "":
		return claim.Refuted, "from the page cache, as S5 read; from the disk nothing was measured"
	case cached == claim.Refuted && disk == claim.Inconclusive:
		return claim.Refuted, "from the page cache, as S5 read; from the disk it cannot be told"
	case cached == claim.Refuted || disk == claim.Refuted:
		return claim.Refuted, ""
	}
	return claim.Inconclusive, ""
}

// figures are ours, named as the published ones where they are from the page cache.
func (f finding) figures() []claim.Figure {
	suffix := ""
	if f.mode.cache != Kept {
		suffix = ", " + f.mode.text()
	}
	var all []claim.Figure
	for _, metric := range []string{read, write} {
		all = append(all, claim.Ours("overhead, "+metric+", volume"+suffix, f.volume[metric], 1, "%"), claim.Ours("overhead, "+metric+", bind mount"+suffix, f.bind[metric], 1, "%"))
	}
	return claim.Measured(all...)
}

func (f finding) says() string {
	return fmt.Sprintf("%s, a read loses %s %% through the volume and %s %% through the bind mount, a write %s %% and %s %%", f.mode.text(),
		report.Said(f.volume[read], 1), report.Said(f.bind[read], 1), report.Said(f.volume[write], 1), report.Said(f.bind[write], 1))
}

func (f finding) rests() string {
	text := fmt.Sprintf("%s: %s, %s", f.mode.text(), report.Counted(f.cells, "cell"), report.Counted(f.volume[write].N, f.counted))
	if f.cells > 1 {
		text += fmt.Sprintf(", of whose intervals %d tell a loss, %d a gain and %d neither", f.losing, f.gaining, f.open)
	}
	if f.verdict != claim.Inconclusive {
		text += ", " + string(f.verdict)
	}
	if f.why != "" {
		text += " (" + f.why + ")"
	}
	return text
}

// fromMemory says how much of what was read from the page cache is above what the disk
// gives: by the floor, or, of what was measured elsewhere, against what S5 says of its
// disk. Whether that was the disk nobody tells, and so it is said as a condition.
func (r reading) fromMemory() string {
	kept := r.of(mode{cache: Kept, sync: NoSync})
	if !r.imported() {
		for _, cache := range []string{Dropped, Bypassed} {
			disk := having(r.of(mode{cache: cache, sync: NoSync}), below(bare))
			cached, given := r.level(kept, bare, read), r.level(disk, below(bare), read)
			if cached.Value > given.Value {
				return fmt.Sprintf("with the page cache kept bare metal reads at %.2g GB/s, where the disk gives %.2g: those reads are of memory", cached.Value/1e9, given.Value/1e9)
			}
		}
		return ""
	}
	c, err := claim.Lookup(claimed)
	if err != nil {
		return ""
	}
	device, ok := c.Figure("read of the device")
	if !ok {
		return ""
	}
	above := 0
	for _, of := range kept {
		if r.Value(of.base, read).Value > device.Value*1e9 {
			above++
		}
	}
	if above == 0 {
		return ""
	}
	return fmt.Sprintf("in %d of %s bare metal reads faster than %s: if that is what the device gives, as S5's does, those reads are from the page cache, which is taken as kept", above, report.Counted(len(kept), "cell"), device.Text())
}
