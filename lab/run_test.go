package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tare/overhead"
	"tare/platform"
	"tare/record"
)

func constant(v float64) func(int) (float64, error) {
	return func(n int) (float64, error) { return v + float64(n%3)/1000, nil }
}

func TestEveryBlockHoldsEveryConditionAndTheBaselineTwice(t *testing.T) {
	b := newBench(t, "bare", "box")
	run, err := b.Run(context.Background(), twoPlatforms(&fakeWorkload{name: "w", value: constant(1)}, record.Plan{Blocks: 4}), newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	if run.Status != record.Complete {
		t.Errorf("status %s, want complete", run.Status)
	}
	count := map[string]int{}
	for _, tr := range run.Trials {
		count[fmt.Sprintf("%d/%s/%d", tr.Block, tr.Condition, tr.Replicate)]++
	}
	for block := 1; block <= 4; block++ {
		for _, cell := range []string{"w@bare/0", "w@bare/1", "w@box/0"} {
			if n := count[fmt.Sprintf("%d/%s", block, cell)]; n != 1 {
				t.Errorf("block %d: %s was executed %d times", block, cell, n)
			}
		}
	}
	if count["0/w@bare/0"] != 1 || count["0/w@box/0"] != 1 {
		t.Error("the warm-up did not execute each condition once")
	}
}

// A group that finds levels has nothing twice, when resumed neither.
func TestAGroupThatHasItsBaselineOnce(t *testing.T) {
	b := newBench(t, "bare", "box")
	d := twoPlatforms(&fakeWorkload{name: "w", value: constant(1)}, record.Plan{Blocks: 3})
	d.Groups[0].Once = true
	run, err := b.Run(context.Background(), d, newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	of := map[int]int{}
	for _, trial := range run.Trials {
		of[trial.Block]++
	}
	for block := 1; block <= 3; block++ {
		if of[block] != 2 {
			t.Errorf("block %d has %d trials, want one for each condition", block, of[block])
		}
	}
	r := newRunner(b.Lab, d, run)
	r.recover()
	if got := r.groups["w"].blocks; got != 3 {
		t.Errorf("%d blocks are taken for complete, want 3", got)
	}
}

func TestTheOrderIsDrawnAndRepeatable(t *testing.T) {
	g := twoPlatforms(&fakeWorkload{name: "w"}, record.Plan{}).Groups[0]
	orders := map[string]bool{}
	for block := 1; block <= 50; block++ {
		first, again := order(g, 7, block, 1), order(g, 7, block, 1)
		if fmt.Sprint(first) != fmt.Sprint(again) {
			t.Fatalf("block %d: two draws of one seed differ", block)
		}
		orders[fmt.Sprint(first)] = true
		if len(first) != 3 {
			t.Fatalf("block %d has %d slots, want 3", block, len(first))
		}
		seenFirst := false
		for _, s := range first {
			if s.replicate == 1 && !seenFirst {
				t.Fatalf("block %d: the baseline's second execution comes first", block)
			}
			seenFirst = seenFirst || g.Conditions[s.condition].Baseline
		}
	}
	if len(orders) != 3 {
		t.Errorf("50 blocks show %d of the 3 orders", len(orders))
	}
}

func TestATaintedTrialIsMadeAgainWithinABound(t *testing.T) {
	b := newBench(t, "bare", "box")
	// Two trials of warm-up, three of block 1 of which the second is tainted, twice again.
	b.taints = []string{"", "", "", "steal 9 %", "", "steal 8 %"}
	run, err := b.Run(context.Background(), twoPlatforms(&fakeWorkload{name: "w", value: constant(1)}, record.Plan{Blocks: 1}), newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	type one struct {
		attempt, position, replicate int
		condition                    string
		tainted                      bool
	}
	var got []one
	for _, tr := range run.Trials {
		if tr.Block == 1 {
			got = append(got, one{tr.Attempt, tr.Position, tr.Replicate, tr.Condition, len(tr.Taint) > 0})
		}
	}
	if len(got) != 5 {
		t.Fatalf("%+v: want three trials, and the second made twice again", got)
	}
	for i, g := range got {
		again := got[1]
		again.position = i
		if i == 4 {
			again.attempt, again.tainted = 1, false
		}
		switch {
		case i == 1 || i >= 3:
			if g != again || got[1].attempt != record.MadeAgain {
				t.Errorf("trial %d is %+v, want %+v", i, g, again)
			}
		case g.attempt != 1 || g.position != i || g.tainted:
			t.Errorf("trial %d is %+v", i, g)
		}
	}
	if report := overhead.Analyse(run, overhead.Options{}); report.Groups[0].Blocks != 1 || report.Groups[0].Repeated != 1 || report.Groups[0].Tainted != 0 {
		t.Errorf("the block counts as %+v", report.Groups)
	}

	always := newBench(t, "bare", "box")
	for range 30 {
		always.taints = append(always.taints, "steal 9 %")
	}
	var warned []string
	always.Watch = func(e Event) {
		if e.Kind == Warned && strings.Contains(e.Text, "one more is measured") {
			warned = append(warned, e.Text)
		}
	}
	run, err = always.Run(context.Background(), twoPlatforms(&fakeWorkload{name: "w", value: constant(1)}, record.Plan{Blocks: 1}), newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	tries := map[int]int{} // of trials, by block
	for _, tr := range run.Trials {
		tries[tr.Block]++
	}
	if tries[1] != 3*maxTries {
		t.Errorf("a block of three trials, always tainted, took %d, want %d", tries[1], 3*maxTries)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "block 1 stays disturbed (steal 9 %)") {
		t.Errorf("of the block in its place the warnings are %q, want why, once", warned)
	}
}

func TestTheBudgetWins(t *testing.T) {
	b := newBench(t, "bare", "box")
	run, err := b.Run(context.Background(), twoPlatforms(&fakeWorkload{name: "w", value: constant(1)}, record.Plan{Budget: 20 * time.Second, Precision: 1e-9, PilotBlocks: 2}), newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	// Warm-up takes 2 s, a block 3 s: six blocks end at 20 s.
	if last := run.Trials[len(run.Trials)-1].Block; last != 6 {
		t.Errorf("%d blocks in 20 s, want 6", last)
	}
}

// What is made again has to fit with all that is due before it.
func TestTheBudgetWinsOverMakingAgain(t *testing.T) {
	b := newBench(t, "bare", "box")
	for range 30 {
		b.taints = append(b.taints, "steal 9 %")
	}
	run, err := b.Run(context.Background(), twoPlatforms(&fakeWorkload{name: "w", value: constant(1)}, record.Plan{Budget: 8 * time.Second, Precision: 1e-9, PilotBlocks: 2}), newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	// Warm-up takes 2 s, and each pass of the block's three trials 3 s: a third does not fit.
	if n := len(run.Trials); n != 2+2*3 {
		t.Errorf("%d trials of a second each within 8 s, want 8", n)
	}
}

func TestSteinsSecondStageEndsARun(t *testing.T) {
	b := newBench(t, "bare", "box")
	run, err := b.Run(context.Background(), twoPlatforms(&fakeWorkload{name: "w", value: constant(1)}, record.Plan{Precision: 0.5, PilotBlocks: 3}), newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	if last := run.Trials[len(run.Trials)-1].Block; last != 3 || run.Plan.StageTwoBlocks != 3 {
		t.Errorf("%d blocks, second stage %d; a spread of 0.1 %% needs no more than the pilot's 3", last, run.Plan.StageTwoBlocks)
	}
}

func TestAConditionThatCannotRunIsReportedBeforeAnythingIsMeasured(t *testing.T) {
	b := newBench(t, "bare", "box")
	b.platforms["box"].launchErr = func(int) error { return errors.New("exec /bin/true: no such file") }
	_, err := b.Run(context.Background(), twoPlatforms(&fakeWorkload{name: "w", value: constant(1)}, record.Plan{Blocks: 2}), newRun("r"))
	if err == nil || !strings.Contains(err.Error(), "w@box") || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v, want the condition and its cause", err)
	}
	stored, _ := b.Store.Run("r")
	if stored.Status != record.Failed {
		t.Errorf("status %s, want failed", stored.Status)
	}
}

func TestAFailedTrialIsKeptAndTheRunGoesOn(t *testing.T) {
	b := newBench(t, "bare", "box")
	w := &fakeWorkload{name: "w", value: func(n int) (float64, error) {
		if n == 4 {
			return 0, errors.New("wrong answer")
		}
		return 1, nil
	}}
	run, err := b.Run(context.Background(), twoPlatforms(w, record.Plan{Blocks: 2}), newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, tr := range run.Trials {
		if tr.Error != "" {
			failed++
			if len(tr.Samples) > 0 {
				t.Error("a failed trial kept samples")
			}
		}
	}
	if failed != 1 || run.Status != record.Complete {
		t.Errorf("%d failed trials, status %s", failed, run.Status)
	}
}

// A watch sees each trial's program while it is driven, and is ended however that
// went; what it tells is the trial's.
func TestAWatchedConditionIsWatchedWhileItIsDriven(t *testing.T) {
	b := newBench(t, "bare", "box")
	watching, ended := 0, 0
	w := &fakeWorkload{name: "w", value: func(n int) (float64, error) {
		if n == 5 {
			return 0, errors.New("wrong answer")
		}
		return 1, nil
	}}
	d := twoPlatforms(w, record.Plan{Blocks: 2})
	for i := range d.Groups[0].Conditions {
		d.Groups[0].Conditions[i].Watch = func(_ context.Context, on Bench, inst platform.Instance) (func(context.Context) error, error) {
			if pids, err := inst.Processes(); err != nil || len(pids) == 0 {
				t.Errorf("no program is watched: %v", err)
			}
			watching++
			return func(context.Context) error {
				ended++
				on.Covariate("migrations", float64(ended))
				return nil
			}, nil
		}
	}
	run, err := b.Run(context.Background(), d, newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	if watching == 0 || watching != ended {
		t.Errorf("%d watches began and %d ended", watching, ended)
	}
	for _, trial := range run.Trials {
		if _, known := trial.Covariates["migrations"]; !known {
			t.Errorf("block %d, %s: nothing was recorded", trial.Block, trial.Condition)
		}
	}
}

// What is not watched although it should be tells nothing.
func TestAWatchThatFailsFailsItsTrial(t *testing.T) {
	for _, late := range []bool{false, true} {
		b := newBench(t, "bare", "box")
		d := twoPlatforms(&fakeWorkload{name: "w", value: constant(1)}, record.Plan{Blocks: 1})
		d.Groups[0].Conditions[1].Watch = func(context.Context, Bench, platform.Instance) (func(context.Context) error, error) {
			lost := errors.New("events were lost")
			if late {
				return func(context.Context) error { return lost }, nil
			}
			return nil, lost
		}
		if _, err := b.Run(context.Background(), d, newRun("r")); err == nil || !strings.Contains(err.Error(), "events were lost") {
			t.Errorf("late %v: got %v, want the watch's own error", late, err)
		}
	}
}

func TestAnEngineThatDiesInterruptsAndResumeFinishes(t *testing.T) {
	b := newBench(t, "bare", "box")
	b.platforms["box"].launchErr = func(n int) error {
		if n == 4 { // warm-up, blocks 1 and 2, then block 3
			return fmt.Errorf("create container: %w", platform.ErrGone)
		}
		return nil
	}
	w := &fakeWorkload{name: "w", value: constant(1)}
	d := twoPlatforms(w, record.Plan{Blocks: 5})
	run, err := b.Run(context.Background(), d, newRun("r"))
	var i *Interrupted
	if !errors.As(err, &i) || !strings.Contains(i.Reason, "block 3") {
		t.Fatalf("got %v, want an interruption in block 3", err)
	}
	if run.Status != record.Interrupted || len(run.Trials) < 8 {
		t.Fatalf("status %s with %d trials: what was measured must be kept", run.Status, len(run.Trials))
	}
	run.Trials = nil // as in a list of runs
	run, err = b.Resume(context.Background(), d, run)
	if err != nil {
		t.Fatal(err)
	}
	if run.Status != record.Complete {
		t.Errorf("status %s after resume", run.Status)
	}
	complete := map[int]int{}
	last := map[int]int{}
	for _, tr := range run.Trials {
		last[tr.Block] = max(last[tr.Block], tr.Attempt)
	}
	for _, tr := range run.Trials {
		if tr.Attempt == last[tr.Block] {
			complete[tr.Block]++
		}
	}
	for block := 1; block <= 5; block++ {
		if complete[block] != 3 {
			t.Errorf("block %d has %d trials in its last attempt, want 3", block, complete[block])
		}
	}
	if last[3] != 2 || last[2] != 1 {
		t.Errorf("attempts %v: only the block that was cut short is executed again", last)
	}
}

func TestResumeRefusesAnotherDesign(t *testing.T) {
	b := newBench(t, "bare", "box")
	ctx, cancel := context.WithCancelCause(context.Background())
	w := &fakeWorkload{name: "w", value: func(n int) (float64, error) {
		if n == 7 {
			cancel(ErrStopped)
		}
		return 1, nil
	}}
	d := twoPlatforms(w, record.Plan{Blocks: 5})
	run, err := b.Run(ctx, d, newRun("r"))
	var i *Interrupted
	if !errors.As(err, &i) || !strings.Contains(i.Reason, ErrStopped.Error()) {
		t.Fatalf("got %v, want the user's stop", err)
	}
	d.Groups[0].Conditions[1].Factors = map[string]string{"rate": "2"}
	if _, err := b.Resume(context.Background(), d, run); err == nil || !strings.Contains(err.Error(), "was another one") {
		t.Errorf("got %v, want a refusal of another condition of that name", err)
	}
	older := run
	older.Plan.Code = Code - 1
	if _, err := b.Resume(context.Background(), d, older); err == nil || !strings.Contains(err.Error(), "other code") {
		t.Errorf("got %v, want a refusal of what other code measured", err)
	}
	d.Groups[0].Conditions[1].ID = "w@other"
	if _, err := b.Resume(context.Background(), d, run); err == nil || !strings.Contains(err.Error(), "w@other") {
		t.Errorf("got %v, want a refusal that names w@other", err)
	}
}

func TestASettingThatIsNotInForceIsRefused(t *testing.T) {
	b := newBench(t, "bare", "box")
	b.platforms["box"].force = platform.InForce{NetworkNS: "host", Seccomp: 2, CPUQuota: 100 * time.Millisecond, CPUPeriod: 100 * time.Millisecond}
	d := twoPlatforms(&fakeWorkload{name: "w", value: constant(1)}, record.Plan{Blocks: 1})
	d.Groups[0].Conditions[1].Setting.CPUs = 1.5
	_, err := b.Run(context.Background(), d, newRun("r"))
	if err == nil || !strings.Contains(err.Error(), "asked for 1.5") {
		t.Errorf("got %v, want what was asked and what is in force", err)
	}
}

func TestAMissingPlatformIsFoundBeforeTheRunBegins(t *testing.T) {
	b := newBench(t, "bare", "box")
	b.platforms["box"].checkErr = &platform.Missing{What: "no box here", Mend: "install box"}
	_, err := b.Run(context.Background(), twoPlatforms(&fakeWorkload{name: "w", value: constant(1)}, record.Plan{Blocks: 1}), newRun("r"))
	var missing *platform.Missing
	if !errors.As(err, &missing) {
		t.Errorf("got %v, want *platform.Missing", err)
	}
	if _, err := b.Store.Run("r"); err == nil {
		t.Error("a run was recorded that never began")
	}
	b.platforms["bare"].released = true // it was never used
}

func TestTaintedBlocksDoNotCountTowardsThePilot(t *testing.T) {
	b := newBench(t, "bare", "box")
	// The warm-up is clean; block 1 stays tainted however often.
	b.taints = []string{"", ""}
	for range 3 * maxTries {
		b.taints = append(b.taints, "steal 9 %")
	}
	run, err := b.Run(context.Background(), twoPlatforms(&fakeWorkload{name: "w", value: constant(1)}, record.Plan{Precision: 0.5, PilotBlocks: 3}), newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	if last := run.Trials[len(run.Trials)-1].Block; last != 4 || run.Plan.Targets["w"] != 3 {
		t.Errorf("%d blocks, target %v; want 4 blocks, of which 3 tell something", last, run.Plan.Targets)
	}
}

func TestWhatIsStoppedEarlyCanBeResumed(t *testing.T) {
	b := newBench(t, "bare", "box")
	ctx, cancel := context.WithCancelCause(context.Background())
	w := &fakeWorkload{name: "w", value: func(n int) (float64, error) {
		if n == 3 {
			cancel(ErrStopped)
		}
		return 1, nil
	}}
	d := twoPlatforms(w, record.Plan{Blocks: 2})
	run, err := b.Run(ctx, d, newRun("r"))
	var i *Interrupted
	if !errors.As(err, &i) || run.Status != record.Interrupted {
		t.Fatalf("stopped in block 1: %v, status %s; want an interruption", err, run.Status)
	}
	if run, err = b.Resume(context.Background(), d, run); err != nil || run.Status != record.Complete {
		t.Errorf("resumed: %v, status %s", err, run.Status)
	}
}

// A pause is counted once, though a resumed run is killed before a trial of it has ended.
func TestAPauseIsCountedOnce(t *testing.T) {
	b := newBench(t, "bare", "box")
	ctx, cancel := context.WithCancelCause(context.Background())
	var killed record.Run // as its process's end leaves it
	w := &fakeWorkload{name: "w", value: func(n int) (float64, error) {
		switch n {
		case 3:
			cancel(ErrStopped)
		case 4:
			var err error
			if killed, err = b.Store.Run("r"); err != nil {
				return 0, err
			}
			cancel(ErrStopped)
		}
		return 1, nil
	}}
	d := twoPlatforms(w, record.Plan{Blocks: 2})
	run, err := b.Run(ctx, d, newRun("r"))
	if run.Status != record.Interrupted {
		t.Fatalf("status %s: %v", run.Status, err)
	}
	run.Finished = b.clock.now() // the store has a clock of its own
	b.clock.pass(time.Hour)
	before := len(run.Trials)
	ctx, cancel = context.WithCancelCause(context.Background())
	defer func() { cancel(nil) }()
	if _, err = b.Resume(ctx, d, run); err == nil {
		t.Fatal("not interrupted")
	}
	if killed.Plan.Paused != time.Hour || !killed.Finished.IsZero() || len(killed.Trials) != before {
		t.Fatalf("resumed: paused %v, finished %v, %d trials, of which %d are old", killed.Plan.Paused, killed.Finished, len(killed.Trials), before)
	}
	b.clock.pass(time.Hour)
	b.platforms["bare"].names, b.platforms["box"].names = nil, nil // what was there is cleared away
	run, err = b.Resume(context.Background(), d, killed)
	// What the killed one was about is lost, and a pause too.
	if most := 2*time.Hour + time.Minute; err != nil || run.Plan.Paused < 2*time.Hour || run.Plan.Paused > most {
		t.Errorf("paused %v, want 2h to %v: %v", run.Plan.Paused, most, err)
	}
}

func TestResumeRefusesAnotherRuntime(t *testing.T) {
	b := newBench(t, "bare", "box")
	ctx, cancel := context.WithCancelCause(context.Background())
	w := &fakeWorkload{name: "w", value: func(n int) (float64, error) {
		if n == 6 {
			cancel(ErrStopped)
		}
		return 1, nil
	}}
	d := twoPlatforms(w, record.Plan{Blocks: 5})
	run, err := b.Run(ctx, d, newRun("r"))
	if err == nil {
		t.Fatal("not interrupted")
	}
	others := []record.Condition{{ID: "a", Process: &platform.Process{Env: []string{"A=1"}}}}
	same := []record.Condition{{ID: "a", Process: &platform.Process{Env: []string{"A=1"}}}}
	if err := sameThings(others, same); err != nil {
		t.Error(err)
	}
	same[0].Process.Env = nil
	if err := sameThings(others, same); err == nil || !strings.Contains(err.Error(), "environment") {
		t.Errorf("another environment: %v", err)
	}
	run.Conditions[1].Version = "fake 0.9"
	if _, err := b.Resume(context.Background(), d, run); err == nil || !strings.Contains(err.Error(), "fake 0.9") {
		t.Errorf("got %v, want a refusal that names both versions", err)
	}
}
