package cpu

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tare/claim"
	"tare/kernel/cgroup"
	"tare/lab"
	"tare/load"
	"tare/platform"
	"tare/record"
	"tare/stats"
	"tare/study/kit"
	"tare/study/latency/service"
	"tare/workload"
)

// made is a run whose figures are made up: what the judge must say of it is
// known.
type made struct {
	t      *testing.T
	run    record.Run
	blocks int
}

func makeRun(t *testing.T, blocks int) *made {
	return &made{t, record.Run{ID: "latency-1", Study: service.Study, Status: record.Complete, Started: time.Now(), Plan: record.Plan{Level: 0.95, SmallestEffect: 0.02}}, blocks}
}

// wobble is the noise of a block: some percent, the same for all conditions, and
// a little of a condition's own.
func wobble(block, own int) float64 {
	return 1 + 0.03*math.Sin(float64(3*block)) + 0.002*math.Sin(float64(7*block+5*own))
}

// figures are what a condition yields: latencies in microseconds (all but one of
// a hundred the first), and scalars.
type figures struct {
	latency, tail float64
	scalars       map[string]float64
	covariates    map[string]float64
}

func (m *made) condition(experiment, label string, baseline bool, g granted, factors map[string]string, f figures) {
	m.t.Helper()
	name := "thrift[" + experiment + ",server=python]"
	all := map[string]string{FactorExperiment: experiment}
	for k, v := range g.factors() {
		all[k] = v
	}
	for k, v := range factors {
		all[k] = v
	}
	c := record.Condition{ID: name + "@" + label, Label: label, Workload: name, Platform: "docker", Params: map[string]string{"server": "python", "client": "python"}, Factors: all, Baseline: baseline, Metrics: metrics(true)}
	m.run.Conditions = append(m.run.Conditions, c)
	for block := 1; block <= m.blocks; block++ {
		for replicate := range 2 {
			if replicate > 0 && (!baseline || experiment == Neighbour) {
				continue
			}
			k := wobble(block, 2*len(m.run.Conditions)+replicate)
			h := load.NewHistogram()
			for i := range 1000 {
				v := f.latency
				if i >= 985 {
					v = f.tail
				}
				// Requests differ by a hundredth, or no quantile would have a spread.
				if err := h.RecordValue(int64(v * k * (1 + 0.01*math.Sin(float64(i))))); err != nil {
					m.t.Fatal(err)
				}
			}
			at := record.Trial{ID: int64(len(m.run.Trials) + 1), Condition: c.ID, Workload: name, Block: block, Attempt: 1, Replicate: replicate, Started: m.run.Started,
				Covariates: map[string]float64{}, Samples: []record.Sample{{Metric: service.Mean, Value: f.latency * k}}}
			for name, v := range f.covariates {
				at.Covariates[name] = v * k
			}
			for metric, v := range f.scalars {
				at.Samples = append(at.Samples, record.Sample{Metric: metric, Value: v * k})
			}
			if f.latency > 0 {
				text, err := record.EncodeHistogram(h)
				if err != nil {
					m.t.Fatal(err)
				}
				at.Histograms = map[string]record.Histogram{service.Latency: text}
			}
			m.run.Trials = append(m.run.Trials, at)
		}
	}
}

func (m *made) verdict(id string) claim.Judgement {
	m.t.Helper()
	settled, err := claim.Settle(m.run, Judge(m.run))
	if err != nil {
		m.t.Fatal(err)
	}
	for _, j := range settled {
		if j.Claim == id {
			return j
		}
	}
	return claim.Judgement{Verdict: claim.NotYetRun}
}

func TestJudgeShares(t *testing.T) {
	for _, c := range []struct {
		name            string
		more, tailMore  float64 // in microseconds, of 2410 and 2780
		want            claim.Verdict
		because, notYet string
	}{
		{name: "as S4 has it", more: 145, tailMore: 145, want: claim.Confirmed},
		{name: "nothing", want: claim.Refuted, because: "no cost of the container was found"},
		{name: "more than a tenth", more: 400, tailMore: 400, want: claim.Refuted},
		{name: "the tail loses more", more: 145, tailMore: 500, want: claim.Refuted},
	} {
		m := makeRun(t, 12)
		m.condition(Shares, "bare", true, granted{}, nil, figures{latency: 2410, tail: 2780})
		m.condition(Shares, "docker shares", false, granted{}, nil, figures{latency: 2410 + c.more, tail: 2780 + c.tailMore})
		if j := m.verdict("S4.1"); j.Verdict != c.want || !strings.Contains(j.Rests, c.because) {
			t.Errorf("%s: %s (%s), want %s", c.name, j.Verdict, j.Rests, c.want)
		}
	}
	m := makeRun(t, 1)
	m.condition(Shares, "bare", true, granted{}, nil, figures{latency: 2410, tail: 2780})
	m.condition(Shares, "docker shares", false, granted{}, nil, figures{latency: 2500, tail: 2900})
	if j := m.verdict("S4.1"); j.Verdict != claim.Inconclusive {
		t.Errorf("one block: %s", j.Verdict)
	}
}

