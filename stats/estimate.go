package stats

import (
	"fmt"
	"math"
)

// unknown is an estimate of which nothing is known yet.
func unknown(n int, level float64, method Method) Estimate {
	return Estimate{
		Value:    math.NaN(),
		Interval: Interval{Low: math.NaN(), High: math.NaN(), Level: level},
		N:        n,
		Method:   string(method),
	}
}

// undefined is the estimate of what cannot be estimated, and why.
func undefined(n int, level float64, method Method, format string, args ...any) Estimate {
	e := unknown(n, level, method)
	e.warn(format, args...)
	return e
}

func (e *Estimate) warn(format string, args ...any) {
	e.Warnings = append(e.Warnings, fmt.Sprintf(format, args...))
}

// estimate gives a location as it is.
func (l location) estimate(n int, level float64) Estimate {
	return Estimate{
		Value:    l.value,
		Interval: Interval{Low: l.low, High: l.high, Level: level},
		N:        n,
		Method:   string(l.method),
		Warnings: l.warnings,
	}
}

// exponential gives a location that was found on the log scale.
func (l location) exponential(n int, level float64) Estimate {
	e := l.estimate(n, level)
	e.Value = math.Exp(l.value)
	e.Interval.Low, e.Interval.High = math.Exp(l.low), math.Exp(l.high)
	return e
}
