package claim_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/claim"
	"tare/record"
	"tare/workload"
)

// shelf is a store of runs, newest first; it tells which were read.
type shelf struct {
	runs   []record.Run
	read   []string
	pruned string
	broken error
}

func (s *shelf) Runs() ([]record.Run, error) { return s.runs, s.broken }

func (s *shelf) Run(id string) (record.Run, error) {
	s.read = append(s.read, id)
	if id == s.pruned {
		return record.Run{}, &record.NotFound{ID: id}
	}
	for _, r := range s.runs {
		if r.ID == id {
			return r, nil
		}
	}
	return record.Run{}, errors.New("no such run")
}

// speaking judges by a table of verdicts, by run.
func speaking(verdicts map[string][]claim.Judgement) map[string]claim.Judge {
	return map[string]claim.Judge{"startup": func(r record.Run) []claim.Judgement { return verdicts[r.ID] }}
}

func best(t *testing.T, s *shelf, judges map[string]claim.Judge) (map[string]claim.Judgement, []string) {
	t.Helper()
	found, notes, err := claim.Best(s, judges, here)
	if err != nil {
		t.Fatal(err)
	}
	return found, notes
}

func TestBestTakesTheNewestOfRunsOfEquallyManyBlocks(t *testing.T) {
	old, middle, recent := finished("startup-1", noon), finished("startup-2", noon.Add(time.Hour)), finished("startup-3", noon.Add(2*time.Hour))
	s := &shelf{runs: []record.Run{recent, middle, old}}
	found, notes := best(t, s, speaking(map[string][]claim.Judgement{
		"startup-1": {judgement("S1.1", claim.Refuted), judgement("S1.3", claim.Refuted)},
		"startup-2": {judgement("S1.1", claim.Confirmed)},
		"startup-3": {judgement("S1.4", claim.Inconclusive)},
	}))
	for id, want := range map[string]struct {
		verdict claim.Verdict
		run     string
	}{"S1.1": {claim.Confirmed, "startup-2"}, "S1.3": {claim.Refuted, "startup-1"}, "S1.4": {claim.Inconclusive, "startup-3"}} {
		if got := found[id]; got.Verdict != want.verdict || got.Run != want.run {
			t.Errorf("%s is %s by %s, want %s by %s", id, got.Verdict, got.Run, want.verdict, want.run)
		}
	}
	if _, judged := found["S1.2"]; judged || len(found) != 3 || len(notes) != 0 {
		t.Errorf("judged %d claims, S1.2 among them %t, notes %q", len(found), judged, notes)
	}
}

func TestBestPassesOverOtherRuns(t *testing.T) {
	for name, edit := range map[string]func(*record.Run){
		"of another host":    func(r *record.Run) { r.Host.Hostname = "elsewhere" },
		"of other CPUs":      func(r *record.Run) { r.Host.CPUs = 4 },
		"of another CPU":     func(r *record.Run) { r.Host.CPUModel = "Xeon" },
		"of another virtual": func(r *record.Run) { r.Host.Virtual = "none" },
		"interrupted":        func(r *record.Run) { r.Status = record.Interrupted },
		"running":            func(r *record.Run) { r.Status = record.Running },
		"failed":             func(r *record.Run) { r.Status = record.Failed },
		"imported":           func(r *record.Run) { r.Status = record.Imported },
		"of another study":   func(r *record.Run) { r.Study = "weigh" },
	} {
		run := finished("startup-1", noon)
		edit(&run)
		s := &shelf{runs: []record.Run{run}}
		found, _ := best(t, s, speaking(map[string][]claim.Judgement{"startup-1": {judgement("S1.1", claim.Confirmed)}}))
		if len(found) != 0 || len(s.read) != 0 {
			t.Errorf("%s: judged %v, read %v", name, found, s.read)
		}
	}
}

// ofBlocks is a run of so many blocks of one condition.
func ofBlocks(id string, hours, blocks int) record.Run {
	r := finished(id, noon.Add(time.Duration(hours)*time.Hour))
	r.Conditions = []record.Condition{{ID: "empty@docker", Workload: "empty", Platform: "docker"}}
	for block := 1; block <= blocks; block++ {
		r.Trials = append(r.Trials, record.Trial{ID: int64(100*hours + block), Condition: "empty@docker", Workload: "empty", Block: block, Attempt: 1})
	}
	return r
}

