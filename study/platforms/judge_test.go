package platforms

import (
	"math"
	"strings"
	"testing"

	"tare/claim"
	"tare/record"
	"tare/report"
	"tare/study/kit/kittest"
)

// verdictOn settles a run's judgements, and gives that of a claim.
func verdictOn(t *testing.T, run record.Run, id string) claim.Judgement {
	return kittest.Verdict(t, Judge, run, id)
}

// judged is a row: a world on a design, and what comes of a claim.
type judged struct {
	design []func(*Options)
	world  world
	want   claim.Verdict
	says   string
}

func judgeAll(t *testing.T, id string, rows map[string]judged, watched ...func(record.Condition) map[string]float64) {
	t.Helper()
	for name, row := range rows {
		got := verdictOn(t, measured(designed(t, options(row.design...)), row.world, watched...), id)
		if got.Verdict != row.want || !strings.Contains(got.Rests+"; "+got.NotRepresentative, row.says) {
			t.Errorf("%s, %s: %s (ours: %s; rests: %s), want %s and %q",
				id, name, got.Verdict, got.Ours, got.Rests, row.want, row.says)
		}
	}
}

var (
	kvm = onPlatforms("docker", "vm:kvm/bare", "vm:kvm/oci:runc")
	tcg = onPlatforms("docker", "vm:tcg/bare", "vm:tcg/oci:runc")
	cns = onPlatforms("docker")
)

// As S2 found it: machines cost twice, pinned containers nothing, vanilla ones the more the
// smaller they are.
func published(c record.Condition) float64 {
	share := number(c, factorSize) / number(c, factorHost)
	switch KindOf(c.Platform) {
	case CN:
		if preset(c) == Vanilla {
			return math.Exp(-0.12 * math.Log(share))
		}
		return 1.005
	case VM:
		return 2.2
	case VMCN:
		return 2.5
	}
	return 1
}

func TestComputing(t *testing.T) {
	// The paper contradicts itself, so that nothing is confirmed outright.
	judgeAll(t, "S2.1", map[string]judged{
		"as published":            {[]func(*Options){kvm}, published, claim.Qualified, "one model of the guest's CPU"},
		"sizes as by default":     {[]func(*Options){kvm, ofSizes(0.5, 1, 2), withCPUs(2)}, published, claim.Qualified, "one model of the guest's CPU"},
		"two models of CPU":       {[]func(*Options){onPlatforms("docker", "vm:kvm/bare", "vm:kvm+cpu=default/bare")}, published, claim.Qualified, "CPU of model default: 2"},
		"vanilla is pinned":       {[]func(*Options){kvm, ofSizes(0.5, 2), withCPUs(2)}, published, claim.Inconclusive, "the same CPUs at every size"},
		"vanilla alone":           {[]func(*Options){kvm, func(o *Options) { o.Presets = []string{Vanilla} }}, published, claim.Inconclusive, "a platform is missing at some size"},
		"machines cost little":    {[]func(*Options){kvm}, world(published).by(0.5, isKind(VM)), claim.Refuted, "cost lies below 2 times"},
		"pinning a machine gains": {[]func(*Options){kvm}, world(published).by(0.9, isKind(VM), isPreset(Pinned)), claim.Refuted, "gains more than 5 %"},
		"pinning a container":     {[]func(*Options){kvm}, world(published).by(1.6, isKind(CN), isPreset(Pinned)), claim.Inconclusive, "not significant"},
		"emulated":                {[]func(*Options){tcg}, published, claim.Inconclusive, "emulated by tcg"},
		"emulated, and little":    {[]func(*Options){tcg}, alike, claim.Inconclusive, "on a host with KVM"},
		"containers alone":        {[]func(*Options){cns}, published, claim.Inconclusive, "no virtual machine ran"},
		"another program":         {[]func(*Options){kvm, ofWorkloads("mpi-search")}, published, claim.NotYetRun, ""},
	})
	run := measured(designed(t, options(kvm)), published)
	j := verdictOn(t, run, "S2.1")
	least := claim.Figure{}
	for _, f := range j.Figures {
		if f.Name == "VM over BM" {
			least = f
		}
	}
	if math.Abs(least.Value-2.2) > 0.05 || !least.Interval() {
		t.Errorf("the machine's least is %+v, want 2.2", least)
	}
	one := options(kvm)
	one.Plan.Blocks = 1
	if got := verdictOn(t, measured(designed(t, one), published), "S2.1"); got.Verdict != claim.Inconclusive {
		t.Errorf("one block decided: %s (%s)", got.Verdict, got.Rests)
	}
}