// What another service does is no verdict on S4's.
func TestAnotherServiceIsQualifiedAtBest(t *testing.T) {
	m := makeRun(t, 12)
	m.condition(Shares, "bare", true, granted{}, nil, figures{latency: 2410, tail: 2780})
	m.condition(Shares, "docker shares", false, granted{}, nil, figures{latency: 2555, tail: 2925})
	for i := range m.run.Conditions {
		m.run.Conditions[i].Params["server"] = "go"
	}
	if j := m.verdict("S4.1"); j.Verdict != claim.Qualified || !strings.Contains(j.Rests, "another service") {
		t.Errorf("%s (%s)", j.Verdict, j.Rests)
	}
}

// Another period, or another stall, is no evidence on S4.2.
func TestAnotherPeriodIsNotS4s(t *testing.T) {
	m := makeRun(t, 3)
	m.sweep(100, func(q float64) float64 { return 1e8 / q }, func(q float64) float64 { return 10000 - q })
	for i := range m.run.Conditions {
		if c := &m.run.Conditions[i]; c.Baseline {
			c.Factors[FactorStall] = "5ms"
		}
	}
	if j := m.verdict("S4.2"); j.Verdict != claim.NotYetRun {
		t.Errorf("a stall of 5 ms: %s", j.Verdict)
	}
	for i := range m.run.Conditions {
		c := &m.run.Conditions[i]
		delete(c.Factors, FactorStall)
		if c.Factors[factorPeriod] != "" {
			c.Factors[factorPeriod] = "100ms"
		}
	}
	if j := m.verdict("S4.2"); j.Verdict != claim.NotYetRun {
		t.Errorf("a period of 100 ms: %s", j.Verdict)
	}
	if text := fmt.Sprintf("%+v", Parts(m.run)); strings.Contains(text, "7556") {
		t.Error("S4's figures stand beside another period")
	}
}

// sweep has a service that takes so much CPU time a request, of a round trip of
// 250 us, under S4's quotas.
func (m *made) sweep(demand float64, stalled func(quota float64) float64, tail func(quota float64) float64) {
	share := demand / 250 * 100
	m.condition(Quota, "no quota", true, granted{}, nil, figures{latency: 250, tail: 330, scalars: map[string]float64{service.Demand: demand, service.Share: share, service.Stalled: 0}})
	for _, q := range Quotas {
		us := float64(q.Microseconds())
		m.condition(Quota, granted{q, Period, 0}.label(), false, granted{quota: q, period: Period}, nil, figures{latency: 250, tail: tail(us),
			scalars: map[string]float64{service.Demand: demand, service.Share: min(share, us/100), service.Stalled: stalled(us)}})
	}
}

func TestJudgeQuota(t *testing.T) {
	const demand = 100 // 40 % of the core: S4's own figures
	below := func(quota float64) bool { return quota < demand/250.*10000 }
	tail := func(quota float64) float64 {
		if below(quota) {
			return 10000 - quota*2.5
		}
		return 330
	}
	constant := func(quota float64) float64 {
		if below(quota) {
			return demand * 1e6 / quota
		}
		return 0
	}
	m := makeRun(t, 8)
	m.sweep(demand, constant, tail)
	// S4's claim is not at one with itself, and so confirmed with a qualification at best.
	if j := m.verdict("S4.2"); j.Verdict != claim.Qualified {
		t.Errorf("constant products: %s (%s)", j.Verdict, j.Rests)
	}
	m = makeRun(t, 8)
	m.sweep(demand, func(q float64) float64 { return constant(q) * q / 2000 }, tail)
	if j := m.verdict("S4.2"); j.Verdict != claim.Refuted {
		t.Errorf("products that grow: %s (%s)", j.Verdict, j.Rests)
	}
	m = makeRun(t, 8)
	m.sweep(demand, constant, func(q float64) float64 { return max(tail(q), 2000) })
	if j := m.verdict("S4.2"); j.Verdict != claim.Refuted {
		t.Errorf("a tail above the demand: %s (%s)", j.Verdict, j.Rests)
	}
	m = makeRun(t, 8)
	m.sweep(20, func(float64) float64 { return 0 }, func(float64) float64 { return 330 })
	if j := m.verdict("S4.2"); j.Verdict != claim.Inconclusive {
		t.Errorf("no quota below the demand: %s (%s)", j.Verdict, j.Rests)
	}
}

