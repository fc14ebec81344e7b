package stats

import (
	"fmt"
	"math"
	"slices"
)

// outlying is the distance from the median, in robust standard deviations,
// beyond which a block is called outlying.
const outlying = 5

// warnings says what in the sample puts the method's coverage in doubt.
func (s *sample) warnings(method Method) []string {
	var warnings []string
	n := len(s.x)
	if n < shown {
		warnings = append(warnings, fmt.Sprintf("need at least %d blocks, have %d: coverage is not shown below", shown, n))
	}
	return warnings
}

// outliers counts the values further from the median than outlying robust
// standard deviations (1.4826 times the median absolute deviation).
func (s *sample) outliers() int {
	deviations := make([]float64, len(s.x))
	for i, v := range s.x {
		deviations[i] = math.Abs(v)
	}
	slices.Sort(deviations)
	scale := 1.4826 * middle(deviations)
	if scale == 0 {
		return 0
	}
	return len(deviations) - countBelow(deviations, outlying*scale)
}

// countBelow counts the sorted values that are at most limit.
func countBelow(sorted []float64, limit float64) int {
	i, _ := slices.BinarySearchFunc(sorted, limit, func(v, limit float64) int {
		if v <= limit {
			return -1
		}
		return 1
	})
	return i
}