// A quick run hides no long one, whichever is the newer.
func TestBestTakesTheRunOfMostBlocks(t *testing.T) {
	long, quick := ofBlocks("startup-1", 0, 9), ofBlocks("startup-2", 1, 2)
	quick.Conditions[0].Platform = "oci:runc"
	found, _ := best(t, &shelf{runs: []record.Run{quick, long}}, speaking(map[string][]claim.Judgement{
		"startup-1": {judgement("S1.1", claim.Refuted)},
		"startup-2": {judgement("S1.1", claim.Confirmed), judgement("S1.2", claim.Confirmed)},
	}))
	if found["S1.1"].Run != "startup-1" || found["S1.2"].Run != "startup-2" {
		t.Errorf("S1.1 by %s, S1.2 by %s", found["S1.1"].Run, found["S1.2"].Run)
	}
	// What older code measured comes after what the newest did, however long, and is not read in vain.
	quick.Plan.Code = long.Plan.Code + 1
	all := []claim.Judgement{judgement("S1.1", claim.Confirmed), judgement("S1.2", claim.Confirmed), judgement("S1.3", claim.Confirmed), judgement("S1.4", claim.Confirmed)}
	s := &shelf{runs: []record.Run{quick, long}}
	found, _ = best(t, s, speaking(map[string][]claim.Judgement{"startup-1": all, "startup-2": all}))
	if found["S1.1"].Run != "startup-2" || !slices.Equal(s.read, []string{"startup-2"}) {
		t.Errorf("S1.1 by %s, read %q", found["S1.1"].Run, s.read)
	}
}

// A run of more conditions with an interval hides those of a part of them, and of two of the same
// conditions that which measured for longer counts, whichever is the newer.
func TestBestTakesTheRunOfMostConditions(t *testing.T) {
	of := func(id string, hours, blocks int, conditions ...string) record.Run {
		r := ofBlocks(id, hours, blocks)
		for _, c := range conditions {
			r.Conditions = append(r.Conditions, record.Condition{ID: c, Workload: "empty"})
		}
		return r
	}
	disturbed := of("startup-2", 1, 9)
	for i := range disturbed.Trials[2:] {
		disturbed.Trials[2+i].Taint = []string{"steal"}
	}
	longer := of("startup-2", 0, 3)
	longer.Plan.Design = "longer"
	for i := range longer.Trials {
		longer.Trials[i].Elapsed = time.Minute
	}
	for name, c := range map[string]struct {
		runs []record.Run
		want string
	}{
		"all applications, and more blocks of one": {[]record.Run{of("startup-1", 1, 8), of("startup-2", 0, 3, "redis@docker")}, "startup-2"},
		"too few blocks of all":                    {[]record.Run{of("startup-2", 1, 8), of("startup-1", 0, 2, "redis@docker")}, "startup-2"},
		"longer steps":                             {[]record.Run{of("startup-1", 1, 3), longer}, "startup-2"},
		"disturbed blocks":                         {[]record.Run{disturbed, of("startup-3", 0, 3, "redis@docker")}, "startup-3"},
	} {
		all := []claim.Judgement{judgement("S1.1", claim.Confirmed)}
		found, _ := best(t, &shelf{runs: c.runs}, speaking(map[string][]claim.Judgement{"startup-1": all, "startup-2": all, "startup-3": all}))
		if found["S1.1"].Run != c.want {
			t.Errorf("%s: by %s, want %s", name, found["S1.1"].Run, c.want)
		}
	}
}

