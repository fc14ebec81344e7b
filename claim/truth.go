package claim

import "tare/stats"

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

// Above is True where the whole interval lies above the limit, False where it lies below.
func Above(e stats.Estimate, limit float64) Truth {
	return decided(e.Interval.Low > limit, e.Interval.High < limit, e)
}

// Below is True where the whole interval lies below the limit, False where it lies above.
func Below(e stats.Estimate, limit float64) Truth {
	return decided(e.Interval.High < limit, e.Interval.Low > limit, e)
}

// NotBelow is Above, with the limit itself among what is True.
func NotBelow(e stats.Estimate, limit float64) Truth {
	return decided(e.Interval.Low >= limit, e.Interval.High < limit, e)
}

// NotAbove is Below, with the limit itself among what is True.
func NotAbove(e stats.Estimate, limit float64) Truth {
	return decided(e.Interval.High <= limit, e.Interval.Low > limit, e)
}

// Inside is True where the whole interval lies between the limits, False where it lies wholly
// beyond one of them.
func Inside(e stats.Estimate, low, high float64) Truth {
	return decided(e.Interval.Low > low && e.Interval.High < high, e.Interval.High < low || e.Interval.Low > high, e)
}

// Equivalent is True where the whole interval of a ratio lies within a margin of 1 (0.02 is 2 %),
// False where it lies wholly beyond. That it merely holds 1 does not make it so.
func Equivalent(ratio stats.Estimate, margin float64) Truth {
	return Inside(ratio, 1/(1+margin), 1+margin)
}

// decided is Open where neither is so, or an estimate is not known.
func decided(holds, fails bool, of ...stats.Estimate) Truth {
	for _, e := range of {
		if !e.Known() {
			return Open
		}
	}
	switch {
	case holds:
		return True
	case fails:
		return False
	}
	return Open
}

// More is True where a is more than b and their intervals lie apart, False where it is less.
func More(a, b stats.Estimate) Truth {
	return decided(a.Interval.Low > b.Interval.High, a.Interval.High < b.Interval.Low, a, b)
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
