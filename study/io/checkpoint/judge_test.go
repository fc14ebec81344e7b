package checkpoint

import (
	"strings"
	"testing"

	"tare/claim"
	"tare/record"
	"tare/study/io/place"
)

func verdictOf(t *testing.T, run record.Run) claim.Judgement {
	t.Helper()
	settled, err := claim.Settle(run, Judge(run))
	if err != nil {
		t.Fatal(err)
	}
	switch len(settled) {
	case 0:
		return claim.Judgement{Verdict: claim.NotYetRun}
	case 1:
		return settled[0]
	}
	t.Fatalf("%d judgements", len(settled))
	return claim.Judgement{}
}

// rated is the write and read rate of a place, in percent of bare metal's.
type rated struct{ write, read float64 }

// cellWith adds a cell with rates in percent of bare metal's 500 and 800 MB/s.
func (m *made) cellWith(c cell, volume, bind rated) {
	m.add(c, onMetal, 500, 800)
	m.add(c, inVolume, 5*volume.write, 8*volume.read)
	m.add(c, inBind, 5*bind.write, 8*bind.read)
	m.floor(c, 505, 810)
}

var (
	asPublished = rated{96, 92} // a bind mount as S5 has it
	slight      = rated{99, 98} // a volume
	asBare      = rated{100, 100}
	terrible    = rated{60, 50}
	atEdge      = rated{90, 90} // across the 10 % that are the most
)

func TestVerdicts(t *testing.T) {
	type of struct{ volume, bind rated }
	for name, c := range map[string]struct {
		kept, dropped *of
		want          claim.Verdict
		rests         string
	}{
		// The paper contradicts itself, so that nothing is confirmed outright.
		"as published, cached and not":      {&of{slight, asPublished}, &of{slight, asPublished}, claim.Qualified, "not confirmed outright"},
		"as published, cached alone":        {&of{slight, asPublished}, nil, claim.Qualified, "from the page cache alone"},
		"as published, from the disk alone": {nil, &of{slight, asPublished}, claim.Qualified, "from the disk alone"},
		"cached as published, else alike":   {&of{slight, asPublished}, &of{asBare, asBare}, claim.Qualified, "from the page cache alone"},
		"alike":                             {&of{asBare, asBare}, &of{asBare, asBare}, claim.Refuted, "equivalent within 2 %"},
		"alike, cached alone":               {&of{slight, slight}, nil, claim.Refuted, "from the disk nothing was measured"},
		"alike, the disk undecided":         {&of{asBare, asBare}, &of{slight, atEdge}, claim.Refuted, "from the disk it is undecided"},
		"far more than a few percent":       {&of{slight, terrible}, &of{slight, terrible}, claim.Refuted, "a write loses more than 10 %"},
		"the volume loses more":             {&of{asPublished, slight}, &of{asPublished, slight}, claim.Refuted, "loses more through the volume"},
		"the volume loses more of a read":   {&of{rated{99, 92}, rated{95, 98}}, nil, claim.Refuted, "a read loses more through the volume"},
		"reads as published, writes alike":  {&of{rated{99, 98}, rated{99, 92}}, nil, claim.Qualified, "of a read alone"},
		"writes apart, reads alike":         {&of{rated{99, 98}, rated{94, 98}}, nil, claim.Qualified, "of a write alone"},
		"across the limit":                  {&of{slight, atEdge}, nil, claim.Inconclusive, "reaches beyond 10 %"},
	} {
		m := makeRun(6)
		if c.kept != nil {
			m.cellWith(base, c.kept.volume, c.kept.bind)
		}
		if c.dropped != nil {
			m.cellWith(dropped, c.dropped.volume, c.dropped.bind)
		}
		got := verdictOf(t, m.run)
		if got.Verdict != c.want || !strings.Contains(got.Rests, c.rests) {
			t.Errorf("%s: %s (%s; %s), want %s and %q", name, got.Verdict, got.Ours, got.Rests, c.want, c.rests)
		}
	}
}

