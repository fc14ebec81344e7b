package report

import (
	"bytes"
	"strings"
	"testing"

	"tare/overhead"
)

// A run with a threshold says first how it stands against it, on the screen and the page.
func TestRunWithAThreshold(t *testing.T) {
	for status, want := range map[overhead.Status]string{
		overhead.Exceeded:  "docker network=bridge on redis get is worse by more than the 5 % allowed: by",
		overhead.Passed:    "Nothing is worse by more than the 5 % allowed: at most docker network=bridge on redis get, by",
		overhead.Undecided: "Whether docker network=bridge on redis get is worse by more than the 5 % allowed is inconclusive: the change lies between",
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
		var screen, page bytes.Buffer
		if err := Terminal(&screen, run, rep, TerminalOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := HTML(&page, run, rep, HTMLOptions{}); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(strings.Fields(screen.String()), " "); !strings.HasPrefix(text, want) || !strings.Contains(text, "threshold "+string(status)) {
			t.Errorf("%s: the screen is\n%s", status, screen.String())
		}
		if text := strings.ReplaceAll(page.String(), "\u00a0", " "); !strings.Contains(text, want) {
			t.Errorf("%s: the page does not say %q", status, want)
		}
		for _, l := range strings.Split(screen.String(), "\n") {
			if columns(l) > defaultWidth {
				t.Errorf("longer than the screen: %q", l)
			}
		}
	}
	if got := thresholdAnswer(overhead.Threshold{FailAbove: 0.05, Status: overhead.Undecided}, nil, ""); got != "No primary metric was measured: the threshold of 5 % cannot be judged." {
		t.Error(got)
	}
}
