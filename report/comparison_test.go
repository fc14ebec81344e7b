package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"tare/overhead"
	"tare/stats"
)

func compared(label string, percent, half float64, verdict overhead.Verdict, status overhead.Status) overhead.ComparisonRow {
	value := stats.Estimate{Value: 69300 * (1 - percent/100), Interval: stats.Interval{Low: 69300*(1-percent/100) - 400, High: 69300*(1-percent/100) + 400}, N: 20, Method: "t"}
	return overhead.ComparisonRow{
		Workload: "redis", Condition: "redis@" + label, Label: label, Platform: label, Metric: "get", Unit: "requests/s", Primary: true, HigherIsBetter: true,
		OldValue: stats.Estimate{Value: 69300, Interval: stats.Interval{Low: 68900, High: 69700}, N: 20, Method: "t"}, NewValue: value,
		Basis: overhead.ByOverhead, Percent: percent, PercentLow: percent - half, PercentHigh: percent + half, Verdict: verdict, Judged: true, Status: status,
	}
}

func comparison(failAbove float64, status overhead.Status, rows ...overhead.ComparisonRow) overhead.Comparison {
	c := overhead.Comparison{Old: "weigh-20260101-120000-1a2b", New: "weigh-20260102-150405-7f3a", SmallestEffect: 0.02, Level: 0.95, Rows: rows, Status: status}
	if failAbove > 0 {
		c.FailAbove = &failAbove
	}
	return c
}

func TestComparisonAnswer(t *testing.T) {
	worse := compared("docker", 7.9, 1.4, overhead.Worse, overhead.Exceeded)
	maybe := compared("oci:crun", 4, 3, overhead.Worse, overhead.Undecided)
	same := compared("oci:runc", 0.2, 0.7, overhead.Equivalent, overhead.Passed)
	gain := compared("oci:runsc", -5.2, 1.1, overhead.Better, overhead.Passed)
	absent := compared("oci:crun", math.NaN(), math.NaN(), overhead.Inconclusive, overhead.Undecided)
	absent.Overhead.Warnings = []string{"need at least 2 blocks"}
	unsure := compared("oci:crun", 1, 3, overhead.Inconclusive, overhead.Passed)
	for _, c := range []struct {
		name string
		c    overhead.Comparison
		want string
	}{
		{"worse", comparison(0, 0, same, worse), "docker got 7.9 % worse on redis get (6.5 to 9.3)."},
		{"same", comparison(0, 0, same), "Nothing got worse by 2 % or more."},
		{"better", comparison(0, 0, same, gain), "Nothing got worse by 2 % or more; oci:runsc got 5.2 % better on redis get (4.1 to 6.3)."},
		{"unsure", comparison(0, 0, same, unsure), "Nothing surely got worse, but 1 of 2 changes are undecided."},
		{"exceeded", comparison(0.05, overhead.Exceeded, same, worse), "docker got 7.9 % worse on redis get (6.5 to 9.3): more than the 5 % allowed."},
		{"undecided", comparison(0.05, overhead.Undecided, same, maybe), "Whether oci:crun on redis get got worse by more than the 5 % allowed is undecided (+1 to +7 %)."},
		{"without a figure", comparison(0.05, overhead.Undecided, same, absent), "Whether oci:crun on redis get got worse by more than the 5 % allowed is undecided (need at least 2 blocks)."},
		{"passed", comparison(0.05, overhead.Passed, same), "Nothing got worse by more than the 5 % allowed: at most oci:runc on redis get, -0.5 to +0.9 %."},
		{"nothing", comparison(0, 0), "No primary metric is in both runs: nothing can be said of what changed."},
	} {
		if got := ComparisonAnswer(c.c); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestComparisonTerminalGolden(t *testing.T) {
	base := compared("bare", -0.4, 0.6, overhead.Equivalent, overhead.Passed)
	base.Baseline, base.Basis, base.Judged = true, overhead.ByValue, false
	absent := compared("oci:crun", math.NaN(), math.NaN(), overhead.Inconclusive, overhead.Undecided)
	absent.NewValue = stats.Estimate{Value: math.NaN(), Warnings: []string{"no block holds it"}}
	c := comparison(0.05, overhead.Exceeded, base, absent,
		compared("oci:runc", 0.2, 0.7, overhead.Equivalent, overhead.Passed),
		compared("docker network=bridge", 7.9, 1.4, overhead.Worse, overhead.Exceeded))
	c.Warnings = []string{"host: kernel 6.18.4 before, 6.18.5 now"}
	for _, width := range []int{60, 80, 120} {
		var out bytes.Buffer
		if err := ComparisonTerminal(&out, c, TerminalOptions{Width: width, Next: []string{"tare show weigh-20260102-150405-7f3a"}}); err != nil {
			t.Fatal(err)
		}
		for _, l := range strings.Split(out.String(), "\n") {
			if columns(l) > width {
				t.Errorf("at width %d: %q", width, l)
			}
		}
		if width == 80 {
			golden(t, "comparison-80.txt", out.String())
		}
	}
}
