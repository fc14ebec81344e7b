package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/image"
	"tare/kernel/accounting"
	"tare/kernel/process"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

// DefaultTrialLimit bounds one trial: a program that hangs costs a trial, not a
// run.
const DefaultTrialLimit = 10 * time.Minute

// stopLimit bounds the removal of a trial, which goes on when the run is
// interrupted.
const stopLimit = time.Minute

// trial is one execution, as its workload drives it.
type trial struct {
	params   workload.Params
	inst     platform.Instance
	generate func(ctx context.Context, args []string) ([]byte, error)
	onHost   func(ctx context.Context, args []string) ([]byte, error)
	declared map[string]bool
	now      func() time.Time
	// started is when a program that was created ahead was started; zero where its
	// platform says itself what its execution took.
	started  time.Time
	lasted   time.Duration // how long it took to its end, once that was waited for
	before   time.Duration // and what tare itself took before that, since started
	out, err process.Tail

	mu         sync.Mutex
	samples    []record.Sample
	histograms map[string]*hdrhistogram.Histogram
	invalid    error
}

func (t *trial) Params() workload.Params { return t.params }

func (t *trial) Address(port int) string { return t.inst.Address(port) }

func (t *trial) Wait(ctx context.Context) (workload.Exit, error) {
	exit, err := t.inst.Wait(ctx)
	if err != nil {
		return workload.Exit{}, err
	}
	// What it used is known as long as Stop has not been called.
	if !t.started.IsZero() {
		since := t.now().Sub(t.started)
		if !exit.FromExecution {
			exit.Elapsed = since
		}
		t.before = max(0, since-exit.Elapsed)
	}
	t.lasted = exit.Elapsed
	usage, err := t.inst.Usage()
	if err != nil || usage.CPU == 0 {
		// An engine may be faster than the reading; a program that ran has used
		// some CPU, however little.
		usage.CPU = -1
	}
	return workload.Exit{Code: exit.Code, OOMKilled: exit.OOMKilled, Elapsed: exit.Elapsed, CPU: usage.CPU}, nil
}

func (t *trial) Output() (stdout, stderr []byte) { return t.out.Bytes(), t.err.Bytes() }

func (t *trial) Generate(ctx context.Context, args []string) ([]byte, error) {
	return t.generate(ctx, args)
}

func (t *trial) GenerateOnHost(ctx context.Context, args []string) ([]byte, error) {
	return t.onHost(ctx, args)
}

func (t *trial) Record(metric string, value float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.declared[metric]:
		t.invalid = fmt.Errorf("metric %q is not one that the workload declares", metric)
	case math.IsNaN(value) || math.IsInf(value, 0):
		t.invalid = fmt.Errorf("metric %q is not a number", metric)
	default:
		t.samples = append(t.samples, record.Sample{Metric: metric, Value: value})
	}
}

func (t *trial) RecordHistogram(name string, h *hdrhistogram.Histogram) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.histograms[name]; ok {
		known.Merge(h)
		return
	}
	t.histograms[name] = h
}

// runTrial executes a condition once. The returned trial is complete but for
// its place in the run; its Error says why it is not valid. The error return
// is for what ends the run: the context's end, or a platform that is gone.
func (r *runner) runTrial(ctx context.Context, c Condition, block, attempt int) (record.Trial, error) {
	result := record.Trial{
		Condition:  c.ID,
		Workload:   c.Workload,
		Block:      block,
		Attempt:    attempt,
		Started:    r.lab.now(),
		Covariates: map[string]float64{},
	}
	if ctx.Err() != nil {
		return result, context.Cause(ctx)
	}
	began := r.lab.now()
	err := r.execute(ctx, c, &result)
	result.Elapsed = r.lab.now().Sub(began)
	if err == nil {
		return result, nil
	}
	var unrestored *Unrestored
	if ctx.Err() != nil {
		if errors.As(err, &unrestored) {
			return result, also(context.Cause(ctx), unrestored)
		}
		return result, context.Cause(ctx)
	}
	result.Error = firstLine(err.Error())
	result.Samples, result.Histograms, result.Attachments = nil, nil, nil
	if errors.Is(err, platform.ErrGone) || errors.As(err, &unrestored) {
		return result, err
	}
	return result, nil
}