func TestJudgeNeighbour(t *testing.T) {
	for _, c := range []struct {
		name            string
		service, matrix []float64 // times, by quota
		clocks          []float64 // alone, together; none where there are none
		want            claim.Verdict
	}{
		{"as S4 has it", []float64{1.2, 0.9, 1}, []float64{1.1, 1.1, 0.8}, []float64{1600, 1955}, claim.Confirmed},
		{"nobody gains though the clock rises", []float64{1.2, 1.1, 1}, []float64{1.1, 1.1, 1}, []float64{1600, 1955}, claim.Refuted},
		{"a trade-off at one quota", []float64{0.9, 1, 1}, []float64{1.1, 1, 1}, []float64{1600, 1955}, claim.Inconclusive},
		{"no clock", []float64{1.2, 0.9, 1}, []float64{1.1, 1.1, 0.8}, nil, claim.Inconclusive},
		{"a fixed clock", []float64{1.2, 0.9, 1}, []float64{1.1, 1.1, 0.8}, []float64{1600, 1600}, claim.Inconclusive},
	} {
		m := makeRun(t, 8)
		clock := func(i int) map[string]float64 {
			if c.clocks == nil {
				return nil
			}
			return map[string]float64{clockMHz: c.clocks[i]}
		}
		m.condition(Neighbour, "alone", true, granted{}, map[string]string{factorGranted: byShares, factorBeside: besideNothing}, figures{latency: 2500, tail: 3300})
		for i, q := range NeighbourQuotas[:3] {
			g := granted{quota: q, period: Period}
			f := func(beside string) map[string]string {
				return map[string]string{factorGranted: byQuota, factorBeside: beside}
			}
			m.condition(Neighbour, g.label()+" alone", false, g, f(besideNothing), figures{latency: 2500, tail: 3300, covariates: clock(0)})
			m.condition(Neighbour, g.label()+" shared", false, g, f(besideMatrix), figures{latency: 2500 * c.service[i], tail: 3300 * c.service[i],
				scalars: map[string]float64{matrixTime: 2e5 * c.matrix[i]}, covariates: clock(len(c.clocks) - 1)})
			m.condition(Neighbour, g.label()+" matrix alone", false, g, f(aloneMatrix), figures{scalars: map[string]float64{matrixTime: 2e5}})
		}
		if j := m.verdict("S4.3"); j.Verdict != c.want {
			t.Errorf("%s: %s (%s), want %s", c.name, j.Verdict, j.Rests, c.want)
		}
		// Of few blocks that are far apart neither loss nor gain is excluded.
		if c.want == claim.Refuted {
			for i := range m.run.Trials {
				if m.run.Trials[i].Block == 1 && strings.Contains(m.run.Trials[i].Condition, "shared") {
					for k := range m.run.Trials[i].Samples {
						m.run.Trials[i].Samples[k].Value *= 3
					}
				}
			}
			if j := m.verdict("S4.3"); j.Verdict != claim.Inconclusive {
				t.Errorf("%s, with wide intervals: %s (%s)", c.name, j.Verdict, j.Rests)
			}
		}
	}
}

// What is shown of a run has every condition, and S4's figures beside ours.
func TestPartsShowEveryQuota(t *testing.T) {
	m := makeRun(t, 3)
	m.condition(Shares, "bare", true, granted{}, nil, figures{latency: 2410, tail: 2780})
	m.condition(Shares, "docker shares", false, granted{}, nil, figures{latency: 2500, tail: 2900})
	m.sweep(100, func(q float64) float64 { return 1e8 / q }, func(q float64) float64 { return 10000 - q })
	text := fmt.Sprintf("%+v", Parts(m.run))
	for _, q := range Quotas {
		if want := (granted{q, Period, 0}).label(); !strings.Contains(text, want) {
			t.Errorf("%s is not shown", want)
		}
	}
	for _, published := range []string{"7556", "104996", "240.7", "295"} {
		if !strings.Contains(text, published) {
			t.Errorf("S4's %s is not beside ours", published)
		}
	}
	if a := Answer(m.run); !strings.Contains(a, "µs later at the median") || !strings.Contains(a, "uses 40") {
		t.Errorf("answer: %s", a)
	}
}

