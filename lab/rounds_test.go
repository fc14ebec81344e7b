package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/kernel/accounting"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

// Each round launches every condition once and the baseline twice, and each of its strips
// measures every instance once. What the pilot has settled is in the plan.
func TestARunInRounds(t *testing.T) {
	b := newBench(t, "bare", "box", "jar")
	s := newStage(t, b)
	w := sliced(s, getDrives)
	s.fail = func(step string, n int, _ *standIn) error {
		if step == "launch" {
			stored, err := b.Store.Run("r")
			if err != nil {
				return err
			}
			if _, planned := stored.Plan.Rounds["w"]; planned != (n > 4*mostPilot) {
				t.Errorf("before launch %d: planned %v", n, planned)
			}
		}
		return nil
	}
	run, err := b.Run(t.Context(), inRounds(w, record.Plan{Blocks: 5}, "bare", "box", "jar"), newRun("r"))
	if err != nil || run.Status != record.Complete {
		t.Fatalf("status %s: %v", run.Status, err)
	}
	if !run.Plan.InRounds("w") || run.Plan.Rounds["w"].Pilot != mostPilot {
		t.Errorf("plan %+v", run.Plan)
	}
	launched, orders := map[string]int{}, map[string]bool{}
	for _, trial := range run.Trials {
		if trial.Error != "" || trial.Elapsed <= 0 {
			t.Errorf("round %d, %s: %q after %v", trial.Block, trial.Condition, trial.Error, trial.Elapsed)
		}
		if trial.Block > 0 {
			launched[fmt.Sprintf("%d %s/%d", trial.Block, trial.Condition, trial.Replicate)]++
		}
	}
	for round := 1; round <= 5; round++ {
		for _, seat := range []string{"w@bare/0", "w@bare/1", "w@box/0", "w@jar/0"} {
			if n := launched[fmt.Sprintf("%d %s", round, seat)]; n != 1 {
				t.Errorf("round %d launched %s %d times", round, seat, n)
			}
		}
	}
	if len(launched) != 5*4 {
		t.Errorf("launched in five rounds: %v", launched)
	}
	at := places(run)
	strips := run.Plan.Rounds["w"].Strips
	if want := 5 * (strips + max(1, strips/openEvery)); len(at) != want {
		t.Errorf("%d strips, want %d", len(at), want)
	}
	for strip, order := range at {
		if got := slices.Sorted(slices.Values(order)); !slices.Equal(got, []string{"w@bare/0", "w@bare/1", "w@box/0", "w@jar/0"}) {
			t.Errorf("strip %s measured %v", strip, got)
		}
		orders[fmt.Sprint(order)] = true
	}
	if len(orders) < 10 {
		t.Errorf("%d strips were in %d of 24 orders", len(at), len(orders))
	}
	for _, c := range run.Conditions {
		if len(c.Metrics) != 2 || c.Metrics[0].Figure != workload.FigureRate {
			t.Errorf("metrics of %s: %+v", c.ID, c.Metrics)
		}
	}
}

// The order of launch, that of each strip and what programs find depend on the seed alone:
// neither on which ports are free nor on what fails.
func TestTheOrderOfARoundIsTheSeeds(t *testing.T) {
	measure := func(seed int64, taken func(int) bool, fail bool) (strips map[string][]string, launches []string) {
		b := newBench(t, "bare", "box", "jar")
		s := newStage(t, b)
		b.PortFree = func(port int) bool { return !taken(port) }
		if fail {
			s.fail = func(step string, _ int, of *standIn) error {
				if step == "load" && s.count["launch"] == 4*(mostPilot+1) && of.platform == "jar" {
					return errors.New("no answer")
				}
				return nil
			}
		}
		d := inRounds(sliced(s, getDrive), record.Plan{Blocks: 2}, "bare", "box", "jar")
		d.Seed = seed
		run, err := b.Run(t.Context(), d, newRun("r"))
		if err != nil {
			t.Fatal(err)
		}
		for _, trial := range run.Trials {
			launches = append(launches, fmt.Sprint(trial.Block, trial.Condition, trial.Replicate, trial.Covariates["padding_bytes"]))
		}
		return places(run), launches
	}
	none := func(int) bool { return false }
	strips, launches := measure(7, none, false)
	again, launchedAgain := measure(7, func(port int) bool { return port < 26000 }, false)
	if !reflect.DeepEqual(strips, again) || !slices.Equal(launches, launchedAgain) {
		t.Error("other ports, another order")
	}
	failing, _ := measure(7, none, true)
	for strip, order := range failing {
		if strip[0] == '2' && !slices.Equal(order, strips[strip]) {
			t.Errorf("strip %s is %v, and was %v before anything failed", strip, order, strips[strip])
		}
		if strip[0] == '1' && !slices.Equal(order, slices.DeleteFunc(slices.Clone(strips[strip]), func(at string) bool { return at == "w@jar/0" })) {
			t.Errorf("strip %s is %v, and was %v with what failed", strip, order, strips[strip])
		}
	}
	if other, _ := measure(8, none, false); reflect.DeepEqual(strips, other) {
		t.Error("another seed, the same order")
	}
}

