package bandwidth

import (
	"fmt"
	"slices"
	"strings"

	"tare/claim"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// judged is the claim that this study decides.
const judged = "S5.1"

// Judge reaches a verdict on S5.1 from a run that has containers against bare metal
// at sizes beyond the caches, measured here or elsewhere. The rule and its threshold
// are the claim's own (package claim).
func Judge(run record.Run) []claim.Judgement {
	r := read(run)
	spots := slices.DeleteFunc(r.decisive(), func(s spot) bool { return len(s.contained()) == 0 })
	if len(spots) == 0 {
		return nil
	}
	percent := claim.Threshold(judged, "smallest effect")
	j := claim.Judgement{Claim: judged, Figures: r.figures(spots)}
	var ours []string
	inside, outside, blocks := 0, 0, -1
	for _, kernel := range kernels {
		ratio := r.pooled(spots, spot.contained, kernel)
		if blocks < 0 || ratio.N < blocks {
			blocks = ratio.N
		}
		if ratio.Value == ratio.Value {
			ours = append(ours, fmt.Sprintf("%s %s %%", kernel, report.Said(lost(ratio), 1)))
		}
		switch {
		case within(ratio, percent):
			inside++
		case beyond(ratio, percent):
			outside++
		}
	}
	if len(ours) > 0 {
		j.Ours = "containers lose " + strings.Join(ours, ", ")
	}
	why := []string{fmt.Sprintf("%s beyond the caches, %s, %s", cellsText(spots), strings.Join(r.storages(), ", "), r.blocksText(blocks))}
	if !spots[0].told {
		why = append(why, fmt.Sprintf("nobody tells of its caches: sizes from %s elements on are taken to be beyond them", millions(leastElements)))
	}
	control, separated := r.control(spots, percent)
	if control != "" {
		why = append(why, control)
	}
	switch {
	case outside > 0 && separated:
		j.Verdict = claim.Inconclusive
	case outside > 0:
		j.Verdict = claim.Refuted
	case inside == len(kernels):
		j.Verdict = claim.Confirmed
	default:
		j.Verdict = claim.Inconclusive
		why = append(why, fmt.Sprintf("%d of %d intervals lie within %g %%", inside, len(kernels), percent))
	}
	j.Rests = strings.Join(why, "; ")
	return []claim.Judgement{j}
}

// blocksText is a number of blocks, or of what stands for them in a run that was
// measured elsewhere.
func (r reading) blocksText(n int) string {
	noun := "block"
	if r.Run.Plan.Imported != nil {
		noun = "repetition" // nothing says that they were made together
	}
	switch n {
	case 0:
		return "no " + noun + " that all have"
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// within and beyond tell where an interval lies beside the smallest effect, in percent.
func within(ratio stats.Estimate, percent float64) bool {
	return ratio.Known() && ratio.Interval.Low >= 1-percent/100 && ratio.Interval.High <= 1+percent/100
}

func beyond(ratio stats.Estimate, percent float64) bool {
	return ratio.Known() && (ratio.Interval.Low > 1+percent/100 || ratio.Interval.High < 1-percent/100)
}

// figures are ours: of each storage at S5's size, named as the published ones, and of
// each kernel over all sizes.
func (r reading) figures(spots []spot) []claim.Figure {
	var all []claim.Figure
	at := slices.DeleteFunc(slices.Clone(spots), func(s spot) bool { return s.elements != publishedCell })
	for _, s := range []struct {
		storage platform.Storage
		name    string
	}{{platform.StorageVolume, "overhead, volume"}, {platform.StorageBind, "overhead, bind mount"}, {platform.StorageLayer, "overhead, layer"}} {
		if ratio := r.pooled(at, stored(string(s.storage)), kernels...); len(at) > 0 {
			all = append(all, claim.Ours(s.name+", "+millions(publishedCell)+" elements", lost(ratio), 1, "%"))
		}
	}
	for _, kernel := range kernels {
		all = append(all, claim.Ours("overhead, "+kernel, lost(r.pooled(spots, spot.contained, kernel)), 1, "%"))
	}
	return claim.Measured(all...)
}

// control says what the negative control says of the procedure, and whether it
// separates by more than the smallest effect what is equal.
func (r reading) control(spots []spot, percent float64) (text string, separated bool) {
	var volumes, binds []map[int]float64
	for _, s := range spots {
		volume, bind := s.Stored(string(platform.StorageVolume)), s.Stored(string(platform.StorageBind))
		if len(volume) == 0 || len(bind) == 0 {
			continue
		}
		for _, kernel := range kernels {
			volumes, binds = append(volumes, r.PerBlock(volume[0], kernel)), append(binds, r.PerBlock(bind[0], kernel))
		}
	}
	ratio := r.Ratio(together(volumes), together(binds))
	if !ratio.Known() {
		return "", false
	}
	text = fmt.Sprintf("bind mount against volume, which the program touches neither of: %s times", report.Said(ratio, 1))
	if beyond(ratio, percent) {
		return text + ", so that this procedure finds differences of this size where there is none", true
	}
	return text, false
}

// cellsText names the cells of a judgement: each where they are few.
func cellsText(spots []spot) string {
	if len(spots) > 4 {
		return fmt.Sprintf("%d cells of %s to %s elements", len(spots), millions(spots[0].elements), millions(spots[len(spots)-1].elements))
	}
	var names []string
	for _, s := range spots {
		names = append(names, s.text())
	}
	return strings.Join(names, ", ") + " (elements x processes)"
}
