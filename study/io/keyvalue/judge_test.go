package keyvalue

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/claim"
	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/stats"
	"tare/study/io/place"
	"tare/study/kit/kittest"
	"tare/workload"
)

func verdictOf(t *testing.T, run record.Run) claim.Judgement {
	return kittest.Verdict(t, Judge, run, "")
}

func TestJudge(t *testing.T) {
	hostOnly := func(o *Options) { o.Networks = []platform.Network{platform.NetworkHost} }
	bridgeOnly := func(o *Options) { o.Networks = []platform.Network{platform.NetworkBridge} }
	oneBlock := func(o *Options) { o.Plan.Blocks = 1 }
	twelveBlocks := func(o *Options) { o.Plan.Blocks = 12 }
	twoCells := func(o *Options) { o.Commands, o.Payloads = []string{"get"}, []int{3} }
	one := cost{request: 0.5}
	for _, c := range []struct {
		name   string
		is     truth
		change func(*Options)
		want   claim.Verdict
		why    string
	}{
		// The paper is not at one with itself, so that nothing is confirmed outright.
		{"as S5 has it", truth{container: one}, nil, claim.Qualified, "one cost predicts every kind of request; not confirmed outright"},
		{"as S5 has it, without a bridge", truth{container: one}, hostOnly, claim.Qualified, "one cost predicts every kind of request; not confirmed outright"},
		{"the network's", truth{network: cost{batch: 3, request: 0.6}}, nil, claim.Qualified, "the network accounts for the loss, not storage"},
		{"the network's, for the most", truth{container: one, network: cost{request: 1.5}}, nil, claim.Qualified, "the network accounts for the loss, not storage, for most"},
		{"no loss at all", truth{}, nil, claim.Refuted, "does not grow"},
		{"a loss that does not grow", truth{container: cost{bare.batch / 10, bare.request / 10, bare.byte / 10}}, twelveBlocks, claim.Refuted, "does not grow"},
		{"shared by a batch", truth{container: cost{batch: 1, request: 0.3}}, hostOnly, claim.Qualified, "but one cost does not predict"},
		{"of bytes, not of requests", truth{container: cost{byte: 1e-3}}, nil, claim.Refuted, "does not"},
		{"the bridge alone, growing", truth{network: one}, bridgeOnly, claim.Qualified, "not separated"},
		{"the bridge alone, of nothing", truth{}, bridgeOnly, claim.Refuted, "not separated"},
		{"one block", truth{container: one}, oneBlock, claim.Inconclusive, "is undecided"},
		{"noise", truth{container: cost{request: 0.05}, noise: 0.1}, nil, claim.Inconclusive, "is undecided"},
		{"two cells", truth{container: one}, twoCells, claim.Inconclusive, "too few kinds of requests"},
	} {
		o := options()
		if c.change != nil {
			c.change(&o)
		}
		if c.is.noise == 0 {
			c.is.noise = 0.002
		}
		got := verdictOf(t, c.is.run(designed(t, o)))
		if got.Verdict != c.want || !strings.Contains(got.Rests, c.why) {
			t.Errorf("%s: %s (%s; %s), want %s, %q", c.name, got.Verdict, got.Ours, got.Rests, c.want, c.why)
		}
	}
	// The judge itself confirms, before the paper's inconsistency is counted.
	run := truth{container: one, noise: 0.002}.run(designed(t, options()))
	if j := Judge(run); len(j) != 1 || j[0].Verdict != claim.Confirmed {
		t.Errorf("%+v, want it confirmed", j)
	}
	layerOnly := options(func(o *Options) { o.Storages = []platform.Storage{platform.StorageLayer} })
	if got := verdictOf(t, truth{container: one}.run(designed(t, layerOnly))); got.Verdict != claim.NotYetRun {
		t.Errorf("neither volume nor bind mount: %s", got.Verdict)
	}
}

// Figures stand under the published names, where they are of the same thing.
func TestFiguresAreNamedAsPublished(t *testing.T) {
	run := truth{container: cost{request: 0.2}, noise: 0.002}.run(designed(t, options(func(o *Options) { o.IOThreads = []int{1, 8} })))
	j := Judge(run)
	if len(j) != 1 {
		t.Fatal("not judged")
	}
	c, err := claim.Lookup(judged)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"overhead, GET of 3 bytes, volume", "overhead, GET of 3 bytes, bind mount", "overhead, MSET of 1000 bytes", "requests a second with pipeline 10",
		"change in the data, GET of 3 bytes, pipeline 10, volume, 1 io-thread", "change in the data, GET of 3 bytes, pipeline 10, bind mount, 8 io-threads", "change in the data, GET of 3 bytes, no pipeline, volume, 1 io-thread",
	} {
		published := slices.ContainsFunc(c.Published, func(f claim.Figure) bool { return f.Name == name })
		i := slices.IndexFunc(j[0].Figures, func(f claim.Figure) bool { return f.Name == name })
		if !published || i < 0 {
			t.Errorf("%s: published %v, ours %v", name, published, i >= 0)
			continue
		}
		f := j[0].Figures[i]
		if !f.Interval() || f.Low > f.Value || f.High < f.Value {
			t.Errorf("%s: %+v", name, f)
		}
		if strings.HasPrefix(name, "change") != (f.Value < 0) {
			t.Errorf("%s is %g: a loss is an overhead above nothing and a change below", name, f.Value)
		}
	}
}

