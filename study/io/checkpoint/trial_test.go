package checkpoint

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"tare/lab"
	"tare/lab/labtest"
	"tare/platform"
	"tare/workload"
)

// begun is a bench that notes how far the disk had been cared for when measuring began.
type begun struct {
	*labtest.Bench
	flushed bool
}

func (b *begun) Measuring() error {
	_, b.flushed = b.Covariates[flushSeconds]
	return b.Bench.Measuring()
}

var _ lab.Bench = (*begun)(nil)

func trialOf(t *testing.T, drive func(ctx context.Context, t workload.Trial) error) (trial, *begun, *fakePlatform) {
	t.Helper()
	w := &fakeWorkload{name: program, drive: drive}
	on := &fakePlatform{name: "docker"}
	b := &begun{Bench: labtest.NewBench(on)}
	params, err := base.params(w)
	if err != nil {
		t.Fatal(err)
	}
	b.Of.Params = params
	b.Of.Setting = platform.Setting{Storage: platform.StorageVolume}
	return trial{program: w, flush: []string{t.TempDir()}}, b, on
}

// A trial is one launch of the program, after earlier writes are flushed to the disks.
func TestTrial(t *testing.T) {
	tr, b, on := trialOf(t, func(ctx context.Context, t workload.Trial) error {
		exit, err := t.Wait(ctx)
		if err != nil || exit.CPU <= 0 {
			return errors.Join(err, errors.New("no CPU time"))
		}
		if stdout, stderr := t.Output(); string(stdout) != "its output\n" || string(stderr) != "its last word\n" {
			return errors.New("no output")
		}
		t.Record(write, 5e8)
		t.Record(read, 6e8)
		return nil
	})
	if err := tr.run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if !b.flushed || b.Begun != 1 || b.Done != 1 || b.Checked != 1 {
		t.Errorf("flushed before measuring: %v; begun %d, done %d, read back %d", b.flushed, b.Begun, b.Done, b.Checked)
	}
	if b.Samples[write][0] != 5e8 || b.Samples[read][0] != 6e8 {
		t.Errorf("samples %v", b.Samples)
	}
	for _, name := range []string{flushSeconds, dirtyBefore, dirtyLimit, dirtyBackground, "launch_s", "cpu_s"} {
		if _, ok := b.Covariates[name]; !ok {
			t.Errorf("no %s among %v", name, b.Covariates)
		}
	}
	if len(on.specs) != 1 || on.running != 0 {
		t.Fatalf("%d launches, %d left", len(on.specs), on.running)
	}
	if s := on.specs[0]; s.Setting.Storage != platform.StorageVolume || s.Data[0] != "/data" || s.Args[1] != "1000000" {
		t.Errorf("launched as %+v", s)
	}
}

// A trial of the warm-up writes less, and leaves its condition's parameters alone.
func TestWarmUpIsShorter(t *testing.T) {
	var driven string
	tr, b, on := trialOf(t, func(_ context.Context, t workload.Trial) error { driven = t.Params()[factorParticles]; return nil })
	b.Warm = true
	if err := tr.run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if driven != "100000" || on.specs[0].Args[1] != driven || b.Of.Params[factorParticles] != "1000000" {
		t.Errorf("drove %s, launched %q, the condition has %s", driven, on.specs[0].Args, b.Of.Params[factorParticles])
	}
	if got := fewer("7"); got != "1" {
		t.Errorf("of 7 particles: %s", got)
	}
}

func TestTrialsThatFail(t *testing.T) {
	tr, b, on := trialOf(t, func(context.Context, workload.Trial) error { return errors.New("a byte is wrong") })
	if err := tr.run(t.Context(), b); err == nil || err.Error() != "a byte is wrong (the program's last line: its last word)" {
		t.Errorf("%v", err)
	}
	if on.running != 0 {
		t.Error("the program is left running")
	}
	tr, b, on = trialOf(t, nil)
	on.launch = errors.New("no room")
	if err := tr.run(t.Context(), b); err == nil || !strings.Contains(err.Error(), "launch on") || !strings.Contains(err.Error(), "no room") {
		t.Errorf("%v", err)
	}
	// A disk that cannot be flushed would serve earlier writes during the trial.
	tr, b, on = trialOf(t, nil)
	tr.flush = []string{filepath.Join("/proc/self/cmdline", "below")}
	if err := tr.run(t.Context(), b); err == nil || !strings.Contains(err.Error(), "flush earlier writes") || len(on.specs) != 0 {
		t.Errorf("%v, %d launches", err, len(on.specs))
	}
}

// What others have written may be long on its way to a disk: who interrupts the run does
// not wait for it.
func TestAnInterruptedTrialDoesNotWaitForDisks(t *testing.T) {
	tr, b, on := trialOf(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tr.run(ctx, b); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "flush earlier writes") || len(on.specs) != 0 {
		t.Errorf("%v, %d launches", err, len(on.specs))
	}
}
