package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A measure is one axis of a chart: it places values on 0 to 100.
type measure struct {
	axis // on the scale's own values: logarithms where log, and rarities where tail
	log  bool
	tail bool
	// asked are the ticks that the chart wants, and labels what stands there.
	asked  []float64
	labels []string
}

// holdsZero says that lengths are compared by it, so that a linear measure
// begins at zero; the other measures begin where the values do.
func newMeasure(values []float64, a Axis, holdsZero bool) measure {
	m := measure{log: a.Log && !a.Tail, tail: a.Tail, asked: a.Ticks}
	if len(a.Labels) == len(a.Ticks) {
		m.labels = a.Labels
	}
	if m.tail && len(m.asked) == 0 {
		m.asked = tailPercentiles
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if p := m.own(v); finite(p) {
			low, high = min(low, p), max(high, p)
		}
	}
	switch {
	case low > high || !finite(high-low):
		m.axis = axis{0, 1}
	case m.tail:
		m.axis = axis{0, max(high, 1)}
	case m.log:
		if high-low < 0.3 { // a factor of two
			middle := (low + high) / 2
			low, high = middle-0.15, middle+0.15
		}
		m.axis = axis{low, high}.widened(0.05)
	case holdsZero && low >= 0:
		if high == 0 {
			high = 1
		}
		m.axis = axis{0, high * 1.06}
	default:
		if low == high {
			room := max(math.Abs(low)/2, 0.5)
			low, high = low-room, high+room
		}
		m.axis = axis{low, high}.widened(0.04)
	}
	return m
}

// own puts a value on the scale; what has no place there is NaN.
func (m measure) own(v float64) float64 {
	switch {
	case !finite(v), m.log && v <= 0, m.tail && (v < 0 || v >= 100):
		return math.NaN()
	case m.log:
		return math.Log10(v)
	case m.tail:
		return rarity(v / 100)
	}
	return v
}

// label is what stands at one of the places that the chart asked for.
func (m measure) label(v float64) string {
	if i := slices.Index(m.asked, v); i >= 0 && i < len(m.labels) {
		return clean(m.labels[i])
	}
	return amount(v)
}

// place gives a value's place, or false where it has none.
func (m measure) place(v float64) (float64, bool) {
	p := m.own(v)
	return m.at(p), finite(p)
}

// ticks labels at most about n places.
func (m measure) ticks(n int) []tick {
	var ticks []tick
	for _, v := range m.asked {
		if p := m.own(v); finite(p) && m.holds(p) {
			ticks = append(ticks, tick{p, m.label(v)})
		}
	}
	if len(ticks) > 0 {
		return thinned(ticks, 2*n)
	}
	if !m.log {
		for _, t := range linearTicks(m.axis, n) {
			ticks = append(ticks, tick{t.at, tidy(t.at, t.label)})
		}
		return ticks
	}
	steps := []float64{1, 2, 5}
	if m.high-m.low > 2.5 {
		steps = steps[:1]
	}
	for power := math.Floor(m.low); power <= m.high; power++ {
		for _, s := range steps {
			if p := power + math.Log10(s); m.holds(p) {
				ticks = append(ticks, tick{p, amount(s * math.Pow(10, power))})
			}
		}
	}
	return thinned(ticks, n)
}

var superscripts = strings.NewReplacer(
	"-",
	"⁻",
	"0",
	"⁰",
	"1",
	"¹",
	"2",
	"²",
	"3",
	"³",
	"4",
	"⁴",
	"5",
	"⁵",
	"6",
	"⁶",
	"7",
	"⁷",
	"8",
	"⁸",
	"9",
	"⁹",
)

// amount writes a round value at an axis: as short as it is exact to six
// digits, very large and very small ones by their power of ten.
func amount(v float64) string {
	return tidy(v, strconv.FormatFloat(v, 'g', 6, 64))
}

// tidy replaces what would be too long beside an axis.
func tidy(v float64, label string) string {
	size := math.Abs(v)
	exponent, exact := 0, false
	if v != 0 {
		exponent = int(math.Floor(math.Log10(size) + 1e-9))
		exact = math.Abs(size/math.Pow(10, float64(exponent))-1) < 1e-9
	}
	const long = 5 // digits of a power of ten that is shorter by its exponent
	if v == 0 || size < 1e6 && size >= 1e-4 && !(exact && exponent >= long) {
		if len(label) > 9 || strings.ContainsAny(label, "e") {
			label = strconv.FormatFloat(v, 'f', -1, 64)
		}
		return strings.Replace(label, "-", minus, 1)
	}
	digits := strconv.FormatFloat(v/math.Pow(10, float64(exponent)), 'g', 3, 64)
	power := "10" + superscripts.Replace(strconv.Itoa(exponent))
	switch digits {
	case "1":
		return power
	case "-1":
		return minus + power
	}
	return strings.Replace(digits, "-", minus, 1) + "×" + power
}

// reading writes a figure that stands for itself, to three digits: 2.31, 412,
// or 1.20e+09.
func reading(v float64) string {
	switch size := math.Abs(v); {
	case !finite(v):
		return "no figure"
	case size >= 1e7 || size > 0 && size < 1e-4:
		return strconv.FormatFloat(v, 'e', 2, 64)
	}
	if v == math.Trunc(v) {
		return fixed(v, 0) // a count
	}
	return fixed(v, significant(v))
}

// readingWithin writes a figure to the digits that its interval supports.
func readingWithin(v, low, high float64) (figure, span string) {
	if !ranged(v, low, high) {
		return reading(v), ""
	}
	if size := max(math.Abs(low), math.Abs(high)); size >= 1e7 || size < 1e-4 {
		return reading(v), reading(low) + " to " + reading(high)
	}
	figure, from, to := supported(v, low, high)
	return figure, from + " to " + to
}

// ranged tells whether a figure has an interval: both ends are 0 where none.
func ranged(v, low, high float64) bool {
	return bounded(v, low, high) && (low != 0 || high != 0)
}

// withUnit puts a unit behind a name: "latency, ms".
func withUnit(name, unit string) string {
	name, unit = clean(name), clean(unit)
	if name == "" || unit == "" || strings.HasSuffix(name, ", "+unit) {
		return name + unit
	}
	return fmt.Sprintf("%s, %s", name, unit)
}

// shortened keeps n runes of a text at most.
func shortened(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return text
}
