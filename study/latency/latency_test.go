package latency

import (
	"testing"
	"time"

	"tare/claim"
	"tare/lab"
	"tare/record"
	"tare/report"
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
func TestEveryStudyHasItsPage(t *testing.T) {
	for _, k := range Studies.Members {
		run := runOf(k.Name)
		s := Studies.Sheet(run, nil, nil)
		if s.Title != k.Title || s.Answer == "" || Studies.NextOf(run) != k.Next || k.Next == "" {
			t.Errorf("%s: title %q, answer %q, next %q", k.Name, s.Title, s.Answer, Studies.NextOf(run))
		}
		if i := Studies.Interim(run); i.Title != k.Title+", so far" || i.Answer == "" {
			t.Errorf("%s so far: title %q, answer %q", k.Name, i.Title, i.Answer)
		}
		if _, err := claim.Settle(run, Studies.Judge(run)); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
	if s := Studies.Sheet(record.Run{}, nil, nil); s.Answer == "" {
		t.Error("a run of nothing has no answer")
	}
}

// Each claim of S4 is judged by one of the studies' commands.
func TestClaimsNameTheirStudy(t *testing.T) {
	named := map[string]bool{}
	for _, k := range Studies.Members {
		named[k.Title] = true
	}
	for _, c := range claim.Of(Name) {
		if len(c.Command) < 3 || !named["tare "+c.Command[1]+" "+c.Command[2]] {
			t.Errorf("%s is judged by %v, which is none of these studies", c.ID, c.Command)
		}
	}
}

// What a prediction lacks is said in a sentence, in place of figures.
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
