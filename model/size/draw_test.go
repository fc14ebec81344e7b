package size

import (
	"math"
	"math/rand/v2"
)

// drawn is a point as blocks would measure it: off its truth by its error, and with an
// error that is itself estimated from as many blocks.
func drawn(random *rand.Rand, p Point, truth, spread float64, blocks int) Point {
	se := spread / math.Sqrt(float64(blocks))
	var squares float64
	for range blocks - 1 {
		z := random.NormFloat64()
		squares += z * z
	}
	p.Log = truth + se*random.NormFloat64()
	p.SE = se * math.Sqrt(squares/float64(blocks-1))
	p.N = blocks
	return p
}
