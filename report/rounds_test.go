package report

import (
	"slices"
	"strings"
	"testing"

	"tare/overhead"
	"tare/record"
	"tare/record/recordtest"
)

// ofRounds is a run that was measured by rounds of slices, with all that such a run says.
func ofRounds(edit func(*recordtest.Rounds)) *bench {
	r := recordtest.Rounds{Seed: 7, Rounds: 10, Strips: 24, Noise: 0.01, Launch: 0.0005,
		Tainted: func(round, strip int) bool { return round == 3 && strip < 4 },
		Conditions: []recordtest.Effect{
			{Platform: "docker", Rate: 0.981, CPU: 1.024, Stalls: 0.05, StallCost: 1.4},
			{Platform: "oci:runc", Rate: 0.99, CPU: 1.003},
			{Platform: "oci:crun", CPU: 1.0005},
		}}
	if edit != nil {
		edit(&r)
	}
	run := r.Run()
	return &bench{run: run, rep: overhead.Analyse(run, overhead.Options{})}
}

func TestRoundsGolden(t *testing.T) {
	all, warned := ordinary, ofRounds(func(r *recordtest.Rounds) { r.Later, r.Conditions[0].Load = 1.01, 1.05 })
	all.All = true
	few := ofRounds(func(r *recordtest.Rounds) { r.Rounds = 2 })
	for _, c := range []struct {
		name    string
		bench   *bench
		options TerminalOptions
	}{
		{"rounds-80.txt", ofRounds(nil), ordinary},
		{"rounds-60.txt", ofRounds(nil), withWidth(ordinary, 60)},
		{"rounds-all-80.txt", warned, all},
		{"rounds-interim-80.txt", ofRounds(nil), TerminalOptions{Interim: true}},
		{"rounds-interim-few-80.txt", few, TerminalOptions{Interim: true}},
	} {
		t.Run(c.name, func(t *testing.T) { golden(t, c.name, screenOf(t, c.bench, c.options)) })
	}
}

func TestThePageShowsRounds(t *testing.T) {
	page := pageOf(t, ofRounds(func(r *recordtest.Rounds) { r.Later = 1.01 }))
	for _, want := range []string{
		"Round by round", "CPU time per GET", "get-cpu in exports", "Totals, stalls included: docker", "by stalls is not excluded",
		"Effects within rounds", "Load generator, CPU time per GET", "round, strip, slice", "within 2\u00a0%",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, bad := range []string{"Block by block", "NaN", "Inf", "%!"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

// A group that could not be measured by rounds says why.
func TestAGroupInBlocksSaysWhy(t *testing.T) {
	b := redis()
	b.run.Plan.Design, b.run.Plan.Blocked = record.DesignRounds, map[string]string{"redis": "its study has trials of its own"}
	if out := strings.Join(strings.Fields(screenOf(t, b, ordinary)), " "); !strings.Contains(out, "not in rounds of slices: its study has trials of its own") {
		t.Error(out)
	}
}

// What is warned of below does not take the sentence back: the sentence says it.
func TestTheSentenceSaysWhatTaintChanges(t *testing.T) {
	b := ofRounds(nil)
	rows := b.rep.Groups[0].Metrics[0].Rows
	for i := range rows {
		if rows[i].Platform == "docker" {
			rows[i].Verdict, rows[i].WithTainted = overhead.Worse, overhead.Inconclusive
		}
	}
	if answer := Answer(b.run, b.rep); !strings.Contains(answer, "Docker (undecided with the disturbed strips left in)") {
		t.Error(answer)
	}
}

// Where most strips were disturbed, the remedy is not more time: it says by whom.
func TestADisturbedRunNeedsQuietAndNotTime(t *testing.T) {
	b := ofRounds(nil)
	g := &b.rep.Groups[0]
	for i := range g.Metrics {
		for j := range g.Metrics[i].Rows {
			if r := &g.Metrics[i].Rows[j]; !r.Baseline {
				r.Verdict = overhead.Inconclusive
			}
		}
	}
	g.Strips, g.StripsTainted = 40, 30
	taint := []string{"foreign processes used 70.8 % of the host's CPU time (compile most)"}
	b.run.Trials = append(b.run.Trials, record.Trial{Workload: g.Workload, Slices: slices.Repeat([]record.Slice{{Taint: taint}}, 100)})
	out := strings.Join(strings.Fields(screenOf(t, b, ordinary)), " ")
	if !strings.Contains(out, "30 of 40 strips were disturbed, mostly by other programs (compile the most). End that first") ||
		strings.Contains(out, "Allow more time") {
		t.Error(out)
	}
	g.StripsTainted = 3
	if out := screenOf(t, b, ordinary); !strings.Contains(out, "Allow more time") {
		t.Error(out)
	}
}

// Of the metrics that are undecided the one that needs most is said.
func TestTheSentenceSaysTheMostThatIsNeeded(t *testing.T) {
	b := ofRounds(nil)
	for i, needs := range []int{20, 50} {
		m := &b.rep.Groups[0].Metrics[i]
		for j := range m.Rows {
			if r := &m.Rows[j]; r.Platform == "docker" {
				r.Verdict, r.NeedsBlocks, r.Needs = overhead.Inconclusive, needs, map[int]string{20: "about 20 rounds", 50: "about 50 rounds"}[needs]
				r.Percent = float64(10 - i)
			}
		}
	}
	if answer := Answer(b.run, b.rep); !strings.Contains(answer, "about 50 rounds would decide") {
		t.Error(answer)
	}
}

func TestLiveRows(t *testing.T) {
	rows := LiveRows(ofRounds(nil).rep.Groups[0])
	if len(rows) != 3 || !strings.HasPrefix(rows[0].Text, "redis docker: get -") || !strings.HasSuffix(rows[0].Text, " after 10 rounds") || !(rows[0].HalfWidth > 0) {
		t.Errorf("%+v", rows)
	}
	if rows := LiveRows(ofRounds(func(r *recordtest.Rounds) { r.Rounds = 2 }).rep.Groups[0]); len(rows) > 0 {
		t.Errorf("an interval of two rounds: %+v", rows)
	}
}

// The width is kept by rounds, too, with all that there is to say.
func TestRoundsKeepTheWidth(t *testing.T) {
	for _, width := range []int{60, 80, 120} {
		out := screenOf(t, ofRounds(nil), TerminalOptions{Width: width, All: true})
		for _, l := range strings.Split(out, "\n") {
			if columns(l) > width {
				t.Errorf("%d columns of %d: %q", columns(l), width, l)
			}
		}
	}
}
