package gpu

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tare/claim"
	programs "tare/programs/gpu"
	"tare/record"
	"tare/study/kit/kittest"
)

func verdicts(t *testing.T, run record.Run) map[string]claim.Judgement {
	t.Helper()
	settled, err := claim.Settle(run, Judge(run))
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]claim.Judgement{}
	for _, j := range settled {
		by[j.Claim] = j
	}
	return by
}

// What is published holds, is refuted, or stays open, each by its own figures. Two of
// the claims contradict themselves in their paper, so that nothing of theirs is confirmed
// outright.
func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		of                     loses
		s13, s14, s15          claim.Verdict
		says13, says14, says15 string
	}{
		"as published":           {loses{1, 1.001, 1.07, 1.12}, claim.Confirmed, claim.Refuted, claim.Qualified, "by the activity probe", "the loss is below 2 %", "not confirmed outright"},
		"a few percent":          {loses{1, 1.07, 1.12, 1.12}, claim.Confirmed, claim.Qualified, claim.Qualified, "", "not confirmed outright", "exact code is not within 2 %"},
		"nothing is lost":        {loses{1, 1, 1, 1}, claim.Confirmed, claim.Refuted, claim.Refuted, "", "the loss is below 2 %", "compilation takes the same time"},
		"slow kernels":           {loses{1.3, 1.07, 1.12, 1.12}, claim.Refuted, claim.Qualified, claim.Qualified, "differ by more than 2 points", "", ""},
		"fast kernels":           {loses{0.7, 1.07, 1.12, 1.12}, claim.Refuted, claim.Qualified, claim.Qualified, "differ by more than 2 points", "", ""},
		"a half more":            {loses{1, 1.5, 1.7, 1.12}, claim.Confirmed, claim.Refuted, claim.Qualified, "", "the loss is above 12 %", ""},
		"across the limits":      {loses{1.107, 1.12, 1.12, 1.1}, claim.Inconclusive, claim.Inconclusive, claim.Inconclusive, "includes 2 points", "partly outside 2 to 12 %", "it is undecided"},
		"start, not compilation": {loses{1, 1.3, 1.15, 1.1}, claim.Confirmed, claim.Refuted, claim.Inconclusive, "", "", "it is undecided"},
	} {
		m := makeRun(t, 5, nil, "docker").fill(c.of.level)
		got := verdicts(t, m.run)
		for id, want := range map[string]struct {
			verdict claim.Verdict
			says    string
		}{"S1.13": {c.s13, c.says13}, "S1.14": {c.s14, c.says14}, "S1.15": {c.s15, c.says15}} {
			if j := got[id]; j.Verdict != want.verdict || !strings.Contains(j.Rests, want.says) {
				t.Errorf("%s: %s is %s (%s; %s), want %s and %q", name, id, j.Verdict, j.Ours, j.Rests, want.verdict, want.says)
			}
		}
	}
}

// Figures of ours carry the names that the published ones have.
func TestFiguresAreNamedAsPublished(t *testing.T) {
	m := makeRun(t, 5, nil, "docker").fill(loses{1, 1.07, 1.12, 1.12}.level)
	got := verdicts(t, m.run)
	named := func(id, name string) bool {
		return slices.ContainsFunc(got[id].Figures, func(f claim.Figure) bool { return f.Name == name })
	}
	if !named("S1.15", "compilation by the probe, overhead, mean") {
		t.Errorf("what the probe saw of compilation is not among %v", got["S1.15"].Figures)
	}
	for id, names := range map[string][]string{
		"S1.13": {"kernels, native", "API, native", "kernels, container", "API, container"},
		"S1.14": {"slower, mean", "slower, stencil", "slower, particle filter"},
		"S1.15": {"compilation, overhead, mean", "compilation, overhead, LeNet", "compilation, overhead, stencil", "allocation, overhead", "allocation, of the run", "copy, overhead, mean"},
	} {
		published, err := claim.Lookup(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if _, ok := published.Figure(name); !ok {
				t.Errorf("%s has no published figure %q", id, name)
			}
			if !named(id, name) {
				t.Errorf("%s has no figure %q of ours among %v", id, name, got[id].Figures)
			}
		}
	}
}

// An application alone whose kernels are slower qualifies what holds of all.
func TestOneProgramApart(t *testing.T) {
	l := loses{1, 1.07, 1.12, 1.12}
	m := makeRun(t, 5, nil, "docker").fill(func(c record.Condition, metric string) float64 {
		v := l.level(c, metric)
		if metric == metricKernelShare && c.Platform == "docker" && c.Factors[FactorProgram] == programs.Stencil {
			v += 4
		}
		return v
	})
	if j := verdicts(t, m.run)["S1.13"]; j.Verdict != claim.Qualified || !strings.Contains(j.Rests, "but not for stencil") {
		t.Errorf("%s: %s", j.Verdict, j.Rests)
	}
}

// Kernels that take longer, in the same share of time, are no evidence against it.
func TestTheShareIsJudged(t *testing.T) {
	m := makeRun(t, 5, nil, "docker").fill(func(c record.Condition, metric string) float64 {
		v := loses{1, 1.07, 1.12, 1.12}.level(c, metric)
		if metric == "kernels" && c.Platform == "docker" {
			v *= 1.3
		}
		return v
	})
	if j := verdicts(t, m.run)["S1.13"]; j.Verdict != claim.Confirmed || !strings.Contains(j.Ours, "kernels take 29.9") {
		t.Errorf("%s: %s", j.Verdict, j.Ours)
	}
}