func TestCommunicating(t *testing.T) {
	mpi := ofWorkloads("mpi-search", "mpi-primes")
	paper := func(c record.Condition) float64 {
		switch {
		case KindOf(c.Platform) == CN:
			return 1.5
		case KindOf(c.Platform) == VMCN:
			return 1.3
		case KindOf(c.Platform) == VM && number(c, factorSize) < 8:
			return 1.1
		}
		return 1
	}
	judgeAll(t, "S2.2", map[string]judged{
		"as published":        {[]func(*Options){kvm, mpi}, paper, claim.Confirmed, ""},
		"containers are less": {[]func(*Options){kvm, mpi}, world(paper).by(2, isKind(VM)), claim.Refuted, "than the virtual machine at 8 of 8 sizes"},
		"than those inside":   {[]func(*Options){kvm, mpi}, world(paper).by(1.3, isKind(VMCN)), claim.Refuted, "than those in the virtual machine at 8 of 8 sizes"},
		"as much as inside":   {[]func(*Options){kvm, mpi}, world(paper).by(1.5/1.3, isKind(VMCN)), claim.Inconclusive, "0 of 8 sizes"},
		"not on a par":        {[]func(*Options){kvm, mpi}, world(paper).by(1.1, isKind(VM)), claim.Inconclusive, "not equivalent to bare metal within 5 %"},
		"small sizes":         {[]func(*Options){kvm, mpi, ofSizes(1, 2)}, paper, claim.Inconclusive, "8 CPUs were not measured"},
		"a small host":        {[]func(*Options){kvm, mpi, ofSizes(1, 2), withCPUs(4)}, paper, claim.Inconclusive, "this host has 4 CPUs"},
		"emulated":            {[]func(*Options){tcg, mpi}, paper, claim.Inconclusive, "emulated by tcg"},
		"containers alone":    {[]func(*Options){cns, mpi}, paper, claim.Inconclusive, "no virtual machine"},
	})
}

func TestWeb(t *testing.T) {
	web := ofWorkloads("wordpress")
	paper := func(c record.Condition) float64 {
		switch {
		case KindOf(c.Platform) == CN && preset(c) == Vanilla:
			return 1 + 2/number(c, factorSize)
		case KindOf(c.Platform) == CN:
			return 1.02
		case KindOf(c.Platform) == VM && preset(c) == Vanilla:
			return 1.3
		case KindOf(c.Platform) == VM:
			return 1.25
		case KindOf(c.Platform) == VMCN:
			return 1.2
		}
		return 1
	}
	judgeAll(t, "S2.3", map[string]judged{
		"as published":           {[]func(*Options){kvm, web}, paper, claim.Qualified, "not at one with itself"},
		"more inside a machine":  {[]func(*Options){kvm, web}, world(paper).by(1.1, isKind(VMCN)), claim.Qualified, "does not cost significantly less than the machine"},
		"pinning leaves it":      {[]func(*Options){kvm, web}, world(paper).by(1.04, isKind(VM), isPreset(Pinned)), claim.Qualified, "a pinned virtual machine does not cost"},
		"containers alone":       {[]func(*Options){cns, web}, paper, claim.Qualified, "no virtual machine ran"},
		"emulated":               {[]func(*Options){tcg, web}, paper, claim.Qualified, "machines were emulated"},
		"2 of 2 for a service":   {[]func(*Options){cns, web, ofSizes(1, 2), withCPUs(3)}, alike, claim.Inconclusive, "not significant"},
		"vanilla costs nothing":  {[]func(*Options){cns, web}, alike, claim.Refuted, "2 CPUs lies below 1.2"},
		"pinned is not cheapest": {[]func(*Options){kvm, web}, world(paper).by(1.4, isKind(CN), isPreset(Pinned)), claim.Refuted, "more costly than another platform"},
		"does not fall": {[]func(*Options){cns, web}, func(c record.Condition) float64 {
			if KindOf(c.Platform) == CN && preset(c) == Vanilla {
				return 2
			}
			return 1
		}, claim.Qualified, "does not fall significantly with size"},
		"one CPU is left": {[]func(*Options){cns, web, ofSizes(1), withCPUs(2)}, paper, claim.Inconclusive, "on a larger host"},
		"vanilla alone":   {[]func(*Options){cns, web, func(o *Options) { o.Presets = []string{Vanilla} }}, paper, claim.Inconclusive, "only one was measured"},
	})
}

