package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// fewestSerial is the least number of values for which the distribution of the ratio is
// approximated (Bartels 1982).
const fewestSerial = 10

// Dependence is a test of whether the values of a series depend on the ones before.
type Dependence struct {
	// Ratio is that of von Neumann, of ranks: 2 where values are independent, less where
	// each is like the one before.
	Ratio float64
	// P is the chance of so small a ratio where they are.
	P float64
}

// SerialDependence tests whether each value of a series is like the one before it, by the
// rank version of von Neumann's ratio (Bartels, Journal of the American Statistical
// Association 77, 1982). The ratio over 4 has nearly a symmetric beta distribution, with
// the mean and the variance of the ratio of independent values. It is false for fewer
// than ten values, and where all are equal.
func SerialDependence(series []float64) (Dependence, bool) {
	n := float64(len(series))
	if len(series) < fewestSerial || each(series, finite) != nil {
		return Dependence{}, false
	}
	rank := ranks(series)
	_, sd := meanSD(rank)
	if sd == 0 || mostlyTied(rank) {
		return Dependence{}, false
	}
	var successive float64
	for i := 1; i < len(rank); i++ {
		successive += (rank[i] - rank[i-1]) * (rank[i] - rank[i-1])
	}
	d := Dependence{Ratio: successive / (sd * sd * (n - 1))}
	shape := 5*n*(n+1)*(n-1)*(n-1)/(2*(n-2)*(5*n*n-2*n-9)) - 0.5
	d.P = distuv.Beta{Alpha: shape, Beta: shape}.CDF(math.Min(1, d.Ratio/4))
	return d, true
}

// mostlyTied tells that more than half of the ranks are of one value: the distribution that
// [SerialDependence] uses does not hold there.
func mostlyTied(rank []float64) bool {
	times := map[float64]int{}
	for _, r := range rank {
		times[r]++
		if 2*times[r] > len(rank) {
			return true
		}
	}
	return false
}
