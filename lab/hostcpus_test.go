package lab

import (
	"context"
	"errors"
	"strings"
	"testing"

	"tare/kernel/cpuonline"
	"tare/platform"
	"tare/record"
)

// What a trial finds of the host is made before it begins, and put back after it is
// gone, also where it failed.
func TestTheHostIsAsATrialWantsItAndThenAsItWas(t *testing.T) {
	b := newBench(t, "bare", "box")
	changed, trials := 0, 0
	w := &fakeWorkload{name: "w", value: func(n int) (float64, error) {
		trials++
		if n == 4 {
			return 0, errors.New("wrong answer")
		}
		return 1, nil
	}}
	d := twoPlatforms(w, record.Plan{Blocks: 2})
	for i := range d.Groups[0].Conditions {
		d.Groups[0].Conditions[i].Around = func(context.Context) (func(context.Context) error, error) {
			if changed++; changed != trials+1 {
				t.Errorf("changed %d times at trial %d", changed, trials+1)
			}
			return func(context.Context) error {
				if changed != trials {
					t.Errorf("put back at trial %d of %d", trials, changed)
				}
				return nil
			}, nil
		}
	}
	if _, err := b.Run(context.Background(), d, newRun("r")); err != nil {
		t.Fatal(err)
	}
	if changed == 0 {
		t.Error("the host was never changed")
	}
}

// A run does not go on to measure another host than it began on.
func TestAHostThatCannotBePutBackEndsTheRun(t *testing.T) {
	for _, fails := range []bool{false, true} {
		b := newBench(t, "bare", "box")
		restored := 0
		w := &fakeWorkload{name: "w", value: func(int) (float64, error) {
			if fails && restored == 2 {
				return 0, errors.New("wrong answer")
			}
			return 1, nil
		}}
		d := twoPlatforms(w, record.Plan{Blocks: 4})
		for i := range d.Groups[0].Conditions {
			d.Groups[0].Conditions[i].Around = func(context.Context) (func(context.Context) error, error) {
				return func(context.Context) error {
					if restored++; restored == 3 { // the first of the first block
						return errors.New("CPU 1 stays off line")
					}
					return nil
				}, nil
			}
		}
		run, err := b.Run(context.Background(), d, newRun("r"))
		if err == nil || !strings.Contains(err.Error(), "put the host back: CPU 1 stays off line") || fails != strings.Contains(err.Error(), "wrong answer") {
			t.Errorf("failing trial %v: got %v", fails, err)
		}
		if restored != 3 || run.Status == record.Complete {
			t.Errorf("failing trial %v: went on to %d trials, %s", fails, restored, run.Status)
		}
	}
}

// What ends a run tells of the host too.
func TestAnInterruptedTrialTellsOfTheHost(t *testing.T) {
	b := newBench(t, "bare", "box")
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	d := twoPlatforms(&fakeWorkload{name: "w", value: constant(1)}, record.Plan{Blocks: 1})
	for i := range d.Groups[0].Conditions {
		d.Groups[0].Conditions[i].Around = func(context.Context) (func(context.Context) error, error) {
			cancel(ErrStopped)
			return func(context.Context) error { return errors.New("CPU 1 stays off line") }, nil
		}
	}
	if _, err := b.Run(ctx, d, newRun("r")); err == nil || !strings.Contains(err.Error(), "CPU 1 stays off line") {
		t.Errorf("got %v", err)
	}
}

// Where the program fails, what its watch ended with is reported all the same.
func TestAFailedTrialTellsOfItsWatch(t *testing.T) {
	b := newBench(t, "bare", "box")
	d := twoPlatforms(&fakeWorkload{name: "w", value: func(int) (float64, error) { return 0, errors.New("wrong answer") }}, record.Plan{Blocks: 1})
	d.Groups[0].Conditions[0].Watch = func(context.Context, Bench, platform.Instance) (func(context.Context) error, error) {
		return func(context.Context) error { return errors.New("the load stays on CPU 0") }, nil
	}
	if _, err := b.Run(context.Background(), d, newRun("r")); err == nil || !strings.Contains(err.Error(), "wrong answer") || !strings.Contains(err.Error(), "the load stays on CPU 0") {
		t.Errorf("got %v", err)
	}
}