// elsewhere is a run as `tare import` makes one: one value a cell and thread count,
// sections' names for metrics, no word of a network.
func elsewhere(cost float64, repetitions int) record.Run {
	run := record.Run{ID: "import-1", Study: "import", Status: record.Imported, Started: time.Now(), Plan: record.Plan{Level: 0.95, SmallestEffect: 0.02, Imported: &record.Import{Format: "csv"}}}
	run.Finished = run.Started
	metrics := []workload.Metric{
		{Name: "GET", Unit: "requests/s", Better: workload.Higher, Primary: true},
		{Name: "MSET (10 keys)", Unit: "requests/s", Better: workload.Higher, Primary: true},
	}
	for _, payload := range []string{"3", "100", "1000"} {
		for _, pipeline := range []string{"1", "5", "10"} {
			for _, storage := range []string{place.Bare, "volume", "bind"} {
				factors := map[string]string{place.FactorOf: place.Redis, place.FactorStorage: storage, factorPayload: payload, factorPipeline: pipeline, factorIOThreads: "1"}
				group := place.Group(place.Redis, place.Cell{Factor: "payload", Level: payload}, place.Cell{Factor: "pipeline", Level: pipeline})
				c := record.Condition{ID: group + "@" + storage, Label: storage, Workload: group, Factors: factors, Baseline: storage == place.Bare, Metrics: metrics}
				run.Conditions = append(run.Conditions, c)
				for block := 1; block <= repetitions; block++ {
					trial := record.Trial{ID: int64(len(run.Trials) + 1), Condition: c.ID, Workload: group, Block: block, Attempt: 1, Started: run.Started}
					for i, m := range metrics {
						of := bare.of(float64(place.Number(c, factorPipeline)), float64(place.Number(c, factorPayload)*values(commandOf(m.Name))))
						of *= 1 + 0.002*math.Sin(float64(7*block+5*len(run.Conditions)+3*i))
						if storage != place.Bare {
							of += cost
						}
						trial.Samples = append(trial.Samples, record.Sample{Metric: m.Name, Value: perSecond / of})
					}
					run.Trials = append(run.Trials, trial)
				}
			}
		}
	}
	return run
}

// paired is a run whose importer says that its repetitions are pairs.
func paired(run record.Run) record.Run {
	imported := *run.Plan.Imported
	imported.Paired = true
	run.Plan.Imported = &imported
	return run
}

// Where nothing pairs repetitions, what a place adds is the difference of two samples:
// no spread that both have is taken out of it, and nothing is computed that takes
// blocks.
func TestUnpairedCosts(t *testing.T) {
	run := elsewhere(0.5, 5)
	// What both have in a repetition, pairs take out and two samples do not.
	for i := range run.Trials {
		for j := range run.Trials[i].Samples {
			run.Trials[i].Samples[j].Value *= 1 + 0.05*float64(run.Trials[i].Block%3)
		}
	}
	apart, pairs := read(run), read(paired(run))
	c := apart.reference()[0]
	by := map[bool]stats.Estimate{false: apart.cost(c, c.places[0]), true: pairs.cost(c, c.places[0])}
	want := stats.UnpairedDifference(overhead.InOrder(apart.times(c, c.base)), overhead.InOrder(apart.times(c, c.places[0])), 0.95)
	if by[false].Method != string(stats.MethodWelch) || by[false].Interval != want.Interval || by[true].Method == string(stats.MethodWelch) {
		t.Errorf("apart %+v, want %+v; in pairs %+v", by[false], want, by[true])
	}
	if wide, narrow := by[false].Interval, by[true].Interval; wide.High-wide.Low <= narrow.High-narrow.Low {
		t.Errorf("apart %v is no wider than in pairs %v", wide, narrow)
	}
	if all := apart.models(); len(all) != 0 {
		t.Errorf("%d models of what nothing pairs", len(all))
	}
	if text := fmt.Sprint(Parts(run)); !strings.Contains(text, "no model of the cost is fitted or tested") || strings.Contains(text, "Predicted and measured") {
		t.Errorf("the page does not say that no model is tested, or has one: %s", text)
	}
	// Measured here, with both networks, all is separated; imported, nothing is.
	here := truth{container: cost{request: 0.3}, network: cost{request: 0.5}, cpu: true, noise: 0.002}.run(designed(t, options()))
	if len(read(here).separate("docker")) == 0 {
		t.Fatal("nothing is separated")
	}
	here.Plan.Imported = &record.Import{Format: "benchfmt"}
	there := read(here)
	if all := there.separate("docker"); len(all) != 0 {
		t.Errorf("%d cells of what nothing pairs are separated", len(all))
	}
	c = there.reference()[0]
	if e := there.difference(there.cpu(c, c.base), there.cpu(c, c.places[0])); e.Method != string(stats.MethodWelch) || !e.Known() {
		t.Errorf("CPU time: %+v", e)
	}
}

func TestJudgeWhatWasMeasuredElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		run  record.Run
		want claim.Verdict
		why  string
	}{
		"one run a cell":        {elsewhere(0.5, 1), claim.Inconclusive, "is undecided"},
		"threads as repetition": {elsewhere(0.5, 5), claim.Inconclusive, "the loss grows with the rate; whether one cost explains it is not tested, as the repetitions are not paired"},
		"and no loss":           {elsewhere(0, 5), claim.Refuted, "does not grow"},
		"said to be pairs":      {paired(elsewhere(0.5, 5)), claim.Qualified, "the run does not name its network"},
	} {
		got := verdictOf(t, c.run)
		if got.Verdict != c.want || !strings.Contains(got.Rests, c.why) {
			t.Errorf("%s: %s (%s; %s), want %s", name, got.Verdict, got.Ours, got.Rests, c.want)
		}
		if !slices.ContainsFunc(got.Figures, func(f claim.Figure) bool { return f.Name == "overhead, MSET of 1000 bytes" }) {
			t.Errorf("%s: no figure of MSET among %v", name, got.Figures)
		}
		if parts := Parts(c.run); len(parts) == 0 {
			t.Errorf("%s: an empty page", name)
		}
		if text := fmt.Sprint(Parts(c.run)); strings.Contains(text, "NaN") {
			t.Errorf("%s: the page has a figure that is none", name)
		}
	}
}

// The rule by itself, of places as they may be found.
func TestVerdict(t *testing.T) {
	up, down, noise := growth{grows: claim.True, oneCost: claim.True, spot: spot{network: onHost}}, growth{flat: claim.True, oneCost: claim.True, spot: spot{network: onHost}}, growth{spot: spot{network: onHost}}
	unlike, unsure := up, up
	unlike.oneCost = claim.False
	unsure.oneCost = claim.Open
	worse, exception := noise, unlike
	worse.against, worse.worse = claim.True, cell{command: "lrange_100", payload: 3, pipeline: 10}
	exception.against, exception.worse = claim.True, worse.worse
	for _, c := range []struct {
		name          string
		host, bridged side
		want          claim.Verdict
		why           string
	}{
		{"both grow by one cost", side{up, up}, nil, claim.Confirmed, "one cost predicts"},
		{"on both networks", side{up, up}, side{up}, claim.Confirmed, "one cost predicts"},
		{"one storage alone", side{up, down}, nil, claim.Inconclusive, "is undecided"},
		{"by several costs", side{up, unlike}, nil, claim.Qualified, "one cost does not predict"},
		{"with an exception", side{exception}, nil, claim.Qualified, "LRANGE_100 of 3 B, pipeline 10 loses"},
		{"a cost that is not known", side{up, unsure}, nil, claim.Inconclusive, "whether one cost explains it"},
		{"nothing grows", side{down, down}, side{down}, claim.Refuted, "does not grow"},
		{"the network alone", side{down, down}, side{up, up}, claim.Qualified, "the network accounts for the loss"},
		{"the network perhaps", side{down}, side{noise}, claim.Inconclusive, "is undecided"},
		{"by the kind, not the rate", side{worse, worse}, nil, claim.Refuted, "does not follow the rate: LRANGE_100"},
		{"noise", side{noise}, side{noise}, claim.Inconclusive, "is undecided"},
		{"no host's network, noise", nil, side{noise}, claim.Inconclusive, "not separated"},
	} {
		got, why := reading{}.verdict(c.host, c.bridged)
		if got != c.want || !strings.Contains(why, c.why) {
			t.Errorf("%s: %s (%s), want %s, %q", c.name, got, why, c.want, c.why)
		}
	}
}