func TestDatabase(t *testing.T) {
	db := ofWorkloads("cassandra")
	paper := func(c record.Condition) float64 {
		switch {
		case KindOf(c.Platform) == CN && preset(c) == Vanilla:
			return 1 + 4/number(c, factorSize)
		case number(c, factorSize) >= 32 && KindOf(c.Platform) != BM:
			return map[Kind]float64{CN: 1, VM: 1.3, VMCN: 1.3}[KindOf(c.Platform)]
		case KindOf(c.Platform) == CN:
			return 0.8
		case preset(c) == Pinned:
			return 0.9
		case KindOf(c.Platform) != BM:
			return 1.3
		}
		return 1
	}
	// A vanilla container costs less the larger it is, and nothing from 32 cores.
	wide := func(c record.Condition) float64 {
		if KindOf(c.Platform) == CN && preset(c) == Vanilla && number(c, factorSize) >= 32 {
			return 1
		}
		return paper(c) * map[bool]float64{true: 2, false: 1}[KindOf(c.Platform) == CN && preset(c) == Vanilla]
	}
	large := func(o *Options) {
		ofSizes(4, 8, 16, 32)(o)
		withCPUs(64)(o)
	}
	from32 := func(c record.Condition) bool { return number(c, factorSize) >= 32 }
	judgeAll(t, "S2.4", map[string]judged{
		"as published":       {[]func(*Options){kvm, db, large}, wide, claim.Qualified, "not at one with itself"},
		"pinning still does": {[]func(*Options){kvm, db, large}, world(wide).by(0.8, isPreset(Pinned), isKind(CN), from32), claim.Qualified, "from 32 CPUs pinning is not equivalent"},
		"machines win":       {[]func(*Options){kvm, db, large}, world(wide).by(0.6, isKind(VM), from32), claim.Qualified, "a virtual machine does not lose"},
		"machines gain none": {[]func(*Options){kvm, db, large}, world(wide).by(1.2, isKind(VMCN), isPreset(Pinned)), claim.Qualified, "do not lie between"},
		"no machine":         {[]func(*Options){cns, db, large}, wide, claim.Qualified, "no virtual machine ran"},
		"containers alone":   {[]func(*Options){cns, db}, paper, claim.Qualified, "only sizes up to 8 CPUs were measured, of 16"},
		"pinned loses":       {[]func(*Options){cns, db}, world(paper).by(1.5, isPreset(Pinned)), claim.Refuted, "significantly more than bare metal"},
		"vanilla is cheap":   {[]func(*Options){cns, db}, world(paper).by(0.2, isPreset(Vanilla)), claim.Refuted, "lies below 1.2"},
		"in between":         {[]func(*Options){cns, db}, world(paper).by(0.5, isPreset(Vanilla)), claim.Inconclusive, "intervals are inconclusive"},
		"one CPU is left":    {[]func(*Options){cns, db, ofSizes(1), withCPUs(2)}, paper, claim.Inconclusive, "on a larger host"},
	})
}

