package pages

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"tare/lab/labtest"
)

func TestATrialOfAService(t *testing.T) {
	p, r := &fakePlatform{}, &fakeRecorder{}
	b := labtest.NewBench(p)
	of := trial{workload: fakeWorkload{}, copies: 3, steady: 20 * time.Millisecond, window: 5 * time.Millisecond, taker: fakeTaker{}, flags: true, faults: r}
	if err := of.run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	// Each copy has two entries, of which the others have one too.
	for metric, want := range map[string]float64{
		"start-groupable": 50, "start-across": 50, "start-exclusive": 50, "start-entries": 6, "start-active": 50, "start-groupable-of-active": 100,
		"steady-groupable": 50, "steady-exclusive": 50, "steady-resident": 4 * 4096, "steady-mapped": 6 * 4096,
	} {
		if got := b.Samples[metric]; len(got) != 1 || math.Abs(got[0]-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", metric, got, want)
		}
	}
	if r.of != 1 || r.whole != 0 || r.stopped != 1 {
		t.Errorf("%d recordings of copies and %d of whole lives, %d stopped: want one, none, one", r.of, r.whole, r.stopped)
	}
	for _, name := range []string{"census-start", "census-steady", faultsAttachment} {
		if _, ok := b.Attached[name]; !ok {
			t.Errorf("%s is not kept", name)
		}
	}
	if p.standing != 0 || p.started != 3 || b.Checked != 1 {
		t.Errorf("%d left standing, %d started, read back %d times", p.standing, p.started, b.Checked)
	}
	declared := map[string]bool{}
	for _, m := range of.metrics() {
		declared[m.Name] = true
	}
	for metric := range b.Samples {
		if !declared[metric] {
			t.Errorf("%s is recorded and not declared", metric)
		}
	}
}

// A program without a steady state is watched from before its start.
func TestATrialOfAFunction(t *testing.T) {
	p, r := &fakePlatform{}, &fakeRecorder{}
	b := labtest.NewBench(p)
	of := trial{workload: fakeWorkload{}, copies: 2, life: true, taker: fakeTaker{}, flags: true, faults: r}
	if err := of.run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if r.whole != 1 || r.of != 0 || r.stopped != 1 {
		t.Errorf("%d recordings of whole lives and %d of copies, %d stopped", r.whole, r.of, r.stopped)
	}
	if _, ok := b.Samples["steady-groupable"]; ok {
		t.Error("a steady state is recorded")
	}
	if _, ok := b.Samples["start-groupable"]; !ok {
		t.Error("no census")
	}
}

// Whatever goes wrong, nothing is left standing and no recording goes on.
func TestATrialThatFailsLeavesNothing(t *testing.T) {
	stopped := errors.New("stopped")
	for name, c := range map[string]struct {
		change func(*trial, *fakePlatform, *fakeRecorder)
		ctx    func() context.Context
		want   error
	}{
		"start":    {func(_ *trial, p *fakePlatform, _ *fakeRecorder) { p.startErr = errBroken }, nil, errBroken},
		"census":   {func(o *trial, _ *fakePlatform, _ *fakeRecorder) { o.taker = fakeTaker{err: errBroken} }, nil, errBroken},
		"recorder": {func(_ *trial, _ *fakePlatform, r *fakeRecorder) { r.err = errBroken }, nil, errBroken},
		"whole":    {func(o *trial, p *fakePlatform, _ *fakeRecorder) { o.steady, o.life = 0, true; p.startErr = errBroken }, nil, errBroken},
		"load": {func(o *trial, _ *fakePlatform, _ *fakeRecorder) {
			o.workload = fakeWorkload{sustain: func(context.Context) error { return errBroken }}
		}, nil, errBroken},
		"interrupt": {func(o *trial, _ *fakePlatform, _ *fakeRecorder) { o.steady = time.Hour }, func() context.Context {
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(stopped)
			return ctx
		}, stopped},
	} {
		t.Run(name, func(t *testing.T) {
			p, r := &fakePlatform{}, &fakeRecorder{}
			of := trial{workload: fakeWorkload{}, copies: 2, steady: time.Minute, window: time.Second, taker: fakeTaker{}, faults: r}
			c.change(&of, p, r)
			ctx := t.Context()
			if c.ctx != nil {
				ctx = c.ctx()
			}
			if name == "recorder" {
				of.steady, of.window = 2*time.Millisecond, time.Millisecond
			}
			if err := of.run(ctx, labtest.NewBench(p)); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if p.standing != 0 {
				t.Errorf("%d copies are left standing", p.standing)
			}
			if begun := r.whole + r.of; r.err == nil && begun != r.stopped {
				t.Errorf("%d recordings were begun and %d stopped", begun, r.stopped)
			}
		})
	}
}

// Huge pages are set before a trial is made, and put back after it.
func TestHugePagesAreSetForATrial(t *testing.T) {
	if (Options{}).around() != nil {
		t.Error("the host is changed unasked")
	}
	set := "madvise"
	o := Options{HugePages: "always", SetHugePages: func(to string) (func() error, error) {
		found := set
		set = to
		return func() error { set = found; return nil }, nil
	}}
	restore, err := o.around()(t.Context())
	if err != nil || set != "always" {
		t.Fatalf("set to %s, %v", set, err)
	}
	if err := restore(t.Context()); err != nil || set != "madvise" {
		t.Errorf("put back to %s, %v", set, err)
	}
}
