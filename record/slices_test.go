package record

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// exampleStrip is one slice of each trial.
func exampleStrip(t testing.TB, strip int, trials ...int64) []TrialSlice {
	t.Helper()
	var slices []TrialSlice
	for position, trial := range trials {
		slice := exampleTrial(t, "", 0).Slices[0]
		slice.Strip, slice.Position = strip, position
		slices = append(slices, TrialSlice{trial, slice})
	}
	return slices
}

// A strip is kept while its instances are up, and each trial has its own slices in order.
func TestAddStrip(t *testing.T) {
	s := open(t)
	run := example("weigh-1")
	must(t, s.Begin(run))
	var trials []int64
	for position, condition := range []string{"redis@vm/oci", "redis@bare"} {
		id, err := s.BeginTrial(run.ID, Trial{Condition: condition, Block: 1, Attempt: 1, Position: position, Started: epoch.Add(time.Duration(position) * time.Second)})
		must(t, err)
		trials = append(trials, id)
	}
	first, second := exampleStrip(t, 1, trials...), exampleStrip(t, 2, trials[1], trials[0])
	must(t, s.AddStrip(first))
	must(t, s.AddStrip(second))

	got, err := s.Run(run.ID)
	must(t, err)
	for i, want := range [][]Slice{{first[0].Slice, second[1].Slice}, {first[1].Slice, second[0].Slice}} {
		if diff := cmp.Diff(want, got.Trials[i].Slices); diff != "" {
			t.Errorf("trial %d (-kept +read)\n%s", i, diff)
		}
	}
}

// What could not be observed is unknown again when it is read.
func TestUnknownFiguresOfASlice(t *testing.T) {
	s := open(t)
	run := example("weigh-1")
	must(t, s.Begin(run))
	kept := Slice{Strip: 1, Started: epoch, Window: 1, CPU: -7, Load: -7, Steal: math.NaN(), Foreign: math.NaN()}
	mustTrial(t, s, run.ID, Trial{Condition: "redis@bare", Block: 1, Started: epoch, Slices: []Slice{kept}})
	got, err := s.Run(run.ID)
	must(t, err)
	want := kept
	want.CPU, want.Load = -1, -1
	if diff := cmp.Diff([]Slice{want}, got.Trials[0].Slices, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("(-kept +read)\n%s", diff)
	}
}

// A strip with a mistake is refused whole.
func TestAStripIsKeptWholeOrNotAtAll(t *testing.T) {
	s := open(t)
	run := example("weigh-1")
	must(t, s.Begin(run))
	id, err := s.BeginTrial(run.ID, Trial{Condition: "redis@bare", Block: 1, Started: epoch})
	must(t, err)
	for part, spoil := range map[string]func(*TrialSlice){
		"no such trial":                         func(of *TrialSlice) { of.Trial = 999 },
		"strips count from 1":                   func(of *TrialSlice) { of.Slice.Strip = 0 },
		"-1 is no position":                     func(of *TrialSlice) { of.Slice.Position = -1 },
		"it has no start":                       func(of *TrialSlice) { of.Slice.Started = time.Time{} },
		"a window of -1s holds nothing":         func(of *TrialSlice) { of.Slice.Window = -time.Second },
		"an amount of NaN is not a measurement": func(of *TrialSlice) { of.Slice.Amount = math.NaN() },
		"-1 operations worked are not":          func(of *TrialSlice) { of.Slice.Worked = -1 },
	} {
		strip := exampleStrip(t, 1, id, id)
		spoil(&strip[1])
		wantInvalid(t, s.AddStrip(strip), part)
	}
	got, err := s.Run(run.ID)
	must(t, err)
	if n := len(got.Trials[0].Slices); n != 0 {
		t.Errorf("%d slices of refused strips are kept", n)
	}
}

// What a strip costs between slices: one durable transaction for five conditions, the
// baseline's second instance, and two parts' worth of columns.
func BenchmarkAddStrip(b *testing.B) {
	s := open(b)
	must(b, s.Begin(example("weigh-1")))
	var trials []int64
	for range 6 {
		id, err := s.BeginTrial("weigh-1", Trial{Condition: "redis@bare", Block: 1, Started: epoch})
		must(b, err)
		trials = append(trials, id)
	}
	strip := exampleStrip(b, 1, trials...)
	for i := range strip {
		strip[i].Slice.Histogram = ""
	}
	for b.Loop() {
		must(b, s.AddStrip(strip))
	}
}
