package report

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	"tare/stats"
)

func TestDigitsFollowTheInterval(t *testing.T) {
	for _, c := range []struct {
		v, low, high float64
		want         string
	}{
		{3.0612, 2.2, 4.0, "3.1 (2.2 to 4.0)"},
		{3.0612, 3.03, 3.09, "3.06 (3.03 to 3.09)"},
		{410.7, 398, 424, "411 (398 to 424)"},
		{12345, 9000, 16000, "12000 (9000 to 16000)"},
		{-0.01, -0.6, 0.6, "0.0 (-0.6 to 0.6)"},
		{0, 0, 0, "0 (exact)"},
		{27.2, 1, 2900, "30 (1 to 2900)"},
		{-27.2, -2900, -1, "-30 (-2900 to -1)"},
	} {
		got := percentText(c.v, c.low, c.high) + " (" + plainSpan(c.low, c.high) + ")"
		if got != c.want {
			t.Errorf("%v (%v, %v) is written %q, want %q", c.v, c.low, c.high, got, c.want)
		}
	}
}

func TestRoundedHasNoExponent(t *testing.T) {
	for want, c := range map[string]struct {
		v      float64
		digits int
	}{
		"186000": {186123, 3}, "100": {99.7, 2}, "0.0000186": {0.0000186, 3}, "1.5": {1.5, 3}, "0": {0, 3}, "-1020": {-1023.4, 3}, "40": {40, 3}, "NaN": {math.NaN(), 3},
	} {
		if got := Rounded(c.v, c.digits); got != want {
			t.Errorf("%v to %d digits is %q, want %q", c.v, c.digits, got, want)
		}
	}
}

// A figure that lies wholly above zero is not written as one, however wide its interval.
func TestNoFigureAboveZeroIsZero(t *testing.T) {
	for _, c := range []struct {
		v, low, high float64
		want         string
	}{
		{856, 22, 340000, "900 (20 to 340000)"},
		{0.94, 0.0031, 12, "0.9 (0.003 to 12)"},
		{3.0612, 2.2, 4.0, "3.1 (2.2 to 4.0)"},
		{2, -3, 90, "0 (0 to 90)"},
		{0.02, 0.001, 900, "0.02 (0.001 to 900)"},
		{400, 9e-7, 8e8, "400 (not bounded)"},
		{1.4e25, 3e-9, 6e51, "– (not bounded)"},
		{434, 3e-49, 6e51, "400 (not bounded)"},
	} {
		got := Said(stats.Estimate{Value: c.v, Interval: stats.Interval{Low: c.low, High: c.high}, N: 3}, 1)
		if got != c.want {
			t.Errorf("%v (%v, %v) is written %q, want %q", c.v, c.low, c.high, got, c.want)
		}
	}
}

func TestScale(t *testing.T) {
	for _, c := range []struct {
		unit    string
		typical float64
		want    string
		of      float64
		text    string
	}{
		{"requests/s", 69300, "k requests/s", 69300, "69.3"},
		{"requests/s", 0.2, "requests/s", 0.2, "0.200"},
		{"B/s", 1.2e10, "GB/s", 1.2e10, "12.0"},
		{"us", 312, "µs", 312, "312"},
		{"us", 4200, "ms", 4200, "4.20"},
		{"s", 0.0123, "ms", 0.0123, "12.3"},
		{"s", 75, "s", 75, "75.0"},
		{"ns", 0.4, "ns", 0.4, "0.400"},
		{"%", 12000, "%", 12000, "12000"},
		{"J", 0.004, "mJ", 0.004, "4.00"},
		{"faults", 0, "faults", 3, "3.00"},
		{"s", 0, "s", 3, "3.00"},
		{"ms", 0, "ms", 3, "3.00"},
		{"us", math.NaN(), "µs", 3, "3.00"},
	} {
		sc := scaleFor(c.unit, c.typical)
		if v := c.of / sc.divisor; sc.unit != c.want || fixed(v, significant(v)) != c.text {
			t.Errorf("%v %s is written %s %q, want %s %q", c.of, c.unit, fixed(v, significant(v)), sc.unit, c.text, c.want)
		}
	}
}

func TestValueShowsTheGreaterHalf(t *testing.T) {
	c := column{scale: scale{1, "s"}, valueDecimals: 1}
	got := c.value(stats.Estimate{Value: 10, Interval: stats.Interval{Low: 9.8, High: 10.6}, N: 5})
	if got != "10.0 ±0.6" {
		t.Errorf("got %q", got)
	}
}

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		850 * time.Millisecond:          "850 ms",
		59 * time.Second:                "59 s",
		12*time.Minute + 31*time.Second: "12 min 31 s",
		2 * time.Hour:                   "2 h",
		63 * time.Minute:                "1 h 3 min",
	} {
		if got := durationText(d); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
}

// Whatever comes in, lines keep the width, hold nothing that acts on a
// terminal, and lose nothing but space.
func FuzzWrap(f *testing.F) {
	f.Add("Docker costs redis 3.1 % of its get rate", 12)
	f.Add("\x1b[31m\u202e長長長é\u0301\xff", 3)
	f.Add("a/very/long/path,with=breaks", 7)
	f.Fuzz(func(t *testing.T, text string, n int) {
		n = 2 + abs(n)%200
		safe := clean(text)
		for _, r := range safe {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Fatalf("clean(%q) keeps %U", text, r)
			}
		}
		lines := wrap(safe, n)
		for _, l := range lines {
			if columns(l) > n {
				t.Errorf("%q has %d columns, want %d at most", l, columns(l), n)
			}
		}
		squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if got := squeeze(strings.Join(lines, "")); got != squeeze(safe) {
			t.Errorf("%q became %q", squeeze(safe), got)
		}
	})
}

func abs(n int) int {
	if n < 0 {
		return -(n + 1)
	}
	return n
}