// Whatever step fails, and whenever, nothing is left, and the run ends or goes on. The
// bench and the stage see what is left.
func TestARoundLeavesNothingWhereAStepFails(t *testing.T) {
	for _, step := range []string{"launch", "ready", "slices", "load", "freeze", "thaw", "usage", "stop"} {
		for _, nth := range []int{1, 2, 4, 13, 40} {
			t.Run(fmt.Sprint(step, nth), func(t *testing.T) {
				b := newBench(t, "bare", "box")
				s := newStage(t, b)
				broke := false
				s.fail = func(name string, n int, _ *standIn) error {
					if name == step && n == nth {
						broke = true
						return errors.New("it broke")
					}
					return nil
				}
				run, err := b.Run(t.Context(), inRounds(sliced(s, getDrives), record.Plan{Blocks: 2}, "bare", "box"), newRun("r"))
				if err != nil && !strings.Contains(err.Error(), "it broke") || !broke && err != nil {
					t.Errorf("%s %d: %v", step, nth, err)
				}
				if err == nil && run.Status != record.Complete {
					t.Errorf("status %s without an error", run.Status)
				}
			})
		}
	}
}

// A run that is stopped at any moment leaves nothing, keeps the strips that were complete,
// and can be resumed: the pilot is not repeated, its choices stay, and rounds go on.
func TestARunInRoundsIsStoppedAndResumed(t *testing.T) {
	whole := newBench(t, "bare", "box")
	sw := newStage(t, whole)
	if _, err := whole.Run(t.Context(), inRounds(sliced(sw, getDrive), record.Plan{Blocks: 3}, "bare", "box"), newRun("r")); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"launch", "ready", "slices", "load", "freeze", "thaw"} {
		for moment := 1; moment <= sw.count[step]; moment += 1 + sw.count[step]/4 {
			t.Run(fmt.Sprint(step, moment), func(t *testing.T) {
				b := newBench(t, "bare", "box")
				s := newStage(t, b)
				w := sliced(s, getDrive)
				ctx, cancel := context.WithCancelCause(t.Context())
				s.fail = func(name string, n int, _ *standIn) error {
					if name == step && n == moment {
						cancel(ErrStopped)
						return context.Canceled
					}
					return nil
				}
				d := inRounds(w, record.Plan{Blocks: 3}, "bare", "box")
				run, err := b.Run(ctx, d, newRun("r"))
				if i := (*Interrupted)(nil); !errors.As(err, &i) || !strings.Contains(i.Reason, ErrStopped.Error()) || run.Status != record.Interrupted {
					t.Fatalf("status %s: %v", run.Status, err)
				}
				if len(b.warned("blocks")) > 0 {
					t.Error("a pilot that is stopped makes blocks of rounds")
				}
				kept := places(run)
				for strip, order := range kept {
					if len(order) != 3 {
						t.Errorf("half of strip %s was kept: %v", strip, order)
					}
				}
				plan, settled := run.Plan.Rounds["w"]
				for _, p := range b.platforms {
					p.names = nil // what was there is cleared away
				}
				s.fail = nil
				before := s.count["launch"]
				if run, err = b.Resume(t.Context(), inRounds(w, record.Plan{Blocks: 3}, "bare", "box"), run); err != nil || run.Status != record.Complete {
					t.Fatalf("resumed: status %s: %v", run.Status, err)
				}
				if settled && !reflect.DeepEqual(run.Plan.Rounds["w"], plan) {
					t.Errorf("the pilot's choices were %+v and are %+v", plan, run.Plan.Rounds["w"])
				}
				launches := s.count["launch"] - before
				if most := 9; settled && launches > most {
					t.Errorf("%d launches for three rounds at most", launches)
				}
				after := places(run)
				for strip := range kept {
					if !slices.Equal(kept[strip], after[strip]) {
						t.Errorf("strip %s was %v and is %v", strip, kept[strip], after[strip])
					}
				}
				rounds := map[string]bool{}
				for strip := range after {
					rounds[strip[:1]] = true
				}
				if len(rounds) != 3 {
					t.Errorf("strips of rounds %v, want those of three", slices.Sorted(maps.Keys(rounds)))
				}
			})
		}
	}
}

