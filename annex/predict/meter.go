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
	hits, predictions float64 // predictions that came true, and all that were decided
	predicted, came   float64 // what happened and had been predicted, and all that happened
	leads             leads
	enough            float64 // below so many predictions it is not judged
	shut              bool
}

// prediction counts n predictions that came true, or did not.
func (m *meter) prediction(n float64, came bool) {
	m.predictions += n
	if came {
		m.hits += n
	}
}

// event counts something that happened, predicted or not.
func (m *meter) event(predicted bool) {
	m.came++
	if predicted {
		m.predicted++
	}
}

func (m *meter) age(keep float64) {
	m.hits *= keep
	m.predictions *= keep
	m.predicted *= keep
	m.came *= keep
	m.leads.age(keep)
}

// halve ages once so much was observed, for a predictor that has no natural turns.
func (m *meter) halve(above float64) {
	if max(m.predictions, m.came) > above {
		m.age(0.5)
	}
}

func (m *meter) precision() float64 { return share(m.hits, m.predictions) }

func (m *meter) judge(g gate) {
	if m.predictions >= m.enough {
		m.shut = !g.next(!m.shut, m.precision())
	}
}

func (m *meter) score(k Kind) Score {
	return Score{
		Kind:        k,
		Precision:   m.precision(),
		Recall:      share(m.predicted, m.came),
		Lead:        m.leads.median(),
		Predictions: int(m.predictions + 0.5),
		On:          !m.shut,
	}
}

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// leads counts durations in quarters of octaves, from a microsecond on.
type leads [leadOctaves * leadSteps]float32

const (
	leadOctaves = 36 // up to nineteen hours
	leadSteps   = 4
)

func (l *leads) add(d time.Duration) {
	i := 0
	if us := d / time.Microsecond; us > 0 {
		log := bits.Len64(uint64(us)) - 1
		i = leadSteps*log + int(uint64(us)<<2>>log&(leadSteps-1)) + 1
	}
	l[min(i, len(l)-1)]++
}

// bounds are between which a step lies, in microseconds.
func (l *leads) bounds(i int) (low, high float64) {
	if i == 0 {
		return 0, 1
	}
	octave := float64(uint64(1) << ((i - 1) / leadSteps))
	step := float64((i - 1) % leadSteps)
	return octave * (1 + step/leadSteps), octave * (1 + (step+1)/leadSteps)
}

func (l *leads) age(keep float64) {
	for i := range l {
		l[i] *= float32(keep)
	}
}

// median is interpolated within its step.
func (l *leads) median() time.Duration {
	var all, below float64
	for _, n := range l {
		all += float64(n)
	}
	for i, n := range l {
		if n := float64(n); n > 0 && below+n >= all/2 {
			low, high := l.bounds(i)
			return time.Duration((low + (high-low)*(all/2-below)/n) * float64(time.Microsecond))
		}
		below += float64(n)
	}
	return 0
}