// Runs of one design on one host are one run; another design, or host as it is now, is none of them.
func TestBestPoolsRunsOfOneDesign(t *testing.T) {
	blocks, levels := map[string]int{}, map[string]float64{}
	judges := map[string]claim.Judge{"startup": func(r record.Run) []claim.Judgement {
		seen := map[int]bool{}
		for _, trial := range r.Trials {
			seen[trial.Block] = true
		}
		blocks[r.ID] = len(seen)
		levels[r.ID] = r.Plan.Level
		return []claim.Judgement{judgement("S1.1", claim.Confirmed)}
	}}
	old, recent, other, upgraded := ofBlocks("startup-1", 0, 3), ofBlocks("startup-2", 1, 4), ofBlocks("startup-3", 2, 5), ofBlocks("startup-4", 3, 6)
	other.Conditions[0].Params = workload.Params{"data": "500"}
	upgraded.Host.Kernel = "6.19"
	s := &shelf{runs: []record.Run{upgraded, other, recent, old}}
	found, notes := best(t, s, judges)
	if got := found["S1.1"]; got.Run != "startup-2" || !strings.Contains(got.Rests, "2 runs pooled: startup-2, startup-1") || len(notes) > 0 {
		t.Errorf("%+v, %q", got, notes)
	}
	if blocks["startup-2"] != 7 || blocks["startup-3"] != 5 || blocks["startup-4"] != 6 {
		t.Errorf("judged of so many blocks: %v", blocks)
	}
	// Two looks at it: each may miss half as often.
	if single, pooled := levels["startup-3"], levels["startup-2"]; math.Abs(1-pooled-(1-single)/2) > 1e-9 {
		t.Errorf("the level of two runs is %v, of one %v", pooled, single)
	}
	if len(old.Trials) != 3 || old.Trials[0].Block != 1 {
		t.Error("the runs themselves were changed")
	}
}

func TestBestSaysWhatHasChangedSince(t *testing.T) {
	run := finished("startup-1", noon)
	run.Host.Kernel, run.Host.THP, run.Host.Memory = "6.17", "", 1<<30
	found, _ := best(t, &shelf{runs: []record.Run{run}}, speaking(map[string][]claim.Judgement{"startup-1": {judgement("S1.1", claim.Confirmed)}}))
	if want := []string{"kernel 6.17 then, 6.18 now", "huge pages none then, madvise now"}; !slices.Equal(found["S1.1"].Since, want) {
		t.Errorf("since then: %q, want %q", found["S1.1"].Since, want)
	}
}

func TestBestGoesOnWithoutABrokenRun(t *testing.T) {
	s := &shelf{pruned: "startup-3", runs: []record.Run{finished("startup-3", noon.Add(2*time.Hour)), finished("startup-2", noon.Add(time.Hour)), finished("startup-1", noon)}}
	found, notes := best(t, s, speaking(map[string][]claim.Judgement{
		"startup-3": {judgement("S1.1", claim.Refuted)},
		"startup-2": {judgement("S9.9", claim.Confirmed)},
		"startup-1": {judgement("S1.1", claim.Confirmed), judgement("S4.1", claim.Confirmed)},
	}))
	if found["S1.1"].Run != "startup-1" || len(found) != 1 {
		t.Errorf("judged %v", found)
	}
	if len(notes) != 2 || !strings.Contains(notes[0], "startup-2") || !strings.Contains(notes[1], "S4.1") {
		t.Errorf("notes %q, want one of startup-2 and one of S4.1", notes)
	}
	if _, _, err := claim.Best(&shelf{broken: errors.New("unreadable")}, speaking(nil), here); err == nil {
		t.Error("an unreadable store is no error")
	}
}

// What was measured elsewhere is no verdict of this host, whatever it was imported
// for and whichever host it says that it is of.
func TestBestLeavesOutWhatWasImported(t *testing.T) {
	imported, ours := finished("import-1", noon.Add(time.Hour)), finished("startup-1", noon)
	imported.Status, imported.Study = record.Imported, "import"
	posing := finished("startup-2", noon.Add(2*time.Hour))
	posing.Status = record.Imported
	s := &shelf{runs: []record.Run{posing, imported, ours}}
	judges := speaking(map[string][]claim.Judgement{"startup-1": {judgement("S1.1", claim.Refuted)}, "startup-2": {judgement("S1.1", claim.Qualified)}})
	judges["import"] = func(record.Run) []claim.Judgement { return []claim.Judgement{judgement("S1.1", claim.Qualified)} }
	found, notes := best(t, s, judges)
	if got := found["S1.1"]; got.Run != "startup-1" || len(found) != 1 || len(notes) != 0 {
		t.Errorf("judged by %+v, notes %q", found, notes)
	}
}