// A condition that fails takes no further part in its round; the others go on.
func TestWhatFailsInARoundIsLeftOut(t *testing.T) {
	b := newBench(t, "bare", "box", "jar")
	s := newStage(t, b)
	s.fail = func(step string, _ int, of *standIn) error {
		// In the first round after the pilot, after five loads.
		if step == "load" && of.platform == "box" && s.count["launch"] == 4*(mostPilot+1) && of.loads >= 5 {
			return errors.New("no answer")
		}
		return nil
	}
	run, err := b.Run(t.Context(), inRounds(sliced(s, getDrive), record.Plan{Blocks: 2}, "bare", "box", "jar"), newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	var failed []record.Trial
	for _, trial := range run.Trials {
		if trial.Error != "" {
			failed = append(failed, trial)
		}
	}
	if len(failed) != 1 || failed[0].Condition != "w@box" || failed[0].Block != 1 || len(failed[0].Slices) == 0 || !strings.Contains(failed[0].Error, "no answer") {
		t.Fatalf("failed: %+v", failed)
	}
	at := places(run)
	last := run.Plan.Rounds["w"].Strips
	if order := at[fmt.Sprintf("1.%d", last)]; len(order) != 3 {
		t.Errorf("the last strip of the round has %v", order)
	}
	if order := at[fmt.Sprintf("2.%d", last)]; len(order) != 4 {
		t.Errorf("the last strip of the next round has %v", order)
	}
}

// Three rounds in a row end a run, whether a condition fails at its launch or in the midst;
// two do not, and a baseline of which one of two instances failed counts once a round.
func TestThreeFailedRoundsInARowEndARun(t *testing.T) {
	for _, c := range []struct {
		step, on string
		rounds   int
		ends     bool
	}{{"launch", "box", 3, true}, {"load", "box", 3, true}, {"load", "box", 2, false}, {"launch", "bare", 2, false}, {"load", "bare", 3, true}} {
		b := newBench(t, "bare", "box")
		s := newStage(t, b)
		s.fail = func(step string, _ int, of *standIn) error {
			round := (s.count["launch"]+2)/3 - mostPilot
			if step == c.step && of.platform == c.on && round >= 1 && round <= c.rounds {
				return errors.New("no answer")
			}
			return nil
		}
		run, err := b.Run(t.Context(), inRounds(sliced(s, getDrive), record.Plan{Blocks: 4}, "bare", "box"), newRun("r"))
		if c.ends != (err != nil) {
			t.Errorf("%+v: %v", c, err)
		}
		if c.ends && (!strings.Contains(err.Error(), "w@"+c.on+" failed 3 times in a row") || run.Status != record.Interrupted) {
			t.Errorf("%+v: status %s: %v", c, run.Status, err)
		}
	}
}

// An engine that is gone ends the run at once, and it can be resumed.
func TestAnEngineThatIsGoneEndsARunInRounds(t *testing.T) {
	b := newBench(t, "bare", "box")
	s := newStage(t, b)
	s.fail = func(step string, n int, of *standIn) error {
		if step == "launch" && n > 3*(mostPilot+1) && of.platform == "box" {
			return fmt.Errorf("create container: %w", platform.ErrGone)
		}
		return nil
	}
	run, err := b.Run(t.Context(), inRounds(sliced(s, getDrive), record.Plan{Blocks: 4}, "bare", "box"), newRun("r"))
	if !errors.Is(err, platform.ErrGone) && (err == nil || !strings.Contains(err.Error(), "round 2")) || run.Status != record.Interrupted {
		t.Errorf("status %s: %v", run.Status, err)
	}
}

// What disturbs a span taints all of its strips, and no others.
func TestTaintIsPerSpan(t *testing.T) {
	measure := func(disturbed int) (run record.Run, spans int) {
		b := newBench(t, "bare", "box")
		b.Judge = func(accounting.Interval, float64, bool) []string {
			if spans++; spans == disturbed {
				return []string{"steal 9 %"}
			}
			return nil
		}
		run, err := b.Run(t.Context(), inRounds(sliced(newStage(t, b), getDrive), record.Plan{Blocks: 2}, "bare", "box"), newRun("r"))
		if err != nil {
			t.Fatal(err)
		}
		return run, spans
	}
	_, spans := measure(0)
	run, _ := measure(spans)
	tainted := map[int]int{} // slices, by strip
	for _, trial := range run.Trials {
		for _, slice := range trial.Slices {
			if len(slice.Taint) == 0 {
				continue
			}
			if trial.Block != 2 {
				t.Errorf("round %d, strip %d is tainted", trial.Block, slice.Strip)
			}
			tainted[slice.Strip]++
		}
		if len(trial.Taint) > 0 {
			t.Error("a strip taints its trial")
		}
	}
	strips := slices.Sorted(maps.Keys(tainted))
	if len(strips) < 2 || strips[len(strips)-1]-strips[0] != len(strips)-1 {
		t.Fatalf("strips %v are tainted, want those of one span", strips)
	}
	for strip, n := range tainted {
		if n != 3 {
			t.Errorf("%d slices of strip %d are tainted, want all three", n, strip)
		}
	}
}

// In one round of five the baseline is launched first and measured alone, too, and by
// longer slices.
func TestControlsOfEveryFifthRound(t *testing.T) {
	b := newBench(t, "bare", "box")
	s := newStage(t, b)
	run, err := b.Run(t.Context(), inRounds(sliced(s, getDrives), record.Plan{Blocks: 5}, "bare", "box"), newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	plan := run.Plan.Rounds["w"]
	for _, trial := range run.Trials {
		count := map[string]int{}
		for _, slice := range trial.Slices {
			count[slice.Control]++
			if slice.Control == record.ControlLong && slice.Window < plan.Long*9/10 {
				t.Errorf("a long slice of %v", slice.Window)
			}
		}
		first := trial.Block == 5 && trial.Condition == "w@bare" && trial.Replicate == 0
		switch {
		case first && (trial.Position != 0 || count[record.ControlAlone] != aloneSlices || count[record.ControlLong] != longSlices):
			t.Errorf("launched as number %d, controls %v", trial.Position, count)
		case !first && count[record.ControlAlone]+count[record.ControlLong] > 0:
			t.Errorf("round %d, %s: controls %v", trial.Block, trial.Condition, count)
		}
	}
}

// Latencies are measured in rounds of few strips, too.
func TestEachRoundHasAnOpenLoop(t *testing.T) {
	b := newBench(t, "bare", "box")
	s := newStage(t, b)
	run, err := b.Run(t.Context(), inRounds(sliced(s, getDrives), record.Plan{Blocks: 2, Budget: time.Second}, "bare", "box"), newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	if strips := run.Plan.Rounds["w"].Strips; strips >= openEvery {
		t.Fatalf("%d strips: not few", strips)
	}
	open := 0
	for _, trial := range run.Trials {
		for _, slice := range trial.Slices {
			if trial.Block == 1 && slice.Part == "get@half" {
				open++
				if rate := slice.Amount / slice.Window.Seconds(); math.Abs(rate-fakeRate/2) > fakeRate/20 {
					t.Errorf("an open loop of %v requests a second, half of the baseline's are %v", rate, fakeRate/2)
				}
			}
		}
	}
	if open != 3 {
		t.Errorf("%d slices of the open loop in round 1, want one of each instance", open)
	}
}

// A group that cannot be measured in rounds is measured in blocks, and the reason is in
// the plan and is reported once.
func TestWhatCannotBeSlicedIsMeasuredInBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *bench, w *slicedFake, d *Design)
		want   string
	}{
		"a platform that does not freeze": {func(b *bench, _ *slicedFake, _ *Design) {
			lookUp := b.Platforms
			b.Platforms = func(name string) (platform.Platform, error) {
				p, err := lookUp(name)
				if name == "box" {
					return p.(*freezer).fakePlatform, err
				}
				return p, err
			}
		}, "box cannot freeze"},
		"a load that has no slices": {func(_ *bench, w *slicedFake, _ *Design) { w.drives = nil }, "--design blocks"},
		"a fixed port":              {func(_ *bench, w *slicedFake, _ *Design) { w.fixed = true }, "a port of its own"},
		"a study's own procedure": {func(_ *bench, w *slicedFake, d *Design) {
			d.Groups[0].Conditions[1].Procedure = func(ctx context.Context, on Bench) error { on.Record("elapsed", 1); return nil }
		}, "trials of its own"},
		"a program that bears no freezing": {func(_ *bench, w *slicedFake, _ *Design) {
			w.stage.fail = func(step string, _ int, of *standIn) error {
				if step == "load" && of.platform == "box" && w.stage.rests > 0 && of.loads > 0 && w.stage.count["freeze"] > 1 && !freshly(w.stage, of) {
					return errors.New("connection reset")
				}
				return nil
			}
		}, "connection reset"},
		"a group that cannot be frozen": {func(_ *bench, w *slicedFake, _ *Design) {
			w.stage.fail = func(step string, _ int, of *standIn) error {
				if step == "freeze" && of.platform == "box" {
					return errors.New("not frozen within 1 s")
				}
				return nil
			}
		}, "not frozen within"},
		"a program that fails in the pilot's strips": {func(_ *bench, w *slicedFake, _ *Design) {
			w.stage.fail = func(step string, n int, of *standIn) error {
				if step == "load" && of.platform == "box" && w.stage.count["launch"] == 6 && of.loads > 4 {
					return errors.New("session has expired")
				}
				return nil
			}
		}, "session has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "bare", "box")
			s := newStage(t, b)
			w := sliced(s, getDrive)
			d := inRounds(w, record.Plan{Blocks: 2}, "bare", "box")
			c.change(b, w, &d)
			run, err := b.Run(t.Context(), d, newRun("r"))
			if err != nil || run.Status != record.Complete {
				t.Fatalf("status %s: %v", run.Status, err)
			}
			if run.Plan.InRounds("w") || !strings.Contains(run.Plan.Blocked["w"], c.want) || len(run.Plan.Rounds) > 0 {
				t.Errorf("plan: blocked %q, rounds %v; want %q", run.Plan.Blocked, run.Plan.Rounds, c.want)
			}
			if warned := b.warned("in blocks"); len(warned) != 1 {
				t.Errorf("warned %q, want it once", warned)
			}
			blocks := 0
			for _, trial := range run.Trials {
				if trial.Block > 0 {
					blocks = max(blocks, trial.Block)
					if len(trial.Samples) == 0 || len(trial.Slices) > 0 {
						t.Errorf("block %d, %s: %d samples, %d slices", trial.Block, trial.Condition, len(trial.Samples), len(trial.Slices))
					}
				}
			}
			if blocks != 2 {
				t.Errorf("%d blocks, want 2", blocks)
			}
			for _, condition := range run.Conditions {
				if len(condition.Metrics) != 1 || condition.Metrics[0].Name != "elapsed" {
					t.Errorf("metrics of %s: %+v", condition.ID, condition.Metrics)
				}
			}
		})
	}
}

