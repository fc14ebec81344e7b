package reproduction_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/claim"
	"tare/lab"
	"tare/record"
	"tare/report"
	"tare/study/reproduction"
)

// bench designs command lines by what they begin with, the longest first: nothing is measured.
type bench []struct {
	line       string
	conditions string
	budget     time.Duration
	pass       time.Duration
	refused    string
}

func (b bench) design(study string, line []string) (d reproduction.Designed, err error) {
	for _, known := range b {
		words := strings.Fields(known.line)
		if len(line) < len(words) || !slices.Equal(line[:len(words)], words) {
			continue
		}
		if known.refused != "" {
			return d, errors.New(known.refused)
		}
		g := lab.Group{Workload: study, Once: true}
		names := strings.Fields(known.conditions)
		for _, name := range names {
			takes := known.pass / time.Duration(len(names))
			g.Conditions = append(g.Conditions, lab.Condition{Condition: record.Condition{ID: name}, Takes: takes})
		}
		d.Design = lab.Design{Study: study, Groups: []lab.Group{g}, Plan: record.Plan{Budget: known.budget}}
		d.Takes, d.Full, d.Disruptive = known.budget, study == "latency", slices.Contains(line, "--disruptive")
		if slices.Contains(line, "--blocks") || slices.Contains(line, "--full") {
			d.Design.Plan, d.Takes = record.Plan{Blocks: 3}, 3*known.pass
		}
		return d, nil
	}
	return d, errors.New("unknown: " + strings.Join(line, " "))
}

// planned is a plan as text, a line a run.
func planned(p reproduction.Plan) (lines []string) {
	for _, r := range p.Runs {
		lines = append(lines, report.ClaimSpans(r.Claims)+" | "+strings.Join(r.Command, " ")+" | "+r.Takes.String())
	}
	for _, l := range p.Left {
		lines = append(lines, report.ClaimSpans(l.Claims)+" | "+l.Why)
	}
	return lines
}

func claims(t *testing.T, ids ...string) (chosen []claim.Claim) {
	t.Helper()
	for _, id := range ids {
		c, err := claim.Lookup(id)
		if err != nil {
			t.Fatal(err)
		}
		chosen = append(chosen, c)
	}
	return chosen
}

var everything = claim.Abilities{CPUs: 64, Counters: true, KVM: true, GPU: true, Clock: true}

