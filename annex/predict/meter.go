package predict

import (
	"math/bits"
	"time"
)

// gate is open while a share is not below a threshold. Closed, it opens again only once
// the share is a margin above it, so that it does not flutter.
type gate struct{ threshold, margin float64 }

func (g gate) next(open bool, share float64) bool {
	if open {
		return share >= g.threshold
	}
	return share >= g.threshold+g.margin
}

// meter weighs a predictor: of what it said, and of what happened. Older observations
// weigh less: age says when.
type meter struct {
	hits, told     float64 // predictions that came true, and all that were decided
	foretold, came float64 // what happened and had been predicted, and all that happened
	leads          leads
	enough         float64 // below so much told it is not judged
	shut           bool
}

// prediction counts n predictions that came true, or did not.
func (m *meter) prediction(n float64, true_ bool) {
	m.told += n
	if true_ {
		m.hits += n
	}
}

// event counts something that happened, predicted or not.
func (m *meter) event(predicted bool) {
	m.came++
	if predicted {
		m.foretold++
	}
}

func (m *meter) age(keep float64) {
	m.hits *= keep
	m.told *= keep
	m.foretold *= keep
	m.came *= keep
	m.leads.age(keep)
}

// halve ages once so much was told, for predictors that have no natural turns.
func (m *meter) halve(above float64) {
	if max(m.told, m.came) > above {
		m.age(0.5)
	}
}

func (m *meter) precision() float64 { return share(m.hits, m.told) }

func (m *meter) judge(g gate) {
	if m.told >= m.enough {
		m.shut = !g.next(!m.shut, m.precision())
	}
}

func (m *meter) score(k Kind) Score {
	return Score{Kind: k, Precision: m.precision(), Recall: share(m.foretold, m.came), Lead: m.leads.median(), Told: int(m.told + 0.5), On: !m.shut}
}

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// leads counts durations by octaves from a microsecond on.
type leads [40]float32

func (l *leads) add(d time.Duration) {
	l[min(bits.Len64(uint64(max(0, d)/time.Microsecond)), len(l)-1)]++
}

func (l *leads) age(keep float64) {
	for i := range l {
		l[i] *= float32(keep)
	}
}

// median is interpolated within its octave.
func (l *leads) median() time.Duration {
	var all float32
	for _, n := range l {
		all += n
	}
	var below float32
	for i, n := range l {
		if n > 0 && below+n >= all/2 {
			low, high := float32(0), float32(1)
			if i > 0 {
				low, high = float32(uint64(1)<<(i-1)), float32(uint64(1)<<i)
			}
			return time.Duration((low + (high-low)*(all/2-below)/n) * float32(time.Microsecond))
		}
		below += n
	}
	return 0
}
