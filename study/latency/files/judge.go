package files

import (
	"fmt"
	"math"
	"strings"

	"tare/claim"
	"tare/image"
	"tare/platform"
	"tare/record"
	"tare/report"
)

// Judge reaches verdicts on S4.5 to S4.8 from a run, as far as it holds what
// decides them. The rules and thresholds are the claims' own (package claim).
func Judge(run record.Run) []claim.Judgement {
	r := read(run)
	var all []claim.Judgement
	for _, judge := range []func(reading) (claim.Judgement, bool){judgeWrites, judgeOpens, judgeWalks, judgeFlattened} {
		if j, ok := judge(r); ok {
			all = append(all, j)
		}
	}
	return all
}

const (
	perMicro  = 1e-3 // nanoseconds to microseconds
	perMilli  = 1e-6
	perSecond = 1e-9
)

// judgeWrites is S4.5: as fast in the layer as in the mounted directory.
func judgeWrites(r reading) (claim.Judgement, bool) {
	const id = "S4.5"
	j := claim.Judgement{Claim: id}
	bind, hasBind := r.stored(Write, string(platform.StorageBind))
	layer, hasLayer := r.stored(Write, string(platform.StorageLayer))
	if !hasBind || !hasLayer {
		return j, false
	}
	r = r.together(2)
	flush, sync := r.against(bind, layer, flushed), r.against(bind, layer, synced)
	if !flush.Known() || !sync.Known() {
		j.Verdict, j.Rests = claim.Inconclusive, tooFew(min(flush.N, sync.N))
		return j, true
	}
	percent := claim.Threshold(id, "smallest effect")
	j.Figures = []claim.Figure{
		claim.Ours("difference", flush.PercentMore(), 1, "%"),
		claim.Ours("difference, synced", sync.PercentMore(), 1, "%"),
	}
	j.Ours = fmt.Sprintf("a write in the layer takes %s times as long as in the mounted directory; with fsync, %s times",
		report.Said(flush, 1), report.Said(sync, 1))
	j.Rests = fmt.Sprintf("geometric mean over %s; %s; %d blocks", sizesText(r.sizes(flushed)), r.kept(), flush.N)
	switch {
	case outside(flush, percent), outside(sync, percent):
		j.Verdict = claim.Refuted
	case within(flush, percent) && within(sync, percent):
		j.Verdict = claim.Confirmed
	case within(flush, percent):
		j.Verdict = claim.Qualified
		j.Rests += "; decided only for writes without fsync"
	default:
		j.Verdict = claim.Inconclusive
	}
	return j, true
}

// judgeOpens is S4.6: opening is far slower in the layer, and the first opening for
// writing takes longer for larger files.
func judgeOpens(r reading) (claim.Judgement, bool) {
	const id = "S4.6"
	j := claim.Judgement{Claim: id}
	bind, hasBind := r.stored(Open, string(platform.StorageBind))
	inLayers := r.byLayers(Open, false)
	up, hasUp := r.stored(CopyUp, string(platform.StorageLayer))
	if !hasBind || len(inLayers) == 0 || !hasUp {
		return j, false
	}
	r = r.together(len(inLayers) + 1) // each number of layers, and the growth with the file
	limit := 1 + claim.Threshold(id, "slower")/100
	above, below := 0, 0
	var slower []string
	for i, c := range inLayers {
		ratio := r.against(bind, c, open)
		if !ratio.Known() {
			j.Verdict, j.Rests = claim.Inconclusive, tooFew(ratio.N)
			return j, true
		}
		name := "slower"
		if i > 0 {
			name += fmt.Sprintf(", %d layers", layers(c))
		}
		j.Figures = append(j.Figures, claim.Ours(name, ratio.PercentMore(), 1, "%"))
		slower = append(slower, fmt.Sprintf("%s %% at %s", report.Said(ratio.PercentMore(), 1), report.Counted(layers(c), "layer")))
		switch {
		case ratio.Interval.Low > limit:
			above++
		case ratio.Interval.High < limit:
			below++
		}
	}
	smallest, largest := copyUpEnds()
	grows := r.growth(up, firstOpen+"-"+label(smallest), firstOpen+"-"+label(largest))
	if !grows.Known() {
		j.Verdict, j.Rests = claim.Inconclusive, tooFew(grows.N)
		return j, true
	}
	j.Figures = append(j.Figures,
		claim.Ours("first opening for writing, "+bytesText(largest)+" against "+bytesText(smallest), grows, 1, "times"))
	for _, size := range image.FilesLowerSizes {
		first := r.Value(up, firstOpen+"-"+label(size.Bytes))
		j.Figures = append(j.Figures,
			claim.Measured(claim.Ours("first opening for writing, "+bytesText(size.Bytes), first, perMicro, "us"))...)
	}
	j.Ours = fmt.Sprintf("slower by %s; the first opening of %s for writing takes %s times as long as of %s",
		strings.Join(slower, ", "), bytesText(largest), report.Said(grows, 1), bytesText(smallest))
	j.Rests = fmt.Sprintf("openings for reading, with the file in a lower layer; %s; %d blocks", r.kept(), grows.N)
	switch {
	case below == len(inLayers), grows.Interval.High <= 1:
		j.Verdict = claim.Refuted
		if grows.Interval.Low > 1 {
			j.Rests += fmt.Sprintf("; the first opening for writing grows with the file, but opening is not %g %% slower", 100*(limit-1))
		}
	case above == len(inLayers) && grows.Interval.Low > 1:
		j.Verdict = claim.Confirmed
	default:
		j.Verdict = claim.Inconclusive
	}
	return j, true
}

