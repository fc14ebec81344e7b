package density

import (
	"slices"
	"strings"
	"testing"

	"tare/claim"
	"tare/record"
	"tare/study/kit/kittest"
)

func verdictOf(t *testing.T, run record.Run) claim.Judgement {
	return kittest.Verdict(t, Judge, run, "")
}

func TestJudge(t *testing.T) {
	t.Parallel()
	never := truth{noise: 0.004, slows: 1}
	late, all, noisy := s3, s3, s3
	late.cliff = 5.2
	all.stalls, all.slows = 0, 20 // the usual request as well as the slow one
	noisy.noise = 0.8
	short := withOrder(Interleaved, 5, file(never))
	short.numbers = []int{1, 3, 5, 7, 9, 11}
	emulated := withOrder(Interleaved, 5, file(s3))
	emulated.emulated = "emulated by TCG"
	full := withOrder(Interleaved, 5, file(s3))
	full.fewest = 1.2
	thrashes := s3
	thrashes.cliff, thrashes.thrash = 0, 2.5
	for _, c := range []struct {
		name string
		run  made
		want claim.Verdict
		why  string
	}{
		// The paper is not at one with itself, so that nothing is confirmed outright.
		{"as S3", withOrder(Interleaved, 5, file(s3)), claim.Qualified, "falls, and the p99 grows by more than the p95; only one swap device was measured"},
		{"as S3, continuous", withOrder(Continuous, 3, file(s3)), claim.Qualified, "not confirmed outright"},
		{"as S3, on two devices", withOrder(Interleaved, 5, file(s3), zram(s3)), claim.Qualified, "on each swap device measured; not confirmed outright"},
		{"the swap device decides", withOrder(Interleaved, 5, file(s3), zram(never)), claim.Qualified, "the swap device decides; zram: throughput loses less than 2 %"},
		{"never", withOrder(Interleaved, 5, file(never)), claim.Refuted, "loses less than 2 %"},
		{"never, on two devices", withOrder(Interleaved, 5, file(never), zram(never)), claim.Refuted, "zram: throughput loses less than 2 %"},
		{"beyond what S3 reached", withOrder(Interleaved, 5, file(late)), claim.Qualified, "only at 5."},
		{"all requests take longer", withOrder(Interleaved, 5, file(all)), claim.Inconclusive, "whether the p99 grows by more than the p95"},
		{"one sweep", withOrder(Interleaved, 1, file(s3)), claim.Inconclusive, "tare density --blocks 5"},
		{"noise", withOrder(Interleaved, 3, file(noisy)), claim.Inconclusive, "tare density --blocks"},
		{"too few neighbours", short, claim.Inconclusive, "to 6.5 times the memory, as S3 did: tare density --full"},
		{"an emulated machine", emulated, claim.Inconclusive, "emulated machine decide nothing"},
		{"memory was short from the first", full, claim.Inconclusive, "nothing to compare with"},
		{"ended at once", withOrder(Continuous, 3, file(thrashes)), claim.Qualified, ""},
	} {
		got := verdictOf(t, c.run.run(t))
		if c.name == "ended at once" {
			// Throughput falls to half a percent at the step that ends it, and the tail
			// does not move: a fall, of which the tail says nothing.
			c.want, c.why = claim.Inconclusive, "whether the p99 grows"
		}
		if got.Verdict != c.want || !strings.Contains(got.Rests, c.why) {
			t.Errorf("%s: %s (%s; %s), want %s, %q", c.name, got.Verdict, got.Ours, got.Rests, c.want, c.why)
		}
		if (got.NotRepresentative != "") != (c.run.emulated != "") {
			t.Errorf("%s: not representative: %q", c.name, got.NotRepresentative)
		}
	}
	// The judge itself confirms, before the paper's inconsistency is counted.
	if j := Judge(withOrder(Interleaved, 5, file(s3)).run(t)); len(j) != 1 || j[0].Verdict != claim.Confirmed {
		t.Errorf("%+v, want it confirmed", j)
	}
	// What is protected is not S3's experiment.
	guarded := madePolicy{name: "file, swappiness", swap: "file", protect: "swappiness", truth: s3}
	if got := verdictOf(t, withOrder(Interleaved, 5, guarded).run(t)); got.Verdict != claim.NotYetRun {
		t.Errorf("protected: %s", got.Verdict)
	}
}

// A fall at one step alone is none: of two dozen one is beyond its interval by chance.
func TestOneStepIsNoFall(t *testing.T) {
	run := withOrder(Interleaved, 5, file(truth{noise: 0.01})).run(t)
	for i, trial := range run.Trials {
		for name := range trial.Covariates {
			if name == "17/closed.rate" {
				run.Trials[i].Covariates[name] *= 0.5
			}
		}
	}
	r := read(run, nil)
	if n, ok := r.falls(r.arms[0], 0.25); ok {
		t.Errorf("throughput falls at %d", n)
	}
}

// Figures stand under the published names, where they are of the same thing.
func TestFiguresAreNamedAsPublished(t *testing.T) {
	thrashes := s3
	thrashes.thrash = 4.4
	j := Judge(withOrder(Continuous, 3, file(thrashes)).run(t))
	if len(j) != 1 {
		t.Fatal("not judged")
	}
	c, err := claim.Lookup(judged)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"neighbours until throughput falls", "neighbours until it thrashes", "neighbours at most", "throughput lost", "mean latency", "greatest latency"} {
		_, published := c.Figure(name)
		i := slices.IndexFunc(j[0].Figures, func(f claim.Figure) bool { return f.Name == name })
		if !published || i < 0 {
			t.Errorf("%s: published %v, ours %v", name, published, i >= 0)
			continue
		}
		if f := j[0].Figures[i]; f.Interval() && (f.Low > f.Value || f.High < f.Value) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for _, f := range figuresOfS3() {
		if f.of == "" {
			t.Errorf("%s has no published figure", f.name)
		}
	}
	want := []string{"2.5", "4.4", "6.5"}
	for i, f := range figuresOfS3()[:3] {
		if f.of != want[i] {
			t.Errorf("%s: %s times, want %s", f.name, f.of, want[i])
		}
	}
}

// How much may be wanting at the end is the claim's, and what it says is what is done.
func TestEndIsTheClaims(t *testing.T) {
	c, err := claim.Lookup(judged)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(c.Limits, func(f claim.Figure) bool { return f.Name == "wanting at the end" })
	if i < 0 {
		t.Fatal("the claim does not say what may be wanting")
	}
	least := 6.5 * (1 - claim.Threshold(judged, "wanting at the end")/100)
	for by, want := range map[float64]claim.Verdict{0.02: claim.Refuted, -0.02: claim.Inconclusive} {
		m := withOrder(Interleaved, 5, file(truth{noise: 0.004}))
		m.fewest = least + by - 45*neighbour
		m.numbers = []int{1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45}
		if got := verdictOf(t, m.run(t)); got.Verdict != want {
			t.Errorf("to %.2f times: %s (%s), want %s", least+by, got.Verdict, got.Rests, want)
		}
	}
}
