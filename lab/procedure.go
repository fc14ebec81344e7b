package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/image"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

// Procedure is how a trial of a condition goes where it is not "launch the
// program once and let its workload drive it". It stops all that it started
// before it returns. Its error says why the trial is not valid.
type Procedure func(ctx context.Context, b Bench) error

// Bench is what a procedure works with, for one trial.
type Bench interface {
	Condition() record.Condition
	Platform() platform.Platform
	Image() image.Image
	// ImageOf is one of the condition's further images.
	ImageOf(src workload.Source) (image.Image, error)
	// Generate runs a load program of the image, as [workload.Trial] has it.
	Generate(ctx context.Context, args []string) (stdout []byte, err error)
	// GenerateIn is Generate from a network namespace, by the path that keeps it;
	// empty is the host's.
	GenerateIn(ctx context.Context, netns string, args []string) (stdout []byte, err error)
	// Name gives a name for one more instance, unique on the host.
	Name() string
	// Seed is the trial's own, drawn from the run's: the same for every
	// condition of a block, so that what is drawn from it is paired too.
	Seed() uint64
	// WarmUp tells that the trial is one of the warm-up, of which nothing counts:
	// a shorter one serves as well.
	WarmUp() bool
	// Measuring tells that the trial's own time begins: the host is observed
	// (steal, foreign CPU) from here on, until Measured or the procedure's end.
	// What a procedure lays out before and clears away after is not judged. A
	// procedure may measure several times: a cause in any taints the trial.
	Measuring() error
	Measured() error
	// Undisturbed measures a step of a trial that has many: from its begin to its end, as
	// Measuring and Measured do, and again, within a bound, where something foreign
	// disturbed it. For that a step can be done over without what came before it, and
	// takes the place of what it found before. A step that stays disturbed taints the
	// trial. Its error ends that, whatever disturbed it.
	Undisturbed(step func() error) error
	// Tell says in one line how far a long trial is, to whoever shows progress.
	Tell(text string)
	// Box makes a bound around programs that the trial launches into its groups, where
	// they run: on this host, or in the platform's virtual machine. It is entered in
	// the ledger; the procedure removes it.
	Box(ctx context.Context, spec platform.BoxSpec) (platform.Box, error)
	// InForce reads back, once a condition, what the kernel has of its setting.
	InForce(inst platform.Instance) error
	Record(metric string, value float64)
	RecordHistogram(name string, h *hdrhistogram.Histogram)
	Covariate(name string, value float64)
	// Tally adds to a covariate, of what happens several times in a trial.
	Tally(name string, more float64)
	Attach(a record.Attachment)
}

// Watch begins to watch a program. end is called once, when it was driven.
type Watch func(ctx context.Context, b Bench, inst platform.Instance) (end func(ctx context.Context) error, err error)

// Around makes of the host what a trial is to find; restore puts back what was found,
// and is called once, whatever became of the trial. A host that cannot be put back ends
// the run.
type Around func(ctx context.Context) (restore func(ctx context.Context) error, err error)

// workbench is a trial that a procedure carries out.
type workbench struct {
	*trial
	r         *runner
	ctx       context.Context
	condition Condition
	seed      uint64
	result    *record.Trial
	watch     observer
	observing bool
	steps     int // that were to be undisturbed
}

var _ Bench = (*workbench)(nil)

func (b *workbench) Condition() record.Condition { return b.condition.Condition }
func (b *workbench) Platform() platform.Platform { return b.r.platforms[b.condition.Platform] }
func (b *workbench) Image() image.Image          { return b.r.images[b.condition.ID] }
func (b *workbench) Seed() uint64                { return b.seed }
func (b *workbench) WarmUp() bool                { return b.result.Block == 0 }

func (b *workbench) GenerateIn(ctx context.Context, netns string, args []string) ([]byte, error) {
	return b.r.lab.Generate(ctx, b.Image(), netns, args)
}

func (b *workbench) ImageOf(src workload.Source) (image.Image, error) {
	img, ok := b.r.further[src]
	if !ok {
		return image.Image{}, fmt.Errorf("%s: no image was prepared from %+v", b.condition.ID, src)
	}
	return img, nil
}

func (b *workbench) Tell(text string) {
	b.r.lab.tell(
		Event{
			Kind:      Reported,
			Group:     b.condition.Workload,
			Condition: b.condition.ID,
			Label:     b.condition.Label,
			Block:     b.result.Block,
			Text:      text,
			Left:      b.r.left(),
		},
	)
}

func (b *workbench) Box(ctx context.Context, spec platform.BoxSpec) (platform.Box, error) {
	if boxing, ok := b.Platform().(platform.Boxing); ok {
		return boxing.Box(ctx, spec)
	}
	if b.r.lab.Boxes == nil {
		return nil, errors.New("no box can be made here")
	}
	box, err := b.r.lab.Boxes(ctx, spec)
	if err == nil {
		b.watch.around(box)
	}
	return box, err
}

func (b *workbench) Name() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.r.trials++
	return fmt.Sprintf("%s-%d", b.r.name, b.r.trials)
}

func (b *workbench) Measuring() error {
	b.watch.meet(b.ctx, b.r.platforms)
	b.observing = true
	return b.watch.begin(b.ctx)
}

func (b *workbench) Measured() error {
	if !b.observing {
		return nil
	}
	seen, err := b.observed()
	if err != nil {
		return err
	}
	note(seen, b.r.taint(seen, b.condition, b.result.Block, ""), b.result)
	return nil
}

func (b *workbench) InForce(inst platform.Instance) error { return b.r.checkInForce(b.condition, inst) }

func (b *workbench) Covariate(name string, value float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.result.Covariates[name] = value
}

func (b *workbench) Tally(name string, more float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.result.Covariates[name] += more
}

func (b *workbench) Attach(a record.Attachment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.result.Attachments = append(b.result.Attachments, a)
}

// workbench makes what a trial's procedure, or its watch, works with.
func (r *runner) workbench(ctx context.Context, c Condition, t *trial, result *record.Trial) *workbench {
	return &workbench{
		trial:     t,
		r:         r,
		ctx:       ctx,
		condition: c,
		seed:      trialSeed(r.design.Seed, c.Workload, result.Block, result.Attempt),
		result:    result,
		watch:     r.observer(),
	}
}

// proceed executes a trial by its condition's procedure.
func (r *runner) proceed(ctx context.Context, c Condition, t *trial, result *record.Trial) error {
	b := r.workbench(ctx, c, t, result)
	if err := c.Procedure(ctx, b); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return err
	}
	if err := b.Measured(); err != nil {
		return err
	}
	if t.invalid != nil {
		return t.invalid
	}
	result.Samples = t.samples
	return encodeHistograms(result, t.histograms)
}

// limit is how long a condition's trial may take.
func (r *runner) limit(c Condition) time.Duration {
	switch {
	case c.Limit > 0:
		return c.Limit
	case r.lab.TrialLimit > 0:
		return r.lab.TrialLimit
	}
	return DefaultTrialLimit
}
