package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tare/overhead"
	"tare/stats"
)

func effect(value, half float64) stats.Estimate {
	return stats.Estimate{Value: value, Interval: stats.Interval{Low: value - half, High: value + half, Level: 0.95}, N: 20, Method: "t"}
}

func historyOfRuns(failAbove float64, status overhead.Status) overhead.History {
	h := overhead.History{Level: 0.95, Threshold: overhead.Threshold{FailAbove: failAbove, Status: status}, Enough: 10}
	for i := range 40 {
		day := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(i) * 24 * time.Hour)
		h.Runs = append(h.Runs, overhead.HistoryRun{ID: "weigh-" + day.Format("20060102") + "-120000-1a2b", Started: day})
	}
	segment := func(first, last int, e stats.Estimate, percent, half float64) overhead.HistorySegment {
		return overhead.HistorySegment{First: first, Last: last, Runs: last - first + 1, Effect: e, Level: 69300 * e.Value, BaseLevel: 69300,
			P: 0.0001, Percent: percent, PercentLow: percent - half, PercentHigh: percent + half}
	}
	series := func(label string, segments ...overhead.HistorySegment) overhead.Series {
		last := segments[len(segments)-1]
		return overhead.Series{Workload: "redis", Condition: "redis@" + label, Label: label, Platform: label, Metric: "get", Unit: "requests/s",
			HigherIsBetter: true, Against: "bare", Segments: segments, Percent: last.Percent, PercentLow: last.PercentLow, PercentHigh: last.PercentHigh, Status: status}
	}
	h.Series = []overhead.Series{
		series("docker", segment(0, 24, effect(0.979, 0.003), math.NaN(), 0), segment(25, 39, effect(0.921, 0.004), 5.9, 0.7)),
		series("oci:runc", segment(0, 39, effect(0.999, 0.002), 0.2, 0.4)),
	}
	h.Changes = []overhead.HistoryChange{{Before: 24, After: 25, Series: []int{0}}}
	for i := range 14 {
		h.Changes[0].Differences = append(h.Changes[0].Differences, fmt.Sprintf("host: versions.engine%d 1.%d before, 2.%d now", i, i, i))
	}
	return h
}

func TestHistoryAnswer(t *testing.T) {
	changed := historyOfRuns(0, "")
	twice := historyOfRuns(0, "")
	twice.Changes = append([]overhead.HistoryChange{{Before: 3, After: 4, Series: []int{1}}}, twice.Changes...)
	flat := historyOfRuns(0, "")
	flat.Changes = nil
	few := flat
	few.Runs = few.Runs[:5]
	single := flat
	single.Runs = single.Runs[:1]
	for name, c := range map[string]struct {
		h    overhead.History
		want string
	}{
		"changed": {changed, "docker got 5.9 % worse on redis get (5.2 to 6.6) with weigh-20260126-120000-1a2b."},
		"twice":   {twice, "docker got 5.9 % worse on redis get (5.2 to 6.6) with weigh-20260126-120000-1a2b (1 more earlier change)."},
		"flat":    {flat, "No change in 40 runs."},
		"few":     {few, "No change is found, and 5 runs are too few: with 10 a change at the newest 3 could be found."},
		"single":  {single, "No change is found, and 1 run is too few: with 10 a change at the newest 3 could be found."},
		"nothing": {overhead.History{}, "No primary metric is in these runs: nothing can be said of what changed."},
		"exceeded": {historyOfRuns(0.05, overhead.Exceeded),
			"docker on redis get is worse by more than the 5 % allowed: by 5.9 % (5.2 to 6.6) (1 more exceeded it too)."},
		"passed": {historyOfRuns(0.1, overhead.Passed), "Nothing is worse by more than the 10 % allowed. The nearest to it is docker on redis get: 5.2 to 6.6 % worse."},
	} {
		if got := HistoryAnswer(c.h); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

func TestHistoryTerminalGolden(t *testing.T) {
	h := historyOfRuns(0.05, overhead.Exceeded)
	h.Warnings = []string{"weigh-20260103-120000-1a2b: get of docker has no interval or was disturbed throughout: left out there"}
	leftOut := []string{"weigh-20260104-120000-1a2b: it is interrupted", "weigh-20260105-120000-1a2b: the runs are of different hosts (CPU Fast CPU before, Slow\x1b[31m CPU now)"}
	for _, width := range []int{60, 80, 120} {
		var out bytes.Buffer
		if err := HistoryTerminal(&out, h, leftOut, TerminalOptions{Width: width}); err != nil {
			t.Fatal(err)
		}
		for _, l := range strings.Split(out.String(), "\n") {
			if columns(l) > width {
				t.Errorf("at width %d: %q", width, l)
			}
		}
		if width == 80 {
			golden(t, "history-80.txt", out.String())
		}
	}
}