// Unrestored says that the host could not be put back as a trial had found it: what
// would be measured on it from here on is another host's, so that it ends a run.
type Unrestored struct{ Err error }

func (u *Unrestored) Error() string { return "put the host back: " + u.Err.Error() }
func (u *Unrestored) Unwrap() error { return u.Err }

// also is an error with a second one beside it, either of which may be nil, on one line:
// of a trial's error the first line is kept.
func also(err, more error) error {
	switch {
	case err == nil:
		return more
	case more == nil:
		return err
	}
	return fmt.Errorf("%w; %w", err, more)
}

// newTrial is what the workload of a condition drives.
func (r *runner) newTrial(c Condition, params workload.Params) *trial {
	t := &trial{
		params:     params,
		now:        r.lab.now,
		declared:   map[string]bool{},
		histograms: map[string]*hdrhistogram.Histogram{},
		generate: func(ctx context.Context, args []string) ([]byte, error) {
			return r.lab.Generate(ctx, r.images[c.ID], "", args)
		},
		onHost: func(ctx context.Context, args []string) ([]byte, error) {
			return r.lab.Generate(ctx, image.Image{}, "", args)
		},
	}
	for _, m := range c.Metrics {
		t.declared[m.Name] = true
	}
	return t
}

func (r *runner) execute(ctx context.Context, c Condition, result *record.Trial) (err error) {
	limit := r.limit(c)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not finished after %v (--trial-limit)", limit))
	defer cancel()
	p := r.platforms[c.Platform]
	img := r.images[c.ID]
	program, params, err := ProgramOf(c, p)
	if err != nil {
		return err
	}
	t := r.newTrial(c, params)
	if c.Around != nil {
		restore, aerr := c.Around(ctx)
		if aerr != nil {
			return fmt.Errorf("make the host ready: %w", aerr)
		}
		defer func() {
			rerr := restore(context.WithoutCancel(ctx))
			if unrestored := (*Unrestored)(nil); rerr != nil && !errors.As(rerr, &unrestored) {
				rerr = &Unrestored{rerr}
			}
			err = also(err, rerr)
		}()
	}
	if c.Procedure != nil {
		return r.proceed(ctx, c, t, result)
	}
	r.trials++
	spec, err := SpecOf(fmt.Sprintf("%s-%d", r.name, r.trials), img, program, c.Condition)
	if err != nil {
		return err
	}
	spec.Stdout, spec.Stderr = &t.out, &t.err
	watch := r.observer()
	watch.meet(ctx, r.platforms)
	if err := watch.begin(ctx); err != nil {
		return err
	}
	launched := r.lab.now()
	inst, err := p.Launch(ctx, spec)
	if err != nil {
		return fmt.Errorf("launch on %s: %w", c.Platform, err)
	}
	result.Covariates["launch_s"] = r.lab.now().Sub(launched).Seconds()
	r.booted(p, c, result)
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		if serr := inst.Stop(stopping); serr != nil && err == nil {
			err = fmt.Errorf("stop on %s: %w", c.Platform, serr)
		}
	}()
	t.inst = inst
	// Met now, an engine's process is known for ours even if it ends its
	// service, and takes over the program's CPU time, before the trial's end.
	watch.meet(ctx, r.platforms)
	if err := r.checkInForce(c, inst); err != nil {
		return err
	}
	end := func(context.Context) error { return nil }
	if c.Watch != nil {
		if end, err = c.Watch(ctx, r.workbench(ctx, c, t, result), inst); err != nil {
			return fmt.Errorf("watch on %s: %w", c.Platform, err)
		}
	}
	driven := c.Program.Drive(ctx, t)
	ended := end(context.WithoutCancel(ctx))
	if ended != nil {
		ended = fmt.Errorf("watch on %s: %w", c.Platform, ended)
	}
	if err := driven; err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return also(t.err.WithLastLine(err), ended)
	}
	if ended != nil {
		return ended
	}
	if usage, err := inst.Usage(); err == nil {
		result.Covariates["cpu_s"] = usage.CPU.Seconds()
		result.Covariates["throttled_s"] = usage.ThrottledTime.Seconds()
		result.Covariates["throttled_periods"] = float64(usage.Throttled)
		if usage.MemoryPeak > 0 {
			result.Covariates["memory_peak_bytes"] = float64(usage.MemoryPeak)
		}
	}
	watch.meet(ctx, r.platforms)
	beside, err := watch.end(ctx)
	if err != nil {
		return err
	}
	note(beside, r.taint(beside, c, result.Block, ""), result)
	if t.invalid != nil {
		return t.invalid
	}
	result.Samples = t.samples
	return encodeHistograms(result, t.histograms)
}

