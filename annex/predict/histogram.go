package predict

import "math"

// histogram counts times in steps of a sixteenth of a power of two, up to a horizon beyond
// which they are only counted. What is counted fades by a share with each that comes.
type histogram struct {
	weights []float32
	beyond  float64
	squares float64 // of the weights of all that was counted: how many they are worth
	total   float64
}

const (
	stepsPerOctave = 16
	shortest       = 1e-3 // seconds; what is shorter is as if it were so long
	// histogramKeep has the last fifty weigh as much as all before them twice over.
	histogramKeep = 0.98
)

func newHistogram(horizon float64) histogram {
	return histogram{weights: make([]float32, stepOf(max(horizon, 2*shortest))+1)}
}

func stepOf(t float64) int {
	return max(0, int(math.Log2(max(t, shortest)/shortest)*stepsPerOctave))
}

// stepLow is where a step begins.
func stepLow(i int) float64 { return shortest * math.Exp2(float64(i)/stepsPerOctave) }

func (h *histogram) add(t float64) {
	for i := range h.weights {
		h.weights[i] *= histogramKeep
	}
	h.beyond *= histogramKeep
	h.total = h.total*histogramKeep + 1
	h.squares = h.squares*histogramKeep*histogramKeep + 1
	if i := stepOf(t); i < len(h.weights) {
		h.weights[i]++
	} else {
		h.beyond++
	}
}

// quantiles are of the times that are longer than waited: such that the next is as likely
// below them as they say, where it is drawn as those were. For that, the next is counted
// too, half of it below the shortest (down to a half of it) and half above the longest (up
// to twice it), which is what one more of n values does to their ranks. Times beyond the
// horizon are infinite. False where less than half an observation is that long.
func (h *histogram) quantiles(waited float64, shares [3]float64) (q [3]float64, ok bool) {
	first, last := -1, -1
	for i, w := range h.weights {
		if w > 1e-6 {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return q, false
	}
	low, high := stepLow(first), stepLow(last+1)
	each := func(do func(from, to, weight float64)) {
		do(low/2, low, 0.5)
		for i := first; i <= last; i++ {
			if w := float64(h.weights[i]); w > 0 {
				do(stepLow(i), stepLow(i+1), w)
			}
		}
		if h.beyond < 0.5 {
			do(high, 2*high, 0.5-h.beyond)
		}
	}
	// left is what of a piece is longer than waited.
	left := func(from, to, weight float64) (float64, float64) {
		if from = max(from, waited); from < to {
			return from, weight
		}
		return from, 0
	}
	whole := h.beyond
	each(func(from, to, weight float64) {
		if at, w := left(from, to, weight); w > 0 {
			whole += w * (to - at) / (to - from)
		}
	})
	if whole < 0.5 {
		return q, false
	}
	for k, share := range shares {
		rank, below := share*whole, 0.0
		q[k] = math.Inf(1)
		each(func(from, to, weight float64) {
			at, w := left(from, to, weight)
			if w == 0 || !math.IsInf(q[k], 1) {
				return
			}
			w *= (to - at) / (to - from)
			if below+w >= rank {
				q[k] = at + (to-at)*(rank-below)/w
			}
			below += w
		})
	}
	return q, true
}

// effective is how many observations of equal weight tell as much (Kish).
func (h *histogram) effective() float64 { return share(h.total*h.total, h.squares) }
