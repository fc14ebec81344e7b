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
	"tare/study/io/place"
)

const claimed = "S5.2"

// Judge reaches a verdict on S5.2 from a run, as far as it has the cells that decide it. The
// rule and its thresholds are the claim's own (package claim). The run may be one that was
// measured elsewhere, as S5's own.
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

// undecided is the judgement of a run whose cells the claim is on but none of which decides
// it; empty where it has no such cells.
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

// inVain names the cells that should have been read from the disk, and were not.
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
		says = append(says, fmt.Sprintf("in %s more than %g %% of the files' pages were in the page cache when reading began: counted as kept",
			report.Listed(all), 100*mostCached))
	}
	if len(some) > 0 {
		says = append(says, fmt.Sprintf("in %s some places read from the page cache and others from the disk: left out", report.Listed(some)))
	}
	return strings.Join(says, "; ")
}

// leftOut counts the cells that decide nothing because their ranks share CPUs.
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
	return report.Counted(n, "cell") + " with more ranks than CPUs decide nothing: the rate leaves out the wait for a CPU"
}

// judged are the modes in which the claim is judged: from the page cache, as S5 read, and
// from the disk, with the cache dropped or else bypassed.
func (r reading) judged() []mode {
	dropped, bypassed := mode{cache: Dropped, sync: NoSync}, mode{cache: Bypassed, sync: NoSync}
	modes := []mode{{cache: Kept, sync: NoSync}, dropped}
	if len(having(r.decisive(dropped), on(platform.StorageVolume), on(platform.StorageBind))) == 0 {
		modes[1] = bypassed
	}
	return modes
}

// finding is what one mode contributes to the verdict.
type finding struct {
	mode    mode
	cells   int
	floored bool                      // whether a floor has to stand beside
	counted string                    // what an interval is over: "block"
	volume  map[string]stats.Estimate // what is lost of bare metal's rate, in percent, by metric
	bind    map[string]stats.Estimate
	between map[string]stats.Estimate // the bind mount's rate in the volume's
	unsure  map[string]float64        // the uncertainty of the floor's level, in percent; NaN where there is no floor
	scatter map[string]float64        // the floor's scatter from block to block, in percent
	// losing, gaining and open count the intervals of single cells that are wholly a loss,
	// wholly a gain, and neither.
	losing, gaining, open int
	verdict               claim.Verdict
	why                   string
}

// find judges a mode by itself; false where it has not both storages.
func (r reading) find(m mode) (finding, bool) {
	volume, bind := on(platform.StorageVolume), on(platform.StorageBind)
	cells := having(r.decisive(m), volume, bind)
	f := finding{
		mode: m, cells: len(cells), floored: !r.imported(), counted: "block",
		volume: map[string]stats.Estimate{}, bind: map[string]stats.Estimate{}, between: map[string]stats.Estimate{},
		unsure: map[string]float64{}, scatter: map[string]float64{},
	}
	if len(cells) == 0 {
		return f, false
	}
	if r.imported() {
		f.counted = "repetition" // nothing says that they were made together
	}
	for _, metric := range metrics {
		f.volume[metric], f.bind[metric] = r.loss(cells, bare, volume, metric), r.loss(cells, bare, bind, metric)
		f.between[metric] = r.ratio(cells, volume, bind, metric)
		f.unsure[metric], f.scatter[metric] = math.NaN(), math.NaN()
		if floored := having(cells, below(bare)); len(floored) == len(cells) {
			f.scatter[metric], f.unsure[metric] = r.scatter(cells, below(bare), metric)
		}
	}
	f.count(r, cells)
	f.verdict, f.why = f.judge()
	for _, at := range []pick{volume, bind} {
		onAnother := func(c measured) bool { of, _ := at(c); return elsewhere(c.base, of) }
		if f.verdict != claim.Inconclusive && slices.ContainsFunc(cells, onAnother) {
			of, _ := at(cells[0])
			f.verdict, f.why = claim.Inconclusive, labelOf(of)+" lies on another disk than bare metal: the loss includes the disks' difference"
		}
	}
	if r.disturbed(cells) && f.verdict != claim.Inconclusive {
		f.verdict, f.why = claim.Inconclusive, "every block was disturbed by others"
	}
	return f, true
}

