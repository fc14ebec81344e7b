// Package labtest has a bench that records what a procedure does with it, for
// the tests of studies. It measures nothing, and repeats nothing.
package labtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/image"
	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

// Bench is a [lab.Bench] on a platform of the test's. Its fields are what the
// procedure recorded.
type Bench struct {
	On   platform.Platform
	Of   record.Condition
	Warm bool // it is a trial of the warm-up
	// Boxes makes what Box gives; nil makes none.
	Boxes func(ctx context.Context, spec platform.BoxSpec) (platform.Box, error)

	mu         sync.Mutex
	names      int
	Begun      int // calls of Measuring
	Done       int // calls of Measured
	Disturbed  int // of the next steps that are to be undisturbed, how many are done again
	Checked    int // calls of InForce
	Samples    map[string][]float64
	Histograms map[string]*hdrhistogram.Histogram
	Covariates map[string]float64
	Attached   map[string]record.Attachment
	Lines      []string // that were reported
}

var _ lab.Bench = (*Bench)(nil)

// NewBench gives a bench for one trial.
func NewBench(on platform.Platform) *Bench {
	return &Bench{
		On: on, Of: record.Condition{ID: "c", Platform: "fake"},
		Samples: map[string][]float64{}, Histograms: map[string]*hdrhistogram.Histogram{},
		Covariates: map[string]float64{}, Attached: map[string]record.Attachment{},
	}
}

// Box asks Boxes.
func (b *Bench) Box(ctx context.Context, spec platform.BoxSpec) (platform.Box, error) {
	if b.Boxes == nil {
		return nil, errors.New("no box can be made here")
	}
	return b.Boxes(ctx, spec)
}

// Condition is Of.
func (b *Bench) Condition() record.Condition { return b.Of }

// Platform is On.
func (b *Bench) Platform() platform.Platform { return b.On }

// Image is one of a mebibyte.
func (b *Bench) Image() image.Image { return image.Image{Name: "fake", Size: 1 << 20} }

// ImageOf is Image, by the name of the recipe.
func (b *Bench) ImageOf(src workload.Source) (image.Image, error) {
	img := b.Image()
	img.Name = src.Recipe
	return img, nil
}

// Tell keeps a line.
func (b *Bench) Tell(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Lines = append(b.Lines, text)
}

// Seed is always the same.
func (b *Bench) Seed() uint64 { return 7 }

// WarmUp is Warm.
func (b *Bench) WarmUp() bool { return b.Warm }

// Generate fails: there is no load program.
func (b *Bench) Generate(context.Context, []string) ([]byte, error) {
	return nil, errors.New("no load program here")
}

// GenerateIn fails as Generate does.
func (b *Bench) GenerateIn(ctx context.Context, _ string, args []string) ([]byte, error) {
	return b.Generate(ctx, args)
}

// Name counts.
func (b *Bench) Name() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.names++
	return fmt.Sprintf("fake-%d", b.names)
}

// Measuring counts.
func (b *Bench) Measuring() error { b.Begun++; return nil }

// Measured counts, and fails where nothing was begun.
func (b *Bench) Measured() error {
	if b.Begun <= b.Done {
		return errors.New("measured before it was measuring")
	}
	b.Done++
	return nil
}

// Undisturbed measures a step, and again while there are disturbances left.
func (b *Bench) Undisturbed(step func() error) error {
	for {
		if err := b.Measuring(); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
		if err := b.Measured(); err != nil || b.Disturbed == 0 {
			return err
		}
		b.Disturbed--
	}
}

// InForce counts.
func (b *Bench) InForce(platform.Instance) error { b.Checked++; return nil }

// Record keeps a value.
func (b *Bench) Record(metric string, value float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Samples[metric] = append(b.Samples[metric], value)
}

// RecordHistogram keeps a histogram.
func (b *Bench) RecordHistogram(name string, h *hdrhistogram.Histogram) { b.Histograms[name] = h }

// Covariate keeps a value.
func (b *Bench) Covariate(name string, value float64) { b.Covariates[name] = value }

// Tally adds to one.
func (b *Bench) Tally(name string, more float64) { b.Covariates[name] += more }

// Attach keeps an attachment.
func (b *Bench) Attach(a record.Attachment) { b.Attached[a.Name] = a }
