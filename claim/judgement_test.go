package claim_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tare/claim"
	"tare/record"
)

var (
	here = record.Host{Hostname: "bench", Arch: "amd64", CPUModel: "EPYC", CPUs: 2, Kernel: "6.18", OS: "Debian 12", Virtual: "kvm", THP: "madvise"}
	noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
)

func finished(id string, at time.Time) record.Run {
	return record.Run{ID: id, Study: "startup", Status: record.Complete, Started: at, Finished: at.Add(time.Minute), Host: here}
}

func judgement(id string, v claim.Verdict) claim.Judgement {
	return claim.Judgement{
		Claim: id, Verdict: v, Ours: "1.9 times the mean from 1 to 8 a second", Rests: "20 blocks of docker",
		Figures: []claim.Figure{{Name: "mean, 8 a second", Value: 0.4, Low: 0.35, High: 0.45, Unit: "s", N: 20}},
	}
}

func TestSettleSaysWhichRunWhenAndWhere(t *testing.T) {
	run := finished("startup-1", noon)
	settled, err := claim.Settle(run, []claim.Judgement{judgement("s1.1", claim.Confirmed)})
	if err != nil {
		t.Fatal(err)
	}
	want := judgement("S1.1", claim.Confirmed)
	want.Run, want.When, want.Host = "startup-1", noon.Add(time.Minute), "bench, 2 x EPYC, Linux 6.18, virtual (kvm)"
	if diff := cmp.Diff([]claim.Judgement{want}, settled); diff != "" {
		t.Errorf("settled (-want +got):\n%s", diff)
	}
	run.Finished = time.Time{}
	if settled, err = claim.Settle(run, settled); err != nil || settled[0].When != noon {
		t.Errorf("of a run without an end: %v, %v", settled, err)
	}
}

// A claim whose paper contradicts itself is qualified at best, whatever a judge
// says; every other verdict stands, and so does every other claim's.
func TestAnInconsistentPaperIsNeverConfirmed(t *testing.T) {
	for _, c := range claim.All() {
		for _, v := range []claim.Verdict{claim.Confirmed, claim.Qualified, claim.Refuted, claim.Inconclusive} {
			want := v
			if v == claim.Confirmed && c.Inconsistency != "" {
				want = claim.Qualified
			}
			once, err := claim.Settle(finished("startup-1", noon), []claim.Judgement{judgement(c.ID, v)})
			if err != nil {
				t.Fatal(err)
			}
			if once[0].Verdict != want {
				t.Errorf("%s, judged %s, is settled as %s, want %s", c.ID, v, once[0].Verdict, want)
			}
			if told := once[0].Rests != judgement(c.ID, v).Rests; told != (want != v) {
				t.Errorf("%s, judged %s, rests on %q", c.ID, v, once[0].Rests)
			}
			twice, err := claim.Settle(finished("startup-1", noon), once)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(once, twice); diff != "" {
				t.Errorf("%s: settling again changes it:\n%s", c.ID, diff)
			}
		}
	}
	for id, inconsistent := range map[string]bool{"S1.1": false, "S1.3": false, "S1.4": false, "S1.6": true, "S1.9": true, "S1.11": true, "S1.14": true, "S2.1": true, "S2.3": true, "S2.5": true, "S3.2": true, "S4.2": true, "S4.5": true, "S5.3": true} {
		if got := lookup(t, id).Inconsistency != ""; got != inconsistent {
			t.Errorf("%s has an inconsistency: %t", id, got)
		}
	}
}

func TestSettleRefusesWhatNoRunCanSay(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*claim.Judgement)
		says string
	}{
		"unknown claim":      {func(j *claim.Judgement) { j.Claim = "S1.16" }, "S1.16"},
		"no verdict":         {func(j *claim.Judgement) { j.Verdict = "" }, "verdict"},
		"another verdict":    {func(j *claim.Judgement) { j.Verdict = "proved" }, "proved"},
		"not yet run":        {func(j *claim.Judgement) { j.Verdict = claim.NotYetRun }, "not yet run"},
		"no ground":          {func(j *claim.Judgement) { j.Rests = "" }, "rests on nothing"},
		"no figure in words": {func(j *claim.Judgement) { j.Ours = "" }, "no figure of ours"},
		"not a number":       {func(j *claim.Judgement) { j.Figures[0].Value = math.NaN() }, "not finite"},
		"endless interval":   {func(j *claim.Judgement) { j.Figures[0].High = math.Inf(1) }, "not finite"},
		"interval reversed":  {func(j *claim.Judgement) { j.Figures[0].Low = 1 }, "ends before"},
		"nameless figure":    {func(j *claim.Judgement) { j.Figures[0].Name = "" }, "no name"},
		"negative n":         {func(j *claim.Judgement) { j.Figures[0].N = -1 }, "less than nothing"},
		"figure twice":       {func(j *claim.Judgement) { j.Figures = append(j.Figures, j.Figures[0]) }, "twice"},
	} {
		j := judgement("S1.1", claim.Confirmed)
		c.edit(&j)
		_, err := claim.Settle(finished("startup-1", noon), []claim.Judgement{j})
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "startup-1") {
			t.Errorf("%s: %v, want %q and the run", name, err, c.says)
		}
	}
	twice := []claim.Judgement{judgement("S1.1", claim.Confirmed), judgement("s1.1", claim.Refuted)}
	if _, err := claim.Settle(finished("startup-1", noon), twice); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("one claim, judged twice: %v", err)
	}
	silent := judgement("S1.1", claim.Inconclusive)
	silent.Ours, silent.Figures = "", nil
	if _, err := claim.Settle(finished("startup-1", noon), []claim.Judgement{silent}); err != nil {
		t.Errorf("an inconclusive verdict needs no figure: %v", err)
	}
}