// What is confirmed of both is so, and nothing else; the claim's own inconsistency is
// the registry's to know.
func TestModesTogether(t *testing.T) {
	kept, disk := mode{cache: Kept, sync: NoSync}, mode{cache: Dropped, sync: NoSync}
	for _, c := range []struct{ kept, disk, want claim.Verdict }{
		{claim.Confirmed, claim.Confirmed, claim.Confirmed},
		{claim.Confirmed, claim.Qualified, claim.Qualified},
		{claim.Confirmed, claim.Refuted, claim.Qualified},
		{claim.Confirmed, claim.Inconclusive, claim.Qualified},
		{claim.Refuted, claim.Confirmed, claim.Qualified},
		{claim.Refuted, claim.Refuted, claim.Refuted},
		{claim.Inconclusive, claim.Refuted, claim.Refuted},
		{claim.Refuted, claim.Inconclusive, claim.Refuted},
		{claim.Inconclusive, claim.Inconclusive, claim.Inconclusive},
	} {
		if got, why := together([]finding{{mode: kept, verdict: c.kept}, {mode: disk, verdict: c.disk}}); got != c.want {
			t.Errorf("%s and %s: %s (%s), want %s", c.kept, c.disk, got, why, c.want)
		}
	}
	if got, _ := together([]finding{{mode: kept, verdict: claim.Confirmed}}); got != claim.Qualified {
		t.Errorf("confirmed from the page cache alone: %s", got)
	}
}

// What the disk itself does from block to block is no platform's.
func TestAShakyFloorDecidesNothing(t *testing.T) {
	m := makeRun(6)
	m.cellWith(base, slight, asPublished)
	if got := verdictOf(t, m.run); got.Verdict != claim.Qualified {
		t.Fatalf("a steady floor: %s (%s)", got.Verdict, got.Rests)
	}
	for name, c := range map[string]struct {
		volume, bind rated
		shakes       float64
		want         claim.Verdict
	}{
		"a tenth, of a few percent":  {slight, asPublished, 0.1, claim.Inconclusive},
		"a tenth, of an equivalence": {asBare, asBare, 0.1, claim.Inconclusive},
		"a tenth, of half":           {slight, terrible, 0.1, claim.Refuted},
	} {
		m := makeRun(6)
		m.shakes = c.shakes
		m.cellWith(base, c.volume, c.bind)
		got := verdictOf(t, m.run)
		if got.Verdict != c.want {
			t.Errorf("%s: %s (%s), want %s", name, got.Verdict, got.Rests, c.want)
		}
		if c.want == claim.Inconclusive && !strings.Contains(got.Rests, "scatter from block to block") {
			t.Errorf("%s: the scatter is not reported: %s", name, got.Rests)
		}
	}
}

func TestTooLittleIsInconclusive(t *testing.T) {
	m := makeRun(1)
	m.cellWith(base, slight, terrible)
	if got := verdictOf(t, m.run); got.Verdict != claim.Inconclusive {
		t.Errorf("one block decided: %s", got.Verdict)
	}
	m = makeRun(6)
	m.add(base, onMetal, 500, 800)
	m.add(base, inVolume, 495, 780)
	if got := verdictOf(t, m.run); got.Verdict != claim.NotYetRun {
		t.Errorf("without a bind mount: %s", got.Verdict)
	}
	m = makeRun(6)
	m.cellWith(base, asBare, asBare)
	for i := range m.run.Trials {
		m.run.Trials[i].Taint = []string{"steal 50 %"}
	}
	if got := verdictOf(t, m.run); got.Verdict != claim.Inconclusive || !strings.Contains(got.Rests, "disturbed") {
		t.Errorf("with every block disturbed: %s (%s)", got.Verdict, got.Rests)
	}
}

