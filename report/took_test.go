package report

import (
	"strings"
	"testing"
	"time"

	"tare/record"
)

// The time of a run that was resumed is what it was measured for, its pause beside it.
func TestTimeIsWithoutThePause(t *testing.T) {
	began := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	run := record.Run{ID: "r", Started: began, Finished: began.Add(3 * time.Hour)}
	if got := TimeFact(run); !strings.HasPrefix(got, "time: 3 h, 2026") {
		t.Error(got)
	}
	run.Plan.Paused = 2*time.Hour + 50*time.Minute
	if got := TimeFact(run); !strings.HasPrefix(got, "time: 10 min, paused for 2 h 50 min, 2026") {
		t.Error(got)
	}
}