func TestParts(t *testing.T) {
	three := ofWorkloads("ffmpeg", "wordpress", "cassandra")
	judgeAll(t, "S2.5", map[string]judged{
		"as published":     {[]func(*Options){kvm}, published, claim.Qualified, "not at one with itself"},
		"containers alone": {[]func(*Options){cns}, published, claim.Qualified, "no"},
		"pinned has it too": {[]func(*Options){cns, three}, func(c record.Condition) float64 {
			return published(record.Condition{Platform: c.Platform, Factors: map[string]string{factorPreset: Vanilla, factorSize: c.Factors[factorSize], factorHost: c.Factors[factorHost]}})
		}, claim.Refuted, "pinned containers have a cost of size"},
		// What has too few sizes for a term is no part of every workload, and is named.
		"one of two":       {[]func(*Options){cns, ofWorkloads("ffmpeg", "wordpress"), ofSizes(0.5, 1, 1.5, 2), withCPUs(2)}, published, claim.Qualified, "1 of 2 workloads: ffmpeg; too few sizes in wordpress"},
		"and costless":     {[]func(*Options){cns, ofWorkloads("ffmpeg", "wordpress"), ofSizes(0.5, 1, 1.5, 2), withCPUs(2)}, alike, claim.Inconclusive, "in the fitted workloads"},
		"three sizes":      {[]func(*Options){cns, ofSizes(0.5, 1, 2), withCPUs(2)}, published, claim.Inconclusive, "0.5,1,1.5,2"},
		"quotas are sizes": {[]func(*Options){cns, ofSizes(0.5, 1, 1.5, 2), withCPUs(2)}, published, claim.Qualified, "too few whole sizes for a size term of pinned"},
		// Few workloads refute nothing of all.
		"and where they do not": {[]func(*Options){cns, ofSizes(0.5, 1, 1.5, 2), withCPUs(2)}, alike, claim.Inconclusive, "in the fitted workloads"},
	})
	if got := verdictOn(t, drawn(designed(t, options(cns, three, ofSizes(2, 4, 6, 8))), alike, 0.0005, 1), "S2.5"); got.Verdict != claim.Refuted ||
		!strings.Contains(got.Rests, "significantly below 2 %") {
		t.Errorf("nothing costs: %s (%s; %s)", got.Verdict, got.Ours, got.Rests)
	}
	// An interval that merely holds no effect is no equivalence: where trials spread, nothing is shown.
	d := designed(t, options(kvm))
	vague := func(c record.Condition) float64 {
		v := published(c)
		if KindOf(c.Platform) == CN && preset(c) == Vanilla {
			return v * v
		}
		return v
	}
	if got := verdictOn(t, drawn(d, vague, 0.05, 1), "S2.5"); got.Verdict != claim.Inconclusive {
		t.Errorf("wide intervals: %s (%s; %s)", got.Verdict, got.Ours, got.Rests)
	}
}

// Where no platform costs anything and trials spread as they do on a shared host, nothing is
// confirmed that says that one costs more than another.
func TestNoiseConfirmsNothing(t *testing.T) {
	for id, c := range map[string]struct {
		design []func(*Options)
		judge  func(reading) (claim.Judgement, bool)
	}{
		"S2.2": {[]func(*Options){kvm, ofWorkloads("mpi-search"), ofSizes(2, 8)}, reading.judgeCommunicating},
		"S2.3": {[]func(*Options){kvm, ofWorkloads("wordpress"), ofSizes(2, 4)}, reading.judgeWeb},
		"S2.4": {[]func(*Options){kvm, ofWorkloads("cassandra"), ofSizes(8, 32), withCPUs(64)}, reading.judgeDatabase},
		"S2.5": {[]func(*Options){onPlatforms("docker", "vm:kvm/bare")}, reading.judgeParts},
		"S2.8": {[]func(*Options){cns, ofSizes(2), func(o *Options) { o.Tasks = []int{1, 30} }}, reading.judgeTasks},
	} {
		t.Run(id, func(t *testing.T) {
			d := designed(t, options(c.design...))
			kittest.NoiseConfirmsNothing(t, id, func(seed uint64) (claim.Judgement, bool) {
				return c.judge(read(drawn(d, alike, 0.05, seed)))
			})
		})
	}
}

