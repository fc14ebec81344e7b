package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tare/overhead"
	"tare/stats"
)

// minus is the sign in pages. Terminals get the hyphen: what is copied from
// them must parse as a number.
const minus = "−"

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// present tells whether the estimate was made at all: the zero Estimate, as
// the baseline's ratio, was not.
func present(e stats.Estimate) bool {
	return !math.IsNaN(e.Value) && !(e.Value == 0 && e.N == 0 && e.Method == "" && e.Interval == stats.Interval{})
}

// bounded tells whether an interval can be shown beside v.
func bounded(v, low, high float64) bool {
	return finite(v) && finite(low) && finite(high) && low <= high
}

// decimals gives the number of decimals that an interval supports: the last
// one is between a half and a twentieth of the half-width, so that digits
// which a repetition would change are not printed. Negative counts round
// before the point.
func decimals(low, high float64) int {
	half := (high - low) / 2
	if !(half > 0) || math.IsInf(half, 0) {
		return significant(high)
	}
	return clamp(int(-math.Floor(math.Log10(half/2)+1e-9)), -12, 9)
}

// decimalsOf gives the number of decimals of an estimate: as many as its interval supports, but
// one digit at least where the interval excludes zero, which the figure then is not either.
func decimalsOf(v, low, high float64) int {
	d := decimals(low, high)
	if low > 0 || high < 0 {
		d = max(d, leading(v))
	}
	return d
}

// significant gives the decimals that show v to three digits, for figures
// that have no width to go by.
func significant(v float64) int {
	if v == 0 || !finite(v) {
		return 0
	}
	return clamp(2-int(math.Floor(math.Log10(math.Abs(v)))), 0, 9)
}

// supported writes a figure and the ends of its interval, each by [decimalsOf].
func supported(v, low, high float64) (figure, from, to string) {
	text := func(v float64) string { return fixed(v, decimalsOf(v, low, high)) }
	return text(v), text(low), text(high)
}

// Rounded writes a number to so many significant digits, never with an exponent: 186,123 to three
// digits is "186000".
func Rounded(v float64, digits int) string {
	if v == 0 || !finite(v) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	text := fixed(v, leading(v)+digits-1)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// leading gives the decimals that show the first digit of v that is not 0.
func leading(v float64) int {
	if v == 0 || !finite(v) {
		return 0
	}
	return clamp(-int(math.Floor(math.Log10(math.Abs(v)))), -12, 9)
}

func clamp(v, low, high int) int { return max(low, min(high, v)) }

// fixed writes v with d decimals and never as "-0.0".
func fixed(v float64, d int) string {
	if d < 0 {
		step := math.Pow(10, float64(-d))
		v = math.Round(v/step) * step
		d = 0
	}
	text := strconv.FormatFloat(v, 'f', d, 64)
	if strings.HasPrefix(text, "-") && strings.Trim(text, "-0.") == "" {
		return text[1:]
	}
	return text
}

// signed is fixed with a sign, but for what rounds to zero.
func signed(v float64, d int) string {
	text := fixed(v, d)
	if v > 0 && strings.Trim(text, "0.") != "" {
		return "+" + text
	}
	return text
}

// natural turns how much worse a metric is into how much it changes, both in percent: a rate
// that is 2 % worse is 2 % less, a time that is 2 % worse is 2 % more.
func natural(higherIsBetter bool, worse, low, high float64) (v, from, to float64) {
	if higherIsBetter {
		return -worse, -high, -low
	}
	return worse, low, high
}

// worseText writes an interval of how much worse something is: "between 1.2 % better and 3.4 %
// worse".
func worseText(low, high float64) string {
	from, to := spanEnds(fixed, math.Abs(low), math.Abs(high), decimals(low, high))
	switch {
	case low >= 0:
		return from + " to " + to + " % worse"
	case high <= 0:
		return to + " to " + from + " % better"
	}
	return "between " + from + " % better and " + to + " % worse"
}

// percentText writes a percentage without its sign character: "3.1".
func percentText(v, low, high float64) string { return fixed(v, decimalsOf(v, low, high)) }

// spanText writes an interval as "+2.2 to +4.0".
func spanText(low, high float64) string { return spanWith(signed, low, high, decimals(low, high)) }

// spanWith writes the ends of an interval with d decimals, and with more those that would
// else be rounded to nothing: on which side of it they lie is seen.
func spanWith(write func(float64, int) string, low, high float64, d int) string {
	from, to := spanEnds(write, low, high, d)
	return from + " to " + to
}

func spanEnds(write func(float64, int) string, low, high float64, d int) (from, to string) {
	end := func(v float64) string {
		const most = 3
		for more := range most {
			if text := write(v, d+more); strings.Trim(text, "-+0.") != "" {
				return text
			}
		}
		return write(v, d)
	}
	return end(low), end(high)
}

// plainSpan writes an interval in the running text, where both ends have the
// sign that the sentence gives them: "2.2 to 4.0". One without width is of values that are
// exact.
func plainSpan(low, high float64) string {
	if low == high {
		return exact
	}
	return spanWith(fixed, low, high, decimals(low, high))
}

const exact = "exact"

// ratioText writes a share that has no interval of its own, such as the
// smallest effect of interest, to three digits at most: 0.02 is "2".
func ratioText(share float64) string {
	return strconv.FormatFloat(100*share, 'g', 3, 64)
}

// A scale is how one column of values is written: all in the same unit, so
// that they can be compared by eye.
type scale struct {
	divisor float64
	unit    string // with its prefix: "ms", "GB/s", "k requests/s"
}

var prefixes = []struct {
	factor float64
	name   string
}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}, {1e-3, "m"}, {1e-6, "µ"}, {1e-9, "n"}}

