package census

import (
	"context"
	"fmt"
	"math"

	"tare/probe/pagetable"
	"tare/stats"
)

// Contents is what the bytes of anonymous memory have in common that only one
// entry maps: what merging equal pages (KSM) could save.
//
// A sample takes the same places in every container: a page is drawn by how far
// it is from its mapping's start. Containers of one image tend to hold equal
// pages at equal places, and those the sample finds in their true proportion;
// equal pages at different places it mostly misses. So of a sample, Share is
// too low rather than too high.
type Contents struct {
	Candidates uint64 `json:"candidates"` // pages that could be merged
	Read       uint64 `json:"read"`       // of them
	Failed     uint64 `json:"failed"`     // could not be read: gone, or swapped meanwhile
	Zero       uint64 `json:"zero"`       // of Read, hold nothing but zeros
	Distinct   uint64 `json:"distinct"`   // different contents among the others
	// Complete means that all candidates were to be read: then Share is exact, but
	// for what changed meanwhile.
	Complete bool `json:"complete"`
	// Share is the part of the candidates that would be saved, were each content
	// held once and zeros not at all (as with KSM's use_zero_pages): of a sample with
	// an interval of 95 %, from groups of places. It is nil where nothing was read.
	Share *Share `json:"share,omitempty"`
}

// Share is an estimated part of 1, with its interval.
type Share struct {
	Value float64 `json:"value"`
	// Low and High are the interval; both are Value where everything was read, and
	// absent where there was too little to make one.
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	Level  float64  `json:"level"`
	Method string   `json:"method"`
}

// Saved is what the pages read would save, in bytes: of a sample, no more than
// the pages in it.
func (c *Contents) Saved() uint64 { return (c.Read - c.Distinct) * pagetable.PageSize }

// page is a page of the sample.
type page struct {
	hash  uint64
	place uint64 // what draws it, the same in every container
	group int
	zero  bool
}

type sample struct {
	pages      []page
	candidates map[int]uint64 // by group
	failed     map[int]uint64
	complete   bool
}

// candidate selects anonymous pages of base size or huge that only one entry maps.
func (n *counter) candidate(e pagetable.Entry) bool {
	return sort(e) == framed && isAnonymous(e) && !e.Has(pagetable.KSM) && n.frames.cell(e.Frame()).seen&again == 0
}

// sample reads the candidates, or as many of them as are wanted.
func (n *counter) sample(ctx context.Context, o SavingOptions) (*sample, error) {
	s := &sample{candidates: map[int]uint64{}, failed: map[int]uint64{}}
	var total uint64
	for i := range n.census.Spaces {
		space := &n.census.Spaces[i]
		for r := range space.Runs {
			for _, e := range space.Runs[r].Entries {
				if n.candidate(e) {
					s.candidates[space.Group]++
					total++
				}
			}
		}
	}
	below := uint64(math.MaxUint64)
	wanted := uint64(o.Sample) * uint64(len(s.candidates))
	if s.complete = o.Sample <= 0 || wanted >= total; !s.complete {
		below = uint64(float64(wanted) / float64(total) * math.MaxUint64)
	}
	for i := range n.census.Spaces {
		space := &n.census.Spaces[i]
		for r := range space.Runs {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("read the contents of pages: %w", context.Cause(ctx))
			}
			run := &space.Runs[r]
			m := &space.Mappings[run.Mapping]
			for k, e := range run.Entries {
				if !n.candidate(e) {
					continue
				}
				at := run.Page + uint64(k)
				place := scatter(scatter(o.Seed^(at-m.Start/pagetable.PageSize)) + uint64(m.Kind))
				if place > below {
					continue
				}
				hash, zero, ok := o.Contents(space.PID, at)
				if !ok {
					s.failed[space.Group]++
					continue
				}
				s.pages = append(s.pages, page{hash, place, space.Group, zero})
			}
		}
	}
	return s, nil
}

// scatter is a bijection that leaves no order in its values: the output function
// of SplitMix64 (Steele, Lea and Flood 2014).
func scatter(x uint64) uint64 {
	x += fibonacci
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// groupsOfPlaces are what a sample is parted into for its interval.
const groupsOfPlaces = 20

const level = 0.95

// compare compares the pages of the groups for which in holds, of all where it is nil.
func (s *sample) compare(in func(group int) bool) *Contents {
	c := &Contents{Complete: s.complete}
	for group, n := range s.candidates {
		if in == nil || in(group) {
			c.Candidates += n
			c.Failed += s.failed[group]
		}
	}
	times := map[uint64]uint64{}
	for _, p := range s.pages {
		if in != nil && !in(p.group) {
			continue
		}
		if c.Read++; p.zero {
			c.Zero++
		} else {
			times[p.hash]++
		}
	}
	c.Distinct = uint64(len(times))
	if c.Read == 0 {
		return c
	}
	// Each page bears its part of what its content saves: of n equal ones, all but one.
	var pages, saved [groupsOfPlaces]float64
	for _, p := range s.pages {
		if in != nil && !in(p.group) {
			continue
		}
		g := scatter(p.place) % groupsOfPlaces
		pages[g]++
		if saved[g]++; !p.zero {
			saved[g] -= 1 / float64(times[p.hash])
		}
	}
	c.Share = shareOf(pages[:], saved[:], s.complete)
	return c
}

// shareOf is the ratio of what is saved to what there is, with the jackknife's
// interval over groups (Tukey 1958: pseudo-values, and t).
func shareOf(pages, saved []float64, complete bool) *Share {
	sum := func(values []float64) (total float64) {
		for _, v := range values {
			total += v
		}
		return total
	}
	n, y := sum(pages), sum(saved)
	s := &Share{Value: y / n, Level: level, Method: "all read"}
	if complete {
		s.Low, s.High = &s.Value, &s.Value
		return s
	}
	s.Method = string(stats.MethodJackknifeT)
	var pseudo []float64
	groups := float64(len(pages))
	for g := range pages {
		if pages[g] == n {
			return s // all in one group: nothing to compare it with
		}
		pseudo = append(pseudo, groups*y/n-(groups-1)*(y-saved[g])/(n-pages[g]))
	}
	e := stats.MeanBy(stats.MethodT, pseudo, level, 1)
	if !e.Known() {
		return s
	}
	low, high := max(0, e.Interval.Low), min(1, e.Interval.High)
	s.Low, s.High = &low, &high
	return s
}
