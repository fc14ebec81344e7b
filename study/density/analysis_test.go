package density

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/platform"
	"tare/record"
	"tare/stats"
	"tare/study/kit"
	"tare/workload"
)

// madePolicy is one arm of a run that is made up.
type madePolicy struct {
	name, swap, protect, cluster string
	truth
	extend string // empty is "none"
}

// truth is what really happens as memory runs out.
type truth struct {
	cliff   float64 // memory asked for over the box's from which it is worse; 0 is never
	keeps   float64 // of throughput, from there on
	stalls  float64 // share of requests that then stall
	stall   float64 // by how many times as long they take
	slows   float64 // by how many times all requests take as long
	thrash  float64 // where it ends; 0 is never
	noise   float64 // of a step, sd of the logarithm
	costs   float64 // share of throughput that an extension takes
	latency float64 // by how many times all requests take as long, from the first step; 0 is 1
}

// s3 is what S3 saw: throughput halves at 2.5 times, and what takes longer is the tail.
var s3 = truth{cliff: 2.5, keeps: 0.5, stalls: 0.02, stall: 200, slows: 1, noise: 0.02}

// made are a run's sizes.
type made struct {
	numbers    []int
	blocks     int
	order      string
	emulated   string
	policies   []madePolicy
	fewest     float64 // memory that the critical service asks for, over the box's; 0 is 0.3
	requests   int     // of a step; 0 is 800
	taintFirst bool
	seed       uint64
}

// neighbour is what one of them asks for over the box's: S3's.
const neighbour = 34.0 / 256

func to49(by int) []int {
	var all []int
	for n := 1; n <= 49; n += by {
		all = append(all, n)
	}
	return all
}

// kept collects what keep records.
type kept struct{ trial *record.Trial }

func (k kept) RecordHistogram(name string, h *hdrhistogram.Histogram) {
	text, ok := alike[h]
	if !ok {
		text = encoded(h)
	}
	k.trial.Histograms[name] = text
}
func (k kept) Covariate(name string, value float64) { k.trial.Covariates[name] = value }
func (k kept) Attach(a record.Attachment)           { k.trial.Attachments = append(k.trial.Attachments, a) }

func encoded(h *hdrhistogram.Histogram) record.Histogram {
	text, err := record.EncodeHistogram(h)
	if err != nil {
		panic(err)
	}
	return text
}

// Latencies that all steps have, and how they are kept.
var (
	closedLatency, idleLatency = latencies(1000), latencies(3000, 3100, 3200, 9000)

	alike = map[*hdrhistogram.Histogram]record.Histogram{closedLatency: encoded(closedLatency), idleLatency: encoded(idleLatency)}
)

// run makes up a run.
func (m made) run(t testing.TB) record.Run {
	t.Helper()
	random := rand.New(rand.NewPCG(5+m.seed, 6))
	run := record.Run{ID: "density-1", Study: Name, Status: record.Complete, Started: time.Now(), Seed: 5, Command: []string{"tare", "density"}, Plan: record.Plan{SmallestEffect: 0.02, Level: 0.95, Blocks: m.blocks}}
	run.Finished = run.Started.Add(9 * time.Minute)
	const group = "booking beside static random"
	metric := workload.Metric{Name: "throughput", Unit: "requests/s", Better: workload.Higher, Primary: true}
	add := func(p madePolicy, base bool, numbers []int) {
		var list []string
		for _, n := range numbers {
			list = append(list, fmt.Sprint(n))
		}
		neighbours := strings.Join(list, ",")
		c := record.Condition{ID: group + "@" + p.name + "," + neighbours, Label: p.name, Workload: group, Platform: "oci:crun", Baseline: base, Metrics: []workload.Metric{metric}, NotRepresentative: m.emulated,
			Factors: map[string]string{FactorPolicy: p.name, FactorOrder: m.order, FactorNeighbours: neighbours, FactorSwap: p.swap, FactorProtect: p.protect, FactorCluster: p.cluster, FactorExtend: cmp.Or(p.extend, ExtendNone), FactorNoise: "static random", FactorBox: "cgroup 1 GiB"}}
		run.Conditions = append(run.Conditions, c)
		for block := 1; block <= m.blocks; block++ {
			level := 1 + 0.05*math.Sin(float64(7*block)) // of all that a block has
			replicates := 1
			if base {
				replicates = 2
			}
			for replicate := range replicates {
				trial := record.Trial{ID: int64(len(run.Trials) + 1), Condition: c.ID, Workload: group, Block: block, Attempt: 1, Replicate: replicate, Started: run.Started, Covariates: map[string]float64{"tare_cpu_share": 0.2}, Histograms: map[string]record.Histogram{}}
				if m.taintFirst && block == 1 {
					trial.Taint = []string{"steal 7.1 %"}
				}
				steps := p.sweep(random, m, level, numbers)
				if err := keep(kept{&trial}, steps); err != nil {
					t.Fatal(err)
				}
				trial.Samples = []record.Sample{{Metric: metric.Name, Value: steps[0].Closed.Rate}}
				run.Trials = append(run.Trials, trial)
			}
		}
	}
	for i, p := range m.policies {
		if m.order != Interleaved {
			add(p, i == 0, m.numbers)
			continue
		}
		for j, n := range m.numbers {
			add(p, i == 0 && j == 0, []int{n})
		}
	}
	return run
}