// freshly tells whether an instance has not been frozen since its launch: others have.
func freshly(s *stage, i *standIn) bool { return i == s.seen[len(s.seen)-1] && i.loads < 2 }

// A group that fell back to blocks is resumed in blocks.
func TestBlocksInPlaceOfRoundsAreResumed(t *testing.T) {
	b := newBench(t, "bare", "box")
	s := newStage(t, b)
	ctx, cancel := context.WithCancelCause(t.Context())
	w := sliced(s, getDrive)
	w.value = func(n int) (float64, error) {
		if n == 4 {
			cancel(ErrStopped)
		}
		return 1, nil
	}
	s.fail = func(step string, _ int, of *standIn) error {
		if step == "freeze" {
			return errors.New("not frozen within 1 s")
		}
		return nil
	}
	d := inRounds(w, record.Plan{Blocks: 3}, "bare", "box")
	run, err := b.Run(ctx, d, newRun("r"))
	if run.Status != record.Interrupted {
		t.Fatalf("status %s: %v", run.Status, err)
	}
	for _, p := range b.platforms {
		p.names = nil
	}
	s.fail = nil // it would freeze now, and that is too late
	again := inRounds(w, record.Plan{Blocks: 3}, "bare", "box")
	if run, err = b.Resume(t.Context(), again, run); err != nil || run.Status != record.Complete {
		t.Fatalf("status %s: %v", run.Status, err)
	}
	if run.Plan.InRounds("w") || len(b.warned("in blocks")) != 1 {
		t.Errorf("plan %+v, warned %q", run.Plan, b.warned("in blocks"))
	}
}