func TestPlan(t *testing.T) {
	b := bench{
		{line: "tare startup --platform docker --rate 1,2,4,8 --knee=false --workload s1 --profile", conditions: "1 8 p", budget: 20 * time.Minute, pass: 2 * time.Minute},
		{line: "tare startup --platform docker --rate 1,2,4,8 --knee=false --workload s1", conditions: "1 8", budget: 20 * time.Minute, pass: time.Minute},
		{line: "tare startup --platform docker --rate 1,8", conditions: "1 8", budget: 20 * time.Minute, pass: time.Minute},
		{line: "tare platforms --host-cpus", conditions: "a", budget: time.Minute, pass: time.Second},
		{line: "tare latency cpu", conditions: "a b", budget: 10 * time.Minute, pass: 25 * time.Minute},
		{line: "tare latency network", conditions: "a", budget: 10 * time.Minute, pass: 5 * time.Minute},
		{line: "tare density", conditions: "a", budget: 2 * time.Hour, pass: time.Minute},
		{line: "tare platforms --workload cassandra", conditions: "c", budget: 10 * time.Minute, pass: time.Minute},
		{line: "tare platforms --workload ffmpeg", conditions: "f g", budget: 10 * time.Minute, pass: time.Minute},
		{line: "tare io stream", refused: "no engine"},
		{line: "tare io haccio", refused: "no engine"},
	}
	for _, c := range []struct {
		name       string
		ids        string
		extent     reproduction.Extent
		on         claim.Abilities
		disruptive bool
		want       []string
	}{
		{name: "claims of one command share its run", ids: "S1.3 S1.4", on: everything,
			want: []string{"S1.3, S1.4 | tare startup --platform docker --rate 1,2,4,8 --knee=false --workload s1 --profile --budget 42m | 42m0s"}},
		{name: "a run that has all conditions of another decides its claims", ids: "S1.1 S1.3", on: everything,
			want: []string{"S1.1, S1.3 | tare startup --platform docker --rate 1,2,4,8 --knee=false --workload s1 --profile --budget 42m | 42m0s"}},
		{name: "the warm-up and three blocks fit", ids: "S4.1", on: everything,
			want: []string{"S4.1 | tare latency cpu --budget 1h40m | 1h40m0s"}},
		{name: "many blocks take an hour at most", ids: "S4.4", on: everything,
			want: []string{"S4.4 | tare latency network --budget 1h | 1h0m0s"}},
		{name: "as long as the study takes by itself", ids: "S3.1", on: everything,
			want: []string{"S3.1 | tare density | 2h0m0s"}},
		{name: "what no block decides here is seen in short", ids: "S2.4", on: claim.Abilities{CPUs: 2},
			want: []string{"S2.4 | tare platforms --workload cassandra --causes off --blocks 3 --budget 5m | 3m0s"}},
		{name: "and decided where it can be", ids: "S2.4", on: everything,
			want: []string{"S2.4 | tare platforms --workload cassandra --budget 30m | 30m0s"}},
		{name: "a short run is a part of a long one", ids: "S2.1 S2.5", on: claim.Abilities{CPUs: 2},
			want: []string{"S2.1, S2.5 | tare platforms --workload ffmpeg --platform docker --cpus 0.5,1,1.5,2 --causes off --budget 30m | 30m0s"}},
		{name: "quick", ids: "S1.1", extent: reproduction.Quick, on: everything,
			want: []string{"S1.1 | tare startup --platform docker --rate 1,8 --knee=false --blocks 3 --budget 5m | 3m0s"}},
		{name: "as published, where the study has that", ids: "S1.1 S4.2", extent: reproduction.Full, on: everything,
			want: []string{"S1.1 | tare startup --platform docker --rate 1,2,4,8 --knee=false --workload s1 --budget 30m | 30m0s", "S4.2 | tare latency cpu --full | 1h15m0s"}},
		{name: "a host that decides a part", ids: "S4.3", on: claim.Abilities{},
			want: []string{"S4.3 | tare latency cpu --budget 1h40m | 1h40m0s"}},
		{name: "a host that decides nothing, a study that refuses", ids: "S1.13 S1.14 S5.1 S5.2", on: claim.Abilities{},
			want: []string{"S1.13, S1.14 | needs a host with an NVIDIA GPU and its driver", "S5.1, S5.2 | no engine"}},
		{name: "the whole host is not touched unasked", ids: "S2.6", on: everything,
			want: []string{"S2.6 | affects the whole host: give --disruptive to allow it"}},
		{name: "but where that is allowed", ids: "S2.6", on: everything, disruptive: true,
			want: []string{"S2.6 | tare platforms --host-cpus 1,2 --disruptive --budget 30m | 30m0s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := reproduction.NewPlan(claims(t, strings.Fields(c.ids)...), c.extent, c.on, c.disruptive, b.design)
			if got := planned(p); !slices.Equal(got, c.want) {
				t.Errorf("planned\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(c.want, "\n\t"))
			}
		})
	}
}

func TestABudgetIsShared(t *testing.T) {
	b := bench{
		{line: "tare latency cpu", conditions: "a", pass: time.Minute},          // 4 minutes at the least, wants 30
		{line: "tare latency network", conditions: "b", pass: 10 * time.Minute}, // 40, wants an hour
		{line: "tare platforms", conditions: "c", pass: time.Minute},            // three blocks
	}
	for budget, want := range map[time.Duration][]string{
		3 * time.Hour: {"3m0s", "30m0s", "1h0m0s"},
		// Of 46 minutes more that are wanted 23 are there.
		70 * time.Minute: {"3m0s", "17m0s", "50m0s"},
		47 * time.Minute: {"3m0s", "4m0s", "40m0s"},
		// An interval of the third does not fit: the second has its time.
		24 * time.Minute: {"3m0s", "21m0s", "40m0s"},
		time.Minute:      {"3m0s", "4m0s", "40m0s"},
	} {
		p := reproduction.NewPlan(claims(t, "S2.4", "S4.1", "S4.4"), reproduction.Usual, claim.Abilities{CPUs: 2}, false, b.design)
		// Twice, as more time is left than was thought.
		for range 2 {
			reproduction.Fit([]*reproduction.Run{&p.Runs[0], &p.Runs[1], &p.Runs[2]}, budget)
		}
		var got []string
		for _, r := range p.Runs {
			got = append(got, r.Takes.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %v: %q, want %q", budget, got, want)
		}
	}
}

func TestTooShortARunIsMadeAgain(t *testing.T) {
	b := bench{{line: "tare latency cpu", conditions: "a", pass: time.Minute}} // four minutes at the least, half an hour to decide
	p := reproduction.NewPlan(claims(t, "S4.1"), reproduction.Usual, everything, false, b.design)
	for _, c := range []struct {
		budget     time.Duration
		short      bool
		conditions string
		blocks     int
		there      bool
	}{
		{3 * time.Minute, true, "a", 3, false},
		{4 * time.Minute, true, "a", 3, true},
		{4 * time.Minute, true, "a", 2, false}, // each took longer than was thought
		{4 * time.Minute, false, "a", 3, false},
		{30 * time.Minute, false, "a", 20, true},
		{30 * time.Minute, false, "a b", 20, false}, // as an earlier design had it
		{30 * time.Minute, false, "", 20, false},
	} {
		run := record.Run{ID: "latency-1", Study: "latency", Status: record.Complete, Command: p.Runs[0].Command,
			Plan: record.Plan{Budget: c.budget}}
		for _, id := range strings.Fields(c.conditions) {
			run.Conditions = append(run.Conditions, record.Condition{ID: id})
		}
		stored := reproduction.Stored{
			Runs: []record.Run{run}, Short: c.short,
			SameCode: func(record.Run) bool { return true }, Killed: func(record.Run) bool { return false },
			Blocks: func(record.Run) (int, error) { return c.blocks, nil },
		}
		stateOf := func() reproduction.State {
			state, err := stored.StateOf(p.Runs[0], reproduction.Usual)
			if err != nil {
				t.Fatal(err)
			}
			return state
		}
		if got := stateOf().Decided != ""; got != c.there {
			t.Errorf("%+v: there %v", c, got)
		}
		stored.Runs[0].Status = record.Interrupted
		state := stateOf()
		fits := c.conditions == "a"
		if (state.Resume != nil) != fits || fits && p.Runs[0].Going(*state.Resume).Plan.Budget != 30*time.Minute {
			t.Errorf("%+v, stopped: goes on with %v", c, state.Resume)
		}
		stored.Runs[0].Host.Kernel = "another"
		if state := stateOf(); state.Resume != nil {
			t.Errorf("%+v, under another kernel: goes on with %v", c, state.Resume)
		}
		// The last part of a run that was resumed had less time than all of it.
		stored.Runs[0].Status, stored.Runs[0].Plan.Budget = record.Complete, time.Minute
		stored.Runs[0].Finished = stored.Runs[0].Started.Add(c.budget)
		if got := stateOf().Decided != ""; got != c.there {
			t.Errorf("%+v, resumed: there %v", c, got)
		}
	}
}

func TestWhatIsThereIsNotMeasuredAgain(t *testing.T) {
	here := record.Host{Hostname: "a", CPUs: 2}
	there := record.Run{ID: "latency-1", Study: "latency", Version: "v2", Host: here, Status: record.Complete,
		Command: strings.Fields("tare --home /srv latency cpu --yes")}
	run := reproduction.Run{Claims: claims(t, "S4.1", "S4.2"), Study: "latency", Command: strings.Fields("tare latency cpu")}
	with := func(change func(*record.Run)) record.Run {
		r := there
		change(&r)
		return r
	}
	verdicts := func(of string, both ...claim.Verdict) map[string]claim.Judgement {
		return map[string]claim.Judgement{
			"S4.1": {Claim: "S4.1", Run: of, Verdict: both[0]}, "S4.2": {Claim: "S4.2", Run: of, Verdict: both[1]},
		}
	}
	another := with(func(r *record.Run) { r.Command = strings.Fields("tare latency cpu --duration 1s") })
	for _, c := range []struct {
		name            string
		run             record.Run
		latest          map[string]claim.Judgement
		extent          reproduction.Extent
		decided, resume string
	}{
		{name: "the same command", run: there, decided: there.ID},
		{name: "by another version", run: with(func(r *record.Run) { r.Version = "v1" })},
		{name: "on another machine", run: with(func(r *record.Run) { r.Host.CPUs = 4 })},
		{name: "one that failed", run: with(func(r *record.Run) { r.Status = record.Failed })},
		{name: "one that was stopped", run: with(func(r *record.Run) { r.Status = record.Interrupted }), resume: there.ID},
		{name: "one that was killed", run: with(func(r *record.Run) { r.Status = record.Running }), resume: there.ID},
		{name: "with another budget", run: with(func(r *record.Run) { r.Command = append(r.Command, "--budget", "1h") }), decided: there.ID},
		{name: "another command", run: another},
		{name: "another command that decides all", run: another, latest: verdicts(there.ID, claim.Confirmed, claim.Refuted), decided: there.ID},
		{name: "another command that decides a part", run: another, latest: verdicts(there.ID, claim.Confirmed, claim.Inconclusive)},
		{name: "a verdict of a run that is gone", run: another, latest: verdicts("latency-0", claim.Confirmed, claim.Refuted)},
		{name: "as published, by another command", run: another, extent: reproduction.Full, latest: verdicts(there.ID, claim.Confirmed, claim.Refuted)},
	} {
		t.Run(c.name, func(t *testing.T) {
			stored := reproduction.Stored{
				Runs: []record.Run{c.run}, Latest: c.latest, Here: here,
				SameCode: func(r record.Run) bool { return r.Version == "v2" },
				Killed:   func(r record.Run) bool { return r.Status == record.Running },
				Blocks:   func(record.Run) (int, error) { return 3, nil },
			}
			state, err := stored.StateOf(run, c.extent)
			if err != nil {
				t.Fatal(err)
			}
			resume := ""
			if state.Resume != nil {
				resume = state.Resume.ID
			}
			if state.Decided != c.decided || resume != c.resume {
				t.Errorf("decided by %q, goes on with %q; want %q, %q", state.Decided, resume, c.decided, c.resume)
			}
		})
	}
}
