package workload

import (
	"context"
	"fmt"

	"tare/load"
)

// loadProgram is the drive of a service that a load program of its image loads.
const loadProgram = "load program"

// Drives are those of the load that the file says. A load program is run once a slice.
func (c customService) Drives(p Params) ([]Drive, error) {
	loading, err := c.load.compile(c.outside(p, nowhere))
	switch {
	case err != nil:
		return nil, err
	case loading.target == nil:
		return []Drive{{Name: loadProgram, Whole: true}}, nil
	}
	return drivesFor(loading.options), nil
}

// SliceMetrics are what the file says of a load program's output. Of our own generator
// they are throughput, latencies and CPU time, by whichever name the file has for them.
func (c customService) SliceMetrics(p Params) []Metric {
	loading, err := c.load.compile(c.outside(p, nowhere))
	if err != nil {
		return nil // Program has refused the parameters
	}
	if loading.target == nil {
		var all []Metric
		for _, m := range c.metrics {
			m.Metric.Part, m.Metric.Figure = m.Name, FigureRate
			all = append(all, m.Metric)
		}
		return all // how many requests the load program made is not known, nor the CPU time of one
	}
	all := sliceMetrics(loading.options)
	for i := range all {
		for _, m := range c.metrics {
			if m.builtin == all[i].Name {
				all[i].Name = m.Name
			}
		}
	}
	return all
}

// Slices connects for the load that the file says.
func (c customService) Slices(ctx context.Context, t Trial, seed uint64) (Slicer, error) {
	loading, err := c.load.compile(c.outside(t.Params(), t.Address))
	if err != nil {
		return nil, err
	}
	if loading.target != nil {
		return openStanding(
			ctx,
			map[string]load.Target{requests: loading.dialled(t)},
			loading.options,
			loading.operations,
			loading.errorShare,
		)
	}
	return executed{run: func(ctx context.Context) (map[string]float64, error) {
		o, err := loading.run(ctx, t)
		if err != nil {
			return nil, err
		}
		values := map[string]float64{}
		printed := outputs(t, o)
		for _, m := range c.metrics {
			if m.builtin != "" {
				continue
			}
			found, err := m.find(printed[m.output])
			if err != nil {
				return nil, fmt.Errorf("metric %s: %w", m.Name, err)
			}
			var sum float64
			for _, v := range found {
				sum += v
			}
			values[m.Name] = sum / float64(len(found))
		}
		return values, nil
	}}, nil
}

var (
	_ Sliced = customService{}
	_ Sliced = customLoader{}
)

var _ load.Target = load.RESP{}
