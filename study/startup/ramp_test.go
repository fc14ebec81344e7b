package startup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tare/lab/labtest"
	"tare/load"
	"tare/workload"
)

func fakeRamp(rate float64, count int, ready func(context.Context, workload.Trial) error) ramp {
	return ramp{workload: fakeWorkload{ready: ready}, rate: rate, count: count, arrival: load.Uniform, answerIn: time.Minute, readyIn: time.Minute}
}

func TestRampTimesEveryStartAndRemovesEverything(t *testing.T) {
	p := &fakePlatform{start: func(context.Context, int) error { return nil }}
	b := labtest.NewBench(p)
	if err := fakeRamp(2000, 40, readyAtOnce).run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if p.created != 40 || p.most != 40 || p.left() != 0 {
		t.Errorf("%d containers were made, %d stood at once before the first start, %d are left; want 40, 40, 0", p.created, p.most, p.left())
	}
	for _, name := range []string{answer, ready, late} {
		if h := b.Histograms[name]; h == nil || h.TotalCount() != 40 {
			t.Errorf("histogram %s: %+v, want 40 values", name, h)
		}
	}
	if h := b.Histograms[first]; h != nil {
		t.Errorf("nobody watched, and %d first instructions were seen", h.TotalCount())
	}
	if got := b.Samples[failed]; len(got) != 1 || got[0] != 0 {
		t.Errorf("failures %v, want 0", got)
	}
	if b.Begun != 1 || b.Done != 1 || b.Checked != 1 {
		t.Errorf("measuring %d, measured %d, read back %d times; want once each", b.Begun, b.Done, b.Checked)
	}
	timings, err := decodeTimings(b.Attached[startsAttachment].Data)
	if err != nil || len(timings) != 40 {
		t.Fatalf("%d starts attached, %v", len(timings), err)
	}
	for i, start := range timings {
		if start.Sent < start.Intended || start.Answered < start.Sent || start.Ready < start.Answered {
			t.Errorf("start %d: %+v is out of order", i, start)
		}
	}
}

// Starts that queue are timed from when they were due, not from when they got
// their turn.
func TestRampCountsFromTheIntendedMoment(t *testing.T) {
	const each, count = 5 * time.Millisecond, 20
	p := &fakePlatform{start: serial(each)}
	b := labtest.NewBench(p)
	if err := fakeRamp(1e4, count, readyAtOnce).run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	// The last waits for all before it.
	if worst := b.Samples[answer+"-max"][0]; worst < float64((count-1)*each.Microseconds()) {
		t.Errorf("the last of %d starts of %v each took %v µs from its moment", count, each, worst)
	}
	if g := b.Samples[growth][0]; g < 80 {
		t.Errorf("50 times more was due than the platform can do, and %v %% of the starts piled up", g)
	}
}

func TestRampCountsFailuresApart(t *testing.T) {
	p := &fakePlatform{start: func(_ context.Context, n int) error {
		if n%4 == 0 {
			return errors.New("no such file\nand more lines")
		}
		return nil
	}}
	b := labtest.NewBench(p)
	notReady := func(_ context.Context, trial workload.Trial) error {
		if strings.HasPrefix(trial.Address(80), "fake-2:") {
			return errors.New("connection refused")
		}
		return nil
	}
	if err := fakeRamp(5000, 16, notReady).run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got := b.Samples[failed][0]; got != 5 {
		t.Errorf("%v failures, want 4 that did not start and one that was not ready", got)
	}
	if n := b.Histograms[answer].TotalCount(); n != 11 {
		t.Errorf("%d starts are in the latency, want 11", n)
	}
	timings, err := decodeTimings(b.Attached[startsAttachment].Data)
	if err != nil {
		t.Fatal(err)
	}
	explained := 0
	for _, start := range timings {
		switch start.Failed {
		case "start: no such file", "readiness: connection refused":
			explained++
		}
	}
	if explained != 5 {
		t.Errorf("%d of 5 failures say why in one line: %+v", explained, timings)
	}
	if p.left() != 0 {
		t.Errorf("%d containers are left", p.left())
	}
}

