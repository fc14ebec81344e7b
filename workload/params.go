package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Words that stand for a number.
const (
	auto      = "auto"      // the workload's choice
	closed    = "closed"    // a rate: each connection sends as soon as it has its answer
	random    = "random"    // a seed: drawn in each trial
	unlimited = "unlimited" // a rate: nothing holds it back
)

// parameters declares the parameters of a workload and reads their values, as package flag
// does for flags: each method declares one and returns its value. A wrong value is kept as
// the error, and the method returns
// a value within the bounds.
type parameters struct {
	declared []Param
	given    Params // has the default where it lacks a parameter
	err      error  // the first
}

// parsed reads parameters. The error is a *[WrongValue].
func parsed[P any](given Params, parse func(from *parameters) P) (P, error) {
	from := parameters{given: given}
	plan := parse(&from)
	return plan, from.err
}

// declared lists the parameters that parse reads, in its order.
func declared[P any](parse func(from *parameters) P) []Param {
	var from parameters
	parse(&from)
	return from.declared
}

// refuse says what is wanted in place of a parameter's value.
func (from *parameters) refuse(name, want string) {
	if from.err == nil {
		from.err = &WrongValue{name, from.given[name], want}
	}
}

// text reads any text.
func (from *parameters) text(name, usual, help string) string {
	from.declared = append(from.declared, Param{name, usual, help})
	if text, ok := from.given[name]; ok {
		return text
	}
	return usual
}

// word reads one of a few words.
func (from *parameters) word(name, usual, help string, allowed ...string) string {
	word := from.text(name, usual, help)
	if !slices.Contains(allowed, word) {
		from.refuse(name, strings.Join(allowed, ", "))
		return usual
	}
	return word
}

// whole reads a whole number within bounds. RANGE in its help stands for them.
func (from *parameters) whole(name string, usual, low, high int64, help string) int64 {
	text := from.text(name, strconv.FormatInt(usual, 10), withRange(help, low, high))
	n, ok := wholeWithin(text, low, high)
	if !ok {
		from.refuse(name, fmt.Sprintf("a whole number from %d to %d", low, high))
		return usual
	}
	return n
}

// wholeOr is whole with a word as the default, for which it returns other.
func (from *parameters) wholeOr(name, word string, other, low, high int64, help string) int64 {
	text := from.text(name, word, withRange(help, low, high))
	if text == word {
		return other
	}
	n, ok := wholeWithin(text, low, high)
	if !ok {
		from.refuse(name, fmt.Sprintf("%s, or a whole number from %d to %d", word, low, high))
		return other
	}
	return n
}

func wholeWithin(text string, low, high int64) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= low && n <= high
}

func withRange(help string, low, high int64) string {
	return strings.Replace(help, "RANGE", fmt.Sprintf("%d to %d", low, high), 1)
}

// duration reads a duration within bounds.
func (from *parameters) duration(name, usual string, low, high time.Duration, help string) time.Duration {
	d, err := time.ParseDuration(from.text(name, usual, help))
	if err != nil || d < low || d > high {
		from.refuse(name, fmt.Sprintf("a duration from %v to %v, such as 2s", low, high))
		return low
	}
	return d
}

// rate reads requests per second; 0 stands for a closed loop.
func (from *parameters) rate(name, usual, help string) float64 {
	r, ok := rateOf(from.text(name, usual, help))
	if !ok {
		from.refuse(name, closed+", or requests per second from 0.001 to 1e6")
		return 0
	}
	return r
}

func rateOf(text string) (r float64, ok bool) {
	if text == closed {
		return 0, true
	}
	r, err := strconv.ParseFloat(text, 64)
	return r, err == nil && r >= 0.001 && r <= 1e6
}