// nothing is a platform that grants everything and runs nothing.
type nothing struct {
	platform.Platform
	refuse string
}

func (n nothing) Supports(s platform.Setting) error {
	if n.refuse != "" && s.CPUBurst != 0 {
		return fmt.Errorf("%s", n.refuse)
	}
	return nil
}

// still is a service that can be asked for anything and is never run.
type still struct{ workload.Loader }

func (still) Name() string            { return "still" }
func (still) Source() workload.Source { return workload.Source{Recipe: "still"} }
func (still) Params() []workload.Param {
	return []workload.Param{{Name: "rate", Default: "closed"}, {Name: "arrival", Default: "uniform"}, {Name: "duration", Default: "2s"}}
}
func (still) Program(workload.Params) (workload.Program, error) {
	return workload.Program{Service: true, Ports: []int{1}}, nil
}

func options() Options {
	return Options{
		Services: []workload.Subject{{Workload: still{}}}, Experiments: Experiments, Platform: "docker", Base: platform.Setting{CPUSet: "1"},
		Quotas: Quotas, Periods: []time.Duration{Period, 100 * time.Millisecond}, Rate: 1000, Neighbours: NeighbourQuotas, Matrix: 512,
		Plan: record.Plan{Blocks: 3, Level: 0.95, SmallestEffect: 0.02}, Seed: 1,
		Host: kit.Host{CPUs: []int{0, 1}, Platform: func(name string) (platform.Platform, error) {
			if name == "docker" {
				return nothing{refuse: "no burst"}, nil
			}
			return nothing{}, nil
		}, Check: func(platform.Platform) error { return nil }},
	}
}

func TestDesign(t *testing.T) {
	d, err := Design(options())
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Groups) != len(Experiments) {
		t.Fatalf("%d groups, want one an experiment", len(d.Groups))
	}
	sweep := d.Groups[1]
	if got, want := len(sweep.Conditions), 1+2*len(Quotas); got != want {
		t.Errorf("the sweep has %d conditions, want %d", got, want)
	}
	for _, c := range sweep.Conditions {
		q, p := quotaOf(c.Condition), periodOf(c.Condition)
		quota, period, limited := c.Setting.Quota()
		if q != quota || limited != (q > 0) || limited && p != period {
			t.Errorf("%s asks for %v in %v and sets %v in %v", c.Label, q, p, quota, period)
		}
	}
	for _, c := range d.Groups[2].Conditions {
		if c.Params["rate"] != "1000" || c.Params["arrival"] != "poisson" {
			t.Errorf("the open loop has %v", c.Params)
		}
	}
	for _, c := range d.Groups[3].Conditions {
		if c.Platform == "docker" {
			t.Errorf("%s: burst on a platform that refuses it", c.Label)
		}
	}
	var _ lab.Design = d
}

// What the kernel accepts is accepted, set and written exactly.
func TestQuotasAsTheKernelTakesThem(t *testing.T) {
	o := options()
	o.Neighbours, o.Experiments = nil, []string{Quota}
	for _, want := range []Bandwidth{
		{Quota: 20 * time.Second, Period: 100 * time.Millisecond},
		{Quota: 10 * time.Second, Period: time.Second},
		{Quota: time.Minute, Period: time.Second},
		{Quota: time.Millisecond, Period: time.Second},
		{Quota: 1001 * time.Microsecond, Period: 999999 * time.Microsecond},
		{Quota: cgroup.GreatestQuota, Period: 3 * time.Millisecond},
	} {
		o.Quotas, o.Periods = []time.Duration{want.Quota}, []time.Duration{want.Period}
		d, err := Design(o)
		if err != nil {
			t.Errorf("%v: %v", want, err)
			continue
		}
		c := d.Groups[0].Conditions[1]
		if quota, period, _ := c.Setting.Quota(); quota != want.Quota || period != want.Period {
			t.Errorf("%v is set as %v in %v", want, quota, period)
		}
		if got, err := ParseBandwidth(c.Label); got != want || err != nil {
			t.Errorf("%v is written as %q, which is %v (%v)", want, c.Label, got, err)
		}
	}
}