// sweep makes up the steps of a trial.
func (p madePolicy) sweep(random *rand.Rand, m made, level float64, numbers []int) []Step {
	fewest, requests := m.fewest, m.requests
	if fewest == 0 {
		fewest = 0.3
	}
	if requests == 0 {
		requests = 800
	}
	var steps []Step
	for _, n := range numbers {
		s := Step{Neighbours: n, Overcommit: fewest + float64(n)*neighbour, Elapsed: 6 * time.Second, Pool: 1 << 20}
		s.Asked = int64(s.Overcommit * (1 << 30))
		past := p.cliff > 0 && s.Overcommit > p.cliff
		own := func() float64 { return level * math.Exp(p.noise*random.NormFloat64()) }
		rate, stalls, slows := 1000*own(), 0.0, own()
		if past {
			rate, stalls, slows = rate*p.keeps, p.stalls*own(), slows*p.slows
			s.SwapIn, s.SwapOut, s.DeviceWritten = 9000, 6000, 6000*4096
		}
		if p.thrash > 0 && s.Overcommit > p.thrash {
			rate, s.Stop = 5, "throughput fell below a tenth of the first step's"
		}
		s.Closed = Served{Rate: rate, Requests: int64(rate * 2), Latency: closedLatency}
		s.Open = Served{Rate: 300, Requests: int64(requests), Latency: latencies()}
		for range requests {
			v := 2000 * slows * cmp.Or(p.latency, 1) * math.Exp(0.4*random.NormFloat64())
			if random.Float64() < stalls {
				v *= p.stall
			}
			_ = s.Open.Latency.RecordValue(int64(v))
		}
		s.Idle = Served{Rate: 6.6, Requests: 40, Latency: idleLatency}
		s.Bursts = Served{Latency: latencies()}
		s.Classes = map[platform.Class]ClassAccounts{
			platform.Critical: {Resident: 300 << 20, MajorFaults: s.SwapIn / 10, Some: time.Duration(s.SwapIn) * time.Microsecond},
			platform.Idle:     {Resident: 700 << 20, MajorFaults: s.SwapIn, Some: time.Duration(s.SwapIn) * 10 * time.Microsecond},
		}
		s.Absent = map[string]string{"device_read_bytes": "zram has no device below it"}
		if p.extend == ExtendAnnex {
			s.Extension = &Extended{CPU: 60 * time.Millisecond, Resident: 30 << 20, Contexts: int64(n), Evicted: 6000, Fetched: 3000, Mapped: 600, Untouched: 300,
				Predictors: map[string]platform.PredictorReading{"record": {Precision: 0.9, Recall: 0.8, Lead: time.Second, Predicted: 100}, "intervals": {}}}
			s.Closed.Rate *= 1 - p.costs
		}
		steps = append(steps, s)
		if s.Stop != "" {
			break
		}
	}
	return steps
}

// attachmentsOf gives those of a run that is made up.
func attachmentsOf(run record.Run) kit.Attachments {
	return func(id int64, name string) ([]byte, error) {
		for _, t := range run.Trials {
			for _, a := range t.Attachments {
				if t.ID == id && a.Name == name {
					return a.Data, nil
				}
			}
		}
		return nil, fmt.Errorf("no %s of trial %d", name, id)
	}
}

func file(of truth) madePolicy {
	return madePolicy{name: "file", swap: "file", protect: "none", truth: of}
}
func zram(of truth) madePolicy {
	return madePolicy{name: "zram", swap: "zram", protect: "none", truth: of}
}

func withOrder(order string, blocks int, policies ...madePolicy) made {
	return made{numbers: to49(4), blocks: blocks, order: order, policies: policies}
}

