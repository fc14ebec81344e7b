package startup

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/claim"
	"tare/record"
	"tare/study/kit/kittest"
	"tare/workload"
)

// made is a run whose figures are made up: what the judge must say of it is
// known.
type made struct {
	run    record.Run
	blocks int
}

func makeRun(blocks int) *made {
	return &made{record.Run{ID: "startup-1", Study: Name, Status: record.Complete, Started: time.Now(), Plan: record.Plan{Level: 0.95, SmallestEffect: 0.05}}, blocks}
}

// wobble is the noise of a block: some percent, the same for all conditions,
// and a little of a condition's own.
func wobble(block, own int) float64 {
	return 1 + 0.05*math.Sin(float64(3*block)) + 0.01*math.Sin(float64(7*block+5*own))
}

// ramp adds a ramp whose starts take mean milliseconds, but for a tenth that take tail.
func (m *made) ramp(t *testing.T, workload, platform string, rate, mean, tail, grows float64) {
	t.Helper()
	own := len(m.run.Conditions) + 1
	m.ramps(t, workload, platform, rate, grows, func(block, replicate int) (values []time.Duration) {
		k := wobble(block, 2*own+replicate)
		for i := range 40 {
			v := mean * k
			if i >= 36 {
				v = tail * k
			}
			values = append(values, time.Duration(v*float64(time.Millisecond)))
		}
		return values
	})
}

// ramps adds a ramp whose starts take what is drawn for a block and an execution.
func (m *made) ramps(
	t *testing.T, workload, platform string, rate, grows float64, drawn func(block, replicate int) []time.Duration,
) {
	t.Helper()
	c := record.Condition{
		ID: fmt.Sprintf("%s[rate=%g]@%s", workload, rate, platform), Label: platform, Workload: fmt.Sprintf("%s[rate=%g]", workload, rate), Platform: platform,
		Factors: map[string]string{factorKind: kindRamp, factorRate: number(rate)}, Baseline: true, Metrics: rampMetrics(true),
	}
	m.run.Conditions = append(m.run.Conditions, c)
	for block := 1; block <= m.blocks; block++ {
		for replicate := range 2 {
			values := drawn(block, replicate)
			encoded, err := record.EncodeHistogram(latencyHistogram(values))
			if err != nil {
				t.Fatal(err)
			}
			m.run.Trials = append(m.run.Trials, record.Trial{
				ID: int64(len(m.run.Trials) + 1), Condition: c.ID, Workload: c.Workload, Block: block, Attempt: 1, Replicate: replicate, Started: m.run.Started,
				Samples: []record.Sample{
					{Metric: answer + "-mean", Value: meanMicros(values)}, {Metric: failed, Value: 0}, {Metric: growth, Value: grows},
				},
				Histograms: map[string]record.Histogram{answer: encoded},
			})
		}
	}
}

func (m *made) profile(workload string, kernel, memory, heap, unassigned float64) {
	c := record.Condition{
		ID: workload + "[profile]@docker", Label: "docker", Workload: workload + "[profile]", Platform: "docker",
		Factors: map[string]string{factorKind: kindProfile, factorRate: "8"}, Baseline: true, Metrics: profileMetrics(),
	}
	m.run.Conditions = append(m.run.Conditions, c)
	for block := 1; block <= m.blocks; block++ {
		for replicate := range 2 {
			off := 4 * (wobble(block, replicate) - 1)
			m.run.Trials = append(m.run.Trials, record.Trial{
				ID: int64(len(m.run.Trials) + 1), Condition: c.ID, Workload: c.Workload, Block: block, Attempt: 1, Replicate: replicate, Started: m.run.Started,
				Samples: []record.Sample{
					{Metric: kernelShare, Value: kernel + off}, {Metric: userShare, Value: 100 - kernel - off},
					{Metric: memoryShare, Value: memory + off}, {Metric: heapShare, Value: heap - off/2}, {Metric: bothShare, Value: memory + heap + off/2},
					{Metric: unassignedShare, Value: unassigned},
				},
			})
		}
	}
}

func verdictOf(t *testing.T, run record.Run, id string) claim.Judgement {
	return kittest.Verdict(t, Judge, run, id)
}

