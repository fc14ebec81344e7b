package data

import (
	"math"
	"slices"
	"time"

	"tare/annex"
)

// coldness finds the age from which pages of a context count as cold: the lowest threshold
// under which no more pages would have been wanted back in a minute than the policy's share
// of the working set (Software-Defined Far Memory, sections 4.2 and 4.3).
type coldness struct {
	// histogram are the ages of pages in memory that are in no record, at the last scan.
	histogram [oldest + 1]uint32

	promoted [oldest + 1]uint32 // uses in this minute, by the age that the page had
	from     annex.Moment       // when this minute began
	best     []uint8            // thresholds that would have been best, of the last minutes
	next     int                // of best, which is the oldest
	// threshold is the age in ticks; none is that there is no cold page.
	threshold uint8
}

const none = math.MaxUint8

// promote notes the use of a page of an age.
func (g *coldness) promote(age uint8) {
	if age > 0 {
		g.promoted[age]++
	}
}

// closed ends a minute that has passed, and chooses the threshold for the next: the
// percentile of the best ones so far, or the last one where that is higher, so that a
// container that changed is not taken for what it was.
func (g *coldness) closed(now annex.Moment, working int, p Policy) {
	if now.Since(g.from) < time.Minute {
		return
	}
	minutes := now.Since(g.from).Minutes()
	allowed := p.PromotionRate * float64(working) * minutes
	least := uint8(min((p.ColdLeast+p.Tick-1)/p.Tick, oldest))
	best, sum := uint8(none), 0.0
	for t := oldest; t >= int(least); t-- {
		if sum += float64(g.promoted[t]); sum > allowed {
			break
		}
		best = uint8(t)
	}
	if len(g.best) < p.History {
		g.best = append(g.best, best)
	} else {
		g.best[g.next%len(g.best)] = best
		g.next++
	}
	sorted := slices.Sorted(slices.Values(g.best))
	at := min(int(math.Ceil(p.Percentile*float64(len(sorted))))-1, len(sorted)-1)
	g.threshold = max(sorted[max(at, 0)], best)
	g.promoted = [oldest + 1]uint32{}
	g.from = now
}