// A run in rounds that can be measured in blocks alone now is not resumed: its figures are
// others.
func TestRoundsAreNotResumedInBlocks(t *testing.T) {
	b := newBench(t, "bare", "box")
	s := newStage(t, b)
	ctx, cancel := context.WithCancelCause(t.Context())
	s.fail = func(step string, n int, _ *standIn) error {
		if step == "launch" && n > 3*(mostPilot+1) {
			cancel(ErrStopped)
		}
		return nil
	}
	w := sliced(s, getDrive)
	run, err := b.Run(ctx, inRounds(w, record.Plan{Blocks: 3}, "bare", "box"), newRun("r"))
	if run.Status != record.Interrupted {
		t.Fatalf("status %s: %v", run.Status, err)
	}
	w.fixed = true
	if _, err := b.Resume(t.Context(), inRounds(w, record.Plan{Blocks: 3}, "bare", "box"), run); err == nil || !strings.Contains(err.Error(), "cannot be resumed: w was measured in rounds") {
		t.Errorf("got %v", err)
	}
}

// Where all instances need too much memory together, each condition takes its turn, in the
// pilot, in the rounds and after they were resumed.
func TestLargeProgramsTakeTurns(t *testing.T) {
	b := newBench(t, "bare", "box", "jar")
	s := newStage(t, b)
	w := sliced(s, getDrive)
	w.need = 1 << 50
	most := 0
	ctx, cancel := context.WithCancelCause(t.Context())
	s.fail = func(step string, n int, _ *standIn) error {
		most = max(most, len(s.alive))
		if step == "launch" && n == 3*mostPilot+3+2 {
			cancel(ErrStopped)
		}
		return nil
	}
	d := inRounds(w, record.Plan{Blocks: 3}, "bare", "box", "jar")
	run, err := b.Run(ctx, d, newRun("r"))
	if run.Status != record.Interrupted || !run.Plan.Rounds["w"].InPairs {
		t.Fatalf("status %s: %v", run.Status, err)
	}
	for _, p := range b.platforms {
		p.names = nil
	}
	if run, err = b.Resume(t.Context(), inRounds(w, record.Plan{Blocks: 3}, "bare", "box", "jar"), run); err != nil {
		t.Fatal(err)
	}
	if most > 3 {
		t.Errorf("%d instances were up together", most)
	}
	rounds, pilot := map[string]map[int]bool{}, map[string]bool{}
	for _, trial := range run.Trials {
		if trial.Block == 0 {
			pilot[trial.Condition] = true
			continue
		}
		if len(trial.Slices) > 0 {
			if rounds[trial.Condition] == nil {
				rounds[trial.Condition] = map[int]bool{}
			}
			rounds[trial.Condition][trial.Block] = true
		}
	}
	if len(rounds["w@box"]) != 3 || len(rounds["w@jar"]) != 3 || len(rounds["w@bare"]) != 6 || len(pilot) != 3 {
		t.Errorf("rounds of each condition: %v, pilot %v", rounds, pilot)
	}
}