// count counts the single cells whose intervals show a loss, a gain or neither. It shows
// what a few cells that scatter hide in the mean.
func (f *finding) count(r reading, cells []measured) {
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

// elsewhere is whether two conditions lie on disks that are known to be different.
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
				return f.unlessUnsure(claim.Refuted, metric, loss.Value, fmt.Sprintf("a %s loses more than %g %%", metric, most))
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
		return f.unlessUnsure(claim.Refuted, "", smallest, fmt.Sprintf("bind mount and volume are equivalent within %g %%", smallest))
	case reversed != "":
		return f.unlessUnsure(claim.Refuted, reversed, f.gap(reversed), fmt.Sprintf("a %s loses more through the volume", reversed))
	case !below:
		return claim.Inconclusive, fmt.Sprintf("an interval reaches beyond %g %%", most)
	case apart == len(metrics):
		return f.unlessUnsure(claim.Confirmed, "", min(f.gap(write), f.gap(read)), "")
	case apart > 0 && apart+equal == len(metrics):
		of, other := read, write
		if stats.EquivalentWithin(f.between[read], smallest/100) {
			of, other = write, read
		}
		return f.unlessUnsure(claim.Qualified, of, f.gap(of), fmt.Sprintf("true of a %s alone; a %s loses the same through both", of, other))
	}
	return claim.Inconclusive, "bind mount and volume neither differ significantly nor are equivalent"
}

// gap is by how much more, in percent, the bind mount loses.
func (f finding) gap(metric string) float64 {
	return math.Abs(f.bind[metric].Value - f.volume[metric].Value)
}

// unlessUnsure takes a verdict back where the floor's own level is known less well than the
// effect: no platform acts on the floor. metric is that of the effect; empty is both. A run
// of our own without a floor decides nothing. A run that was measured elsewhere never had
// one.
func (f finding) unlessUnsure(v claim.Verdict, metric string, effect float64, why string) (claim.Verdict, string) {
	for _, m := range metrics {
		switch {
		case metric != "" && m != metric:
		case math.IsNaN(f.unsure[m]) && f.floored:
			return claim.Inconclusive, fmt.Sprintf("the disk's own scatter is unknown: fio's %s is missing, or was measured in too few blocks", m)
		case f.unsure[m] > effect:
			return claim.Inconclusive, fmt.Sprintf("the disk scatters too much: fio's %s is known to ±%.1f %%, and the effect is %.1f %% (scatter from block to block %.0f %%)",
				m, f.unsure[m], effect, f.scatter[m])
		}
	}
	return v, why
}

// together combines the verdicts of the modes.
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
		return claim.Refuted, "from the page cache, as S5 read; from the disk it is undecided"
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
		all = append(all, claim.Ours("overhead, "+metric+", volume"+suffix, f.volume[metric], 1, "%"),
			claim.Ours("overhead, "+metric+", bind mount"+suffix, f.bind[metric], 1, "%"))
	}
	return claim.Measured(all...)
}

func (f finding) says() string {
	return fmt.Sprintf("%s, a read loses %s through the volume and %s through the bind mount, a write %s and %s", f.mode.text(),
		place.Percent(f.volume[read], 1), place.Percent(f.bind[read], 1),
		place.Percent(f.volume[write], 1), place.Percent(f.bind[write], 1))
}

func (f finding) rests() string {
	text := fmt.Sprintf("%s: %s, %s", f.mode.text(), report.Counted(f.cells, "cell"), report.Counted(f.volume[write].N, f.counted))
	if f.cells > 1 {
		text += fmt.Sprintf("; of their intervals %d show a loss, %d a gain, %d neither", f.losing, f.gaining, f.open)
	}
	if f.verdict != claim.Inconclusive {
		text += ", " + string(f.verdict)
	}
	if f.why != "" {
		text += " (" + f.why + ")"
	}
	return text
}

// fromMemory says where reads are faster than the disk: by the floor, or, in a run that was
// measured elsewhere, by the rate that S5 gives for its disk. Such a run need not have S5's
// disk, so the text says it as a condition.
func (r reading) fromMemory() string {
	kept := r.of(mode{cache: Kept, sync: NoSync})
	if !r.imported() {
		for _, cache := range []string{Dropped, Bypassed} {
			disk := having(r.of(mode{cache: cache, sync: NoSync}), below(bare))
			cached, given := r.level(kept, bare, read), r.level(disk, below(bare), read)
			if cached.Value > given.Value {
				return fmt.Sprintf("with the page cache kept, bare metal reads at %s GB/s and the disk gives %s: those reads come from memory",
					report.Rounded(cached.Value/1e9, 2), report.Rounded(given.Value/1e9, 2))
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
	return fmt.Sprintf("in %d of %s bare metal reads faster than %s: if the device is as fast as S5's, those reads come from the page cache",
		above, report.Counted(len(kept), "cell"), device.Text())
}
