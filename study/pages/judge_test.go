package pages

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/claim"
	"tare/record"
	"tare/study/kit/kittest"
	"tare/workload"
)

// figures are the values of one application, by metric.
type figures map[string]float64

// typical are figures under which every claim is confirmed, as far as a host
// without instruction counts goes: by S1's name of the application.
func typical() map[string]figures {
	all := map[string]figures{}
	published, err := claim.Lookup("S1.11")
	if err != nil {
		panic(err)
	}
	for _, a := range applications {
		f := figures{
			"start-groupable": 55, "start-across": 52, "start-exclusive": 40, "start-active": 50, "start-huge-of-active": 0, "start-huge-of-groupable": 0,
			duplicated: 18, copying: 2, rate: 100,
		}
		if a.sequential {
			f[duplicated] = 54
		}
		if a.published == "httpd" {
			f["start-groupable"] = 76
		}
		if a.group == "fio" {
			f["start-groupable"] = 3
		}
		if a.service {
			maps.Copy(f, figures{"steady-groupable": f["start-groupable"] + 12, "steady-exclusive": 20, "steady-active": 70,
				"steady-active-groupable": 60, "steady-groupable-of-active": 85, "steady-huge-of-active": 0, "steady-huge-of-groupable": 0})
		}
		if a.group == "pagerank" {
			f["steady-exclusive"] = 75
		}
		f["start-groupable-with-zeros"] = f["start-groupable"]
		if v, ok := f["steady-groupable"]; ok {
			f["steady-groupable-with-zeros"] = v
		}
		for _, kind := range types {
			figure, ok := published.Figure(a.published + ", " + kind.String())
			if !ok {
				panic(a.published)
			}
			f[typeMetric(kind)] = figure.Value
		}
		all[a.group] = f
	}
	return all
}

// madeRun is a run of three blocks in which the applications have such figures,
// give or take a fiftieth.
func madeRun(all map[string]figures, steadyFor time.Duration) record.Run {
	run := record.Run{ID: "pages-1", Study: Name, Status: record.Complete, Started: time.Now(), Plan: record.Plan{Level: 0.95, SmallestEffect: 0.05}, Host: record.Host{THP: "always"}}
	for i, a := range applications {
		values, ok := all[a.group]
		if !ok {
			continue
		}
		t := trial{taker: fakeTaker{}, faults: &fakeRecorder{}, flags: true, steady: steadyFor}
		if !a.service {
			t.steady, t.life = 0, true
		}
		c := record.Condition{
			ID: a.group + "@oci:runc,aslr=off", Label: "oci:runc aslr=off", Workload: a.group, Platform: "oci:runc", Baseline: true,
			Factors: map[string]string{factorASLR: aslrOff, factorCopies: "4", factorSteady: t.steady.String(), factorWindow: s1Window.String()}, Metrics: t.metrics(),
		}
		run.Conditions = append(run.Conditions, c)
		for block := 1; block <= 3; block++ {
			at := record.Trial{ID: int64(len(run.Trials) + 1), Condition: c.ID, Workload: a.group, Block: block, Attempt: 1, Started: run.Started}
			for name, v := range values {
				at.Samples = append(at.Samples, record.Sample{Metric: name, Value: v * (1 + 0.01*math.Sin(float64(3*block+i)))})
			}
			run.Trials = append(run.Trials, at)
		}
	}
	return run
}

func verdictOn(t *testing.T, id string, run record.Run) claim.Judgement {
	t.Helper()
	for _, j := range Judge(run) {
		if j.Claim == id {
			return j
		}
	}
	t.Fatalf("%s is not judged", id)
	return claim.Judgement{}
}