func TestJudgeRates(t *testing.T) {
	type at struct{ rate, mean, tail, grows float64 }
	for _, c := range []struct {
		name string
		want claim.Verdict
		at   []at
	}{
		{"as S1 has it", claim.Qualified, []at{{1, 680, 780, 0}, {4, 1550, 2240, 0}, {8, 2650, 4590, 0}}},
		{"past the knee at the top", claim.Qualified, []at{{1, 680, 780, 0}, {4, 1550, 2240, 0}, {8, 2650, 4590, 40}}},
		{"the rate makes no difference to the tail", claim.Inconclusive, []at{{1, 100, 200, 0}, {8, 150, 200, 0}}},
		{"more than the rate", claim.Inconclusive, []at{{1, 100, 110, 0}, {2, 300, 900, 0}}},
		{"faster at a higher rate", claim.Inconclusive, []at{{1, 300, 310, 0}, {2, 200, 220, 0}}},
		{"one rate is kept up with", claim.Inconclusive, []at{{1, 100, 110, 0}, {2, 300, 900, 50}}},
		{"one rate was asked", claim.NotYetRun, []at{{1, 100, 110, 0}}},
	} {
		m := makeRun(6)
		for _, a := range c.at {
			m.ramp(t, "redis", "docker", a.rate, a.mean, a.tail, a.grows)
		}
		if got := verdictOf(t, m.run, "S1.1"); got.Verdict != c.want {
			t.Errorf("%s: %s (%s), want %s", c.name, got.Verdict, got.Rests, c.want)
		}
	}
	m := makeRun(6)
	m.ramp(t, "redis", "oci:runc", 1, 100, 110, 0)
	m.ramp(t, "redis", "oci:runc", 2, 120, 150, 0)
	if got := verdictOf(t, m.run, "S1.1"); got.Verdict != claim.NotYetRun {
		t.Errorf("a claim on Docker was judged without it: %+v", got)
	}
	// Of several applications the growths are means, and what one cannot keep up with counts.
	for name, c := range map[string]struct {
		of   []string
		past string // the one whose backlog grows at the top
		want claim.Verdict
	}{
		"three of S1's own":             {[]string{"httpd", "fio", "hashing"}, "", claim.Confirmed},
		"the floor beside them":         {[]string{"empty", "httpd", "fio", "hashing"}, "", claim.Confirmed},
		"one that stands in":            {[]string{"httpd", "fio", "docstore"}, "", claim.Qualified},
		"one that is past its knee":     {[]string{"httpd", "fio", "hashing"}, "fio", claim.Qualified},
		"two":                           {[]string{"httpd", "fio"}, "", claim.Qualified},
		"a function by what it touches": {[]string{"httpd", "fio", "hashing access=sparse"}, "", claim.Confirmed},
	} {
		m := makeRun(6)
		for _, w := range c.of {
			top := map[string]float64{c.past: 40}[w]
			m.ramp(t, w, "docker", 1, 680, 780, 0)
			m.ramp(t, w, "docker", 4, 1550, 2240, 0)
			m.ramp(t, w, "docker", 8, 2650, 4590, top)
		}
		if got := verdictOf(t, m.run, "S1.1"); got.Verdict != c.want || strings.Contains(got.Ours, "empty") {
			t.Errorf("%s: %s (%s; %s), want %s", name, got.Verdict, got.Ours, got.Rests, c.want)
		}
	}
	m = makeRun(1)
	m.ramp(t, "redis", "docker", 1, 680, 780, 0)
	m.ramp(t, "redis", "docker", 8, 2650, 4590, 0)
	if got := verdictOf(t, m.run, "S1.1"); got.Verdict != claim.Inconclusive {
		t.Errorf("one block decided: %+v", got)
	}
}

func TestJudgeApplications(t *testing.T) {
	for _, c := range []struct {
		name string
		want claim.Verdict
		of   map[string]float64
	}{
		{"as claimed, of another database", claim.Qualified, map[string]float64{"redis": 300, "httpd": 305, "docstore": 600, "hashing": 295}},
		{"the database like all others", claim.Refuted, map[string]float64{"redis": 300, "httpd": 305, "docstore": 301, "hashing": 295}},
		{"another stands out", claim.Refuted, map[string]float64{"redis": 300, "httpd": 900, "docstore": 600, "hashing": 295, "uri-parser": 299}},
		{"one is always in the middle", claim.Qualified, map[string]float64{"redis": 450, "httpd": 500, "docstore": 1500}},
		{"no database", claim.Inconclusive, map[string]float64{"redis": 300, "httpd": 305, "hashing": 295}},
		{"two applications", claim.NotYetRun, map[string]float64{"redis": 300, "docstore": 600}},
	} {
		m := makeRun(6)
		for _, w := range []string{"redis", "httpd", "docstore", "hashing", "uri-parser"} {
			if v, ok := c.of[w]; ok {
				m.ramp(t, w, "docker", 4, v, 1.2*v, 0)
			}
		}
		m.ramp(t, "empty", "docker", 4, 10, 11, 0) // the floor is no application
		if got := verdictOf(t, m.run, "S1.2"); got.Verdict != c.want {
			t.Errorf("%s: %s (%s; %s), want %s", c.name, got.Verdict, got.Ours, got.Rests, c.want)
		}
	}
}

