package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/kernel/filesystem"
	"tare/lab"
	"tare/study/kit"
	"tare/workload"
)

// stopLimit bounds the removal of a trial, whose files may take a while, and which goes
// on when the run is interrupted.
const stopLimit = 2 * time.Minute

// warmShare is the share of the particles that trials of the warm-up write.
const warmShare = 10

// trial is one program that writes and reads, and ends. Earlier writes are flushed to its
// disk before it begins: otherwise the disk would serve them while this trial is measured.
// The time of flushing is recorded separately. The host's page cache is not dropped; the
// program drops the pages of its own files.
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
	r := &running{kit.Running{Bench: b, Parameters: params}}
	launched := time.Now()
	spec, err := lab.SpecOf(b.Name(), b.Image(), program, c)
	if err != nil {
		return err
	}
	spec.Stdout, spec.Stderr = &r.Out, &r.Err
	r.Instance, err = b.Platform().Launch(ctx, spec)
	if err != nil {
		return fmt.Errorf("launch on %s: %w", c.Platform, err)
	}
	b.Covariate("launch_s", time.Since(launched).Seconds())
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		if stopped := r.Instance.Stop(stopping); stopped != nil {
			err = errors.Join(err, fmt.Errorf("stop on %s: %w", c.Platform, stopped))
		}
	}()
	if err := b.InForce(r.Instance); err != nil {
		return err
	}
	if err := t.program.Drive(ctx, r); err != nil {
		return r.Err.WithLastLine(err)
	}
	return b.Measured()
}

// settle flushes earlier writes to the disks, those of other programs included, and records
// what is left. An interrupted run does not wait for it.
func (t trial) settle(ctx context.Context, b lab.Bench) error {
	began := time.Now()
	for _, dir := range t.flush {
		if err := filesystem.Sync(ctx, dir); err != nil {
			return fmt.Errorf("flush earlier writes to the disk: %w", err)
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
type running struct{ kit.Running }

func (r *running) Wait(ctx context.Context) (workload.Exit, error) {
	exit, err := r.Running.Wait(ctx)
	if err == nil && exit.CPU > 0 {
		r.Bench.Covariate("cpu_s", exit.CPU.Seconds())
	}
	return exit, err
}

func (r *running) Record(metric string, value float64) { r.Bench.Record(metric, value) }

func (r *running) RecordHistogram(name string, h *hdrhistogram.Histogram) {
	r.Bench.RecordHistogram(name, h)
}