func TestVerdicts(t *testing.T) {
	set := func(group, metric string, value float64) func(map[string]figures) {
		return func(all map[string]figures) { all[group][metric] = value }
	}
	every := func(metric string, value float64) func(map[string]figures) {
		return func(all map[string]figures) {
			for _, f := range all {
				if _, ok := f[metric]; ok {
					f[metric] = value
				}
			}
		}
	}
	for _, c := range []struct {
		id     string
		name   string
		change func(map[string]figures)
		want   claim.Verdict
		says   string
	}{
		{"S1.5", "as published", nil, claim.Qualified, "9 of S1's 9 applications"},
		{"S1.5", "little is groupable", every("start-groupable-with-zeros", 20), claim.Refuted, ""},
		{"S1.5", "httpd has not the most", set("httpd[access=serial]", "start-groupable-with-zeros", 40), claim.Qualified, "largest"},
		{"S1.5", "FIO has not the least", set("fio", "start-groupable-with-zeros", 70), claim.Qualified, "smallest"},
		{"S1.5", "not over containers", every("start-across", 30), claim.Qualified, "does not hold between containers"},
		{"S1.6", "as published", nil, claim.Qualified, "3 programs stand in for S1's"},
		{"S1.6", "it falls", every("steady-groupable-with-zeros", 1), claim.Refuted, ""},
		{"S1.6", "Graphchi's stand-in shares", set("pagerank", "steady-exclusive", 30), claim.Qualified, "exclusive share"},
		{"S1.7", "as published", nil, claim.Qualified, "3 programs stand in for S1's"},
		{"S1.7", "active ones are not groupable", every("steady-groupable-of-active", 20), claim.Refuted, ""},
		{"S1.7", "fewer are active later", every("steady-active", 20), claim.Refuted, ""},
		{"S1.8", "as published", nil, claim.Qualified, "set to always"},
		{"S1.8", "one has many", set("pagerank", "steady-huge-of-active", 12), claim.Refuted, ""},
		{"S1.8", "a groupable one", set("fio", "steady-huge-of-groupable", 1), claim.Refuted, ""},
		{"S1.9", "as published", nil, claim.Qualified, "stand-in|LMDB"},
		{"S1.9", "few are duplicated", every(duplicated, 5), claim.Refuted, ""},
		{"S1.9", "one at random has many", set("fio", duplicated, 80), claim.Inconclusive, ""},
		{"S1.10", "nobody counts instructions", nil, claim.Inconclusive, "were not counted"},
		{"S1.11", "as published, by stand-ins", nil, claim.Qualified, "9 of 9"},
		{"S1.11", "all anonymous", every("type-anonymous", 99), claim.Inconclusive, "not "},
		{"S1.11", "most others", func(all map[string]figures) {
			for _, f := range all {
				f["type-swap"] = 99
			}
		}, claim.Refuted, "0 of 9"},
		{"S1.12", "as published", nil, claim.Qualified, "3 programs stand in for S1's"},
		{"S1.12", "write-protect faults copy", every(copying, 30), claim.Qualified, "not with"},
		{"S1.12", "all copy", func(all map[string]figures) { every(copying, 60)(all); every("type-copy-on-write", 50)(all) }, claim.Refuted, ""},
	} {
		t.Run(c.id+" "+c.name, func(t *testing.T) {
			all := typical()
			if c.change != nil {
				c.change(all)
			}
			j := verdictOn(t, c.id, madeRun(all, s1Steady))
			if j.Verdict != c.want {
				t.Errorf("%s, want %s (%s; %s)", j.Verdict, c.want, j.Ours, j.Rests)
			}
			said := c.says == ""
			for _, word := range strings.Split(c.says, "|") {
				said = said || strings.Contains(j.Rests, word)
			}
			if !said {
				t.Errorf("it rests on %q, want %q in it", j.Rests, c.says)
			}
		})
	}
}

// Without stand-ins and on as much data the rules confirm.
func TestVerdictsWithoutStandIns(t *testing.T) {
	was := slices.Clone(applications)
	t.Cleanup(func() { copy(applications, was) })
	for i := range applications {
		applications[i].standIn = ""
	}
	run := madeRun(typical(), s1Steady)
	for _, id := range []string{"S1.5", "S1.6", "S1.7", "S1.8", "S1.9", "S1.11", "S1.12"} {
		if j := verdictOn(t, id, run); j.Verdict != claim.Confirmed {
			t.Errorf("%s: %s (%s; %s)", id, j.Verdict, j.Ours, j.Rests)
		}
	}
	for i := range run.Conditions {
		run.Conditions[i].Params = workload.Params{"data": "32"}
	}
	if j := verdictOn(t, "S1.12", run); j.Verdict != claim.Qualified || !strings.Contains(j.Rests, "data sets of 32 MiB") {
		t.Errorf("on less data: %s (%s)", j.Verdict, j.Rests)
	}
	// Where memory has to ask for huge pages, that there are none shows nothing; that there are, much.
	run.Host.THP = "madvise"
	if j := verdictOn(t, "S1.8", run); j.Verdict != claim.Inconclusive || !strings.Contains(j.Rests, "--huge-pages always") {
		t.Errorf("madvise: %s (%s)", j.Verdict, j.Rests)
	}
	// What was set for the trials counts, and not what the host had.
	for i := range run.Conditions {
		run.Conditions[i].Factors[factorHuge] = "always"
	}
	if j := verdictOn(t, "S1.8", run); j.Verdict != claim.Qualified || !strings.Contains(j.Rests, "set to always") {
		t.Errorf("always for the trials: %s (%s)", j.Verdict, j.Rests)
	}
	all := typical()
	all["pagerank"]["steady-huge-of-active"] = 12
	run = madeRun(all, s1Steady)
	run.Host.THP = "madvise"
	if j := verdictOn(t, "S1.8", run); j.Verdict != claim.Refuted {
		t.Errorf("huge pages in spite of madvise: %s (%s)", j.Verdict, j.Rests)
	}
}

