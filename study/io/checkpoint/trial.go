package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/kernel/filesystem"
	"tare/lab"
	"tare/platform"
	"tare/workload"
)

// stopLimit bounds the removal of a trial, whose files may take a while, and which goes
// on when the run is interrupted.
const stopLimit = 2 * time.Minute

// warmShare is the share of the particles that trials of the warm-up write.
const warmShare = 10

// trial is one program that writes and reads, and ends. What others left to be
// written is on its disk before it begins: otherwise the disk would serve the trial
// before, while this one is measured. What that takes is counted apart. The page
// cache is not touched: whose pages are in it is the host's affair, and the program drops
// those of its own files.
type trial struct {
	program workload.Workload
	flush   []string // a directory on each disk that the cell's places have
}

func (t trial) run(ctx context.Context, b lab.Bench) (err error) {
	c := b.Condition()
	params := maps.Clone(c.Params)
	if b.WarmUp() {
		params[factorParticles] = fewer(params[factorParticles])
	}
	program, err := t.program.Program(params)
	if err != nil {
		return err
	}
	if err := t.settle(ctx, b); err != nil {
		return err
	}
	if err := b.Measuring(); err != nil {
		return err
	}
	r := &running{bench: b, params: params}
	launched := time.Now()
	spec, err := lab.SpecOf(b.Name(), b.Image(), program, c)
	if err != nil {
		return err
	}
	spec.Stdout, spec.Stderr = &r.out, &r.err
	r.instance, err = b.Platform().Launch(ctx, spec)
	if err != nil {
		return fmt.Errorf("launch on %s: %w", c.Platform, err)
	}
	b.Covariate("launch_s", time.Since(launched).Seconds())
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		if stopped := r.instance.Stop(stopping); stopped != nil {
			err = errors.Join(err, fmt.Errorf("stop on %s: %w", c.Platform, stopped))
		}
	}()
	if err := b.InForce(r.instance); err != nil {
		return err
	}
	if err := t.program.Drive(ctx, r); err != nil {
		return r.complaint(err)
	}
	return b.Measured()
}

// settle brings to the disks what was written before, by whomever, and notes what is
// left. Others may have left a lot: an interrupted run does not wait for it.
func (t trial) settle(ctx context.Context, b lab.Bench) error {
	began := time.Now()
	for _, dir := range t.flush {
		if err := filesystem.Sync(ctx, dir); err != nil {
			return fmt.Errorf("bring what earlier trials wrote to the disk: %w", err)
		}
	}
	b.Covariate(flushSeconds, time.Since(began).Seconds())
	dirty, err := filesystem.ReadDirty()
	if err != nil {
		return nil // it explains figures, and none rests on it
	}
	b.Covariate(dirtyBefore, float64(dirty.Left()))
	b.Covariate(dirtyLimit, float64(dirty.Limit))
	b.Covariate(dirtyBackground, float64(dirty.Background))
	return nil
}

// fewer is the number of particles of a trial that does not count.
func fewer(particles string) string {
	n, err := strconv.ParseInt(particles, 10, 64)
	if err != nil {
		return particles
	}
	return strconv.FormatInt(max(1, n/warmShare), 10)
}

// running is the program as its workload sees it.
type running struct {
	bench    lab.Bench
	params   workload.Params
	instance platform.Instance
	out, err output
}

var _ workload.Trial = (*running)(nil)

func (r *running) Params() workload.Params { return r.params }

func (r *running) Address(port int) string { return r.instance.Address(port) }

func (r *running) Wait(ctx context.Context) (workload.Exit, error) {
	exit, err := r.instance.Wait(ctx)
	if err != nil {
		return workload.Exit{}, err
	}
	usage, err := r.instance.Usage()
	if err != nil || usage.CPU == 0 {
		usage.CPU = -1 // an engine may be faster than the reading
	} else {
		r.bench.Covariate("cpu_s", usage.CPU.Seconds())
	}
	return workload.Exit{Code: exit.Code, OOMKilled: exit.OOMKilled, Elapsed: exit.Elapsed, CPU: usage.CPU}, nil
}

func (r *running) Output() (stdout, stderr []byte) { return r.out.text(), r.err.text() }

func (r *running) Generate(ctx context.Context, args []string) ([]byte, error) {
	return r.bench.Generate(ctx, args)
}

func (r *running) Record(metric string, value float64) { r.bench.Record(metric, value) }

func (r *running) RecordHistogram(name string, h *hdrhistogram.Histogram) {
	r.bench.RecordHistogram(name, h)
}

// complaint adds the program's own last line, where the error does not hold it.
func (r *running) complaint(err error) error {
	text := bytes.TrimSpace(r.err.text())
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	line := string(bytes.ToValidUTF8(text[:min(len(text), 200)], []byte("?")))
	if line == "" || strings.Contains(err.Error(), line) {
		return err
	}
	return fmt.Errorf("%w (the program's last line: %s)", err, line)
}

// outputKept is how much of what a program prints is kept: its end.
const outputKept = 1 << 20

type output struct {
	mu   sync.Mutex
	kept []byte
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, p...)
	if extra := len(o.kept) - outputKept; extra > 0 {
		o.kept = append(o.kept[:0], o.kept[extra:]...)
	}
	return len(p), nil
}

func (o *output) text() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.kept)
}
