package cpu

import (
	"context"
	"fmt"

	"tare/kernel/accounting"
	"tare/lab"
	"tare/load"
	"tare/platform"
)

// beginning is what is done around a load that counts (service.Trial.Begin).
type beginning = func(ctx context.Context, b lab.Bench) (end func(load.Result) error, err error)

// core is the CPUs that the service has for itself, as far as the host allows.
type core struct{ cpuset string }

// watch counts what came to the core while the service was loaded: interrupts,
// and how busy it was with whatever; and its clock rate, where a driver tells it.
func (c core) watch(_ context.Context, b lab.Bench) (func(load.Result) error, error) {
	cpus, err := platform.ParseCPUList(c.cpuset)
	if err != nil || len(cpus) == 0 {
		return nil, fmt.Errorf("the service's CPUs %q: want a list", c.cpuset)
	}
	before, err := readCPUs(cpus)
	if err != nil {
		return nil, err
	}
	return func(load.Result) error {
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
		if mhz, ok := accounting.Frequency(cpus[0]); ok {
			b.Covariate(clockMHz, mhz)
		}
		return nil
	}, nil
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