// fakeSwitches are a host's, some of which do not work.
type fakeSwitches struct {
	off   map[int]bool
	stuck int // will not go off line
	dead  int // will not come back
}

func (f *fakeSwitches) Online(cpu int) (bool, error) { return !f.off[cpu], nil }
func (f *fakeSwitches) Look(cpus []int) (cpuonline.State, error) {
	return cpuonline.State{Offline: cpus}, nil
}

func (f *fakeSwitches) Take(s cpuonline.State) error {
	for _, cpu := range s.Offline {
		if cpu == f.stuck {
			return errors.New("busy")
		}
		f.off[cpu] = true
	}
	return nil
}

func (f *fakeSwitches) Restore(s cpuonline.State) error {
	for _, cpu := range s.Offline {
		if cpu == f.dead && f.off[cpu] {
			return errors.New("dead")
		}
		f.off[cpu] = false
	}
	return nil
}

// counting is a ledger that knows how many entries it has.
type counting struct{ entries int }

func (c *counting) Add(platform.Entry) (func(), error) {
	c.entries++
	return func() { c.entries-- }, nil
}

// The ledger keeps what brings CPUs back for as long as they are away.
func TestTheLedgerKnowsOfCPUsThatAreAway(t *testing.T) {
	for name, c := range map[string]struct {
		host       fakeSwitches
		took       bool
		left, says int // entries; whether the end is an error
	}{
		"all work":             {fakeSwitches{}, true, 0, 0},
		"one stays":            {fakeSwitches{stuck: 2}, false, 0, 0},
		"one stays, one dies":  {fakeSwitches{stuck: 2, dead: 1}, false, 1, 0},
		"one does not return":  {fakeSwitches{dead: 2}, true, 1, 1},
		"one that should stay": {fakeSwitches{off: map[int]bool{0: true}}, false, 0, 0},
	} {
		if c.host.off == nil {
			c.host.off = map[int]bool{}
		}
		ledger := &counting{}
		restore, err := keepOnline(&c.host, ledger, []int{0}, []int{1, 2})
		if (err == nil) != c.took {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err == nil {
			if !c.host.off[1] || !c.host.off[2] || ledger.entries != 1 {
				t.Errorf("%s: off line are %v, with %d entries", name, c.host.off, ledger.entries)
			}
			var unrestored *Unrestored
			if err = restore(); (err != nil) != (c.says > 0) || err != nil && !errors.As(err, &unrestored) {
				t.Errorf("%s: put back: %v", name, err)
			}
		}
		if ledger.entries != c.left {
			t.Errorf("%s: %d entries are left, want %d", name, ledger.entries, c.left)
		}
	}
	ledger := &counting{}
	if _, err := keepOnline(&fakeSwitches{}, ledger, []int{0, 1}, nil); err != nil || ledger.entries != 0 {
		t.Errorf("all stay: %v, %d entries", err, ledger.entries)
	}
	if _, err := keepOnline(&fakeSwitches{off: map[int]bool{1: true}}, ledger, []int{0, 1}, nil); err == nil || !strings.Contains(err.Error(), "CPU 1 is off line") {
		t.Errorf("a host of which a CPU is away passes for a whole one: %v", err)
	}
}

// What a killed tare had done to the host is undone by the ledger, without a platform.
func TestHostEntriesAreUndoneWithoutAPlatform(t *testing.T) {
	none := func(string) (platform.Platform, error) { return nil, errors.New("no platform is asked") }
	for attrs, says := range map[string]string{`{"offline":[]}`: "", `{"offline":null,"cpusets":{"/nonexistent/cpuset":"0"}}`: "", "not JSON": "does not say", "": "does not say"} {
		e := platform.Entry{Platform: hostEntry, Kind: offlineKind, ID: "1", Attrs: map[string]string{offlineState: attrs}}
		if err := removeEntry(t.Context(), e, none); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", attrs, err, says)
		}
	}
	if err := removeEntry(t.Context(), platform.Entry{Platform: hostEntry, Kind: "moon"}, none); err == nil {
		t.Error("an unknown kind was undone")
	}
}

func TestKeepOnlineRefusesWhatTheHostHasNot(t *testing.T) {
	for _, count := range []int{0, 3} {
		if _, err := KeepOnline(discard{}, []int{0, 1}, count); err == nil {
			t.Errorf("%d of 2 CPUs were kept on line", count)
		}
	}
}