// The cliff is found where it was laid, by trials of one sweep and of one step alike.
func TestCliffIsFound(t *testing.T) {
	for _, order := range []string{Continuous, Interleaved} {
		r := read(withOrder(order, 3, file(s3)).run(t), nil)
		if len(r.arms) != 1 {
			t.Fatalf("%s: %d arms", order, len(r.arms))
		}
		a := r.arms[0]
		want := 3
		if order == Continuous {
			want = 6 // the baseline twice a block
		}
		if len(a.sweeps) != want || a.blocks != 3 || len(a.numbers) != 13 || a.last() != 49 {
			t.Errorf("%s: %d sweeps in %d blocks of %v, to %d", order, len(a.sweeps), a.blocks, a.numbers, a.last())
		}
		for name, c := range map[string]cliff{"throughput": r.throughputCliff(a), "p99": r.tailCliff(a)} {
			if !c.found() || c.overcommit.Interval.Low > s3.cliff || c.overcommit.Interval.High < s3.cliff || c.overcommit.Interval.High-c.overcommit.Interval.Low > 1.2 {
				t.Errorf("%s, %s: %s at %+v, want %v", order, name, c.Shape, c.overcommit, s3.cliff)
			}
		}
		if loss := r.lost(a); !loss.Known() || math.Abs(loss.Value-0.5) > 0.1 {
			t.Errorf("%s: lost %+v", order, loss)
		}
	}
}

// Tainted sweeps are left out where there are others, and kept where there are none.
func TestTaintedSweeps(t *testing.T) {
	m := withOrder(Continuous, 3, file(s3))
	m.taintFirst = true
	if a := read(m.run(t), nil).arms[0]; len(a.sweeps) != 4 || a.tainted != 2 {
		t.Errorf("%d sweeps, %d left out", len(a.sweeps), a.tainted)
	}
	m.blocks = 1
	if a := read(m.run(t), nil).arms[0]; len(a.sweeps) != 2 || a.tainted != 0 {
		t.Errorf("of tainted ones alone: %d sweeps, %d left out", len(a.sweeps), a.tainted)
	}
}

// How dense a box may be, and what another policy gains, is found although single steps
// are out of line.
func TestUnharmed(t *testing.T) {
	late := s3
	late.cliff = 5
	run := withOrder(Interleaved, 5, file(s3), zram(late)).run(t)
	all := Unharmed(run)
	if len(all) != 2 || !all[0].Base || all[1].Policy != "zram" {
		t.Fatalf("%+v", all)
	}
	if d := all[0]; !(d.Overcommit.Interval.Low <= s3.cliff && s3.cliff <= d.Overcommit.Interval.High) || d.Reached != 0 || d.Sweeps != 5 || !math.IsNaN(d.Gained.Value) {
		t.Errorf("file: %+v", d)
	}
	if d := all[1]; !(d.Overcommit.Interval.Low <= late.cliff && late.cliff <= d.Overcommit.Interval.High) || !(d.Gained.Interval.Low <= 2 && 2 <= d.Gained.Interval.High) {
		t.Errorf("zram: %+v", d)
	}
	never := truth{noise: 0.01}
	if d := Unharmed(withOrder(Continuous, 3, file(never)).run(t))[0]; d.Reached != d.Sweeps || d.Overcommit.Value < 6 {
		t.Errorf("nothing harms: %+v", d)
	}
}

func TestUnharmedTakesTheBestCut(t *testing.T) {
	plain := reading{}.harm(arm{}) // of no pair: the claim's limits
	of := func(harmed string) sweep {
		var s sweep
		for i, c := range harmed {
			step := Step{Neighbours: i, Overcommit: float64(i), Closed: Served{Rate: 100}, Open: Served{Latency: latencies(1000)}}
			if c == 'x' {
				step.Closed.Rate = 50
			}
			s.steps = append(s.steps, step)
		}
		return s
	}
	for harmed, want := range map[string]int{
		".": 0, "...": 2, "...xxx": 2, ".x..xxx": 3, "...xx.xx": 2, "..x": 1, ".xxxx.": 0, ".x": 0,
	} {
		if got := of(harmed).unharmed(plain); got != want {
			t.Errorf("%s: unharmed up to %d, want %d", harmed, got, want)
		}
	}
	if got := (sweep{steps: []Step{{}}}).unharmed(plain); got != -1 {
		t.Errorf("without figures: %d", got)
	}
}

// Repeats that differ by chance among their requests agree; those that differ by more do not.
func TestRepeatsAgree(t *testing.T) {
	quiet := truth{noise: 0}
	r := read(withOrder(Interleaved, 3, file(quiet)).run(t), nil)
	_, tail := r.agreements(r.arms[0])
	if tail.steps != 13 || tail.agree < 11 {
		t.Errorf("of the same: %+v", tail)
	}
	wild := truth{noise: 1}
	r = read(withOrder(Interleaved, 3, file(wild)).run(t), nil)
	throughput, tail := r.agreements(r.arms[0])
	if throughput.agree > 4 || tail.agree > 4 || tail.widest < 2 || !slices.Contains(r.arms[0].numbers, tail.at) {
		t.Errorf("of factors: %+v, %+v", throughput, tail)
	}
}

