package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"tare/overhead"
	"tare/stats"
)

// compared is a row of a comparison that allows for 10 % of drift.
func compared(label string, percent, half float64, verdict overhead.Verdict, status overhead.Status) overhead.ComparisonRow {
	value := stats.Estimate{Value: 69300 * (1 - percent/100), Interval: stats.Interval{Low: 69300*(1-percent/100) - 400, High: 69300*(1-percent/100) + 400}, N: 20, Method: "t"}
	return overhead.ComparisonRow{
		Workload: "redis", Condition: "redis@" + label, Label: label, Platform: label, Metric: "get", Unit: "requests/s", HigherIsBetter: true,
		OldValue: stats.Estimate{Value: 69300, Interval: stats.Interval{Low: 68900, High: 69700}, N: 20, Method: "t"}, NewValue: value,
		Percent: percent, PercentLow: percent - half, PercentHigh: percent + half, OverheadPercent: math.NaN(),
		DriftLow: 100 - (100-percent+half)*1.1, DriftHigh: 100 - (100-percent-half)/1.1, Verdict: verdict, Judged: true, Status: status,
	}
}

func comparison(failAbove float64, status overhead.Status, rows ...overhead.ComparisonRow) overhead.Comparison {
	return overhead.Comparison{Old: "weigh-20260101-120000-1a2b", New: "weigh-20260102-150405-7f3a", Level: 0.95, Drift: 0.1, Rows: rows,
		Threshold: overhead.Threshold{FailAbove: failAbove, Status: status}}
}

func TestComparisonAnswer(t *testing.T) {
	worse := compared("docker", 20.3, 1.4, overhead.Worse, overhead.Exceeded)
	maybe := compared("oci:crun", 4, 3, overhead.Inconclusive, overhead.Undecided)
	gain := compared("oci:runsc", -22.2, 1.1, overhead.Better, overhead.Passed)
	absent := compared("oci:crun", math.NaN(), math.NaN(), overhead.Inconclusive, overhead.Undecided)
	absent.Change.Warnings = []string{"need at least 2 blocks"}
	missing := comparison(0.05, overhead.Undecided, gain)
	missing.Missing = []string{"redis@docker is not in weigh-20260102-150405-7f3a", "and another"}
	unjudged := comparison(0, "", worse)
	unjudged.Unjudged = "import-1 was measured elsewhere: measure both"
	for _, c := range []struct {
		name string
		c    overhead.Comparison
		want string
	}{
		{"worse", comparison(0, "", gain, worse), "docker got 20.3 % worse on redis get (18.9 to 21.7); oci:runsc got 22.2 % better on redis get (21.1 to 23.3). Drift of 10 % does not explain it."},
		{"unsure", comparison(0, "", maybe), "Whether anything got worse or better is inconclusive: no change is clear of the 10 % allowed for drift."},
		{"exceeded", comparison(0.05, overhead.Exceeded, maybe, worse, worse), "docker on redis get is worse by more than the 5 % allowed: by 20.3 % (18.9 to 21.7), and with 10 % allowed for drift, by 11 to 29 % (1 more exceeded it too)."},
		{"undecided", comparison(0.05, overhead.Undecided, gain, maybe), "Whether oci:crun on redis get is worse by more than the 5 % allowed is inconclusive: with 10 % allowed for drift, it is between 9 % better and 15 % worse."},
		{"without a figure", comparison(0.05, overhead.Undecided, gain, absent), "Whether oci:crun on redis get is worse by more than the 5 % allowed is inconclusive: need at least 2 blocks."},
		{"missing", missing, "Whether anything is worse by more than the 5 % allowed is inconclusive: redis@docker is not in weigh-20260102-150405-7f3a (1 more missing too)."},
		{"passed", comparison(0.05, overhead.Passed, gain), "Nothing is worse by more than the 5 % allowed. The nearest to it is oci:runsc on redis get: with 10 % allowed for drift, 10 to 36 % better."},
		{"nothing", comparison(0, ""), "No primary metric is in both runs: nothing can be said of what changed."},
		{"unjudged", unjudged, "No verdict: import-1 was measured elsewhere: measure both."},
	} {
		if got := ComparisonAnswer(c.c); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestComparisonTerminalGolden(t *testing.T) {
	absent := compared("oci:crun", math.NaN(), math.NaN(), overhead.Inconclusive, overhead.Undecided)
	absent.NewValue = stats.Estimate{Value: math.NaN(), Warnings: []string{"no block holds it"}}
	docker := compared("docker", 20.3, 1.4, overhead.Worse, overhead.Exceeded)
	docker.OverheadPercent, docker.OverheadLow, docker.OverheadHigh = 0.4, -1.1, 1.9
	c := comparison(0.05, overhead.Exceeded, absent, compared("bare", 4.2, 0.7, overhead.Inconclusive, overhead.Undecided), docker,
		compared("oci:runc", 17.2, 0.7, overhead.Inconclusive, overhead.Undecided))
	c.Warnings = []string{"host: kernel 6.18.4 before, 6.18.5 now"}
	for i := range 5 {
		c.Missing = append(c.Missing, fmt.Sprintf("redis@docker,cpus=%d is not in weigh-20260102-150405-7f3a", i+1))
	}
	for _, width := range []int{60, 80, 120} {
		var out bytes.Buffer
		if err := ComparisonTerminal(&out, c, TerminalOptions{Width: width, Next: []string{"tare weigh --image OLD --image NEW --platform docker --fail-above 5% -- COMMAND"}}); err != nil {
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