// A volume on another disk than bare metal's directory shows the disks' difference.
func TestOtherDisksJudgeNothing(t *testing.T) {
	m := makeRun(6)
	m.cellWith(base, slight, asPublished)
	for i := range m.run.Conditions {
		if c := &m.run.Conditions[i]; c.Factors[place.FactorStorage] == "volume" {
			c.Factors[factorDisk] = "8:2"
		}
	}
	if got := verdictOf(t, m.run); got.Verdict != claim.Inconclusive || !strings.Contains(got.Rests, "docker volume lies on another disk") {
		t.Errorf("%s (%s)", got.Verdict, got.Rests)
	}
	if note := table(t, m.run, "Loss of write and read rate").Note; !strings.Contains(note, "Not on bare metal's disk: docker volume") {
		t.Errorf("the table says %q", note)
	}
}

// Bypassing stands for the disk where nothing was dropped; memory and fsync judge nothing.
func TestModesThatJudge(t *testing.T) {
	m := makeRun(6)
	m.cellWith(with(func(c *cell) { c.cache = Bypassed }), asBare, asBare)
	if got := verdictOf(t, m.run); got.Verdict != claim.Refuted || !strings.Contains(got.Ours, "page cache bypassed") {
		t.Errorf("bypassed: %s (%s)", got.Verdict, got.Ours)
	}
	m.cellWith(dropped, slight, asPublished)
	if got := verdictOf(t, m.run); got.Verdict != claim.Qualified || strings.Contains(got.Ours, "bypassed") {
		t.Errorf("dropped and bypassed: %s (%s)", got.Verdict, got.Ours)
	}
	m = makeRun(6)
	m.cellWith(with(func(c *cell) { c.sync = Fsync }), slight, asPublished)
	if got := verdictOf(t, m.run); got.Verdict != claim.NotYetRun {
		t.Errorf("with fsync alone: %s", got.Verdict)
	}
}

// Several sizes are put together, and a figure is named as the published one.
func TestFiguresAreNamedAsPublished(t *testing.T) {
	m := makeRun(6)
	m.cellWith(base, slight, rated{94, 90})
	m.cellWith(with(func(c *cell) { c.particles = 25_000_000 }), slight, rated{98, 94})
	m.cellWith(dropped, slight, asPublished)
	got := verdictOf(t, m.run)
	c, err := claim.Lookup(claimed)
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]claim.Figure{}
	for _, f := range got.Figures {
		ours[f.Name] = f
	}
	for _, f := range c.Published {
		if strings.HasPrefix(f.Name, "overhead") && ours[f.Name].Name == "" {
			t.Errorf("no figure of ours for %q", f.Name)
		}
	}
	// The geometric mean of 90 and 94 % is 91.98 %.
	if f := ours["overhead, read, bind mount"]; f.Value < 7.5 || f.Value > 8.5 || !f.Interval() || f.N != 6 {
		t.Errorf("of both sizes: %+v", f)
	}
	if ours["overhead, read, bind mount, page cache dropped"].Name == "" || !strings.Contains(got.Rests, "2 cells, 6 blocks; of their intervals 8 show a loss, 0 a gain, 0 neither") {
		t.Errorf("figures %v; %s", ours, got.Rests)
	}
}

// imported is a run as it was measured elsewhere: storage, particles, ranks, and nothing
// else; repetitions of the platforms are no pairs.
func imported(of map[string][]rated) record.Run {
	run := record.Run{ID: "import-1", Study: "import", Status: record.Imported, Plan: record.Plan{Level: 0.95, SmallestEffect: 0.02, Imported: &record.Import{Format: "haccio"}}}
	for _, storage := range []string{"bare", "volume", "bind"} {
		c := record.Condition{
			ID: "haccio@" + storage, Label: storage, Workload: "haccio[particles=25000000,ranks=1]", Baseline: storage == "bare", Metrics: rates,
			Factors: map[string]string{place.FactorOf: place.Haccio, place.FactorStorage: storage, factorParticles: "25000000", factorRanks: "1"},
		}
		run.Conditions = append(run.Conditions, c)
		for i, r := range of[storage] {
			run.Trials = append(run.Trials, record.Trial{ID: int64(len(run.Trials) + 1), Condition: c.ID, Workload: c.Workload, Block: i + 1, Attempt: 1,
				Samples: []record.Sample{{Metric: write, Value: r.write * 1e6}, {Metric: read, Value: r.read * 1e6}}})
		}
	}
	return run
}