// A step that ended while its neighbours came has no figures, and is none; that its sweep
// ended there is reported.
func TestSweepsThatEndAsNeighboursCome(t *testing.T) {
	m := withOrder(Continuous, 3, file(s3))
	run := m.run(t)
	for i := range run.Trials {
		for name := range run.Trials[i].Covariates {
			number, figure, _ := strings.Cut(name, "/")
			switch {
			case number == "45" || number == "49":
				delete(run.Trials[i].Covariates, name)
			case number == "41" && figure != "neighbours":
				run.Trials[i].Covariates[name] = 0
			}
		}
		run.Trials[i].Covariates["41/"+stoppedText] = 1
		for _, number := range []string{"41", "45", "49"} {
			delete(run.Trials[i].Histograms, number+"/open")
		}
	}
	r := read(run, nil)
	a := r.arms[0]
	if a.greatest() != 37 || a.settled() != 37 || len(a.halts()) != 6 {
		t.Fatalf("to %d, settled %d, %d halts", a.greatest(), a.settled(), len(a.halts()))
	}
	if h := a.halts()[0]; h.neighbours != 41 || math.Abs(h.overcommit-(0.3+41*neighbour)) > 1e-9 {
		t.Errorf("ended at %+v", h)
	}
	if c := r.throughputCliff(a); !c.found() || c.Before != 13 {
		t.Errorf("%s, between %v and %v", c.Shape, c.Before, c.After)
	}
	if d := Unharmed(run)[0]; d.Reached != 0 {
		t.Errorf("%+v", d)
	}
}

// Nothing here may fail on a run that has yielded little or nothing, or what is not this
// study's.
func TestRunsOfLittle(t *testing.T) {
	whole := withOrder(Continuous, 1, file(s3)).run(t)
	for name, edit := range map[string]func(*record.Run){
		"nothing":   func(r *record.Run) { *r = record.Run{} },
		"no trials": func(r *record.Run) { r.Trials = nil },
		"one trial": func(r *record.Run) { r.Trials = r.Trials[:1] },
		"failed": func(r *record.Run) {
			for i := range r.Trials {
				r.Trials[i].Error = "no"
			}
		},
		"no histograms": func(r *record.Run) {
			for i := range r.Trials {
				r.Trials[i].Histograms = nil
			}
		},
		"bad histograms": func(r *record.Run) { r.Trials[0].Histograms = map[string]record.Histogram{"1/open": "???"} },
		"no covariates":  func(r *record.Run) { r.Trials[0].Covariates = nil },
	} {
		run := whole
		run.Trials = slices.Clone(whole.Trials)
		edit(&run)
		sheet := Study.Sheet(run, attachmentsOf(run), nil)
		if sheet.Answer == "" || Study.NextOf(run) == "" || Study.Interim(run).Title == "" {
			t.Errorf("%s: %+v", name, sheet)
		}
		Judge(run)
		Advice(run)
		Unharmed(run)
	}
}

// Where gaps are long, no neighbour may have its turn within a step: that says nothing of how they
// answer, and what the others say stands. Where the service did not answer either, no figure is given.
func TestNobodyHadATurn(t *testing.T) {
	run := withOrder(Interleaved, 3, file(s3), zram(s3)).run(t)
	r := read(run, attachmentsOf(run))
	base, other := r.arms[0], r.arms[1]
	n := base.numbers[len(base.numbers)-1]
	last := func(a arm, i int) *Step {
		s := &a.sweeps[i]
		return &s.steps[slices.IndexFunc(s.steps, func(s Step) bool { return s.Neighbours == n })]
	}
	whole := r.quantile(base, n, idle, 0.5)
	last(base, 0).Idle = Served{Latency: latencies()}
	last(other, 1).Idle = Served{}
	for what, e := range map[string]stats.Estimate{
		"the median": r.quantile(base, n, idle, 0.5), "the greatest": r.moment(base, n, idle, greatestOf),
		"against the fewest": r.quantileRatio(base, n, idle, 0.5), "against the base": r.quantileAgainst(base, other, n, idle, 0.5),
	} {
		if math.IsNaN(e.Value) || e.N >= whole.N {
			t.Errorf("%s is %v of %d, want one of less than %d", what, e.Value, e.N, whole.N)
		}
	}
	if note := r.idleTable(base).Note; !strings.Contains(note, "In 1 step no neighbour received a request") {
		t.Errorf("the table says %q", note)
	}
	last(base, 0).Open = Served{}
	if e := r.quantile(base, n, idle, 0.5); !math.IsNaN(e.Value) {
		t.Errorf("of a step in which nobody answered the median is %v", e.Value)
	}
}
