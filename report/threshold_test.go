package report

import (
	"html"
	"math"
	"strings"
	"testing"

	"tare/overhead"
)

// A run with a threshold says first how it stands against it, on the screen and the page.
func TestRunWithAThreshold(t *testing.T) {
	for status, want := range map[overhead.Status]string{
		overhead.Exceeded:  "docker network=bridge on redis's get rate is worse by more than the 5 % allowed: by",
		overhead.Passed:    "Nothing is worse by more than the 5 % allowed. The nearest to it is docker network=bridge on redis's get rate: ",
		overhead.Undecided: "Whether docker network=bridge on redis's get rate is worse by more than the 5 % allowed is inconclusive: it exceeds by itself",
	} {
		b := redis()
		run, rep := b.run, b.rep
		rep.Threshold = overhead.Threshold{FailAbove: 0.05, Status: status}
		rows := rep.Groups[0].Metrics[0].Rows
		for i := range rows {
			if !rows[i].Baseline {
				rows[i].Status = overhead.Passed
			}
			if rows[i].Label == "docker network=bridge" {
				rows[i].Status = status
			}
		}
		sheet := WeighSheet(run, rep)
		screen, page := sheetScreen(t, sheet, TerminalOptions{}), sheetOf(t, sheet)
		if text := strings.Join(strings.Fields(screen), " "); !strings.HasPrefix(text, "tare weigh: redis "+want) || !strings.Contains(text, "threshold "+string(status)) {
			t.Errorf("%s: the screen is\n%s", status, screen)
		}
		if text := strings.ReplaceAll(html.UnescapeString(page), "\u00a0", " "); !strings.Contains(text, want) {
			t.Errorf("%s: the page does not say %q", status, want)
		}
		for _, l := range strings.Split(screen, "\n") {
			if columns(l) > defaultWidth {
				t.Errorf("longer than the screen: %q", l)
			}
		}
	}
	for want, o := range map[string]outcome{
		"it exceeds by itself, but not surely as one of 1 rows (Holm).": {percent: 7, judgedLow: 6, judgedHigh: 8},
		"it is 4 to 8 % worse.":               {percent: 6, judgedLow: 4, judgedHigh: 8},
		"6 of its 12 trials yielded nothing.": {percent: 1, judgedLow: 0, judgedHigh: 2, withheld: "6 of its 12 trials yielded nothing"},
		"too few blocks.":                     {percent: 7, judgedLow: math.NaN(), judgedHigh: math.NaN(), why: "too few blocks"},
	} {
		o.name, o.status = "docker on redis's get rate", overhead.Undecided
		want = "Whether docker on redis's get rate is worse by more than the 5 % allowed is inconclusive: " + want
		if got := thresholdAnswer(overhead.Threshold{FailAbove: 0.05, Status: overhead.Undecided}, []outcome{o}, ""); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	disturbed := redis()
	disturbed.rep.Threshold = overhead.Threshold{FailAbove: 0.05, Status: overhead.Undecided}
	disturbed.rep.Groups[0].Blocks, disturbed.rep.Groups[0].Tainted = 0, 10
	disturbed.rep.Groups[0].Metrics[0].Rows[1].Status = overhead.Undecided
	if got := RunThresholdAnswer(disturbed.run, disturbed.rep); !strings.Contains(got, "inconclusive: every block was disturbed from outside.") {
		t.Error(got)
	}
	if got := thresholdAnswer(overhead.Threshold{FailAbove: 0.05, Status: overhead.Undecided}, nil, ""); got != "No primary metric was measured: the threshold of 5 % cannot be judged." {
		t.Error(got)
	}
}
