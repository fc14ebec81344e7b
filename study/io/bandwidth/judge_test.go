package bandwidth

import (
	"strings"
	"testing"

	"tare/claim"
	"tare/record"
	"tare/report"
	"tare/study/io/place"
	"tare/study/kit/kittest"
)

func verdict(t *testing.T, run record.Run) claim.Judgement { return kittest.Verdict(t, Judge, run, "") }

func TestJudge(t *testing.T) {
	inCaches := func(c record.Condition) bool {
		return inContainer(c) && place.Number(c, factorElements) < leastElements
	}
	inTurns := func(c record.Condition) bool { return inContainer(c) && place.Number(c, factorProcesses) > 2 }
	oneKernel := func(c record.Condition, metric string) float64 {
		if metric == "scale" && inContainer(c) {
			return 0.95 * alike(c, metric)
		}
		return alike(c, metric)
	}
	// The paper contradicts itself, so that nothing is confirmed outright.
	for name, c := range map[string]struct {
		world world
		want  claim.Verdict
		says  string
	}{
		"as much":                                {alike, claim.Qualified, "50 M x 1, 50 M x 2"},
		"one percent less":                       {slower(alike, 0.99, inContainer), claim.Qualified, ""},
		"a tenth less":                           {slower(alike, 0.9, inContainer), claim.Refuted, ""},
		"a tenth more":                           {slower(alike, 1.1, inContainer), claim.Refuted, ""},
		"by one kernel less":                     {oneKernel, claim.Refuted, ""},
		"at the edge":                            {slower(alike, 0.98, inContainer), claim.Inconclusive, "lie within 2 %"},
		"less in caches alone":                   {slower(alike, 0.5, inCaches), claim.Qualified, ""},
		"less where they take turns":             {slower(alike, 0.5, inTurns), claim.Qualified, ""},
		"less on bind mounts, and how":           {slower(alike, 0.8, onBind), claim.Inconclusive, "a difference of the method and not of the storage"},
		"less on bind mounts, in sum too little": {slower(alike, 0.96, onBind), claim.Inconclusive, "a difference of the method and not of the storage"},
		"less on bind mounts, a little":          {slower(alike, 0.995, onBind), claim.Qualified, ""},
	} {
		run := measured(designed(t, options(func(o *Options) { o.Processes, o.Plan.Blocks = []int{1, 2, 4}, 8 })), c.world)
		got := verdict(t, run)
		if got.Verdict != c.want || !strings.Contains(got.Rests, c.says) {
			t.Errorf("%s: %s (%s; %s), want %s and %q", name, got.Verdict, got.Ours, got.Rests, c.want, c.says)
		}
	}
	one := measured(designed(t, options(func(o *Options) { o.Plan.Blocks = 1 })), slower(alike, 0.5, inContainer))
	if got := verdict(t, one); got.Verdict != claim.Inconclusive {
		t.Errorf("one block decided: %s (%s)", got.Verdict, got.Rests)
	}
	cached := measured(designed(t, options(func(o *Options) { o.Elements = []int64{1e6} })), alike)
	if got := verdict(t, cached); got.Verdict != claim.NotYetRun {
		t.Errorf("caches decided: %s (%s)", got.Verdict, got.Rests)
	}
}