// seconds gives the length in seconds of a unit of time, or 0.
func seconds(unit string) float64 {
	switch unit {
	case "s", "sec":
		return 1
	case "ms":
		return 1e-3
	case "us", "µs":
		return 1e-6
	case "ns":
		return 1e-9
	}
	return 0
}

// scaleFor chooses the prefix by a value that stands for the column: its
// baseline's. Units of one letter take it as SI has it ("GB/s"), words after a
// space ("k requests/s"); words and percentages are never made smaller, for a
// milli-request is no use to anyone.
func scaleFor(unit string, typical float64) scale {
	typical = math.Abs(typical)
	if length := seconds(unit); length > 0 {
		if !finite(typical) || typical == 0 {
			typical = 1 // nothing stands for the column: its own unit
		}
		for _, p := range prefixes {
			if p.factor <= 1 && (typical*length >= p.factor || p.factor == 1e-9) {
				return scale{p.factor / length, p.name + "s"}
			}
		}
	}
	symbol, rest, _ := strings.Cut(unit, "/")
	if unit == "" || unit == "%" || !finite(typical) || typical == 0 {
		return scale{1, unit}
	}
	letter := len(symbol) == 1 || symbol == "Hz"
	for _, p := range prefixes {
		if p.factor < 1 && !(letter && rest == "") {
			break
		}
		if typical >= p.factor {
			switch {
			case p.name == "":
				return scale{1, unit}
			case letter:
				return scale{p.factor, p.name + unit}
			default:
				return scale{p.factor, p.name + " " + unit}
			}
		}
	}
	return scale{1, unit}
}

// A column is how one metric's figures are written over all conditions: one
// unit, and as far as the intervals allow one number of decimals.
type column struct {
	scale
	valueDecimals, percentDecimals int
	higherIsBetter                 bool
}

func newColumn(m overhead.MetricReport) column {
	typical := 0.0
	var values, percents []int
	for _, r := range m.Rows {
		if finite(r.Value.Value) && (r.Baseline || typical == 0) {
			typical = r.Value.Value
		}
	}
	c := column{scale: scaleFor(m.Unit, typical), higherIsBetter: m.HigherIsBetter}
	for _, r := range m.Rows {
		if v, half, ok := c.half(r.Value); ok {
			values = append(values, decimals(v-half, v+half))
		}
		if !r.Baseline && bounded(r.Percent, r.PercentLow, r.PercentHigh) {
			percents = append(percents, decimals(r.PercentLow, r.PercentHigh))
		}
	}
	c.valueDecimals, c.percentDecimals = commonest(values), commonest(percents)
	return c
}

// commonest gives the most frequent of the counts, the smaller where two are.
func commonest(counts []int) int {
	times := map[int]int{}
	best := 0
	for i, n := range counts {
		times[n]++
		if i == 0 || times[n] > times[best] || times[n] == times[best] && n < best {
			best = n
		}
	}
	return best
}

// agree gives the column's decimals to a figure whose own differ by one at
// most: the eye compares figures of equal length, and one digit more or less
// is still a digit that the interval holds in doubt. But no interval is rounded
// to nothing.
func agree(own, common int, half float64) int {
	if own-common > 1 || common-own > 1 || common < own && half < math.Pow(10, float64(-common)) {
		return own
	}
	return common
}

// half gives a value and the half-width of its interval, in the scale. The
// greater half of an interval that is not symmetric is the honest one.
func (s scale) half(e stats.Estimate) (v, half float64, ok bool) {
	v = e.Value / s.divisor
	low, high := e.Interval.Low/s.divisor, e.Interval.High/s.divisor
	if !present(e) || !bounded(v, low, high) || e.Interval == (stats.Interval{}) {
		return v, math.NaN(), false
	}
	return v, max(v-low, high-v), true
}

// value writes an estimate as "66.1 ±0.4", without the sign where there is no
// interval; it is empty where there is no figure.
func (c column) value(e stats.Estimate) string {
	v, half, ok := c.half(e)
	switch {
	case !present(e):
		return ""
	case !ok:
		return fixed(v, significant(v))
	}
	d := agree(decimals(v-half, v+half), c.valueDecimals, half)
	return fixed(v, d) + " ±" + fixed(half, d)
}

// level writes an estimate to the digits that its interval supports, without the
// interval; it is empty where there is no figure.
func (c column) level(e stats.Estimate) string {
	text, _, _ := strings.Cut(c.value(e), " ")
	return text
}

// percent writes how much worse a row is as the metric's change and its interval: "+3.1",
// "+2.2 to +4.0".
func (c column) percent(v, low, high float64) (figure, span string) {
	v, low, high = natural(c.higherIsBetter, v, low, high)
	if !bounded(v, low, high) {
		return signed(v, significant(v)), ""
	}
	d := agree(decimals(low, high), c.percentDecimals, (high-low)/2)
	return signed(v, d), spanWith(signed, low, high, d)
}

// durationText writes a duration in at most two units.
func durationText(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return joinUnits(int(d.Minutes()), "min", int(d.Seconds())%60, "s")
	default:
		return joinUnits(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	}
}

func joinUnits(a int, unitA string, b int, unitB string) string {
	if b == 0 {
		return fmt.Sprintf("%d %s", a, unitA)
	}
	return fmt.Sprintf("%d %s %d %s", a, unitA, b, unitB)
}

// bytesText writes a size with a binary prefix, as memory is counted.
func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for v >= 1024 && i < len(units)-1 {
		v /= 1024
		i++
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") + " " + units[i]
}

// Counted is a number of things: "1 block", "2 blocks", "2 processes".
func Counted(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// Listed joins words as a sentence does: "a, b and c".
func Listed(words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
