package claim_test

import (
	"math"
	"testing"

	"tare/claim"
)

func TestFigureText(t *testing.T) {
	for _, c := range []struct {
		figure          claim.Figure
		text            string
		least, greatest float64
	}{
		{claim.Figure{Value: 0.68, Unit: "s"}, "0.68 s", 0.68, 0.68},
		{claim.Figure{Value: 19}, "19", 19, 19},
		{claim.Figure{Value: 1e8, Unit: "us", Bound: claim.About}, "about 100000000 µs", 1e8, 1e8},
		{claim.Figure{Value: 2, Unit: "times", Bound: claim.AtLeast}, "at least 2 times", 2, math.Inf(1)},
		{claim.Figure{Value: 0.07, Unit: "%", Bound: claim.AtMost}, "at most 0.07 %", math.Inf(-1), 0.07},
		{claim.Figure{Low: -3.3, High: 7.1, Unit: "%", Bound: claim.Between}, "-3.3 to 7.1 %", -3.3, 7.1},
		{claim.Figure{Value: 5, Low: 4, High: 6, Unit: "ms", N: 12}, "5 ms", 5, 5},
	} {
		if got := c.figure.Text(); got != c.text {
			t.Errorf("%+v is %q, want %q", c.figure, got, c.text)
		}
		if least, greatest := c.figure.Ends(); least != c.least || greatest != c.greatest {
			t.Errorf("%q ends at %g and %g, want %g and %g", c.text, least, greatest, c.least, c.greatest)
		}
	}
}
