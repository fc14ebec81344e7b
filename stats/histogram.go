package stats

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// blockCounts are the histograms of one condition, one a block, laid out so
// that a quantile of any weighted merger of blocks takes a binary search.
type blockCounts struct {
	blocks int
	// low and high are the edges of the buckets that hold anything, ascending.
	low, high []float64
	// upTo[k*blocks+b] is the number of values of block b in buckets 0 to k.
	upTo []float64
}

// newBlockCounts refuses blocks without values: an empty one is a trial that
// measured nothing, and leaving it out is the caller's to decide.
func newBlockCounts(histograms []*hdrhistogram.Histogram) (*blockCounts, error) {
	c := &blockCounts{blocks: len(histograms)}
	type bucket struct{ from, to int64 }
	perBlock := make([][]hdrhistogram.Bar, len(histograms))
	seen := map[bucket]bool{}
	for b, h := range histograms {
		if h == nil || h.TotalCount() == 0 {
			return nil, fmt.Errorf("histogram %d of %d holds no values", b+1, len(histograms))
		}
		perBlock[b] = filled(h)
		for _, bar := range perBlock[b] {
			seen[bucket{bar.From, bar.To}] = true
		}
	}
	buckets := slices.SortedFunc(maps.Keys(seen), func(x, y bucket) int {
		return cmp.Or(cmp.Compare(x.to, y.to), cmp.Compare(x.from, y.from))
	})

	// A bucket holds whole numbers; each stands for what rounds to it.
	previous := 0.0
	c.low, c.high = make([]float64, len(buckets)), make([]float64, len(buckets))
	for k, bucket := range buckets {
		// Histograms of different precision may overlap: the edges stay ascending.
		c.low[k] = max(previous, float64(bucket.from)-0.5)
		c.high[k] = float64(bucket.to) + 0.5
		previous = c.high[k]
	}
	c.upTo = make([]float64, len(buckets)*c.blocks)
	for b, bars := range perBlock {
		var total float64
		for k := range buckets {
			if len(bars) > 0 && bars[0].From == buckets[k].from && bars[0].To == buckets[k].to {
				total += float64(bars[0].Count)
				bars = bars[1:]
			}
			c.upTo[k*c.blocks+b] = total
		}
	}
	return c, nil
}

// filled lists the buckets of a histogram that are not empty. Its Distribution lists tens of thousands of
// empty ones too, which took most of the time of an analysis.
func filled(h *hdrhistogram.Histogram) (bars []hdrhistogram.Bar) {
	// The format: the first 2^(half+1) buckets are 2^unit wide, and those of each further 2^half are twice as
	// wide as those before.
	half := int(math.Ceil(math.Log2(2*math.Pow10(int(h.SignificantFigures()))))) - 1
	unit := bits.Len64(uint64(max(1, h.LowestTrackableValue()))) - 1
	for i, count := range h.Export().Counts {
		if count == 0 {
			continue
		}
		doubled := max(0, i>>half-1)
		from := int64(i-doubled<<half) << (doubled + unit)
		bars = append(bars, hdrhistogram.Bar{From: from, To: from + 1<<(doubled+unit) - 1, Count: count})
	}
	return bars
}

// compare orders two blocks by what they hold. Only equal blocks are equal.
func (c *blockCounts) compare(a, b int) int {
	for k := range c.high {
		if order := cmp.Compare(c.upTo[k*c.blocks+a], c.upTo[k*c.blocks+b]); order != 0 {
			return order
		}
	}
	return 0
}

// beyond is the number of values further out than the q-quantile of all blocks.
func (c *blockCounts) beyond(q float64) float64 {
	return min(q, 1-q) * sum(c.upTo[len(c.upTo)-c.blocks:])
}

// merger is the blocks of one condition merged with weights. It keeps the sums
// that it has formed: the searches of a jackknife pass through the same few
// buckets once for every block.
type merger struct {
	*blockCounts
	weights []float64
	sums    []float64 // weighted number of values in buckets 0 to k
	formed  []int     // the round in which sums[k] was formed
	round   int
}

func newMerger(c *blockCounts) *merger {
	return &merger{blockCounts: c, sums: make([]float64, len(c.high)), formed: make([]int, len(c.high))}
}

// weigh begins a new merger.
func (m *merger) weigh(weights []float64) {
	m.weights = weights
	m.round++
}

// everyBlock, given for the block to leave out, leaves out none.
const everyBlock = -1

// below is the weighted number of values in buckets 0 to k, with the weight of
// one block taken down by one.
func (m *merger) below(k, without int) float64 {
	row := m.upTo[k*m.blocks : (k+1)*m.blocks]
	if m.formed[k] != m.round {
		var total float64
		for b, n := range row {
			total += m.weights[b] * n
		}
		m.sums[k], m.formed[k] = total, m.round
	}
	if without == everyBlock {
		return m.sums[k]
	}
	return m.sums[k] - row[without]
}

// quantile is the q-quantile of the merged blocks, by interpolation within the
// bucket.
func (m *merger) quantile(q float64, without int) float64 {
	last := len(m.high) - 1
	target := q * m.below(last, without)
	k := sort.Search(last, func(k int) bool { return m.below(k, without) >= target })
	var before float64
	if k > 0 {
		before = m.below(k-1, without)
	}
	inside := m.below(k, without) - before
	return m.low[k] + (m.high[k]-m.low[k])*(target-before)/inside
}