// Shares that are anything at all confirm nothing.
func TestNoiseConfirmsNothing(t *testing.T) {
	m := makeRun(t, 5, nil, "docker")
	kittest.NoiseConfirmsNothing(t, "S1.13", func(seed uint64) (claim.Judgement, bool) {
		random := rand.New(rand.NewPCG(seed, 1))
		run := (&made{run: m.run, blocks: m.blocks}).fill(loses{1, 1, 1, 1}.level).run
		for i := range run.Trials {
			for s, sample := range run.Trials[i].Samples {
				if sample.Metric == metricKernelShare {
					run.Trials[i].Samples[s].Value = 100 * random.Float64()
				}
			}
		}
		return readRun(only(run, "kernels", metricKernelShare, metricAPIShare)).kernels("docker")
	})
}

// Docker is what the claims are of, whatever else there is and comes first.
func TestDockerIsJudged(t *testing.T) {
	l := loses{1, 1.07, 1.12, 1.12}
	m := makeRun(t, 5, nil, "oci:runc", "docker").fill(func(c record.Condition, metric string) float64 {
		if c.Platform == "oci:runc" {
			return loses{2, 2, 2, 2}.level(c, metric)
		}
		return l.level(c, metric)
	})
	if j := verdicts(t, m.run)["S1.13"]; j.Verdict != claim.Confirmed || !strings.Contains(j.Ours, "in docker") {
		t.Errorf("%s: %s", j.Verdict, j.Ours)
	}
}

// Where no container runs nothing is compared, and what was tried is reported.
func TestInconclusiveHere(t *testing.T) {
	m := makeRun(t, 4, func(o *Options) {
		o.Platforms = []string{Bare, "oci:runc", "docker"}
		o.Host.Found.Unusable["oci:runc"] = "clone: not permitted"
	}).fill(loses{1, 1, 1, 1}.level)
	got := verdicts(t, m.run)
	if len(got) != 3 {
		t.Fatalf("%v", got)
	}
	for id, j := range got {
		if j.Verdict != claim.Inconclusive || !strings.Contains(j.Rests, "inconclusive here") || !strings.Contains(j.Rests, "oci:runc is left out: clone: not permitted") || !strings.Contains(j.Rests, "docker is left out: no docker: install it") {
			t.Errorf("%s: %s: %s", id, j.Verdict, j.Rests)
		}
	}
}

func TestTooFewBlocksDecideNothing(t *testing.T) {
	for id, j := range verdicts(t, makeRun(t, 1, nil, "docker").fill(loses{1, 1.5, 2, 2}.level).run) {
		if j.Verdict != claim.Inconclusive || !strings.Contains(j.Rests, "too few") {
			t.Errorf("%s: %s: %s", id, j.Verdict, j.Rests)
		}
	}
}

// Nothing is judged of programs that ran on a CPU, and nothing advised.
func TestEmulatedIsNotJudged(t *testing.T) {
	m := makeRun(t, 6, func(o *Options) {
		o.Host.Found.Kinds = []programs.Kind{programs.Emulated}
		o.Builds = []string{string(programs.Emulated)}
	}, "docker").fill(loses{1, 1.5, 2, 2}.level)
	if j := Judge(m.run); len(j) != 0 {
		t.Errorf("%v", j)
	}
	if a := readRun(m.run).advice(); len(a) != 0 {
		t.Errorf("%v", a)
	}
	if s := Study.Sheet(m.run, nil, nil); !strings.Contains(s.Answer, "for a test") || !strings.Contains(strings.Join(s.Banners, " "), "emulated:") {
		t.Errorf("%s; %q", s.Answer, s.Banners)
	}
}

func TestAdvice(t *testing.T) {
	rules := func(m *made) string {
		var all []string
		for _, a := range readRun(m.run).advice() {
			all = append(all, a.Rule)
			for _, e := range a.Evidence {
				if e.Run != "gpu-1" || len(e.Conditions) == 0 || !e.Figure.Known() {
					t.Errorf("%s rests on %+v", a.Rule, e)
				}
			}
		}
		return strings.Join(all, " ")
	}
	// PTX with a cold cache takes twice as long as code for the device, and as a warm one.
	if got := rules(makeRun(t, 5, nil, "docker").fill(loses{1, 1, 1, 1}.level)); got != "build-for-the-device keep-the-jit-cache" {
		t.Errorf("%s", got)
	}
	flat := func(_ record.Condition, metric string) float64 {
		if metric == "wall" || metric == "to-device-rate" || metric == "iterate" {
			return 1
		}
		return 0
	}
	if got := rules(makeRun(t, 5, nil, "docker").fill(flat)); got != "" {
		t.Errorf("where nothing differs: %s", got)
	}
	faster := func(c record.Condition, metric string) float64 {
		if metric == "to-device-rate" && c.Factors[FactorMemory] == Pinned {
			return 3
		}
		if n := c.Factors[FactorShare]; metric == "iterate" && n != "" {
			return map[string]float64{"1": 1, "2": 2}[n]
		}
		return flat(c, metric)
	}
	if got := rules(makeRun(t, 6, func(o *Options) { o.Share, o.Memories = []int{2}, []string{Pageable, Pinned} }, "docker").fill(faster)); got != "pin-what-is-copied one-container-a-device" {
		t.Errorf("%s", got)
	}
}
