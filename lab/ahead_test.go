package lab

import (
	"context"
	"errors"
	"testing"

	"tare/kernel/process"
	"tare/record"
)

// aheadIn runs one trial whose procedure goes ahead by a function.
func aheadIn(t *testing.T, ahead func() (process.Precedence, func() error, error)) (record.Run, error) {
	t.Helper()
	b := newBench(t, "bare")
	d := steps(0, nil)
	d.Groups[0].Conditions[0].Procedure = func(_ context.Context, b Bench) error {
		restore, err := aheadBy(b, ahead)
		if err != nil {
			return err
		}
		b.Record("elapsed", 1)
		return restore()
	}
	return b.Run(t.Context(), d, newRun("r"))
}

func TestHowTareGoesAheadIsRecorded(t *testing.T) {
	for _, c := range []struct {
		by       process.Precedence
		err      error
		realTime float64
		nice     float64
	}{
		{by: process.Precedence{Class: process.Class{Policy: process.RR, Priority: 1}}, realTime: 1},
		{by: process.Precedence{Nice: -20}, nice: -20},
		{err: &process.NotAhead{RealTime: errors.New("no"), Nice: errors.New("no")}},
	} {
		restored := 0
		run, err := aheadIn(t, func() (process.Precedence, func() error, error) {
			return c.by, func() error { restored++; return nil }, c.err
		})
		if err != nil {
			t.Fatal(err)
		}
		trial := run.Trials[len(run.Trials)-1]
		realTime, known := trial.Covariates[ClientRealTime]
		nice, knownNice := trial.Covariates[ClientNice]
		if !known || !knownNice || realTime != c.realTime || nice != c.nice || trial.Error != "" {
			t.Errorf("%v: %v, %q", c.by, trial.Covariates, trial.Error)
		}
		if (restored == len(run.Trials)) != (c.err == nil) {
			t.Errorf("%v: restored %d times in %d trials", c.by, restored, len(run.Trials))
		}
	}
}

// A tare that stays ahead would measure another host from here on.
func TestTareThatStaysAheadEndsTheRun(t *testing.T) {
	stays := errors.New("it stays")
	_, err := aheadIn(t, func() (process.Precedence, func() error, error) {
		return process.Precedence{Nice: -20}, func() error { return stays }, nil
	})
	var unrestored *Unrestored
	if !errors.As(err, &unrestored) || !errors.Is(err, stays) {
		t.Errorf("the run ended with %v", err)
	}
}

func TestAheadOnThisHost(t *testing.T) {
	b := newBench(t, "bare")
	d := steps(0, nil)
	d.Groups[0].Conditions[0].Procedure = func(_ context.Context, b Bench) error {
		restore, err := Ahead(b)
		if err != nil {
			return err
		}
		b.Record("elapsed", 1)
		return restore()
	}
	run, err := b.Run(t.Context(), d, newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	c := run.Trials[len(run.Trials)-1].Covariates
	if c[ClientRealTime] > 0 && c[ClientNice] < 0 {
		t.Errorf("ahead in two ways: %v", c)
	}
}
