package density

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/claim"
	"tare/platform"
	"tare/report"
	"tare/study/kit/kittest"
)

func annexed(of truth) madePolicy {
	return madePolicy{name: "file, annex", swap: "file", protect: "none", extend: ExtendAnnex, truth: of}
}

func TestJudgeExtended(t *testing.T) {
	t.Parallel()
	never := truth{noise: 0.004, slows: 1}
	quiet := truth{cliff: 1.5, keeps: 0.5, stalls: 0.02, stall: 200, slows: 1, noise: 0.01}
	later := func(cliff, costs float64) truth {
		w := quiet
		w.cliff, w.costs = cliff, costs
		return w
	}
	run := func(policies ...madePolicy) made {
		m := withOrder(Interleaved, 5, policies...)
		m.requests = 4000 // so that a p99 lies within a tenth of itself
		return m
	}
	slower := later(5, 0)
	slower.latency = 1.6
	few := run(file(quiet), annexed(later(5, 0)))
	few.blocks = 1
	full := run(file(quiet), annexed(later(5, 0)))
	full.fewest = 1.2
	short := run(file(never), annexed(never))
	short.numbers = []int{1, 9, 17, 25} // to 3.6 times
	full.numbers = []int{2, 9, 17}
	guarded := func(p madePolicy) madePolicy {
		p.name, p.protect = "swappiness, "+p.name, "swappiness"
		return p
	}
	emulated := run(file(quiet), annexed(later(5, 0)))
	emulated.emulated = "emulated by TCG"
	for _, c := range []struct {
		name string
		run  made
		want claim.Verdict // before the paper's inconsistency is counted
		why  string
	}{
		{"twice and more", run(file(quiet), annexed(later(5, 0.05))), claim.Confirmed, "at least 2 times the density"},
		{"continuous", made{numbers: to49(4), blocks: 5, order: Continuous, requests: 4000, policies: []madePolicy{file(quiet), annexed(later(5, 0.05))}}, claim.Confirmed, "at least 2 times the density"},
		{"to the end", run(file(quiet), annexed(never)), claim.Confirmed, "at least 2 times the density"},
		{"a little more", run(file(quiet), annexed(later(2.1, 0))), claim.Refuted, "less than 2 times"},
		{"nothing", run(file(quiet), annexed(quiet)), claim.Refuted, "less than 2 times"},
		{"dear", run(file(quiet), annexed(later(5, 0.3))), claim.Qualified, "costs more than 15 %"},
		{"slower at once", run(file(quiet), annexed(slower)), claim.Qualified, "p90, p95 at fewest neighbours is significantly higher"},
		{"nothing to mend", run(file(never), annexed(never)), claim.Inconclusive, "beyond 6.8 times the memory, where this run ended"},
		{"nothing to mend yet", short, claim.Inconclusive, "--full"},
		{"one block", few, claim.Inconclusive, "--blocks 5"},
		{"short from the first", full, claim.Inconclusive, "nothing to compare with"},
		{"and no more repeats of it", full, claim.Inconclusive, "a larger --box, a smaller --neighbour-memory"},
		{"beside a protection alone", run(guarded(file(quiet)), guarded(annexed(later(5, 0)))), claim.Inconclusive, "only beside --protect swappiness"},
		{"beside a protection too", run(file(quiet), annexed(later(5, 0)), guarded(file(quiet)), guarded(annexed(later(5, 0)))), claim.Confirmed, "at least 2 times the density"},
		{"emulated", emulated, claim.Inconclusive, "emulated machine decide nothing"},
		{"alone", run(annexed(quiet)), claim.Inconclusive, "--extend none,annex"},
	} {
		i := -1
		all := Judge(c.run.run(t))
		i = slices.IndexFunc(all, func(j claim.Judgement) bool { return j.Claim == judgedExtended })
		if i < 0 {
			t.Errorf("%s: not judged", c.name)
			continue
		}
		if got := all[i]; got.Verdict != c.want || !strings.Contains(got.Rests, c.why) {
			t.Errorf("%s: %s (%s; %s), want %s, %q", c.name, got.Verdict, got.Ours, got.Rests, c.want, c.why)
		}
		if got := all[i]; strings.Contains(c.why, "nothing to compare with") && got.Ours != "no figures to compare" {
			t.Errorf("%s: it has figures nevertheless: %s", c.name, got.Ours)
		}
		if _, err := claim.Settle(c.run.run(t), all); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// Without an extension it is silent.
	for _, j := range Judge(run(file(quiet), zram(quiet)).run(t)) {
		if j.Claim == judgedExtended {
			t.Errorf("judged without an extension: %+v", j)
		}
	}
}

// What two executions of the same step differ by is no harm, and neither is a p99 that is half as
// high again.
func TestHarmIsBeyondTheSpreadOfTheSame(t *testing.T) {
	t.Parallel()
	step := func(usual, p99 int64) Step {
		s := Step{Closed: Served{Rate: 100}, Open: Served{Latency: latencies()}}
		for i := range int64(1000) {
			v := usual
			if i >= 980 {
				v = p99
			}
			_ = s.Open.Latency.RecordValue(v)
		}
		return s
	}
	first := step(1000, 2000)
	plain := reading{}.harm(arm{})
	apart := reading{arms: []arm{{twice: [][2]Step{{first, step(1300, 5000)}}}}}.harm(arm{})
	for _, c := range []struct {
		step        Step
		alone, also bool // harm by the claim's limits, and beside such a spread
	}{
		{step(1050, 2000), false, false},
		{step(1000, 3000), false, false},
		{step(1200, 2000), true, false},
		{step(1000, 4500), true, false},
		{step(1500, 2000), true, true},
		{step(1000, 6000), true, true},
	} {
		if alone, also := plain.is(first, c.step), apart.is(first, c.step); alone != c.alone || also != c.also {
			p95, _ := ownQuantile(c.step.Open.whole(), 0.95)
			t.Errorf("a p95 of %v: harm %t alone, %t beside the spread; want %t, %t", p95, alone, also, c.alone, c.also)
		}
	}
	// The base's step with fewest neighbours is executed twice in each block.
	quiet := truth{noise: 0.1, slows: 1}
	for _, order := range []string{Interleaved, Continuous} {
		if a := read(withOrder(order, 5, file(quiet), annexed(quiet)).run(t), nil).arms[0]; len(a.twice) != 5 {
			t.Errorf("%s: %d pairs of 5 blocks", order, len(a.twice))
		}
	}
}

// An extension that does nothing is never confirmed.
func TestNoiseConfirmsNothing(t *testing.T) {
	t.Parallel()
	quiet := truth{cliff: 1.5, keeps: 0.5, stalls: 0.02, stall: 200, slows: 1, noise: 0.1}
	kittest.NoiseConfirmsNothing(t, judgedExtended, func(seed uint64) (claim.Judgement, bool) {
		m := made{
			numbers: []int{1, 9, 17}, blocks: 5, order: Continuous, requests: 100, seed: seed,
			policies: []madePolicy{file(quiet), annexed(quiet)},
		}
		all := read(m.run(t), nil).judgeExtended()
		return all[0], len(all) == 1
	})
}

// What was never read is said so, and no number.
func TestJudgeExtendedOfABoxThatWasNotRead(t *testing.T) {
	m := withOrder(Continuous, 5, file(s3), annexed(s3))
	run := remade(t, m, func(_ int, steps []Step) []Step {
		steps[0].Overcommit = 0
		return steps
	})
	for _, j := range Judge(run) {
		if j.Claim != judgedExtended {
			continue
		}
		if j.Verdict != claim.Inconclusive || strings.Contains(j.Rests, "NaN") || !strings.Contains(j.Rests, "could not be read") {
			t.Errorf("%s: %s", j.Verdict, j.Rests)
		}
		return
	}
	t.Error("not judged")
}

// Figures of S3.2 stand under the published names.
func TestExtendedFiguresAreNamedAsPublished(t *testing.T) {
	quiet := truth{cliff: 1.5, keeps: 0.5, slows: 1, noise: 0.01}
	better := quiet
	better.cliff, better.costs = 4.5, 0.05
	m := withOrder(Interleaved, 5, file(quiet), annexed(better))
	m.requests = 4000
	all := Judge(m.run(t))
	i := slices.IndexFunc(all, func(j claim.Judgement) bool { return j.Claim == judgedExtended })
	if i < 0 {
		t.Fatal("not judged")
	}
	c, err := claim.Lookup(judgedExtended)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"neighbours without a fall", "throughput lost to the extension", "density gained"} {
		_, published := c.Figure(name)
		at := slices.IndexFunc(all[i].Figures, func(f claim.Figure) bool { return f.Name == name })
		if !published || at < 0 {
			t.Errorf("%s: published %v, ours %v", name, published, at >= 0)
			continue
		}
		if f := all[i].Figures[at]; name == "throughput lost to the extension" && (f.Low > 5 || f.High < 5) {
			t.Errorf("%s is %+v, and was made 5 %%", name, f)
		}
	}
}