func TestJudgeProfile(t *testing.T) {
	own, few := []string{"httpd", "fio", "httpd[data=64]"}, []string{"redis"}
	stand := []string{"httpd", "redis", "hashing"}
	for _, c := range []struct {
		name                             string
		of                               []string
		kernel, memory, heap, unassigned float64
		kernelIs, groupsAre              claim.Verdict
	}{
		{"as S1 has it", own, 57, 20, 21.7, 4, claim.Confirmed, claim.Confirmed},
		{"as S1 has it, of stand-ins", stand, 57, 20, 21.7, 4, claim.Qualified, claim.Qualified},
		{"of one application", few, 57, 20, 21.7, 4, claim.Qualified, claim.Qualified},
		{"mostly user, no heap", own, 40, 18, 4, 4, claim.Refuted, claim.Refuted},
		{"the same of one application", few, 40, 18, 4, 4, claim.Inconclusive, claim.Inconclusive},
		{"half and half", stand, 50, 36, 5.6, 4, claim.Inconclusive, claim.Qualified},
		{"too much unassigned", stand, 57, 20, 21.7, 14, claim.Qualified, claim.Inconclusive},
	} {
		m := makeRun(6)
		for _, name := range c.of {
			m.profile(name, c.kernel, c.memory, c.heap, c.unassigned)
		}
		if got := verdictOf(t, m.run, "S1.3"); got.Verdict != c.kernelIs {
			t.Errorf("%s: S1.3 %s (%s; %s), want %s", c.name, got.Verdict, got.Ours, got.Rests, c.kernelIs)
		}
		if got := verdictOf(t, m.run, "S1.4"); got.Verdict != c.groupsAre {
			t.Errorf("%s: S1.4 %s (%s; %s), want %s", c.name, got.Verdict, got.Ours, got.Rests, c.groupsAre)
		}
	}
}

// Applications of S1 itself confirm, one that is another does not, and a mean is not of each.
func TestLimited(t *testing.T) {
	for _, c := range []struct {
		of   []string
		was  claim.Verdict
		want claim.Verdict
	}{
		{[]string{"httpd", "fio", "httpd"}, claim.Confirmed, claim.Confirmed},
		{[]string{"httpd", "fio", "httpd"}, claim.Refuted, claim.Refuted},
		{[]string{"httpd", "fio", "redis"}, claim.Confirmed, claim.Qualified},
		{[]string{"httpd", "fio", "redis"}, claim.Refuted, claim.Refuted},
		{[]string{"httpd"}, claim.Confirmed, claim.Qualified},
		{[]string{"httpd"}, claim.Refuted, claim.Inconclusive},
		{[]string{"httpd"}, claim.Inconclusive, claim.Inconclusive},
	} {
		if got := limited(claim.Judgement{Verdict: c.was}, c.of...); got.Verdict != c.want {
			t.Errorf("%s by %q is %s, want %s", c.was, c.of, got.Verdict, c.want)
		}
	}
	m := makeRun(6)
	for name, kernel := range map[string]float64{"httpd": 70, "fio": 70, "redis": 45} {
		m.profile(name, kernel, 20, 21.7, 4)
	}
	if got := verdictOf(t, m.run, "S1.3"); got.Verdict != claim.Qualified || !strings.Contains(got.Rests, "not of each application") {
		t.Errorf("one application apart: %s (%s)", got.Verdict, got.Rests)
	}
}

// One application whose starts all failed leaves the mean without an interval, and is named.
func TestAnApplicationWithoutAProfileIsNamed(t *testing.T) {
	m := makeRun(6)
	m.profile("redis", 60, 20, 22, 2)
	m.profile("multimodel", 60, 20, 22, 2)
	for i, trial := range m.run.Trials {
		if strings.HasPrefix(trial.Condition, "multimodel") {
			m.run.Trials[i].Samples, m.run.Trials[i].Error = nil, "all 32 starts failed"
		}
	}
	for _, id := range []string{"S1.3", "S1.4"} {
		got := verdictOf(t, m.run, id)
		if want := "no profile of multimodel, whose starts failed"; got.Verdict != claim.Inconclusive || got.Rests != want {
			t.Errorf("%s is %s, for %q, want %q", id, got.Verdict, got.Rests, want)
		}
	}
}

