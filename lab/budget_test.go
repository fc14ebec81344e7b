package lab

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tare/platform"
	"tare/record"
	"tare/workload"
)

// A budget bounds a run of which something hangs, whatever it is, and what was measured
// before stands.
func TestTheBudgetEndsWhatHangs(t *testing.T) {
	const budget = 30 * time.Second
	for _, c := range []struct {
		name   string
		hangs  string // the step
		nth    int
		rounds bool
		status record.Status
	}{
		{"the warm-up", "drive", 1, false, record.Failed},
		{"the first block", "drive", 4, false, record.Failed},
		{"a later block", "drive", 6, false, record.Interrupted},
		{"a launch", "launch", 1, false, record.Failed},
		{"the pilot's program that gets ready", "ready", 1, true, record.Failed},
		{"the pilot's load", "load", 2, true, record.Failed},
		{"a round's launch", "launch", 10, true, record.Interrupted},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, "bare", "box")
				w := &hanging{slicedFake: sliced(newStage(t, b), getDrive), step: c.hangs, nth: c.nth}
				lookUp := b.Platforms
				b.Platforms = func(name string) (platform.Platform, error) {
					p, err := lookUp(name)
					if err != nil {
						return nil, err
					}
					return &hangingPlatform{p.(*freezer), w}, nil
				}
				b.Now = time.Now
				plan := record.Plan{Budget: budget, Precision: 1e-9, PilotBlocks: 2, Level: 0.95, SmallestEffect: 0.02}
				d := inRounds(w, plan, "bare", "box")
				if !c.rounds {
					d.Plan.Design = record.DesignBlocks
				}
				began := time.Now()
				run, err := b.Run(context.Background(), d, newRun("r"))
				if took := time.Since(began); took > budget+Overrun(budget)+time.Second {
					t.Errorf("it took %v", took)
				}
				if err == nil || run.Status != c.status || !strings.Contains(run.Reason, "--budget") && !strings.Contains(run.Reason, "did not end within") {
					t.Errorf("status %s, reason %q: %v", run.Status, run.Reason, err)
				}
				b.Store.Close() // its connection waits for ever, for the bubble
			})
		})
	}
}

// What a design expects to take longer than its budget is let to end.
func TestABlockThatIsExpectedToBeLongIsNotCut(t *testing.T) {
	d := Design{Plan: record.Plan{Budget: time.Minute}, Groups: []Group{{Conditions: []Condition{{Takes: 20 * time.Minute}}}}}
	ctx, cancel := d.bounded(t.Context())
	defer cancel()
	if end, ok := ctx.Deadline(); !ok || time.Until(end) < 45*time.Minute {
		t.Errorf("it is cut in %v", time.Until(end))
	}
	d.Plan.Budget = 0
	ctx, cancel = d.bounded(t.Context())
	defer cancel()
	if _, ok := ctx.Deadline(); ok {
		t.Error("a run without a budget is cut")
	}
}

// hanging is a service of which the n-th step of a name never ends by itself.
type hanging struct {
	*slicedFake
	step string
	nth  int
	done map[string]int
}

func (w *hanging) at(ctx context.Context, step string) error {
	if w.done == nil {
		w.done = map[string]int{}
	}
	if w.done[step]++; step != w.step || w.done[step] < w.nth {
		time.Sleep(time.Second)
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (w *hanging) Drive(ctx context.Context, t workload.Trial) error {
	if err := w.at(ctx, "drive"); err != nil {
		return err
	}
	t.Record("elapsed", 1)
	return nil
}

func (w *hanging) Ready(ctx context.Context, t workload.Trial) error {
	return errors.Join(w.at(ctx, "ready"), w.slicedFake.Ready(ctx, t))
}

func (w *hanging) Slices(ctx context.Context, t workload.Trial, seed uint64) (workload.Slicer, error) {
	s, err := w.slicedFake.Slices(ctx, t, seed)
	return &hangingSlicer{s, w}, err
}

type hangingSlicer struct {
	workload.Slicer
	of *hanging
}

func (s *hangingSlicer) Load(ctx context.Context, w workload.Stretch) ([]workload.Measured, error) {
	if s.of.step == "load" {
		if err := s.of.at(ctx, "load"); err != nil {
			return nil, err
		}
	}
	return s.Slicer.Load(ctx, w)
}

type hangingPlatform struct {
	*freezer
	of *hanging
}

func (p *hangingPlatform) Launch(ctx context.Context, spec platform.Spec) (platform.Instance, error) {
	if err := p.of.at(ctx, "launch"); err != nil {
		return nil, err
	}
	return p.freezer.Launch(ctx, spec)
}