func (r *runner) observer() observer {
	return observer{proc: cmp.Or(r.lab.Proc, "/proc"), self: os.Getpid(), engine: map[int]bool{}}
}

// taint gives the causes of taint in what happened on the host beside a trial, or beside
// that part of it. What a warm-up is like tells nothing of a trial.
func (r *runner) taint(beside accounting.Interval, c Condition, block int, part string) []string {
	var own float64
	if block > 0 {
		own = r.ownSteal.before(c.Workload+" "+c.ID+" "+part, beside.Steal)
	}
	return r.judge(beside, own, c.Setting.Memory != 0)
}

// judge gives the causes of taint.
func (r *runner) judge(beside accounting.Interval, ownSteal float64, memoryLimited bool) []string {
	if r.design.Plan.HostInUse {
		beside.Foreign, beside.MemoryStall = 0, 0
	}
	return r.lab.judge(beside, ownSteal, memoryLimited)
}

// note keeps what happened on the host beside a trial, and what of it taints.
func note(beside accounting.Interval, taint []string, result *record.Trial) {
	// Where a procedure measured several times, the worst is recorded.
	worst := func(name string, share float64) {
		result.Covariates[name] = max(result.Covariates[name], share)
	}
	worst("steal_share", beside.Steal)
	worst("foreign_share", beside.Foreign)
	if beside.MemoryStall >= 0 {
		worst("memory_stall_share", beside.MemoryStall)
	}
	if beside.Elapsed > 0 {
		worst("tare_cpu_share", beside.Self.Seconds()/beside.Elapsed.Seconds())
	}
	result.Taint = append(result.Taint, taint...)
}

func encodeHistograms(result *record.Trial, histograms map[string]*hdrhistogram.Histogram) error {
	for name, h := range histograms {
		text, err := record.EncodeHistogram(h)
		if err != nil {
			return fmt.Errorf("histogram %s: %w", name, err)
		}
		if result.Histograms == nil {
			result.Histograms = map[string]record.Histogram{}
		}
		result.Histograms[name] = text
	}
	return nil
}

// checkInForce reads back, once a condition, what the kernel has. A program
// that ends before it can be read is tried again with its next trial.
func (r *runner) checkInForce(c Condition, inst platform.Instance) error {
	if r.inForce[c.ID] {
		return nil
	}
	force, err := inst.InForce()
	if errors.Is(err, platform.ErrGone) {
		return nil // it ended before it could be read
	}
	if err != nil {
		return fmt.Errorf("read back what is in force on %s: %w", c.Platform, err)
	}
	if wrong := verify(r.platforms[c.Platform].Name(), c.Setting, force); len(wrong) > 0 {
		return &NotInForce{wrong}
	}
	r.inForce[c.ID] = true
	return r.lab.Store.SetInForce(r.run.ID, c.ID, force)
}

// NotInForce says that a platform did not do what it was asked to.
type NotInForce struct{ Differences []string }

func (n *NotInForce) Error() string { return strings.Join(n.Differences, "; ") }

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

var _ workload.HostLoaded = (*trial)(nil)