func TestImported(t *testing.T) {
	near := func(w, r float64) []rated {
		return []rated{{w, r}, {w * 1.002, r * 0.999}, {w * 0.999, r * 1.001}, {w * 1.001, r * 1.002}, {w * 0.998, r * 0.998}}
	}
	got := verdictOf(t, imported(map[string][]rated{"bare": near(2600, 9500), "volume": near(2580, 9300), "bind": near(2500, 8900)}))
	if got.Verdict != claim.Qualified || !strings.Contains(got.Rests, "1 cell, 5 repetitions") || !strings.Contains(got.Rests, "in 1 of 1 cell bare metal reads faster than 3.5 GB/s: if the device is as fast as S5's") {
		t.Errorf("%s (%s; %s)", got.Verdict, got.Ours, got.Rests)
	}
	got = verdictOf(t, imported(map[string][]rated{"bare": near(2600, 3000), "volume": near(2600, 3000), "bind": near(2600, 3000)}))
	if got.Verdict != claim.Refuted || strings.Contains(got.Rests, "if the device") {
		t.Errorf("alike, below the device: %s (%s)", got.Verdict, got.Rests)
	}
	wild := []rated{{2600, 9500}, {1800, 5000}, {2500, 9000}, {3000, 9900}, {1500, 4000}}
	if got := verdictOf(t, imported(map[string][]rated{"bare": near(2600, 9500), "volume": wild, "bind": wild})); got.Verdict != claim.Inconclusive {
		t.Errorf("cells that scatter by half: %s (%s)", got.Verdict, got.Rests)
	}
	one := func(r rated) []rated { return []rated{r} }
	if got := verdictOf(t, imported(map[string][]rated{"bare": one(rated{2600, 9500}), "volume": one(rated{2500, 9000}), "bind": one(rated{2000, 8000})})); got.Verdict != claim.Inconclusive {
		t.Errorf("one run a cell: %s", got.Verdict)
	}
}

// found says what share of its files' pages each place of a cell had in the page cache.
func (m *made) found(c cell, share map[string]float64) {
	for i := range m.run.Conditions {
		of := &m.run.Conditions[i]
		if of.Workload != c.group() || of.Factors[place.FactorFloor] != "" {
			continue
		}
		for j := range m.run.Trials {
			if t := &m.run.Trials[j]; t.Condition == of.ID {
				t.Samples = append(t.Samples, record.Sample{Metric: cached, Value: share[of.Factors[place.FactorStorage]]})
			}
		}
	}
}

