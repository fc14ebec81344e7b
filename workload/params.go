package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
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
