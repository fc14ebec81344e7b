package cpu

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tare/kernel/accounting"
	"tare/lab"
	"tare/load"
	"tare/platform"
)

// beginning is what is done around a load that counts (service.Trial.Begin).
type beginning = func(ctx context.Context, b lab.Bench) (end func(load.Result) error, err error)

// core is the CPUs that only the service uses, as far as the host allows.
type core struct{ cpuset string }

// watch counts what came to the core while the service was loaded: interrupts,
// how busy it was, and its clock rate where a driver reports it.
func (c core) watch(ctx context.Context, b lab.Bench) (func(load.Result) error, error) {
	cpus, err := platform.ParseCPUList(c.cpuset)
	if err != nil || len(cpus) == 0 {
		return nil, fmt.Errorf("the service's CPUs %q: want a list such as 1 or 2-3", c.cpuset)
	}
	before, err := readCPUs(cpus)
	if err != nil {
		return nil, err
	}
	clock := sampleClock(ctx, cpus[0])
	return func(load.Result) error {
		mhz, ok := clock()
		after, err := readCPUs(cpus)
		if err != nil {
			return err
		}
		var taken uint64
		var busy, elapsed float64
		for i := range cpus {
			span := after[i].Since(before[i])
			for _, n := range span.Interrupts {
				taken += n.Count
			}
			busy += span.Time.Busy().Seconds()
			elapsed = max(elapsed, span.Elapsed.Seconds())
		}
		if elapsed <= 0 {
			return nil
		}
		b.Covariate(interrupts, float64(taken)/elapsed)
		b.Covariate(coreBusy, 100*busy/elapsed)
		if ok {
			b.Covariate(clockMHz, mhz)
		}
		return nil
	}, nil
}

// clockEvery is how often a core's clock is read while the service is loaded. After
// the load it would be that of an idle core.
const clockEvery = 50 * time.Millisecond

// sampleClock reads a CPU's clock rate again and again until the mean is asked for,
// or the trial is over; ok is false where no driver reports it.
func sampleClock(ctx context.Context, cpu int) (mean func() (mhz float64, ok bool)) {
	if _, ok := accounting.Frequency(cpu); !ok {
		return func() (float64, bool) { return 0, false }
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	var sum float64
	var n int
	go func() {
		defer close(stopped)
		ticks := time.NewTicker(clockEvery)
		defer ticks.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ctx.Done(): // the load failed: no mean is needed
				return
			case <-ticks.C:
				if mhz, ok := accounting.Frequency(cpu); ok {
					sum += mhz
					n++
				}
			}
		}
	}()
	var once sync.Once
	return func() (float64, bool) {
		once.Do(func() { close(stop) })
		<-stopped
		return sum / float64(max(n, 1)), n > 0
	}
}

func readCPUs(cpus []int) ([]accounting.CPU, error) {
	var all []accounting.CPU
	for _, cpu := range cpus {
		c, err := accounting.ReadCPU(cpu)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}
