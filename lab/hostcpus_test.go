package lab

import (
	"context"
	"errors"
	"strings"
	"testing"

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

func TestAHostThatCannotBePutBackFailsTheTrial(t *testing.T) {
	b := newBench(t, "bare", "box")
	d := twoPlatforms(&fakeWorkload{name: "w", value: constant(1)}, record.Plan{Blocks: 1})
	d.Groups[0].Conditions[1].Around = func(context.Context) (func(context.Context) error, error) {
		return func(context.Context) error { return errors.New("CPU 1 stays off line") }, nil
	}
	if _, err := b.Run(context.Background(), d, newRun("r")); err == nil || !strings.Contains(err.Error(), "CPU 1 stays off line") {
		t.Errorf("got %v", err)
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