// Where dropping does nothing, what is read is not from the disk, whatever was asked for.
func TestDroppedInVain(t *testing.T) {
	disk := mode{cache: Dropped, sync: NoSync}.text()
	for name, c := range map[string]struct {
		share    map[string]float64
		fromDisk bool
		want     claim.Verdict
		says     string
	}{
		"nearly all dropped": {map[string]float64{"bare": 0.001, "volume": 0.009, "bind": 0}, true, claim.Qualified, "it holds from the disk alone"},
		"nothing dropped":    {map[string]float64{"bare": 1, "volume": 0.5, "bind": 0.02}, false, claim.Qualified, "in 1 M x 2 ranks, dropped more than 1 % of the files' pages were in the page cache when reading began: counted as kept"},
		"dropped on bare":    {map[string]float64{"bare": 0, "volume": 1, "bind": 1}, false, claim.Inconclusive, "from the page cache and others from the disk: left out"},
	} {
		m := makeRun(6)
		m.cellWith(dropped, slight, asPublished)
		m.found(dropped, c.share)
		got := verdictOf(t, m.run)
		if got.Verdict != c.want || !strings.Contains(got.Rests, c.says) || strings.Contains(got.Ours, disk+", ") != c.fromDisk {
			t.Errorf("%s: %s (%s; %s), want %s, %q, from the disk %v", name, got.Verdict, got.Ours, got.Rests, c.want, c.says, c.fromDisk)
		}
		if text := aboutOf(t, m.run); strings.Contains(text, c.says[3:]) == c.fromDisk {
			t.Errorf("%s: the page says %s", name, text)
		}
	}
	// What kept cells say is not changed by one that compares memory with a disk.
	m := makeRun(6)
	m.cellWith(base, asBare, asBare)
	m.cellWith(dropped, rated{99, 300}, rated{95, 200})
	m.found(dropped, map[string]float64{"volume": 1, "bind": 1})
	if got := verdictOf(t, m.run); got.Verdict != claim.Refuted || !strings.Contains(got.Rests, "from the disk nothing was measured") {
		t.Errorf("beside an uneven cell: %s (%s)", got.Verdict, got.Rests)
	}
	if advice := Advice(m.run); len(advice) != 1 || advice[0].Rule != "volume-or-bind-alike" {
		t.Errorf("advice %+v", advice)
	}
}

// Ranks that wait for a CPU are not timed while they do.
func TestMoreRanksThanCPUsDecideNothing(t *testing.T) {
	m := makeRun(6)
	m.run.Host.CPUs = 2
	crowd := with(func(c *cell) { c.ranks = 4 })
	m.cellWith(base, slight, asPublished)
	m.cellWith(crowd, terrible, terrible)
	got := verdictOf(t, m.run)
	if got.Verdict != claim.Qualified || !strings.Contains(got.Rests, "1 cell with more ranks than CPUs decide") || !strings.Contains(got.Rests, "page cache kept: 1 cell,") {
		t.Errorf("%s (%s)", got.Verdict, got.Rests)
	}
	m = makeRun(6)
	m.run.Host.CPUs = 2
	m.cellWith(crowd, terrible, terrible)
	if got := verdictOf(t, m.run); got.Verdict != claim.Inconclusive || !strings.Contains(got.Rests, "more ranks than CPUs") {
		t.Errorf("alone: %s (%s)", got.Verdict, got.Rests)
	}
	m.run.Host.CPUs = 4
	if got := verdictOf(t, m.run); got.Verdict != claim.Refuted {
		t.Errorf("with a CPU each: %s (%s)", got.Verdict, got.Rests)
	}
	// Whoever imports it has CPUs of his own.
	run := imported(map[string][]rated{"bare": {{2600, 9500}}, "volume": {{2600, 9500}}, "bind": {{2600, 9500}}})
	run.Host.CPUs = 1
	for i := range run.Conditions {
		run.Conditions[i].Factors[factorRanks] = "8"
	}
	if got := verdictOf(t, run); strings.Contains(got.Rests, "CPUs") {
		t.Errorf("imported: %s (%s)", got.Verdict, got.Rests)
	}
}

// Without the disk's own movement a run of ours is not to be believed.
func TestWithoutAFloorNothingIsDecided(t *testing.T) {
	m := makeRun(6)
	m.add(base, onMetal, 500, 800)
	m.add(base, inVolume, 495, 784)
	m.add(base, inBind, 480, 736)
	if got := verdictOf(t, m.run); got.Verdict != claim.Inconclusive || !strings.Contains(got.Rests, "fio's read is missing") && !strings.Contains(got.Rests, "fio's write is missing") {
		t.Errorf("%s (%s)", got.Verdict, got.Rests)
	}
}
