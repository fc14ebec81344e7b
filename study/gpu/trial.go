package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"tare/kernel/process"
	"tare/lab"
	"tare/platform"
	activity "tare/probe/gpu"
	programs "tare/programs/gpu"
	"tare/record"
	"tare/study/kit"
	"tare/workload"
)

// Where a trial's own directories are shown to the program, under every platform.
const (
	cacheDirectory = "/cache" // the driver's, of compiled PTX
	traceDirectory = "/trace" // the probe's
	probeDirectory = "/probe" // holds its library
)

// Points are the directories that an image must have to be mounted on.
var Points = []string{cacheDirectory, traceDirectory, probeDirectory, platform.DriverLibraries}

// stopLimit bounds the removal of a trial, which goes on when the run is interrupted.
const stopLimit = time.Minute

// trial is one execution of a program, as its condition has it.
type trial struct {
	host    Host
	program workload.Workload
	cache   string // Cold, Warm, Off; empty where nothing is compiled
	probe   bool
	limits  bool
	torch   *Torch
}

func (t trial) run(ctx context.Context, b lab.Bench) (err error) {
	params := t.params(b)
	dir, remove, err := t.host.Scratch(ctx, b.Name())
	if err != nil {
		return fmt.Errorf("make a directory for the trial: %w", err)
	}
	defer func() { err = errors.Join(err, remove()) }()
	edits, env, err := t.surroundings(dir)
	if err != nil {
		return err
	}
	if t.cache == Warm {
		// Once, whatever it comes to: what is to be compiled is compiled.
		once := maps.Clone(params)
		once["iterations"], once["check"] = "1", "no"
		if small, ok := checkedSizes[once["program"]]; ok && once["size"] == "auto" {
			once["size"] = small // its kernels are the same
		}
		if _, err := t.execute(ctx, b, once, edits, env, nil); err != nil {
			return fmt.Errorf("warm the cache of compiled PTX: %w", err)
		}
	}
	probed := env
	if t.probe {
		p := activity.Probe{Library: filepath.Join(probeDirectory, filepath.Base(library)), Dir: traceDirectory}
		if probed, err = p.Environment(env); err != nil {
			return err
		}
	}
	if err := b.Measuring(); err != nil {
		return err
	}
	r, err := t.execute(ctx, b, params, edits, probed, t.declared(b.Condition()))
	if err != nil {
		return err
	}
	if err := b.Measured(); err != nil {
		return err
	}
	// What the driver compiled it leaves here, unless the cache is off. Exact code leaves nothing.
	if compiled, err := sizeBelow(filepath.Join(dir, filepath.Base(cacheDirectory))); err == nil {
		b.Covariate("compiled_bytes", float64(compiled))
	}
	stdout, _ := r.Output()
	b.Attach(record.Attachment{Name: AttachmentResult, MediaType: "application/json", Data: bytes.TrimSpace(stdout)})
	switch {
	case t.limits:
		return t.recordLimits(b, stdout)
	case t.probe:
		return recordActivity(b, filepath.Join(dir, filepath.Base(traceDirectory)))
	}
	return nil
}

// AttachmentResult is what the program of a trial printed, and AttachmentActivity what
// the probe's traces came to, as JSON.
const (
	AttachmentResult   = "result.json"
	AttachmentActivity = "activity.json"
)

// params are the trial's own: its seed is the same for all conditions of a block. Trials
// of the warm-up are small, and compare their results with the reference.
func (t trial) params(b lab.Bench) workload.Params {
	p := maps.Clone(b.Condition().Params)
	if _, ok := p["seed"]; ok && t.torch == nil {
		p["seed"] = strconv.FormatUint(b.Seed()%(1<<53), 10)
	}
	if small, ok := checkedSizes[p["program"]]; ok && b.WarmUp() && t.torch == nil {
		p["check"], p["iterations"] = "yes", "2"
		if p["size"] == "auto" {
			p["size"] = small
		}
	}
	return p
}

// checkedSizes are such that the reference on the CPU takes a moment, and that no tile
// of a kernel is the whole.
var checkedSizes = map[string]string{
	programs.LU: "515", programs.ParticleFilter: "50021", programs.Stencil: "67x70x65", programs.LeNet: "96", programs.DeviceLimits: "1000003",
}

