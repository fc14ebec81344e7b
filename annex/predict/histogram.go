package predict

import "math"

// histogram counts times in steps of a sixteenth of a power of two, up to a horizon beyond
// which they are only counted. What is counted fades by a share with each that comes.
type histogram struct {
	weights []float32
	beyond  float64
}

const (
	stepsPerOctave = 16
	shortest       = 1e-3 // seconds; what is shorter is as if it were so long
	// histogramKeep has the last fifty weigh as much as all before them twice over.
	histogramKeep = 0.98
	faded         = 1e-4
)

func newHistogram(horizon float64) histogram {
	return histogram{weights: make([]float32, stepOf(max(horizon, 2*shortest))+1)}
}

func stepOf(t float64) int {
	return max(0, int(math.Log2(max(t, shortest)/shortest)*stepsPerOctave))
}

func (h *histogram) add(t float64) {
	for i := range h.weights {
		if h.weights[i] *= histogramKeep; h.weights[i] < faded {
			h.weights[i] = 0
		}
	}
	h.beyond *= histogramKeep
	if i := stepOf(t); i < len(h.weights) {
		h.weights[i]++
	} else {
		h.beyond++
	}
}

// piece is a weight that lies evenly between two times.
type piece struct{ from, to, weight float64 }

// quantiles are of the times that are longer than waited, of ascending shares: such that the
// next is as likely below them as they say, where it is drawn as those were. For that, the
// next is counted too, half of it below the shortest (down to a half of it) and half above
// the longest (up to twice it), which is what one more of n values does to their ranks. Times
// beyond the horizon are infinite. False where less than half an observation is that long.
func (h *histogram) quantiles(waited float64, shares [3]float64) (q [3]float64, ok bool) {
	var room [512]piece
	pieces := h.longer(room[:0], waited)
	whole := h.beyond
	for _, p := range pieces {
		whole += p.weight
	}
	if whole < 0.5 {
		return q, false
	}
	below, k := 0.0, 0
	for _, p := range pieces {
		for ; k < len(shares) && below+p.weight >= shares[k]*whole; k++ {
			q[k] = p.from + (p.to-p.from)*(shares[k]*whole-below)/p.weight
		}
		below += p.weight
	}
	for ; k < len(shares); k++ {
		q[k] = math.Inf(1)
	}
	return q, true
}

// longer appends what is longer than waited, in pieces.
func (h *histogram) longer(pieces []piece, waited float64) []piece {
	add := func(from, to, weight float64) {
		if at := max(from, waited); at < to && weight > 0 {
			pieces = append(pieces, piece{at, to, weight * (to - at) / (to - from)})
		}
	}
	step := math.Exp2(1.0 / stepsPerOctave)
	low, high := shortest, 0.0
	for _, w := range h.weights {
		if w > 0 {
			if high == 0 {
				add(low/2, low, 0.5)
			}
			high = low * step
			add(low, high, float64(w))
		}
		low *= step
	}
	if high > 0 && h.beyond < 0.5 {
		add(high, 2*high, 0.5-h.beyond)
	}
	return pieces
}
