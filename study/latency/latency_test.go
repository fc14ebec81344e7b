package latency

import (
	"testing"
	"time"

	"tare/lab"
	"tare/record"
	"tare/report"
	"tare/study/kit/kittest"
)

// runOf is a run of one of the studies that has measured nothing yet.
func runOf(name string) record.Run {
	d := Of(name, lab.Design{Groups: []lab.Group{{Workload: "w", Conditions: []lab.Condition{{Condition: record.Condition{ID: "w@a", Label: "a", Workload: "w", Platform: "docker", Baseline: true}}}}}})
	run := record.Run{ID: "latency-1", Study: d.Study, Status: record.Interrupted, Reason: "the test", Started: time.Now(), Plan: record.Plan{Level: 0.95, SmallestEffect: 0.02}}
	for _, c := range d.Groups[0].Conditions {
		run.Conditions = append(run.Conditions, c.Condition)
	}
	return run
}

// Every study has a page, a claim or a reason for none, and a next command, however
// little was measured.
func TestEveryStudyHasItsPage(t *testing.T) { kittest.Pages(t, Studies, runOf) }

// Each claim of S4 is judged by one of the studies' commands.
func TestClaimsNameTheirStudy(t *testing.T) { kittest.Claims(t, Studies, Name) }

// Where nothing can be predicted, the reason is a sentence in place of figures.
func TestAPredictionFromNothingSaysWhy(t *testing.T) {
	answer := predictedPage(runOf(Predict), nil).Answer
	if answer == "" || answer[len(answer)-1] != '.' {
		t.Errorf("answer %q", answer)
	}
	for _, p := range predictedParts(runOf(CPU)) {
		if _, ok := p.(report.Prose); !ok {
			t.Errorf("a part %T of nothing", p)
		}
	}
}