// Two platforms that lose and gain as much make no confirmation between them.
func TestJudgeOfSeveralPlatforms(t *testing.T) {
	by := func(engine string, times float64, than world) world {
		return slower(than, times, func(c record.Condition) bool { return c.Factors[place.FactorEngine] == engine })
	}
	onDocker := func(c record.Condition) bool { return c.Factors[place.FactorEngine] == "docker" && onBind(c) }
	for name, c := range map[string]struct {
		world world
		want  claim.Verdict
		says  string
	}{
		"as much":                    {alike, claim.Qualified, "docker: bind mount against volume"},
		"one loses, the other gains": {by("docker", 0.95, by("oci:runc", 1.05, alike)), claim.Refuted, ""},
		"one loses":                  {by("oci:runc", 0.95, alike), claim.Refuted, ""},
		"one at the edge":            {by("oci:runc", 0.98, alike), claim.Inconclusive, "oci:runc: "},
		"one separates what is equal, the other loses": {by("oci:runc", 0.9, slower(alike, 0.9, onDocker)), claim.Inconclusive, "docker: bind mount against volume"},
	} {
		run := measured(designed(t, options(func(o *Options) { o.Platforms = []string{"docker", "oci:runc"} })), c.world)
		got := verdict(t, run)
		if got.Verdict != c.want || !strings.Contains(got.Rests, c.says) || !strings.Contains(got.Ours, "docker loses") || !strings.Contains(got.Ours, "oci:runc loses") {
			t.Errorf("%s: %s (%s; %s), want %s and %q", name, got.Verdict, got.Ours, got.Rests, c.want, c.says)
		}
	}
}

// What is of the same thing as a published figure has its name and unit.
func TestFiguresAreNamedAsPublished(t *testing.T) {
	got := verdict(t, measured(designed(t, options()), slower(alike, 0.99, onBind)))
	of, err := claim.Lookup(judged)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range of.Published {
		found := false
		for _, ours := range got.Figures {
			if ours.Name != f.Name || ours.Unit != f.Unit {
				continue
			}
			found = true
			if want := map[bool]float64{true: 1, false: 0}[strings.Contains(f.Name, "bind")]; ours.Value < want-0.3 || ours.Value > want+0.3 {
				t.Errorf("%s: %g %s, and it was made %g", f.Name, ours.Value, f.Unit, want)
			}
		}
		if !found {
			t.Errorf("%s (%s) is published, and ours is not of that name", f.Name, f.Unit)
		}
	}
}

// Figures measured elsewhere are judged by the same rule: no layer, nothing twice,
// platforms of any name, and no word of caches.
func TestJudgeOfImported(t *testing.T) {
	cells := []cell{{1e6, 1}, {50e6, 1}, {50e6, 8}}
	for name, c := range map[string]struct {
		world  world
		spread float64
		want   claim.Verdict
	}{
		"as much":                   {alike, 0.001, claim.Qualified},
		"a tenth less":              {slower(alike, 0.9, inContainer), 0.001, claim.Refuted},
		"too noisy to decide":       {alike, 0.1, claim.Inconclusive},
		"less where caches may be":  {slower(alike, 0.5, func(c record.Condition) bool { return inContainer(c) && place.Number(c, factorElements) == 1e6 }), 0.001, claim.Qualified},
		"less by eight, on 6 cores": {slower(alike, 0.8, func(c record.Condition) bool { return inContainer(c) && place.Number(c, factorProcesses) == 8 }), 0.001, claim.Refuted},
	} {
		run := imported(c.world, c.spread, cells...)
		got := verdict(t, run)
		if got.Verdict != c.want || !strings.Contains(got.Rests, "the size of the caches is unknown") ||
			!strings.Contains(got.Rests, "5 repetitions") || strings.Contains(got.Rests, "block") {
			t.Errorf("%s: %s (%s; %s), want %s", name, got.Verdict, got.Ours, got.Rests, c.want)
		}
		if parts := Parts(run); len(parts) < 3 {
			t.Errorf("%s: a page of %d parts", name, len(parts))
		}
	}
}

func titles(parts []report.Part) (all []string) {
	for _, p := range parts {
		switch p := p.(type) {
		case report.Table:
			all = append(all, p.Title)
		case report.Chart:
			all = append(all, p.Title)
		}
	}
	return all
}

