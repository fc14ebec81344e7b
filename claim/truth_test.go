package claim_test

import (
	"fmt"
	"math"
	"testing"

	"tare/claim"
	"tare/stats"
)

// A rule is statements on intervals, put together: throughput falls by more than a tenth, and the
// tail grows by more than the middle.
func Example() {
	loss := between(0.15, 0.22)
	p99, p95 := between(3.1, 4.0), between(1.2, 1.6)
	fmt.Println(claim.Every(claim.Above(loss, 0.1), claim.More(p99, p95)).Verdict())
	fmt.Println(claim.Every(claim.Above(loss, 0.2), claim.More(p99, p95)).Verdict())
	fmt.Println(claim.Every(claim.Above(loss, 0.3), claim.More(p99, p95)).Verdict())
	fmt.Println(claim.Decide(
		claim.When(claim.Below(loss, 0.1), claim.Refuted, "nothing is lost"),
		claim.When(claim.More(p99, p95), claim.Qualified, "of the tail alone"),
	))
	// Output:
	// confirmed
	// inconclusive
	// refuted
	// qualified of the tail alone
}

func between(low, high float64) stats.Estimate {
	middle := (low + high) / 2
	if math.IsInf(middle, 0) {
		middle = min(max(low, -1e9), 1e9)
	}
	return stats.Estimate{Value: middle, Interval: stats.Interval{Low: low, High: high, Level: 0.95}, N: 10}
}

func TestTruth(t *testing.T) {
	unknown := stats.Estimate{Value: 1, Interval: stats.Interval{Low: math.NaN(), High: math.NaN()}}
	e := between(1, 2)
	for _, c := range []struct {
		says string
		got  claim.Truth
		want claim.Truth
	}{
		{"above what lies below", claim.Above(e, 0.9), claim.True},
		{"above a limit inside", claim.Above(e, 1.5), claim.Open},
		{"above what lies above", claim.Above(e, 2.1), claim.False},
		{"below what lies above", claim.Below(e, 2.1), claim.True},
		{"below what lies below", claim.Below(e, 0.9), claim.False},
		{"at least what it ends on", claim.NotBelow(e, 1), claim.True},
		{"above what it ends on", claim.Above(e, 1), claim.Open},
		{"at least more", claim.NotBelow(e, 2.1), claim.False},
		{"at most what it ends on", claim.NotAbove(e, 2), claim.True},
		{"at most less", claim.NotAbove(e, 0.9), claim.False},
		{"above, without an upper end", claim.Above(between(3, math.Inf(1)), 2), claim.True},
		{"below, without a lower end", claim.Below(between(math.Inf(-1), 1), 2), claim.True},
		{"inside", claim.Inside(e, 0.5, 2.5), claim.True},
		{"inside of half", claim.Inside(e, 1.5, 2.5), claim.Open},
		{"inside elsewhere", claim.Inside(e, 3, 4), claim.False},
		{"equivalent", claim.Equivalent(between(0.99, 1.01), 0.02), claim.True},
		{"equivalent, by an interval that merely holds 1", claim.Equivalent(between(0.9, 1.1), 0.02), claim.Open},
		{"equivalent, where it is wholly more", claim.Equivalent(between(1.03, 1.1), 0.02), claim.False},
		{"equivalent, where it is wholly less", claim.Equivalent(between(0.9, 0.97), 0.02), claim.False},
		{"more than a lower one", claim.More(e, between(0, 0.5)), claim.True},
		{"more than a higher one", claim.More(e, between(3, 4)), claim.False},
		{"more than one that overlaps", claim.More(e, between(1.5, 4)), claim.Open},
		{"of an estimate without an interval", claim.Above(unknown, 0), claim.Open},
		{"more than such a one", claim.More(e, unknown), claim.Open},
		{"more, of such a one", claim.More(unknown, e), claim.Open},
		{"a need that is not met", claim.Every(claim.Needs(false), claim.True), claim.Open},
		{"a need beside what is false", claim.Every(claim.Needs(false), claim.False), claim.False},
		{"all of none", claim.Every(), claim.True},
		{"any of none", claim.Any(), claim.False},
		{"any, of which one is open", claim.Any(claim.False, claim.Open), claim.Open},
		{"any, of which one is true", claim.Any(claim.Open, claim.True), claim.True},
		{"not", claim.Not(claim.True), claim.False},
		{"not open", claim.Not(claim.Open), claim.Open},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.says, c.got, c.want)
		}
	}
}

// De Morgan's laws hold of three values, and a statement is never both.
func TestTruthIsALogic(t *testing.T) {
	values := []claim.Truth{claim.Open, claim.True, claim.False}
	for _, a := range values {
		if claim.Not(claim.Not(a)) != a {
			t.Errorf("not not %d", a)
		}
		for _, b := range values {
			if claim.Not(claim.Every(a, b)) != claim.Any(claim.Not(a), claim.Not(b)) {
				t.Errorf("not all of %d and %d", a, b)
			}
			if claim.Every(a, b) != claim.Every(b, a) || claim.Any(a, b) != claim.Any(b, a) {
				t.Errorf("%d and %d: the order matters", a, b)
			}
		}
	}
}
