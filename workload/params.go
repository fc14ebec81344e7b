package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// auto is the value of a parameter that is chosen for the rest.
const auto = "auto"

// whole reads a whole number within bounds.
func (p Params) whole(name string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(p[name], 10, 64)
	if err != nil || n < low || n > high {
		return 0, &WrongValue{name, p[name], fmt.Sprintf("a whole number from %d to %d", low, high)}
	}
	return n, nil
}

// wholeOrAuto is whole, and 0 for "auto".
func (p Params) wholeOrAuto(name string, low, high int64) (int64, error) {
	if p[name] == auto {
		return 0, nil
	}
	n, err := strconv.ParseInt(p[name], 10, 64)
	if err != nil || n < low || n > high {
		return 0, &WrongValue{name, p[name], fmt.Sprintf("%s, or a whole number from %d to %d", auto, low, high)}
	}
	return n, nil
}

// oneOf reads one of a few words.
func (p Params) oneOf(name string, allowed ...string) (string, error) {
	if !slices.Contains(allowed, p[name]) {
		return "", &WrongValue{name, p[name], strings.Join(allowed, ", ")}
	}
	return p[name], nil
}

// duration reads a duration within bounds.
func (p Params) duration(name string, low, high time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(p[name])
	if err != nil || d < low || d > high {
		return 0, &WrongValue{name, p[name], fmt.Sprintf("a duration from %v to %v, such as 2s", low, high)}
	}
	return d, nil
}

// closed is the value of rate for a closed loop.
const closed = "closed"

// rate reads requests per second; 0 stands for a closed loop.
func (p Params) rate(name string) (float64, error) {
	if p[name] == closed {
		return 0, nil
	}
	r, err := strconv.ParseFloat(p[name], 64)
	if err != nil || !(r >= 0.001 && r <= 1e6) {
		return 0, &WrongValue{name, p[name], closed + ", or requests per second from 0.001 to 1e6"}
	}
	return r, nil
}