func TestPartsShowEverything(t *testing.T) {
	run := measured(designed(t, options(func(o *Options) { o.Peer = true })), alike)
	parts := Parts(run)
	want := []string{
		"Bandwidth of triad, by array size", "Memory bandwidth, and loss in containers", "Loss of bandwidth at 50 M elements, %: S5 and this run",
		"Stream and likwid-bench on bare metal", "Best iteration and average of all", "Negative control: bind mount against volume",
	}
	if got := strings.Join(titles(parts), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("parts\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	for _, p := range parts {
		table, ok := p.(report.Table)
		if !ok {
			continue
		}
		for _, row := range table.Rows {
			if len(row) != len(table.Columns) {
				t.Errorf("%s: a row of %d cells under %d heads: %+v", table.Title, len(row), len(table.Columns), row)
			}
		}
		switch table.Title {
		case want[1]:
			if len(table.Rows) != 3*len(kernels) || table.Rows[0][1].Text != "caches" || table.Rows[4][1].Text != "memory" {
				t.Errorf("%d rows, the first in %s, then in %s", len(table.Rows), table.Rows[0][1].Text, table.Rows[4][1].Text)
			}
		case want[2]:
			if row := table.Rows[len(table.Rows)-1]; row[0].Text != "bind mount" || row[1].Text != "1 to 1.5" {
				t.Errorf("S5's figures are not beside ours: %+v", row)
			}
		case want[3]:
			for _, row := range table.Rows {
				if row[5].Text != "equivalent" {
					t.Errorf("as fast as the peer, and %s: %+v", row[5].Text, row)
				}
			}
			if len(table.Rows) != 4 {
				t.Errorf("%d rows beside the peer, want copy and triad in two cells", len(table.Rows))
			}
		}
	}
	if answer := Answer(run); !strings.Contains(answer, "copy") || !strings.Contains(answer, "reach bare metal's memory bandwidth within 2 %") {
		t.Errorf("the answer: %s", answer)
	}
	of := func(by float64) string {
		run := measured(designed(t, options(func(o *Options) { o.Peer = true })), slower(alike, by, func(c record.Condition) bool { return c.Factors[place.FactorFloor] == "" }))
		for _, p := range Parts(run) {
			if table, ok := p.(report.Table); ok && table.Title == want[3] {
				return table.Rows[0][5].Text
			}
		}
		return ""
	}
	for by, want := range map[float64]string{0.9: "slower", 1.1: "faster", 0.97: "inconclusive"} {
		if got := of(by); got != want {
			t.Errorf("%g times the peer's rate is %s, want %s", by, got, want)
		}
	}
}

// A page can be made of any run, also of one that yielded nothing.
func TestPartsOfAnyRun(t *testing.T) {
	empty := measured(designed(t, options()), alike)
	empty.Trials = nil
	for name, run := range map[string]record.Run{"without trials": empty, "without conditions": {ID: "x"}} {
		if parts := Parts(run); len(parts) != 0 {
			t.Errorf("%s: %d parts", name, len(parts))
		}
		if got := Answer(run); got != "Nothing was measured." {
			t.Errorf("%s: %s", name, got)
		}
		if advice := Advice(run); len(advice) != 0 {
			t.Errorf("%s: %d recommendations", name, len(advice))
		}
	}
	cached := measured(designed(t, options(func(o *Options) { o.Elements = []int64{1e6} })), alike)
	if got := Answer(cached); !strings.Contains(got, "caches") {
		t.Errorf("in caches alone: %s", got)
	}
}

func TestAdvice(t *testing.T) {
	rules := func(w world) string {
		var all []string
		for _, a := range Advice(measured(designed(t, options(func(o *Options) { o.Processes = []int{1, 2, 4} })), w)) {
			all = append(all, a.Rule)
		}
		return strings.Join(all, " ")
	}
	turns := slower(alike, 0.5, func(c record.Condition) bool { return place.Number(c, factorProcesses) > 2 })
	flat := func(c record.Condition, metric string) float64 {
		if metric == cacheResident {
			return alike(c, metric)
		}
		return 20e9
	}
	for name, c := range map[string]struct {
		world world
		want  string
	}{
		"two processes have twice": {alike, "memory-bound-in-containers processes-for-bandwidth"},
		"and four in turns lose":   {turns, "memory-bound-in-containers processes-for-bandwidth no-more-ranks-than-cpus"},
		"nothing by processes":     {flat, "memory-bound-in-containers"},
		"containers have less":     {slower(flat, 0.9, inContainer), ""},
	} {
		if got := rules(c.world); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
