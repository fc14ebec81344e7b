package claim

import (
	"math"

	"tare/stats"
)

// Truth is what figures say of a statement. The zero value is that they do not decide it.
//
// Statements on intervals are the words in which judges write rules; [Every], [Any] and [Not] put
// them together, as Kleene's logic of three values has it. An estimate without an interval
// decides nothing.
type Truth int8

const (
	Open Truth = iota // the figures do not decide it
	True
	False
)

// Above states that an estimate is more than a limit: its whole interval lies on one side.
func Above(e stats.Estimate, limit float64) Truth { return Inside(e, limit, math.Inf(1)) }

// Below states that an estimate is less than a limit.
func Below(e stats.Estimate, limit float64) Truth { return Inside(e, math.Inf(-1), limit) }

// Inside states that an estimate lies between two limits: its whole interval lies within, or
// wholly beyond one of them.
func Inside(e stats.Estimate, low, high float64) Truth {
	switch {
	case !e.Known():
		return Open
	case e.Interval.Low > low && e.Interval.High < high:
		return True
	case e.Interval.High < low || e.Interval.Low > high:
		return False
	}
	return Open
}

// More states that a is more than b: their intervals lie apart.
func More(a, b stats.Estimate) Truth {
	switch {
	case !a.Known() || !b.Known():
		return Open
	case a.Interval.Low > b.Interval.High:
		return True
	case a.Interval.High < b.Interval.Low:
		return False
	}
	return Open
}

// Is is a statement that needs no estimate.
func Is(holds bool) Truth {
	if holds {
		return True
	}
	return False
}

// Needs is a condition under which other statements decide: where it does not hold, nothing does.
func Needs(holds bool) Truth {
	if holds {
		return True
	}
	return Open
}

// Every states that all of them hold. It is true of none.
func Every(all ...Truth) Truth {
	holds := True
	for _, t := range all {
		switch t {
		case False:
			return False
		case Open:
			holds = Open
		}
	}
	return holds
}

// Any states that one of them holds. It is false of none.
func Any(all ...Truth) Truth {
	holds := False
	for _, t := range all {
		switch t {
		case True:
			return True
		case Open:
			holds = Open
		}
	}
	return holds
}

// Not states the contrary.
func Not(t Truth) Truth {
	switch t {
	case True:
		return False
	case False:
		return True
	}
	return Open
}

// Verdict is the one on a claim that says no more than the statement.
func (t Truth) Verdict() Verdict {
	switch t {
	case True:
		return Confirmed
	case False:
		return Refuted
	}
	return Inconclusive
}

// Case is a line of a rule: what is said where a statement is true.
type Case struct {
	When    Truth
	Verdict Verdict
	Why     string // may be empty
}

// When is such a line.
func When(t Truth, v Verdict, why string) Case { return Case{t, v, why} }

// Decide goes through the lines of a rule: the first whose statement is true decides. None is
// inconclusive.
func Decide(rule ...Case) (Verdict, string) {
	for _, c := range rule {
		if c.When == True {
			return c.Verdict, c.Why
		}
	}
	return Inconclusive, ""
}