// What an extension did is kept of each step and read back, and of runs without it there
// is nothing.
func TestWhatAnExtensionDidIsKept(t *testing.T) {
	r := read(withOrder(Continuous, 2, file(s3), annexed(s3)).run(t), nil)
	for _, a := range r.arms {
		for _, s := range a.sweeps {
			for _, step := range s.steps {
				if (step.Extension != nil) != (a.factor(FactorExtend) == ExtendAnnex) {
					t.Fatalf("%s, %d: %+v", a.policy, step.Neighbours, step.Extension)
				}
				if e := step.Extension; e != nil && (e.Evicted != 6000 || e.CPU != 60*time.Millisecond || e.Predictors["record"].Precision != 0.9 || e.Predictors["record"].Lead != time.Second) {
					t.Fatalf("%+v", e)
				}
			}
		}
	}
	var text strings.Builder
	for _, p := range r.extensionParts() {
		table := p.(report.Table)
		text.WriteString(table.Title + "\n")
		for _, row := range table.Rows {
			for _, c := range row {
				text.WriteString(c.Text + " ")
			}
			text.WriteString("\n")
		}
	}
	// 6000 pages in 6 s, 300 of which left unused, 1 % of a CPU.
	for _, want := range []string{"Page traffic and cost of the memory extension: file, annex\n", "Precision and recall of the predictors: file, annex\n", "13.0 1000 500 100 50.0 0 1.00 30.0", "\n1 90 80 \n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if parts := read(withOrder(Continuous, 2, file(s3)).run(t), nil).extensionParts(); len(parts) > 0 {
		t.Errorf("%d parts of no extension", len(parts))
	}
}

