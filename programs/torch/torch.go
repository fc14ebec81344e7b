// Package torch holds the program by which PyTorch is weighed on a GPU: training steps, or
// inference, of a small convolutional network of our own on random input, each step timed
// by CUDA's events; and says how it is spoken to. It needs PyTorch where it runs, and brings
// none.
package torch

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// Program is the source, cnn.py; its --help says what it takes.
//
//go:embed cnn.py
var Program []byte

// Tasks are what it can be asked for.
var Tasks = []string{"training", "inference"}

// Schema is the version of what the program prints.
const Schema = 1

// Result is what the program prints. Times are in seconds, by the host's clock but for
// those of steps.
type Result struct {
	Schema  int     `json:"schema"`
	Task    string  `json:"task"`
	Steps   int     `json:"steps"`
	Warmup  int     `json:"warmup"`
	Batch   int     `json:"batch"`
	Seed    uint64  `json:"seed"`
	Device  string  `json:"device"`  // its name, or "cpu" for tests
	Version string  `json:"version"` // of PyTorch
	CUDA    string  `json:"cuda"`    // that it was built for; empty for none
	Seconds Seconds `json:"seconds"`
	// FirstLoss and LastLoss are before and after all steps of a training.
	FirstLoss float64 `json:"first_loss"`
	LastLoss  float64 `json:"last_loss"`
}

// Seconds are a run's phases.
type Seconds struct {
	Import  float64 `json:"import"` // from main until PyTorch was imported
	Start   float64 `json:"start"`  // making the context, the network and the input there
	Warmup  float64 `json:"warmup"`
	Iterate float64 `json:"iterate"` // all timed steps, as the host saw them
	// Steps are the timed steps one by one, by the device's events.
	Steps []float64 `json:"steps"`
}

// Parse reads what the program printed: one result and nothing else, of this schema, and
// valid.
func Parse(printed []byte) (Result, error) {
	d := json.NewDecoder(bytes.NewReader(printed))
	d.DisallowUnknownFields()
	var r Result
	if err := d.Decode(&r); err != nil {
		return Result{}, fmt.Errorf("read PyTorch's result: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Result{}, errors.New("read PyTorch's result: something follows it: want one object of JSON")
	}
	if err := r.validate(); err != nil {
		return Result{}, fmt.Errorf("read PyTorch's result: %w", err)
	}
	return r, nil
}

func (r Result) validate() error {
	switch {
	case r.Schema != Schema:
		return fmt.Errorf("it is of schema %d, want %d", r.Schema, Schema)
	case r.Task != "training" && r.Task != "inference":
		return fmt.Errorf("its task is %q", r.Task)
	case r.Steps < 1 || r.Warmup < 0 || r.Batch < 1 || len(r.Seconds.Steps) != r.Steps:
		return fmt.Errorf("%d steps of %d images, after %d for warming up, have %d times", r.Steps, r.Batch, r.Warmup, len(r.Seconds.Steps))
	case r.Device == "" || r.Version == "":
		return errors.New("it names no device or no version of PyTorch")
	}
	s := r.Seconds
	for _, v := range append([]float64{s.Import, s.Start, s.Warmup, s.Iterate}, s.Steps...) {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("a phase took %g s", v)
		}
	}
	for _, v := range []float64{r.FirstLoss, r.LastLoss} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("a loss is %g", v)
		}
	}
	return nil
}