// A page can be made of any run, also of one that yielded nothing.
func TestSheetOfAnyRun(t *testing.T) {
	full := makeRun(4)
	for _, rate := range []float64{1, 8} {
		for _, on := range []string{"docker", "oci:runc"} {
			full.ramp(t, "redis", on, rate, 100, 200, map[float64]float64{1: 0, 8: 30}[rate])
		}
	}
	full.profile("redis", 57, 20, 21.7, 4)
	empty := full.run
	empty.Trials = nil
	for name, run := range map[string]record.Run{"full": full.run, "without trials": empty, "without conditions": {ID: "x"}} {
		s := Study.Sheet(run, nil, nil)
		if s.Title == "" || s.Answer == "" || len(s.Facts) == 0 {
			t.Errorf("%s: a page without a head: %+v", name, s)
		}
	}
	s := Study.Sheet(full.run, nil, Judge(full.run))
	if !strings.Contains(s.Answer, "At 1 start per second, redis takes ") || !strings.Contains(s.Answer, " to start on docker") {
		t.Errorf("the answer does not say what holds at the highest rate that is kept up with: %s", s.Answer)
	}
}

// decisive leaves a run with the metrics that decide: the others only take time.
func decisive(run record.Run, metrics ...string) reading {
	for i := range run.Conditions {
		c := &run.Conditions[i]
		c.Metrics = slices.DeleteFunc(c.Metrics, func(m workload.Metric) bool { return !slices.Contains(metrics, m.Name) })
	}
	return read(run)
}

// Latencies and shares that are anything at all, in three blocks, confirm nothing.
func TestNoiseConfirmsNothing(t *testing.T) {
	applications := []string{"httpd", "fio", "hashing"}
	starts := func(seed uint64) record.Run {
		random := rand.New(rand.NewPCG(seed, 1))
		m := makeRun(3)
		for _, w := range applications {
			for _, rate := range []float64{1, 8} {
				m.ramps(t, w, "docker", rate, 0, func(int, int) []time.Duration {
					scale := math.Exp(0.5 * random.NormFloat64())
					values := make([]time.Duration, 20)
					for i := range values {
						values[i] = time.Duration(scale * math.Exp(0.5*random.NormFloat64()) * float64(time.Second))
					}
					return values
				})
			}
		}
		return m.run
	}
	profiles := func(seed uint64) record.Run {
		random := rand.New(rand.NewPCG(seed, 2))
		m := makeRun(3)
		for _, w := range applications {
			m.profile(w, 0, 0, 0, 0)
		}
		for _, trial := range m.run.Trials {
			for i := range trial.Samples {
				trial.Samples[i].Value = 100 * random.Float64()
				if trial.Samples[i].Metric == unassignedShare {
					trial.Samples[i].Value /= 10
				}
			}
		}
		return m.run
	}
	for id, c := range map[string]struct {
		judge   func(reading) (claim.Judgement, bool)
		runOf   func(seed uint64) record.Run
		metrics []string
	}{
		"S1.1": {judgeRates, starts, []string{answer + "-mean"}},
		"S1.3": {judgeKernel, profiles, []string{kernelShare}},
		"S1.4": {judgeGroups, profiles, []string{memoryShare, heapShare, bothShare, unassignedShare}},
	} {
		kittest.NoiseConfirmsNothing(t, id, func(seed uint64) (claim.Judgement, bool) { return c.judge(decisive(c.runOf(seed), c.metrics...)) })
	}
	kittest.NoiseConfirmsNothing(t, "S1.2", func(seed uint64) (claim.Judgement, bool) {
		random := rand.New(rand.NewPCG(seed, 3))
		m := makeRun(3)
		for _, w := range []string{"httpd", "fio", "docstore"} {
			m.ramps(t, w, "docker", 8, 0, func(int, int) []time.Duration {
				return []time.Duration{time.Duration(math.Exp(0.5*random.NormFloat64()) * float64(time.Second))}
			})
		}
		j, ok := judgeApplications(decisive(m.run, answer+"-mean"))
		if j.Verdict == claim.Qualified { // as good as it gets with a stand-in
			j.Verdict = claim.Confirmed
		}
		return j, ok
	})
}

// Subjects of one workload have names of their own, and S1's are nine.
func TestApplications(t *testing.T) {
	subjects, err := S1()
	if err != nil {
		t.Fatal(err)
	}
	names := namesOf(subjects)
	if len(names) != 9 || len(applications) != 9 {
		t.Errorf("S1's applications: %q, want nine", names)
	}
	for i, name := range names {
		if a := applications[i]; name != a.name() || standsFor(name) != a.standIn {
			t.Errorf("%s is %+v, and stands for %q", name, a, standsFor(name))
		}
	}
	if got := standsFor("redis"); got != "redis" {
		t.Errorf("redis stands for %q", got)
	}
}