func TestRampBoundsItsWaits(t *testing.T) {
	hang := func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
	r := fakeRamp(5000, 8, readyAtOnce)
	r.answerIn = 20 * time.Millisecond
	p := &fakePlatform{start: hang}
	if err := r.run(t.Context(), labtest.NewBench(p)); err == nil || !strings.Contains(err.Error(), "no answer after 20ms") {
		t.Errorf("an engine that never answers: %v", err)
	}
	if p.left() != 0 {
		t.Errorf("%d containers are left", p.left())
	}

	r = fakeRamp(5000, 8, func(ctx context.Context, _ workload.Trial) error {
		<-ctx.Done()
		return errors.New("connection refused")
	})
	r.readyIn = 20 * time.Millisecond
	p = &fakePlatform{start: func(context.Context, int) error { return nil }}
	if err := r.run(t.Context(), labtest.NewBench(p)); err == nil || !strings.Contains(err.Error(), "not ready after 20ms") {
		t.Errorf("containers that never become ready: %v", err)
	}
	if p.left() != 0 {
		t.Errorf("%d containers are left", p.left())
	}
}

func TestFailingCreationLeavesNothing(t *testing.T) {
	clash := errors.New("a container of that name exists already")
	p := &fakePlatform{create: func(n int) error {
		if n == 5 {
			return clash
		}
		return nil
	}}
	if err := fakeRamp(100, 12, readyAtOnce).run(t.Context(), labtest.NewBench(p)); !errors.Is(err, clash) {
		t.Errorf("a name clash: %v", err)
	}
	if p.left() != 0 {
		t.Errorf("%d containers are left", p.left())
	}
}

func TestInterruptedRampLeavesNothing(t *testing.T) {
	stopped := errors.New("stopped by the user")
	ctx, cancel := context.WithCancelCause(t.Context())
	// The second is due in minutes: nobody waits for it.
	p := &fakePlatform{start: func(context.Context, int) error { cancel(stopped); return nil }}
	if err := fakeRamp(0.01, 10, readyAtOnce).run(ctx, labtest.NewBench(p)); !errors.Is(err, stopped) {
		t.Errorf("interrupted: %v", err)
	}
	if p.left() != 0 {
		t.Errorf("%d containers are left", p.left())
	}
}

func TestKneeOfAPlatformOfKnownCapacity(t *testing.T) {
	const each = 4 * time.Millisecond // 250 a second
	p := &fakePlatform{start: serial(each)}
	b := labtest.NewBench(p)
	if err := (knee{fakeRamp(0, 0, readyAtOnce), 150}).run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	// Sleeps are never short and on a busy host longer: capacity is at most 250.
	if got := b.Samples[kneeRate][0]; got < 100 || got > 300 {
		t.Errorf("knee %v/s of a platform that does at most %v/s", got, 1/each.Seconds())
	}
	if p.left() != 0 {
		t.Errorf("%d containers are left", p.left())
	}
}

func TestSinglesWaitForOneAnother(t *testing.T) {
	under := make(chan struct{}, 1)
	p := &fakePlatform{start: func(context.Context, int) error {
		select {
		case under <- struct{}{}:
			return nil
		default:
			return errors.New("another is under way")
		}
	}}
	b := labtest.NewBench(p)
	done := func(context.Context, workload.Trial) error { <-under; return nil }
	s := single{workload: fakeWorkload{ready: done}, count: 3, answerIn: time.Minute, readyIn: time.Minute}
	if err := s.run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got := b.Samples[failed][0]; got != 0 {
		t.Errorf("%v starts began before the one before was ready", got)
	}
	if n := b.Histograms[ready].TotalCount(); n != 3 {
		t.Errorf("%d starts were ready, want 3", n)
	}
}