// Shares that are anything at all, in three blocks, confirm nothing.
func TestNoiseConfirmsNothing(t *testing.T) {
	was := slices.Clone(applications)
	t.Cleanup(func() { copy(applications, was) })
	for i := range applications {
		applications[i].standIn = ""
	}
	run := madeRun(typical(), s1Steady)
	var drawn sync.Map // by their seed, for all claims
	for i := range run.Conditions {
		c := &run.Conditions[i]
		c.Metrics = slices.DeleteFunc(slices.Clone(c.Metrics), func(m workload.Metric) bool {
			return !slices.Contains([]string{
				"start-groupable-with-zeros", "start-across", "start-active", "steady-active", "steady-groupable-of-active",
				"start-huge-of-active", "steady-huge-of-active", duplicated, copying,
			}, m.Name) && !strings.HasPrefix(m.Name, "type-")
		})
	}
	noise := func(seed uint64) verdicts {
		if v, known := drawn.Load(seed); known {
			return v.(verdicts)
		}
		random := rand.New(rand.NewPCG(seed, 1))
		own := run
		own.Trials = slices.Clone(run.Trials)
		for i := range own.Trials {
			own.Trials[i].Samples = slices.Clone(own.Trials[i].Samples)
			slices.SortFunc(own.Trials[i].Samples, func(a, b record.Sample) int { return strings.Compare(a.Metric, b.Metric) })
			for s := range own.Trials[i].Samples {
				own.Trials[i].Samples[s].Value = 100 * random.Float64()
			}
		}
		r := read(own)
		of, aslr := r.judged()
		v := verdicts{reading: r, of: of, aslr: aslr}
		drawn.Store(seed, v)
		return v
	}
	for id, judge := range map[string]func(verdicts) (claim.Judgement, bool){
		"S1.5": verdicts.start, "S1.7": verdicts.active, "S1.8": verdicts.huge, "S1.9": verdicts.duplicated,
		"S1.11": verdicts.types, "S1.12": verdicts.copying,
	} {
		kittest.NoiseConfirmsNothing(t, id, func(seed uint64) (claim.Judgement, bool) {
			return judge(noise(seed))
		})
	}
}

// A verdict on a steady state that was looked at too early is qualified.
func TestTooEarlyIsQualified(t *testing.T) {
	run := madeRun(typical(), 20*time.Second)
	for _, id := range []string{"S1.6", "S1.7"} {
		if j := verdictOn(t, id, run); j.Verdict != claim.Qualified || !strings.Contains(j.Rests, "after 20s of work") {
			t.Errorf("%s: %s, %q", id, j.Verdict, j.Rests)
		}
	}
}