func TestABudgetOfRounds(t *testing.T) {
	for _, c := range []struct {
		budget      time.Duration
		least, most int // rounds
		short       bool
	}{
		{time.Second, 1, 1, true},
		{18 * time.Second, leastRounds, 2 * wantedRounds, false},
		{40 * time.Second, leastRounds, 3 * wantedRounds, false},
		{time.Minute, wantedRounds, 6 * wantedRounds, false},
	} {
		b := newBench(t, "bare", "box")
		s := newStage(t, b)
		w := sliced(s, getDrives)
		w.factor = nil // no variance: as many strips as the budget holds
		began := b.clock.now()
		run, err := b.Run(t.Context(), inRounds(w, record.Plan{Budget: c.budget}, "bare", "box"), newRun("r"))
		if err != nil {
			t.Fatal(err)
		}
		rounds := 0
		for _, trial := range run.Trials {
			rounds = max(rounds, trial.Block)
		}
		took := b.clock.now().Sub(began)
		if rounds < c.least || rounds > c.most || !c.short && took > c.budget*11/10 {
			t.Errorf("%v: %d rounds in %v, want %d to %d; plan %+v", c.budget, rounds, took, c.least, c.most, run.Plan.Rounds["w"])
		}
		warned := b.warned("fewer than 5 rounds")
		if c.short != (len(warned) == 1) {
			t.Errorf("%v: warned %q", c.budget, warned)
		}
		if c.short && !strings.Contains(warned[0], "1s") {
			t.Errorf("warned %q", warned)
		}
	}
}