// A prediction is of a quota, which it keeps as it was asked, or of a wanted p99.
func TestUnlimited(t *testing.T) {
	long := Bandwidth{Quota: 20 * time.Second, Period: 100 * time.Millisecond}
	for _, c := range []struct {
		asked  []Bandwidth
		wanted time.Duration
		text   string
	}{{[]Bandwidth{long}, 0, "20s/100ms"}, {nil, 5 * time.Millisecond, ""}} {
		d, err := Unlimited(options(), c.asked, c.wanted, false)
		if err != nil || d.Groups[0].Conditions[0].Factors[FactorAsked] != c.text {
			t.Errorf("%v: %+v, %v; want %q to be asked", c, d.Groups, err, c.text)
		}
	}
	usage := new(kit.Usage)
	if _, err := Unlimited(options(), nil, 0, false); !errors.As(err, &usage) || !strings.Contains(err.Error(), "--quota max") {
		t.Errorf("of nothing: %v", err)
	}
}

func TestDesignRefuses(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"--quota 500µs":            func(o *Options) { o.Quotas = []time.Duration{500 * time.Microsecond} },
		"--period 2s":              func(o *Options) { o.Periods = []time.Duration{2 * time.Second} },
		"--period 500µs":           func(o *Options) { o.Periods = []time.Duration{500 * time.Microsecond} },
		"--quota 1.0005ms":         func(o *Options) { o.Quotas = []time.Duration{1000500} },
		"--quota 4886h43m6.044416": func(o *Options) { o.Quotas = []time.Duration{cgroup.GreatestQuota + time.Microsecond} },
		"the share of --quota 4872": func(o *Options) {
			o.Quotas, o.Periods = []time.Duration{4872 * time.Hour}, []time.Duration{time.Millisecond, time.Second}
		},
		"--quota max":               func(o *Options) { o.Quotas = nil },
		"leaves 500µs of a period":  func(o *Options) { o.Neighbours = []time.Duration{9500 * time.Microsecond} },
		"--experiment quotas":       func(o *Options) { o.Experiments = []string{"quotas"} },
		"--rate 0":                  func(o *Options) { o.Rate = 0 },
		"cpuset-cpus=7":             func(o *Options) { o.Base.CPUSet = "7" },
		"name each quota, period a": func(o *Options) { o.Services = append(o.Services, o.Services[0]) },
	} {
		o := options()
		change(&o)
		_, err := Design(o)
		usage := new(kit.Usage)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		} else if !asUsage(err, &usage) {
			t.Errorf("%v is not an error of usage", err)
		}
	}
}

// A short period has the shares that the kernel accepts, where nobody named them; it has no smaller quota
// than 1 ms. Shares that were named are refused there.
func TestSmallGranularity(t *testing.T) {
	o := options()
	o.Neighbours, o.Experiments = nil, []string{Quota}
	o.Periods = []time.Duration{Period, 4 * time.Millisecond}
	if _, err := Design(o); err == nil || !strings.Contains(err.Error(), "--period 4ms") {
		t.Errorf("a named share of less than 1 ms: %v", err)
	}
	o.Further = []time.Duration{time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond}
	d, err := Design(o)
	if err != nil {
		t.Fatal(err)
	}
	var short []string
	for _, c := range d.Groups[0].Conditions {
		if c.Setting.CPUPeriod == 4*time.Millisecond {
			short = append(short, c.Label)
		}
	}
	if got := strings.Join(short, " "); got != "1.2ms/4ms 4ms/4ms" {
		t.Errorf("in a period of 4 ms: %s", got)
	}
}

func asUsage(err error, to **kit.Usage) bool {
	u, ok := err.(*kit.Usage)
	if ok {
		*to = u
	}
	return ok
}

// A run of one experiment that decides no claim has an answer all the same.
func TestAnswerOfANeighbourAlone(t *testing.T) {
	m := makeRun(t, 4)
	m.condition(Neighbour, "alone", true, granted{}, map[string]string{factorGranted: byShares, factorBeside: besideNothing}, figures{latency: 2500, tail: 3300})
	m.condition(Neighbour, "shared by shares", false, granted{}, map[string]string{factorGranted: byShares, factorBeside: besideMatrix}, figures{latency: 2000, tail: 9900})
	if a := Answer(m.run); !strings.Contains(a, "neighbour of equal shares") {
		t.Errorf("answer: %s", a)
	}
}

// A difference whose interval holds 0 is not said to be none.
func TestLater(t *testing.T) {
	for want, d := range map[string]stats.Estimate{
		"not significantly later (-20 to 60 µs)": {Value: 20, Interval: stats.Interval{Low: -20, High: 60}, N: 8},
		"30 (20 to 40) µs later":                 {Value: 30, Interval: stats.Interval{Low: 20, High: 40}, N: 8},
		"30 (20 to 40) µs earlier":               {Value: -30, Interval: stats.Interval{Low: -40, High: -20}, N: 8},
	} {
		if got := later(d); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