func TestHosts(t *testing.T) {
	plugged := func(o *Options) { o.Hosts, o.Disruptive = []int{2, 16}, true }
	machines := func(o *Options) { o.Hosts = []int{2, 4} }
	larger := world(alike).by(1.2, isKind(CN), hostHas(16))
	judgeAll(t, "S2.6", map[string]judged{
		"as published":     {[]func(*Options){cns, ofSizes(2), plugged}, larger, claim.Qualified, "not at one with itself"},
		"alike":            {[]func(*Options){cns, ofSizes(2), plugged}, alike, claim.Refuted, "0.12"},
		"pinned is better": {[]func(*Options){cns, ofSizes(2), plugged}, larger.by(0.85, isPreset(Pinned)), claim.Qualified, "pinning makes a significant difference"},
		"less":             {[]func(*Options){cns, ofSizes(2), plugged}, larger.by(0.7, isKind(CN), hostHas(16)), claim.Inconclusive, "intervals are inconclusive"},
		"emulated":         {[]func(*Options){onPlatforms("vm:tcg/oci:runc"), ofSizes(2), machines}, world(alike).by(1.3, isKind(VMCN), hostHas(4)), claim.Inconclusive, "emulated by tcg"},
		"the matrix alone": {[]func(*Options){cns}, published, claim.NotYetRun, ""},
	})
	// Where all of the host is slower, the container has lost nothing.
	all := world(alike).by(1.5, hostHas(16))
	if got := verdictOn(t, measured(designed(t, options(cns, ofSizes(2), plugged)), all), "S2.6"); got.Verdict != claim.Refuted {
		t.Errorf("a slower host: %s (%s)", got.Verdict, got.Ours)
	}
}

func TestShares(t *testing.T) {
	kinds := ofWorkloads("ffmpeg", "wordpress", "cassandra")
	sizes := ofSizes(1, 2, 4, 8)
	// A cost that falls with the logarithm of the share, and is 10 % at these.
	falling := func(shares ...float64) world {
		return func(c record.Condition) float64 {
			if KindOf(c.Platform) != CN || preset(c) != Vanilla {
				return 1
			}
			for i, name := range []string{"ffmpeg", "wordpress", "cassandra"} {
				if strings.HasPrefix(c.Workload, name+" ") {
					return math.Exp(math.Log(1.1) / math.Log(1/shares[i]) * math.Log(1/chr(c)))
				}
			}
			return 1
		}
	}
	judgeAll(t, "S2.7", map[string]judged{
		"in other bands": {[]func(*Options){cns, kinds, sizes}, falling(0.2, 0.4, 0.7), claim.Qualified, "whether each lies in its band is unknown"},
		// In each band, as published: a span between sizes is no proof of it.
		"in their bands": {[]func(*Options){cns, kinds, sizes}, falling(0.1, 0.2, 0.4), claim.Qualified, "whether each lies in its band is unknown"},
		"all alike":      {[]func(*Options){cns, kinds, sizes}, falling(0.2, 0.2, 0.2), claim.Inconclusive, "the order is unknown"},
		// By the term the order may be anything where all are costless; nothing was measured against it.
		"nothing costs": {[]func(*Options){cns, kinds, sizes}, alike, claim.Inconclusive, "the order is unknown"},
		"the other way": {[]func(*Options){cns, kinds, sizes}, falling(0.7, 0.4, 0.2), claim.Refuted, "order differs"},
		"one kind":      {[]func(*Options){cns, sizes}, falling(0.1, 0.2, 0.4), claim.Inconclusive, "1 of 3 kinds"},
		"a small host":  {[]func(*Options){cns, kinds, ofSizes(1, 2), withCPUs(4)}, alike, claim.Inconclusive, "this host has 4 CPUs"},
	})
}

func TestTasks(t *testing.T) {
	tasks := func(o *Options) { o.Tasks = []int{1, 30} }
	many := world(alike).by(1.1, isKind(CN)).by(1.1, isKind(CN), tasksAre(30))
	judgeAll(t, "S2.8", map[string]judged{
		"as published":         {[]func(*Options){cns, ofSizes(2), tasks}, many, claim.Confirmed, "cut in 30"},
		"as much":              {[]func(*Options){cns, ofSizes(2), tasks}, world(alike).by(1.1, isKind(CN)), claim.Refuted, ""},
		"all is slower by it":  {[]func(*Options){cns, ofSizes(2), tasks}, world(alike).by(3, tasksAre(30)), claim.Refuted, ""},
		"all of the host":      {[]func(*Options){cns, ofSizes(2), withCPUs(2), tasks}, many, claim.Inconclusive, "has all CPUs of the host"},
		"by two points":        {[]func(*Options){cns, ofSizes(2), tasks}, world(alike).by(1.02, isKind(CN), tasksAre(30)), claim.Inconclusive, "inconclusive"},
		"and of a matrix none": {[]func(*Options){cns}, alike, claim.NotYetRun, ""},
	})
}

