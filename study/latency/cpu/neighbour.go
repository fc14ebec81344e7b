package cpu

import (
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
	realTime bool // the service is in a real-time class meanwhile

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
		before := n.printed.count()
		return func(r load.Result) error {
			if err := end(r); err != nil {
				return err
			}
			// One that is under way began beside the load, and ends beside nothing
			// else than the service at rest: it is not waited for unless it is the only one.
			if n.printed.count() == before {
				if err := n.printed.await(ctx, before+1); err != nil {
					return err
				}
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
	if err := b.Measuring(); err != nil {
		return err
	}
	over := time.After(aloneFor)
	if err := n.printed.await(ctx, 1+fewest); err != nil {
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
	return n.record(b, 1)
}

// record keeps the means of the multiplications from the given one on.
func (n *neighbour) record(b lab.Bench, from int) error {
	times, err := workload.MatrixTimes(n.printed.from(from))
	if err != nil {
		return fmt.Errorf("the neighbour: %w", err)
	}
	var wall, cpu time.Duration
	for _, t := range times {
		wall += t.Wall
		cpu += t.CPU
	}
	if len(times) == 0 {
		return errors.New("the neighbour finished no multiplication: load for longer")
	}
	each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(len(times)) }
	b.Record(matrixTime, each(wall))
	b.Record(matrixCPU, each(cpu))
	return nil
}

// realTime puts a service's threads into a real-time class, its group being
// granted the time for it where the kernel asks for that.
func realTime(service platform.Instance) (restore func() error, err error) {
	pids, err := service.Processes()
	if err != nil {
		return nil, err
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

// realTimeShare is what a service in a real-time class may take of each period:
// under the kernel's own bound of 95 % for all such classes together.
const realTimeShare = 9 * time.Millisecond

// lines is what the neighbour prints, by line.
type lines struct {
	mu   sync.Mutex
	text []byte
	ends []int // where each line ends
	more chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := len(l.text)
	l.text = append(l.text, p...)
	for i, c := range p {
		if c == '\n' {
			l.ends = append(l.ends, at+i+1)
		}
	}
	select {
	case l.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ends)
}

// from gives the whole lines after the first n.
func (l *lines) from(n int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n >= len(l.ends) {
		return nil
	}
	begin := 0
	if n > 0 {
		begin = l.ends[n-1]
	}
	return append([]byte(nil), l.text[begin:l.ends[len(l.ends)-1]]...)
}

// await waits until there are n lines.
func (l *lines) await(ctx context.Context, n int) error {
	limit := time.NewTimer(lineLimit)
	defer limit.Stop()
	for l.count() < n {
		select {
		case <-l.more:
		case <-limit.C:
			return fmt.Errorf("the neighbour has finished no further multiplication in %v", lineLimit)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// lineLimit bounds one multiplication: at the least quota it takes some hundred
// times its CPU time.
const lineLimit = 2 * time.Minute
