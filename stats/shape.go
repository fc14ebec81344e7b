package stats

import (
	"fmt"
	"math"
	"slices"
)

const (
	// outlying is the distance from the median, in robust standard deviations,
	// beyond which a block is called outlying.
	outlying = 5
	// outliersTell is the number of blocks from which outlying ones are looked
	// for: among fewer, ordinary noise has them too often.
	outliersTell = 10
)

// warnings says what in the sample, of values of things, puts the method's coverage in doubt.
func (s *sample) warnings(things string, method Method) []string {
	n := len(s.x)
	if n < shown {
		return []string{fmt.Sprintf("need at least %d %s, have %d: coverage is not shown below", shown, things, n)}
	}
	if method == MethodHodgesLehmann || n < outliersTell {
		return nil
	}
	outliers := s.outliers()
	if outliers == 0 {
		return nil
	}
	// What is seen widens an interval by t enough to hold, or nearly so; it is BCa
	// that does not make up for it (docs/statistics.md).
	consequence := "they pull the mean and widen its interval"
	if method == MethodBCa {
		consequence = "BCa covers too little with such tails, t does not where they are on both sides"
	}
	return []string{fmt.Sprintf("outlying %s: %d of %d lie beyond %d robust standard deviations; %s",
		things, outliers, n, outlying, consequence)}
}

// outliers counts the values further from the median than outlying robust
// standard deviations (1.4826 times the median absolute deviation). None are
// counted where half of the values are equal, as counts often are.
func (s *sample) outliers() int {
	deviations := make([]float64, len(s.x))
	for i, v := range s.x {
		deviations[i] = math.Abs(v)
	}
	slices.Sort(deviations)
	limit := outlying * 1.4826 * middle(deviations)
	count := 0
	for _, d := range deviations {
		if limit > 0 && d > limit {
			count++
		}
	}
	return count
}