// A step's account is the difference of two readings.
func TestExtendedIsWithinTheStep(t *testing.T) {
	before := &platform.ExtensionReading{CPU: time.Second, Evicted: 10, Fetched: 5, Mapped: 1, Untouched: 2, Errors: 1, Resident: 1 << 20}
	after := &platform.ExtensionReading{CPU: 3 * time.Second, Evicted: 30, Fetched: 9, Mapped: 2, Untouched: 3, Errors: 1, Resident: 2 << 20, Contexts: 4}
	want := &Extended{CPU: 2 * time.Second, Evicted: 20, Fetched: 4, Mapped: 1, Untouched: 1, Resident: 2 << 20, Contexts: 4}
	if got := extended(before, after); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := extended(before, nil); got != nil {
		t.Errorf("%+v of no extension", got)
	}
	twice := want.followed(want)
	if twice.CPU != 4*time.Second || twice.Evicted != 40 || twice.Contexts != 4 || twice.Resident != 2<<20 {
		t.Errorf("%+v, twice", twice)
	}
	if got := want.followed(nil); got != want {
		t.Errorf("%+v, and nothing", got)
	}
	if p := pooled(platform.PredictorReading{Precision: 0.5, Predicted: 1}, platform.PredictorReading{Precision: 1, Predicted: 3}); p.Precision != 0.875 || p.Predicted != 4 {
		t.Errorf("%+v", p)
	}
}

// Only an arm that pays is advised.
func TestAdviceOnAnExtension(t *testing.T) {
	quiet := truth{cliff: 1.5, keeps: 0.5, stalls: 0.05, stall: 200, slows: 1, noise: 0.01}
	advised := func(policies ...madePolicy) bool {
		for _, a := range Advice(withOrder(Interleaved, 5, policies...).run(t)) {
			if a.Rule == "extend" {
				return true
			}
		}
		return false
	}
	if !advised(file(quiet), annexed(truth{slows: 1, noise: 0.01})) {
		t.Error("an extension that pays is not advised")
	}
	if advised(file(quiet), annexed(quiet)) {
		t.Error("one that does not is advised")
	}
}

// What an extension takes itself is counted to the box, whose pressure it is spared.
func TestCharge(t *testing.T) {
	s := Step{Asked: 3 << 30, Overcommit: 3} // of 1 GiB
	if c := s.charge(); c != 1 {
		t.Errorf("without one the box has %v of it", c)
	}
	s.Extension = &Extended{Resident: 256 << 20}
	if c := s.charge(); c != 0.8 {
		t.Errorf("beside 256 MiB a box of 1 GiB has %v of it, want 0.8", c)
	}
	if c := (Step{Extension: s.Extension}).charge(); c != 1 {
		t.Errorf("of a box of which nothing is known: %v", c)
	}
}