// watchedAs gives covariates by preset: CPU seconds, migrations, and interrupts a request.
func watchedAs(vanilla, pinned map[string]float64) func(record.Condition) map[string]float64 {
	return func(c record.Condition) map[string]float64 {
		if preset(c) == Vanilla {
			return vanilla
		}
		return pinned
	}
}

func TestCauses(t *testing.T) {
	watch := func(o *Options) { o.Causes = true }
	slow := world(alike).by(1.2, isKind(CN), isPreset(Vanilla))
	pinned := map[string]float64{covCPU: 1, covMigrations: 5}
	for name, c := range map[string]struct {
		world   world
		vanilla map[string]float64
		want    claim.Verdict
		says    string
	}{
		"in CPU time":       {slow, map[string]float64{covCPU: 1.18, covMigrations: 500}, claim.Confirmed, "cold caches"},
		"waited for":        {slow, map[string]float64{covCPU: 1.03, covMigrations: 500}, claim.Refuted, "most of it was spent waiting"},
		"without any moves": {slow, map[string]float64{covCPU: 1.18, covMigrations: 5}, claim.Inconclusive, "inconclusive"},
		"nothing is lost":   {alike, map[string]float64{covCPU: 1, covMigrations: 500}, claim.Inconclusive, "no significantly longer"},
	} {
		run := measured(designed(t, options(cns, ofSizes(1), watch)), c.world, watchedAs(c.vanilla, pinned))
		got := verdictOn(t, run, "S2.9")
		if got.Verdict != c.want || !strings.Contains(got.Rests, c.says) {
			t.Errorf("%s: %s (%s; %s), want %s and %q", name, got.Verdict, got.Ours, got.Rests, c.want, c.says)
		}
	}
	// In a block that was disturbed vanilla is the faster, and takes less CPU time: the others decide
	// all the same.
	run := measured(designed(t, options(cns, ofSizes(1), watch)), slow, watchedAs(map[string]float64{covCPU: 1.18, covMigrations: 500}, pinned))
	for i, trial := range run.Trials {
		if strings.HasSuffix(trial.Condition, "causes@docker vanilla") {
			by := 0.04
			if trial.Block == 3 {
				by = -0.28
			}
			run.Trials[i].Samples[0].Value += by
			trial.Covariates[covCPU] += 0.95 * by
		}
	}
	if all := read(run).explain("ffmpeg"); len(all) != 1 || !all[0].part.Known() {
		t.Errorf("blocks that differ in sign have no part that is explained: %+v", all)
	}
	if got := verdictOn(t, run, "S2.9"); got.Verdict != claim.Confirmed {
		t.Errorf("noise that crosses zero: %s (%s; %s)", got.Verdict, got.Ours, got.Rests)
	}
	judgeAll(t, "S2.9", map[string]judged{
		"where they coincide": {[]func(*Options){cns, ofSizes(2), withCPUs(2), watch}, slow, claim.Inconclusive, "no size with the probe on"},
		"unwatched":           {[]func(*Options){cns}, slow, claim.NotYetRun, ""},
	})
}