// copyUpEnds are the smallest and the largest size.
func copyUpEnds() (smallest, largest int64) {
	sizes := image.FilesLowerSizes
	return sizes[0].Bytes, sizes[len(sizes)-1].Bytes
}

// published is how many layers S4 had at most.
func published() int {
	c, err := claim.Lookup("S4.7")
	if err != nil {
		panic(err)
	}
	f, ok := c.Figure("layers at most")
	if !ok {
		panic("claim S4.7 does not say how many layers there were at most")
	}
	return int(f.Value)
}

// judgeWalks is S4.7: a walk takes time in proportion to the layers.
func judgeWalks(r reading) (claim.Judgement, bool) {
	const id = "S4.7"
	j := claim.Judgement{Claim: id}
	walks := r.byLayers(Walk, false)
	if len(walks) < 2 || layers(walks[0]) != 1 {
		return j, false
	}
	r = r.together(3) // the slope, what a line leaves, and the ends
	one, most := walks[0], walks[len(walks)-1]
	line := r.line(walks)
	ratio := r.against(one, most, walk)
	if !ratio.Known() || !line.Slope.Known() {
		j.Verdict, j.Rests = claim.Inconclusive, tooFew(ratio.N)
		return j, true
	}
	percent, left := claim.Threshold(id, "smallest effect"), claim.Threshold(id, "variance left")/100
	j.Figures = claim.Measured(
		claim.Ours("one more layer", line.Slope, perMilli, "ms"),
		claim.Ours(fmt.Sprintf("%d layers against one", layers(most)), ratio, 1, "times"),
		claim.Ours("variance that a line leaves", line.Left, 100, "%"),
	)
	j.Ours = fmt.Sprintf("each layer adds %s ms to a walk of %s ms; a line leaves %s %% of the variance", report.Said(line.Slope, perMilli),
		report.Said(r.Value(one, walk), perMilli), report.Said(line.Left, 100))
	j.Rests = fmt.Sprintf("1 to %d layers with a tree of %d files; %s; %d blocks", layers(most), image.FilesTreeFiles, r.kept(), ratio.N)
	grows := line.Slope.Interval.Low > 0
	switch {
	case within(ratio, percent):
		j.Verdict = claim.Refuted
	case !line.Left.Known():
		j.Verdict = claim.Inconclusive
		j.Rests += fmt.Sprintf("; %d numbers of layers are too few to distinguish a line from a curve", len(walks))
	case grows && line.Left.Interval.High < left:
		j.Verdict = claim.Confirmed
	case grows && line.Left.Interval.Low > left:
		j.Verdict = claim.Qualified
		j.Rests += "; it grows, but not in a straight line"
	default:
		j.Verdict = claim.Inconclusive
	}
	if most := layers(most); most < published() && (j.Verdict == claim.Confirmed || j.Verdict == claim.Refuted) {
		j.Rests += fmt.Sprintf("; S4 had up to %d layers", published())
		if j.Verdict == claim.Confirmed {
			j.Verdict = claim.Qualified
		} else {
			j.Verdict = claim.Inconclusive
		}
	}
	return j, true
}

