package workload

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
)

// The readers of a file's scalars: each puts in the parameters and refuses what
// is not allowed, at its place. A value that the file lacks is the fallback.

func (s scope) text(v value, fallback string) (string, error) {
	if !v.set() {
		return fallback, nil
	}
	return s.expand(v)
}

func (s scope) number(v value, low, high, fallback float64) (float64, error) {
	if !v.set() {
		return fallback, nil
	}
	text, err := s.expand(v)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < low || n > high {
		return 0, v.at.wrong("%q: want a number from %v to %v", text, low, high)
	}
	return n, nil
}

func (s scope) whole(v value, low, high, fallback int64) (int64, error) {
	if !v.set() {
		return fallback, nil
	}
	text, err := s.expand(v)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < low || n > high {
		return 0, v.at.wrong("%q: want a whole number from %d to %d", text, low, high)
	}
	return n, nil
}

func (s scope) duration(v value, low, high, fallback time.Duration) (time.Duration, error) {
	if !v.set() {
		return fallback, nil
	}
	text, err := s.expand(v)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < low || d > high {
		return 0, v.at.wrong("%q: want a duration from %v to %v, such as 500ms or 10s", text, low, high)
	}
	return d, nil
}

func (s scope) size(v value) (int64, error) {
	if !v.set() {
		return 0, nil
	}
	text, err := s.expand(v)
	if err != nil {
		return 0, err
	}
	n, err := units.RAMInBytes(text)
	if err != nil || n < 0 {
		return 0, v.at.wrong("%q: want a size, such as 64m", text)
	}
	return n, nil
}

func (s scope) oneOf(v value, fallback string, allowed ...string) (string, error) {
	if !v.set() {
		return fallback, nil
	}
	text, err := s.expand(v)
	if err != nil {
		return "", err
	}
	if !slices.Contains(allowed, text) {
		return "", v.at.wrong("%q: want %s", text, strings.Join(allowed, " or "))
	}
	return text, nil
}

func (s scope) truth(v value) (bool, error) {
	text, err := s.oneOf(v, "false", "true", "false")
	return text == "true", err
}

// pattern reads a regular expression; nil where the file has none.
func (s scope) pattern(v value) (*regexp.Regexp, error) {
	if !v.set() {
		return nil, nil
	}
	text, err := s.expand(v)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, v.at.wrong("not a regular expression (RE2 syntax): %v", err)
	}
	return re, nil
}
