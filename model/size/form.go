package size

import (
	"fmt"
	"math"
	"slices"
)

// Form is g, how the cost of size falls with a container's share of the host's CPUs.
// Every form is 0 where it has them all.
type Form string

// The forms. On one host the reciprocal of the share less 1 is N times the
// difference of 1/n and 1/N, where n are the container's CPUs and N the host's.
const (
	// Elsewhere is 1 - CHR: the chance that a CPU of the host, taken at random, is one
	// more than the container may use. A cost that comes with every move has it.
	Elsewhere Form = "1 - CHR"
	// Logarithmic is ln(1/CHR): each halving of the share costs as much.
	Logarithmic Form = "ln(1/CHR)"
	// Root is 1/√CHR - 1, between the logarithm and the reciprocal.
	Root Form = "1/sqrt(CHR) - 1"
	// Reciprocal is 1/CHR - 1: a cost for each CPU of the host, divided among those
	// that the container is granted. Accounts that are kept by CPU have it.
	Reciprocal Form = "1/CHR - 1"
)

// Forms lists them, the flattest first.
var Forms = []Form{Elsewhere, Logarithmic, Root, Reciprocal}

// DefaultForm is what the fit goes by where the points do not decide:
// docs/platforms-model.md has the simulations that it was chosen by.
const DefaultForm = Logarithmic

// UnknownForm is a form that there is none of.
type UnknownForm struct{ Form Form }

func (e *UnknownForm) Error() string {
	return fmt.Sprintf("unknown form %q: want one of %q", string(e.Form), Forms)
}

func (f Form) known() bool { return slices.Contains(Forms, f) }

// At is g of a share.
func (f Form) At(chr float64) float64 {
	switch f {
	case Elsewhere:
		return 1 - chr
	case Logarithmic:
		return -math.Log(chr)
	case Root:
		return 1/math.Sqrt(chr) - 1
	case Reciprocal:
		return 1/chr - 1
	}
	return math.NaN()
}

// share is the inverse of At: the share at which g has a value, which is 0 or more. A
// value that g reaches at no share, however small, has share 0.
func (f Form) share(g float64) float64 {
	switch f {
	case Elsewhere:
		return max(0, 1-g)
	case Logarithmic:
		return math.Exp(-g)
	case Root:
		return 1 / ((1 + g) * (1 + g))
	case Reciprocal:
		return 1 / (1 + g)
	}
	return math.NaN()
}