// surroundings are the trial's own directories, what is shown of them inside, and the
// environment that names them.
func (t trial) surroundings(dir string) (platform.Edits, []string, error) {
	cache, traces := filepath.Join(dir, filepath.Base(cacheDirectory)),
		filepath.Join(dir, filepath.Base(traceDirectory))
	edits := platform.Edits{Mounts: []platform.Mount{{Source: cache, Target: cacheDirectory, Directory: true}}}
	for _, d := range []string{cache, traces} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return edits, nil, err
		}
	}
	if t.probe {
		edits.Mounts = append(edits.Mounts,
			platform.Mount{Source: traces, Target: traceDirectory, Directory: true},
			platform.Mount{Source: t.host.Found.Library, Target: probeDirectory, Directory: true, ReadOnly: true})
	}
	if t.torch != nil {
		edits.Mounts = append(edits.Mounts, t.torch.Mounts...)
	}
	env := []string{"CUDA_CACHE_PATH=" + cacheDirectory, "CUDA_CACHE_DISABLE=0"}
	if t.cache == Off {
		env = []string{"CUDA_CACHE_DISABLE=1"}
	}
	return edits, env, nil
}

// sizeBelow adds up the bytes of the files below a directory.
func sizeBelow(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}

// declared are the names of the metrics that a trial's program may record.
func (t trial) declared(c record.Condition) map[string]bool {
	all := map[string]bool{}
	for _, m := range c.Metrics {
		all[m.Name] = true
	}
	return all
}

// execute launches the program once and drives it to its end. Metrics that are not among
// those to be recorded are dropped: nil drops all.
func (t trial) execute(
	ctx context.Context,
	b lab.Bench,
	params workload.Params,
	edits platform.Edits,
	env []string,
	metrics map[string]bool,
) (r *running, err error) {
	program, err := t.program.Program(params)
	if err != nil {
		return nil, err
	}
	r = &running{
		metrics: metrics,
		Running: kit.Running{Bench: b, Parameters: params, Out: process.Tail{Most: outputKept}},
	}
	launched := time.Now()
	if r.Instance, err = t.launch(ctx, b, program, edits, env, r); err != nil {
		return r, err
	}
	if metrics != nil {
		b.Covariate("launch_s", time.Since(launched).Seconds())
	}
	defer func() { err = errors.Join(err, r.stop(ctx, b)) }()
	if err := b.InForce(r.Instance); err != nil {
		return r, err
	}
	return r, t.program.Drive(ctx, r)
}

func (t trial) launch(
	ctx context.Context, b lab.Bench, program workload.Program, edits platform.Edits, env []string, r *running,
) (platform.Instance, error) {
	c := b.Condition()
	inst, err := b.Platform().Launch(ctx, platform.Spec{
		Name:    b.Name(),
		Image:   b.Image(),
		Args:    program.Args,
		Env:     append(slices.Clone(program.Env), env...),
		Dir:     program.Dir,
		Setting: c.Setting,
		Data:    program.Data,
		Edits:   edits,
		Stdout:  &r.Out,
		Stderr:  &r.Err,
	})
	if err != nil {
		return nil, fmt.Errorf("launch on %s: %w", c.Platform, err)
	}
	return inst, nil
}

// recordLimits reads the device's limits off the program that measures them.
func (t trial) recordLimits(b lab.Bench, stdout []byte) error {
	result, err := programs.Parse(stdout)
	if err != nil {
		return err
	}
	l, err := programs.LimitsOf(result)
	if err != nil {
		return err
	}
	b.Record(metricCopy, l.CopyBytesPerSecond)
	b.Record(metricTriad, l.TriadBytesPerSecond)
	b.Record(metricFMA, l.FMAFlopsPerSecond)
	b.Record(metricLaunch, l.LaunchSeconds)
	return nil
}

// running is a program as its workload sees it.
type running struct {
	kit.Running
	metrics map[string]bool // that are recorded
}

func (r *running) Record(metric string, value float64) {
	if r.metrics[metric] && !math.IsNaN(value) {
		r.Bench.Record(metric, value)
	}
}

// stop removes what was launched, whatever became of the run.
func (r *running) stop(ctx context.Context, b lab.Bench) error {
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if err := r.Instance.Stop(stopping); err != nil {
		return fmt.Errorf("stop on %s: %w", b.Condition().Platform, err)
	}
	return nil
}

// outputKept is how much of what a program prints is kept, its end: a result has a number
// for each of 100,000 repetitions at the most.
const outputKept = 4 << 20
