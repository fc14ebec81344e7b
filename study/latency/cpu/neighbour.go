package cpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tare/kernel/process"
	"tare/lab"
	"tare/load"
	"tare/platform"
	"tare/workload"
)

// neighbour is the container that shares the service's core.
type neighbour struct {
	setting  platform.Setting
	size     int
	realTime bool // the service runs in a real-time class

	printed lines // of the trial under way
}

// aloneFor is how long the neighbour is watched with nothing beside it, and
// fewest how many multiplications are waited for beyond that.
const (
	aloneFor = 2 * time.Second
	fewest   = 2
)

// launch starts the neighbour from the service's image.
func (n *neighbour) launch(ctx context.Context, b lab.Bench) (platform.Instance, error) {
	n.printed = lines{more: make(chan struct{}, 1)}
	inst, err := b.Platform().Launch(ctx, platform.Spec{
		Name: b.Name(), Image: b.Image(), Args: workload.MatrixArgs(n.size, 0), Setting: n.setting, Stdout: &n.printed,
	})
	if err != nil {
		return nil, fmt.Errorf("launch the neighbour: %w", err)
	}
	return inst, nil
}

// start puts the neighbour beside a service that is ready.
func (n *neighbour) start(ctx context.Context, b lab.Bench, beside platform.Instance) (end func() error, err error) {
	if n.realTime {
		restore, err := realTime(beside)
		if err != nil {
			return nil, fmt.Errorf("real-time class: %w", err)
		}
		defer func() {
			inner := end
			end = func() error {
				if inner == nil {
					return restore()
				}
				return errors.Join(inner(), restore())
			}
		}()
	}
	inst, err := n.launch(ctx, b)
	if err != nil {
		return nil, err
	}
	return func() error {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return inst.Stop(stopping)
	}, n.printed.await(ctx, 1)
}

// watching records the multiplications that ended within the service's load.
func (n *neighbour) watching(also beginning) beginning {
	return func(ctx context.Context, b lab.Bench) (func(load.Result) error, error) {
		end, err := also(ctx, b)
		if err != nil {
			return nil, err
		}
		before, err := n.printed.total()
		if err != nil {
			return nil, fmt.Errorf("the neighbour: %w", err)
		}
		return func(r load.Result) error {
			if err := end(r); err != nil {
				return err
			}
			// The multiplication under way would end after the load. It is not waited for
			// unless it is the only one.
			if err := n.printed.await(ctx, before.count+1); err != nil {
				return err
			}
			return n.record(b, before)
		}, nil
	}
}

// alone is a trial of the neighbour with nothing beside it.
func (n *neighbour) alone(ctx context.Context, b lab.Bench) (err error) {
	inst, err := n.launch(ctx, b)
	if err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, inst.Stop(stopping))
	}()
	if err := b.InForce(inst); err != nil {
		return err
	}
	if err := n.printed.await(ctx, 1); err != nil {
		return err
	}
	before, err := n.printed.total()
	if err != nil {
		return err
	}
	if err := b.Measuring(); err != nil {
		return err
	}
	over := time.After(aloneFor)
	if err := n.printed.await(ctx, before.count+fewest); err != nil {
		return err
	}
	select {
	case <-over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := b.Measured(); err != nil {
		return err
	}
	return n.record(b, before)
}

// record keeps the means of the multiplications that ended since.
func (n *neighbour) record(b lab.Bench, before sums) error {
	now, err := n.printed.total()
	if err != nil {
		return fmt.Errorf("the neighbour: %w", err)
	}
	since := now.since(before)
	if since.count == 0 {
		return errors.New("the neighbour finished no multiplication: set a longer --duration, or a smaller --matrix")
	}
	each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(since.count) }
	b.Record(matrixTime, each(since.wall))
	b.Record(matrixCPU, each(since.cpu))
	return nil
}

// realTime puts a service's threads into a real-time class. Its group is granted the
// time where the kernel requires that.
func realTime(service platform.Instance) (restore func() error, err error) {
	pids, err := service.Processes()
	if err != nil {
		return nil, err
	}
	if len(pids) == 0 {
		return nil, errors.New("the service has ended: it has no process")
	}
	group, err := platform.OwnGroup(pids[0])
	if err != nil {
		return nil, err
	}
	revoke, err := group.GrantRealTime(realTimeShare, Period)
	if err != nil {
		return nil, err
	}
	undo := []func() error{revoke}
	restore = func() error {
		var errs []error
		for i := len(undo) - 1; i >= 0; i-- {
			errs = append(errs, undo[i]())
		}
		return errors.Join(errs...)
	}
	for _, pid := range pids {
		back, err := process.SetClass(pid, process.Class{Policy: process.FIFO, Priority: 1})
		if err != nil {
			return nil, errors.Join(err, restore())
		}
		undo = append(undo, back)
	}
	return restore, nil
}

// realTimeShare is the CPU time per period of a service in a real-time class. The
// kernel allows 95 % for all such classes together.
const realTimeShare = 9 * time.Millisecond

// lines adds up what the neighbour prints, as it comes: a small matrix is
// multiplied thousands of times a second.
type lines struct {
	mu   sync.Mutex
	cut  []byte // the beginning of a line that is not whole yet
	sums sums
	err  error
	more chan struct{}
}

// sums are multiplications, and what they took together.
type sums struct {
	count     int
	wall, cpu time.Duration
}

func (s sums) since(before sums) sums {
	return sums{s.count - before.count, s.wall - before.wall, s.cpu - before.cpu}
}

// longestLine is above what a line of the neighbour's has.
const longestLine = 4096

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = append(l.cut, p...)
	whole := bytes.LastIndexByte(l.cut, '\n') + 1
	times, err := workload.MatrixTimes(l.cut[:whole])
	if l.err == nil && err != nil {
		l.err = err
	}
	for _, t := range times {
		l.sums.count++
		l.sums.wall += t.Wall
		l.sums.cpu += t.CPU
	}
	if l.cut = append(l.cut[:0], l.cut[whole:]...); len(l.cut) > longestLine {
		l.cut, l.err = nil, errors.New("it prints a line without an end")
	}
	select {
	case l.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (l *lines) total() (sums, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sums, l.err
}

// await waits until there are n multiplications.
func (l *lines) await(ctx context.Context, n int) error {
	limit := time.NewTimer(lineLimit)
	defer limit.Stop()
	for {
		if now, err := l.total(); err != nil || now.count >= n {
			return err
		}
		select {
		case <-l.more:
		case <-limit.C:
			return fmt.Errorf("the neighbour has finished no further multiplication in %v: set a smaller --matrix", lineLimit)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lineLimit bounds one multiplication: under the smallest quota it takes about a
// hundred times its CPU time.
const lineLimit = 2 * time.Minute