func TestInterrupts(t *testing.T) {
	watch := func(o *Options) { o.Causes = true }
	web := ofWorkloads("wordpress")
	pinned := map[string]float64{covHard: 1000, covSoft: 3000, covElsewhere: 100}
	for name, c := range map[string]struct {
		sizes   func(*Options)
		vanilla func(record.Condition) map[string]float64
		want    claim.Verdict
		says    string
	}{
		"more, the smaller": {ofSizes(1, 2), func(c record.Condition) map[string]float64 {
			return map[string]float64{covHard: 1000, covSoft: 3000, covElsewhere: 4000 / number(c, factorSize)}
		}, claim.Qualified, "start and warm-up"},
		"one size":         {ofSizes(1), watchedAs(map[string]float64{covHard: 1000, covSoft: 3000, covElsewhere: 4000}, pinned), claim.Qualified, "one size"},
		"few interrupts":   {ofSizes(1, 2), watchedAs(map[string]float64{covHard: 100, covSoft: 300, covElsewhere: 400}, pinned), claim.Inconclusive, "not significantly above 3"},
		"no more than it":  {ofSizes(1, 2), watchedAs(map[string]float64{covHard: 1000, covSoft: 3000, covElsewhere: 10}, pinned), claim.Refuted, "does not change CPUs more often"},
		"without a figure": {ofSizes(1), watchedAs(nil, nil), claim.Inconclusive, "no size with the probe on"},
	} {
		run := measured(designed(t, options(cns, web, c.sizes, watch)), alike, func(cond record.Condition) map[string]float64 {
			if preset(cond) != Vanilla {
				return pinned
			}
			return c.vanilla(cond)
		})
		got := verdictOn(t, run, "S2.9b")
		if got.Verdict != c.want || !strings.Contains(got.Rests, c.says) {
			t.Errorf("%s: %s (%s; %s), want %s and %q", name, got.Verdict, got.Ours, got.Rests, c.want, c.says)
		}
	}
}

func TestRules(t *testing.T) {
	all := ofWorkloads("ffmpeg", "wordpress", "cassandra")
	// At 15 of 16 CPUs, all that a load leaves a service, also a vanilla machine keeps off the load's.
	sizes := ofSizes(1, 2, 4, 8, 15)
	paper := func(c record.Condition) float64 {
		v := published(c)
		if KindOf(c.Platform) == CN && preset(c) == Vanilla { // the more, the more it does input and output
			name, _, _ := strings.Cut(c.Workload, " ")
			v = math.Pow(v, map[string]float64{"ffmpeg": 0.5, "wordpress": 1, "cassandra": 2.5}[name])
		}
		if KindOf(c.Platform) == VMCN && c.Factors[factorService] == "yes" {
			return 0.99
		}
		if KindOf(c.Platform) == CN && preset(c) == Pinned {
			return 0.9 // so that it is the cheapest also where a quota costs next to nothing
		}
		return v
	}
	contrary := func(c record.Condition) float64 {
		switch {
		case KindOf(c.Platform) == CN && preset(c) == Pinned:
			return 1.2
		case KindOf(c.Platform) == VM && preset(c) == Pinned:
			return 1.3
		case KindOf(c.Platform) == VM || KindOf(c.Platform) == VMCN:
			return 1.5
		}
		return 1
	}
	judgeAll(t, "S2.10", map[string]judged{
		"as published":     {[]func(*Options){kvm, all, sizes}, paper, claim.Confirmed, "5 of 5 rules could be judged"},
		"the contrary":     {[]func(*Options){kvm, all, sizes}, contrary, claim.Refuted, ""},
		"containers alone": {[]func(*Options){cns}, published, claim.Inconclusive, "2 of 5 rules"},
		"emulated":         {[]func(*Options){tcg}, published, claim.Inconclusive, "2 of 5 rules"},
	})
	rules := func(w world) string {
		var names []string
		for _, a := range Advice(measured(designed(t, options(kvm, all, sizes)), w)) {
			names = append(names, a.Rule)
		}
		return strings.Join(names, " ")
	}
	if got, want := rules(paper), "no-small-vanilla-containers pinned-containers-for-computing no-pinned-machines-for-computing containers-in-machines-for-io"; !strings.HasPrefix(got, want) {
		t.Errorf("advice as published: %s", got)
	}
	if got, want := rules(contrary), "not-no-small-vanilla-containers not-pinned-containers-for-computing not-no-pinned-machines-for-computing not-containers-in-machines-for-io"; !strings.HasPrefix(got, want) {
		t.Errorf("advice to the contrary: %s", got)
	}
}

func TestBlocksText(t *testing.T) {
	for n, want := range map[int]string{1: "1 block", 2: "2 blocks"} {
		if got := report.Counted(n, "block"); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}