// What is said of all applications is neither confirmed nor refuted by some, and
// one copy shares nothing.
func TestSomeApplicationsDecideNothing(t *testing.T) {
	all := typical()
	delete(all, "multimodel")
	for _, j := range Judge(madeRun(all, s1Steady)) {
		if j.Verdict != claim.Inconclusive {
			t.Errorf("%s: %s without ArangoDB (%s)", j.Claim, j.Verdict, j.Rests)
		}
	}
	// So where it took part and none of its trials came to an end.
	run := madeRun(typical(), s1Steady)
	run.Trials = slices.DeleteFunc(run.Trials, func(t record.Trial) bool { return t.Workload == "multimodel" })
	for _, j := range Judge(run) {
		if j.Verdict != claim.Inconclusive || strings.Contains(j.Rests, "9 of S1's") || strings.Contains(j.Rests, "ArcadeDB") {
			t.Errorf("%s: %s without a trial of ArangoDB's stand-in (%s)", j.Claim, j.Verdict, j.Rests)
		}
	}
	run = madeRun(typical(), s1Steady)
	for i := range run.Conditions {
		run.Conditions[i].Factors[factorCopies] = "1"
	}
	if j := Judge(run); len(j) > 0 {
		t.Errorf("one copy is judged: %v", j)
	}
}

// What was done otherwise than S1 did it confirms nothing plainly.
func TestOtherwiseIsQualified(t *testing.T) {
	for name, c := range map[string]struct {
		id, says string
		change   func(*record.Run)
	}{
		"copies": {"S1.9", "8 copies, where S1 had 4", func(r *record.Run) {
			for i := range r.Conditions {
				r.Conditions[i].Factors[factorCopies] = "8"
			}
		}},
		"window": {"S1.9", "faults of 3s", func(r *record.Run) {
			for i := range r.Conditions {
				r.Conditions[i].Factors[factorWindow] = "3s"
			}
		}},
		"generations": {"S1.7", "generations", func(r *record.Run) { r.Host.Generations = "0x0007" }},
	} {
		run := madeRun(typical(), s1Steady)
		c.change(&run)
		if j := verdictOn(t, c.id, run); j.Verdict != claim.Qualified || !strings.Contains(j.Rests, c.says) {
			t.Errorf("%s: %s is %s, %q", name, c.id, j.Verdict, j.Rests)
		}
	}
}

// Where instructions are counted, httpd must have the highest rate for sure.
func TestFaultsPerInstruction(t *testing.T) {
	counted := func(httpd float64) claim.Judgement {
		all := typical()
		for _, f := range all {
			f[perMillion] = 14
		}
		all["httpd[access=serial]"][perMillion] = httpd
		run := madeRun(all, s1Steady)
		for i := range run.Conditions {
			run.Conditions[i].Metrics = append(run.Conditions[i].Metrics, faultMetrics(false, false, true)...)
		}
		return verdictOn(t, "S1.10", run)
	}
	for httpd, want := range map[float64]claim.Verdict{40: claim.Qualified, 5: claim.Refuted, 14: claim.Inconclusive, 2000: claim.Refuted} {
		if j := counted(httpd); j.Verdict != want {
			t.Errorf("httpd with %g in a million: %s, want %s (%s)", httpd, j.Verdict, want, j.Ours)
		}
	}
}

// Of two applications there is no mean to speak of.
func TestFewApplicationsAreNotJudged(t *testing.T) {
	all := typical()
	for group := range all {
		if !strings.HasPrefix(group, "httpd") && group != "fio" {
			delete(all, group)
		}
	}
	if j := Judge(madeRun(all, s1Steady)); len(j) > 0 {
		t.Errorf("judged: %v", j)
	}
}

// Two blocks have no interval worth the name, one has none at all.
func TestOneBlockIsInconclusive(t *testing.T) {
	run := madeRun(typical(), s1Steady)
	var kept []record.Trial
	for _, trial := range run.Trials {
		if trial.Block == 1 {
			kept = append(kept, trial)
		}
	}
	run.Trials = kept
	for _, j := range Judge(run) {
		if j.Claim != "S1.8" && j.Verdict != claim.Inconclusive {
			t.Errorf("%s: %s of one block", j.Claim, j.Verdict)
		}
	}
	if j := verdictOn(t, "S1.8", run); j.Verdict != claim.Inconclusive {
		t.Errorf("S1.8: %s of one block", j.Verdict)
	}
}

func TestApplications(t *testing.T) {
	for group, want := range map[string]string{
		"httpd[access=serial]": "httpd", "httpd[access=serial,data=500]": "httpd", "httpd": "", "hashing[access=sparse]": "hashing sparse", "hashing[access=sparse,data=500]": "hashing sparse",
		"hashing[data=500]": "", "redis": "",
	} {
		a, ok := applicationOf(group)
		if ok != (want != "") || a.published != want {
			t.Errorf("%s is %q, want %q", group, a.published, want)
		}
	}
}
