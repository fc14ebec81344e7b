package record

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

// A run is copied whole and with its status, and a second copy changes nothing.
func TestCopyTo(t *testing.T) {
	from, to := open(t), open(t)
	part := Part{Study: "weigh-20260102-150405-7f3a", Node: "node1.example"}
	run := example(part.ID())
	run.Plan.Part, run.Status = &part, Running
	if err := from.Begin(run); err != nil {
		t.Fatal(err)
	}
	trial := Trial{
		Condition: "redis@bare", Block: 1, Attempt: 1, Started: epoch, Samples: []Sample{{"get", 70_000}},
		Slices:      []Slice{{Strip: 1, Part: "get", Started: epoch, Window: time.Second, Amount: 70_000, Steal: math.NaN()}},
		Attachments: []Attachment{{Name: "cpu.pprof", MediaType: "application/octet-stream", Data: []byte("profile")}},
	}
	if _, err := from.AddTrial(run.ID, trial); err != nil {
		t.Fatal(err)
	}
	var invalid *Invalid
	if err := from.CopyTo(t.Context(), to, run.ID); !errors.As(err, &invalid) {
		t.Errorf("a run that has not ended was copied: %v", err)
	}
	if err := from.Finish(run.ID, Complete, "every block"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := from.CopyTo(t.Context(), to, run.ID); err != nil {
			t.Fatal(err)
		}
	}
	got, err := to.Run(run.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != Complete || got.Reason != "every block" || got.Plan.Part == nil || *got.Plan.Part != part || len(got.Trials) != 1 {
		t.Fatalf("copied %+v", got)
	}
	if ids, err := to.Parts(part.Study); err != nil || !slices.Equal(ids, []string{run.ID}) {
		t.Errorf("the study's runs are %q, %v", ids, err)
	}
	if ids, err := to.Parts(run.ID); err != nil || len(ids) > 0 {
		t.Errorf("a run is taken for a study: %q, %v", ids, err)
	}
	if s := got.Trials[0].Slices; len(s) != 1 || s[0].Amount != 70_000 || !math.IsNaN(s[0].Steal) {
		t.Errorf("its slices: %+v", s)
	}
	if a, err := to.Attachment(got.Trials[0].ID, "cpu.pprof"); err != nil || string(a.Data) != "profile" {
		t.Errorf("its attachment: %q, %v", a.Data, err)
	}
	if status, err := to.StatusOf(run.ID); err != nil || status != Complete {
		t.Errorf("status %s, %v", status, err)
	}
	if err := to.Remove(run.ID); err != nil {
		t.Fatal(err)
	}
	var notFound *NotFound
	if _, err := to.StatusOf(run.ID); !errors.As(err, &notFound) {
		t.Errorf("removed: %v", err)
	}
	if err := to.Remove(run.ID); !errors.As(err, &notFound) {
		t.Errorf("removed twice: %v", err)
	}
}
