package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tare/image"
	"tare/kernel/file"
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

// A budget bounds what makes images and platforms ready, too.
func TestTheBudgetEndsAPreparationThatHangs(t *testing.T) {
	const budget = time.Hour
	for _, step := range []string{"image", "check", "prepare"} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, "bare", "box")
				b.Now = time.Now
				hang := func(ctx context.Context, at string) error {
					if at == step {
						<-ctx.Done()
					}
					return ctx.Err()
				}
				b.Image = func(ctx context.Context, _ workload.Source) (image.Image, error) {
					return image.Image{}, hang(ctx, "image")
				}
				lookUp := b.Platforms
				b.Platforms = func(name string) (platform.Platform, error) {
					p, err := lookUp(name)
					return unreadyPlatform{p, hang}, err
				}
				w := &fakeWorkload{name: "w", value: func(int) (float64, error) { return 1, nil }}
				began := time.Now()
				_, err := b.Run(t.Context(), twoPlatforms(w, record.Plan{Budget: budget}), newRun("r"))
				if took := time.Since(began); took != budget+Overrun(budget) {
					t.Errorf("it took %v", took)
				}
				if late := (*Unready)(nil); !errors.As(err, &late) || !strings.Contains(err.Error(), "image of w: not ready after 1h15m0s") &&
					!strings.Contains(err.Error(), "platform bare: not ready after 1h15m0s") {
					t.Errorf("%v", err)
				}
				b.Store.Close()
			})
		})
	}
}

type unreadyPlatform struct {
	platform.Platform
	hang func(ctx context.Context, at string) error
}

func (p unreadyPlatform) Check(ctx context.Context) error { return p.hang(ctx, "check") }
func (p unreadyPlatform) Prepare(ctx context.Context, _ image.Image) error {
	return p.hang(ctx, "prepare")
}

// A run that waits to write what it measured ends when its budget is over, or the host short
// of memory.
func TestAWaitForTheStoreEndsWithTheRun(t *testing.T) {
	for _, rounds := range []bool{false, true} {
		t.Run(fmt.Sprintf("rounds %v", rounds), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, "bare", "box")
				b.Now = time.Now
				d := inRounds(sliced(newStage(t, b), getDrive), record.Plan{Blocks: 6, Level: 0.95, SmallestEffect: 0.02}, "bare", "box")
				if !rounds {
					d.Plan.Design = record.DesignBlocks
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				var held *os.File
				var until time.Time
				b.Watch = func(e Event) {
					if e.Kind != Blocked || held != nil {
						return
					}
					var err error
					if held, err = file.Lock(b.Store.Path() + ".lock"); err != nil { // another writer
						t.Error(err)
					}
					until = time.Now().Add(time.Minute)
					time.AfterFunc(time.Minute, func() { cancel(errors.New("the host is short of memory")) })
				}
				_, err := b.Run(ctx, d, newRun("r"))
				if err == nil || !strings.Contains(err.Error(), "the host is short of memory") {
					t.Error(err)
				}
				if beyond := time.Since(until); beyond < 0 || beyond > 2*lastWrites {
					t.Errorf("it ended %v after it was to", beyond)
				}
				held.Close()
				b.Store.Close()
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