// judgeFlattened is S4.8: flattening restores one layer's speed and size, in seconds.
func judgeFlattened(r reading) (claim.Judgement, bool) {
	const id = "S4.8"
	j := claim.Judgement{Claim: id}
	walks, flat := r.byLayers(Walk, false), r.byLayers(Walk, true)
	if len(walks) == 0 || len(flat) == 0 || layers(walks[0]) != 1 || layers(flat[len(flat)-1]) == 1 {
		return j, false
	}
	r = r.together(2) // the walk, and the time to flatten
	one, of := walks[0], flat[len(flat)-1]
	ratio, took := r.against(one, of, walk), r.Value(of, flattening)
	if !ratio.Known() || !took.Known() {
		j.Verdict, j.Rests = claim.Inconclusive, tooFew(ratio.N)
		return j, true
	}
	percent, limit := claim.Threshold(id, "smallest effect"), claim.Threshold(id, "time to flatten")
	single := math.NaN()
	if layers(flat[0]) == 1 {
		single = r.covariate(flat[0], bytesBefore)
	}
	before, after := r.covariate(of, bytesBefore), r.covariate(of, bytesAfter)
	j.Figures = claim.Measured(
		claim.Ours("walk, flattened against one layer", ratio, 1, "times"),
		claim.Figure{Name: "size, " + report.Counted(layers(of), "layer"), Value: before / 1e9, Unit: "GB"},
		claim.Figure{Name: "size, flattened", Value: after / 1e6, Unit: "MB"},
		claim.Figure{Name: "size, one layer", Value: single / 1e6, Unit: "MB"},
		claim.Ours("time to flatten", took, 1, "s"),
	)
	j.Ours = fmt.Sprintf("flattened from %s, a walk takes %s times as long as in one layer; the size is %s MB, before %s MB; flattening takes %s s",
		report.Counted(layers(of), "layer"), report.Said(ratio, 1),
		report.Rounded(after/1e6, 4), report.Rounded(before/1e6, 4), report.Said(took, 1))
	j.Rests = fmt.Sprintf("walks paired within %d blocks; sizes as the engine reports them; %s", ratio.N, r.kept())
	small := math.Abs(after/single-1) <= percent/100
	switch {
	case outside(ratio, percent):
		j.Verdict = claim.Refuted
	case within(ratio, percent) && small && took.Interval.High < limit:
		j.Verdict = claim.Confirmed
	case within(ratio, percent) && small && took.Interval.Low >= limit:
		j.Verdict = claim.Qualified
		j.Rests += fmt.Sprintf("; it takes longer than %g s", limit)
	default:
		j.Verdict = claim.Inconclusive
		if !small {
			j.Rests += "; its size is not that of one layer, or is unknown"
		}
	}
	return j, true
}

// kept names the engine's storage driver.
func (r reading) kept() string {
	if d := r.driver(); d != "" {
		return "storage driver " + d + " (S4: AUFS)"
	}
	return "storage driver unknown (S4: AUFS)"
}

func sizesText(sizes []int64) string {
	switch len(sizes) {
	case 0:
		return "no size"
	case 1:
		return "writes of " + bytesText(sizes[0])
	}
	return fmt.Sprintf("%d sizes of writes, %s to %s", len(sizes), bytesText(sizes[0]), bytesText(sizes[len(sizes)-1]))
}

// bytesText is a size as S4 writes it.
func bytesText(size int64) string {
	switch {
	case size >= 1<<20 && size%(1<<20) == 0:
		return fmt.Sprintf("%d MB", size>>20)
	case size >= 1<<10 && size%(1<<10) == 0:
		return fmt.Sprintf("%d KB", size>>10)
	}
	return fmt.Sprintf("%d B", size)
}

func tooFew(blocks int) string {
	if blocks == 1 {
		return "one block is too few for an interval"
	}
	return claim.TooFew(blocks)
}
