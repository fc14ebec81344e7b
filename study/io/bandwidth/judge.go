package bandwidth

import (
	"fmt"
	"slices"
	"strings"

	"tare/claim"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/study/io/place"
)

// judged is the claim that this study decides.
const judged = "S5.1"

// Judge reaches a verdict on S5.1 from a run that has containers against bare metal
// at sizes beyond the caches, measured here or elsewhere. The rule and its threshold
// are the claim's own (package claim). Each platform is judged by itself: one that
// loses is not made up for by another that gains.
func Judge(run record.Run) []claim.Judgement {
	r := read(run)
	spots := slices.DeleteFunc(r.decisive(), func(s spot) bool { return len(s.contained()) == 0 })
	if len(spots) == 0 {
		return nil
	}
	percent := claim.Threshold(judged, "smallest effect")
	j := claim.Judgement{Claim: judged}
	var figures []claim.Figure
	var ours, said []string
	confirmed, refuted, separated, blocks := true, false, false, -1
	engines := platforms(spots)
	r = r.together((len(kernels) + 1) * len(engines)) // of each platform the kernels and the control
	for _, engine := range engines {
		f := r.find(on(engine, spots), percent)
		name, suffix := "containers lose ", ""
		if len(engines) > 1 {
			name, suffix = engine+" loses ", ", "+engine
			for i := range f.said {
				f.said[i] = engine + ": " + f.said[i]
			}
		}
		figures = append(figures, r.figures(f.spots, suffix)...)
		if len(f.lost) > 0 {
			ours = append(ours, name+strings.Join(f.lost, ", "))
		}
		said = append(said, f.said...)
		confirmed, refuted = confirmed && f.inside == len(kernels), refuted || f.outside > 0
		separated = separated || f.separated
		if blocks < 0 || f.blocks < blocks {
			blocks = f.blocks
		}
	}
	switch {
	case separated: // the method found a difference where there is none: it decides nothing
		j.Verdict = claim.Inconclusive
	case refuted:
		j.Verdict = claim.Refuted
	case confirmed:
		j.Verdict = claim.Confirmed
	default:
		j.Verdict = claim.Inconclusive
	}
	why := []string{fmt.Sprintf("%s beyond the caches, %s, %s",
		cellsText(spots), strings.Join(r.storages(), ", "), place.Blocks(r.Run, blocks))}
	if !spots[0].reported {
		why = append(why, fmt.Sprintf("the size of the caches is unknown: arrays of %s elements or more count as larger", millions(leastElements)))
	}
	j.Figures, j.Ours = claim.Measured(figures...), strings.Join(ours, "; ")
	j.Rests = strings.Join(append(why, said...), "; ")
	return []claim.Judgement{j}
}

// finding is what one platform's containers show.
type finding struct {
	spots           []spot
	inside, outside int // kernels
	blocks          int
	separated       bool     // the negative control found a difference
	lost, said      []string // of each kernel; and of what the verdict rests on
}

func (r reading) find(spots []spot, percent float64) finding {
	f := finding{spots: spots, blocks: -1}
	for _, kernel := range kernels {
		ratio := r.pooled(spots, spot.contained, kernel)
		if f.blocks < 0 || ratio.N < f.blocks {
			f.blocks = ratio.N
		}
		if ratio.Value == ratio.Value {
			f.lost = append(f.lost, kernel+" "+place.Percent(lost(ratio), 1))
		}
		switch {
		case within(ratio, percent):
			f.inside++
		case beyond(ratio, percent):
			f.outside++
		}
	}
	var control string
	if control, f.separated = r.control(spots, percent); control != "" {
		f.said = append(f.said, control)
	}
	if f.outside == 0 && f.inside < len(kernels) {
		f.said = append(f.said, fmt.Sprintf("%d of %d intervals lie within %g %%", f.inside, len(kernels), percent))
	}
	return f
}

// platforms are those of the containers in spots; what was measured elsewhere need not
// name any, and is then of one.
func platforms(spots []spot) (names []string) {
	for _, s := range spots {
		for _, c := range s.contained() {
			if name := c.Factors[place.FactorEngine]; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// on are the spots that have containers of a platform, with no others.
func on(engine string, spots []spot) (all []spot) {
	for _, s := range spots {
		kept := s
		kept.All = slices.DeleteFunc(slices.Clone(s.All), func(c record.Condition) bool {
			return c.ID != s.base.ID && c.Factors[place.FactorFloor] == "" && c.Factors[place.FactorEngine] != engine
		})
		if len(kept.contained()) > 0 {
			all = append(all, kept)
		}
	}
	return all
}

// figures are ours: of each storage at S5's size, named as the published ones, and of
// each kernel over all sizes. The suffix names the platform where there are several.
func (r reading) figures(spots []spot, suffix string) []claim.Figure {
	var all []claim.Figure
	at := slices.DeleteFunc(slices.Clone(spots), func(s spot) bool { return s.elements != publishedCell })
	for _, s := range []struct {
		storage platform.Storage
		name    string
	}{
		{platform.StorageVolume, "overhead, volume"}, {platform.StorageBind, "overhead, bind mount"},
		{platform.StorageLayer, "overhead, layer"},
	} {
		if ratio := r.pooled(at, stored(string(s.storage)), kernels...); len(at) > 0 {
			all = append(all, claim.Ours(s.name+", "+millions(publishedCell)+" elements"+suffix, lost(ratio), 1, "%"))
		}
	}
	for _, kernel := range kernels {
		all = append(all, claim.Ours("overhead, "+kernel+suffix, lost(r.pooled(spots, spot.contained, kernel)), 1, "%"))
	}
	return all
}

// control is the result of the negative control, and whether it found a difference larger
// than the smallest effect.
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
	text = fmt.Sprintf("bind mount against volume, of which the program uses neither: %s times", report.Said(ratio, 1))
	if beyond(ratio, percent) {
		return text + ", a difference of the method and not of the storage", true
	}
	return text, false
}

// cellsText names the cells of a judgement: each where they are few.
func cellsText(spots []spot) string {
	if len(spots) > 4 {
		return fmt.Sprintf("%d cells of %s to %s elements",
			len(spots), millions(spots[0].elements), millions(spots[len(spots)-1].elements))
	}
	var names []string
	for _, s := range spots {
		names = append(names, s.text())
	}
	return strings.Join(names, ", ") + " (elements x processes)"
}