// What a budget is said to need is enough.
func TestTheBudgetThatIsAskedForIsEnough(t *testing.T) {
	var needs time.Duration
	for i, budget := range []time.Duration{time.Second, 0} {
		if i == 1 {
			budget = needs
		}
		b := newBench(t, "bare", "box")
		s := newStage(t, b)
		run, err := b.Run(t.Context(), inRounds(sliced(s, getDrives), record.Plan{Budget: budget}, "bare", "box"), newRun("r"))
		if err != nil {
			t.Fatal(err)
		}
		warned := b.warned("give it ")
		if i == 1 {
			last := 0
			for _, trial := range run.Trials {
				last = max(last, trial.Block)
			}
			if last < leastRounds {
				t.Errorf("%d rounds within the %v that were asked for; warned %q", last, budget, warned)
			}
			return
		}
		if len(warned) != 1 {
			t.Fatalf("warned %q", warned)
		}
		_, text, _ := strings.Cut(warned[0], "give it ")
		if needs, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
}

// A wanted precision ends a run from the eighth round on.
func TestPrecisionEndsRounds(t *testing.T) {
	b := newBench(t, "bare", "box")
	s := newStage(t, b)
	w := sliced(s, getDrive)
	random := rand.New(rand.NewPCG(1, 2))
	w.factor = func(*standIn, workload.Stretch) float64 { return math.Exp(0.001 * random.NormFloat64()) }
	run, err := b.Run(t.Context(), inRounds(w, record.Plan{Precision: 0.5}, "bare", "box"), newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, trial := range run.Trials {
		last = max(last, trial.Block)
	}
	if last != 8 {
		t.Errorf("%d rounds for a precision that any two rounds have, want 8", last)
	}
}

// Groups share a budget by time: a slow one has fewer rounds, not more of the time.
func TestGroupsShareABudgetByTime(t *testing.T) {
	b := newBench(t, "bare", "box")
	s := newStage(t, b)
	quick, slow := sliced(s, getDrive), sliced(s, getDrive)
	slow.fakeWorkload = &fakeWorkload{name: "v", value: constant(1)}
	slow.factor = func(*standIn, workload.Stretch) float64 { return 0.1 } // 100 requests take 0.1 s
	d := inRounds(quick, record.Plan{Budget: 2 * time.Minute}, "bare", "box")
	d.Groups = append(d.Groups, inRounds(slow, record.Plan{}, "bare", "box").Groups...)
	began := b.clock.now()
	run, err := b.Run(t.Context(), d, newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	if took := b.clock.now().Sub(began); took > 2*time.Minute+10*time.Second {
		t.Errorf("it took %v", took)
	}
	r := newRunner(b.Lab, d, run)
	r.recover()
	a, c := r.groups["w"].spent, r.groups["v"].spent
	if share := a.Seconds() / (a + c).Seconds(); share < 0.35 || share > 0.65 {
		t.Errorf("%v and %v of the time", a, c)
	}
	if r.groups["v"].blocks < leastRounds || r.groups["w"].blocks < leastRounds {
		t.Errorf("%d and %d rounds", r.groups["w"].blocks, r.groups["v"].blocks)
	}
}

// What a pause lasted is no cost of a round.
func TestWhatARunHasSpentLeavesPausesOut(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 0) }
	trials := []record.Trial{
		{Started: at(3600), Elapsed: 5 * time.Second}, // of another day
		{Started: at(0), Elapsed: 10 * time.Second},
		{Started: at(2), Elapsed: 8 * time.Second},
		{Started: at(4), Elapsed: 10 * time.Second},
		{Started: at(20)}, // killed
	}
	if got := covered(trials); got != 19*time.Second {
		t.Errorf("%v, want 14 and 5 seconds", got)
	}
}
