package workload

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"tare/load"
)

// halfRate ends the name of the drive at half of another's saturated rate.
const halfRate = "@half"

// leastRequests is how many requests a slice has to hold: its rate is then off by less
// than a percent for the one that is under way as it ends.
const leastRequests = 200

// closedAndHalf are the drives of one kind of request: a closed loop, and the same at half
// of its rate.
func closedAndHalf(name string) []Drive {
	return []Drive{{Name: name, Least: leastRequests}, {Name: name + halfRate, HalfOf: name}}
}

// drivesFor are the drives of a load that our generator makes: where the user fixes the
// rate, that is all of it.
func drivesFor(o load.Options) []Drive {
	if o.Rate > 0 {
		return []Drive{{Name: requests, Rate: o.Rate, Least: leastRequests}}
	}
	return closedAndHalf(requests)
}

// requests is the part of a service whose requests are all of one kind.
const requests = "requests"

// slicesOf are the metrics of one kind of request: its rate, the CPU time of one, and its
// latencies where requests come whatever the service does. What names them is before.
func slicesOf(part, rate, before, of string) []Metric {
	quantile := func(name string, q float64) Metric {
		return Metric{
			Name:     before + name,
			Unit:     "us",
			Better:   Lower,
			Quantile: q,
			Part:     part + halfRate,
			Figure:   FigureLatency,
			Doc:      "latency" + of + " from the intended moment, at half of the saturated rate",
		}
	}
	return []Metric{
		{Name: rate, Unit: "requests/s", Better: Higher, Primary: true, Part: part, Figure: FigureRate, Doc: "throughput" + of + " in a closed loop"},
		cpuOfRequest(part, before, of),
		quantile("p50", 0.5), quantile("p99", 0.99),
	}
}

// cpuOfRequest is what a request takes of CPU time.
func cpuOfRequest(part, before, of string) Metric {
	return Metric{Name: before + "cpu", Unit: "us", Better: Lower, Primary: true, Part: part, Figure: FigureCPU,
		Doc: "CPU time of a request" + of + ": of the program, and of what serves its container"}
}

// sliceMetrics are those of a load that our generator makes.
func sliceMetrics(o load.Options) []Metric {
	if o.Rate == 0 {
		return slicesOf(requests, "throughput", "", "")
	}
	all := []Metric{}
	for _, q := range []struct {
		name     string
		quantile float64
	}{{"p99", 0.99}, {"p50", 0.5}, {"p99.9", 0.999}} {
		all = append(
			all,
			Metric{Name: q.name, Unit: "us", Better: Lower, Quantile: q.quantile, Part: requests, Figure: FigureLatency,
				Primary: q.name == "p99", Doc: "latency from the intended moment"},
		)
	}
	return append(all, cpuOfRequest(requests, "", ""))
}

// standing is a Slicer over connections that stay open.
type standing struct {
	drives     map[string]*load.Standing
	operations float64 // that a request of the generator holds
	options    load.Options
	errorShare float64
}

// openStanding connects to a service for each drive that is a closed loop; that at half
// of its rate shares its connections.
func openStanding(
	ctx context.Context,
	targets map[string]load.Target,
	o load.Options,
	operations, errorShare float64,
) (Slicer, error) {
	s := &standing{drives: map[string]*load.Standing{}, operations: operations, options: o, errorShare: errorShare}
	for name, target := range targets {
		opened, err := load.OpenStanding(ctx, target, o.Connections)
		if err != nil {
			_ = s.Close() // nothing is under way on what was opened before
			return nil, fmt.Errorf("connect for %s: %w", name, err)
		}
		s.drives[name], s.drives[name+halfRate] = opened, opened
	}
	return s, nil
}

func (s *standing) Close() error {
	var first error
	for _, opened := range s.drives { // each twice, which is no error
		if err := opened.Close(); first == nil {
			first = err
		}
	}
	return first
}

func (s *standing) Load(ctx context.Context, w Stretch) ([]Measured, error) {
	on, ok := s.drives[w.Drive]
	if !ok {
		return nil, fmt.Errorf("no drive %s", w.Drive)
	}
	b, err := on.Burst(ctx, load.BurstOptions{
		Duration:  w.Duration,
		Ramp:      w.Ramp,
		Rate:      w.Rate / s.operations,
		Arrival:   s.arrival(),
		Seed:      w.Seed,
		Timeout:   s.options.Timeout,
		Latencies: w.Rate > 0,
	})
	if err != nil {
		return nil, err
	}
	var failed int64
	for _, n := range b.Errors {
		failed += n
	}
	// Of an open loop nothing may have been due within a short stretch.
	nothing := b.Worked == 0 && (failed > 0 || w.Rate == 0)
	if nothing || float64(failed) > s.errorShare*float64(failed+b.Worked) {
		return nil, tooManyErrors(
			load.Result{Requests: b.Worked, Errors: maps.Clone(b.Errors), FirstError: b.FirstError},
		)
	}
	return []Measured{
		{
			Part:      w.Drive,
			Window:    b.Window,
			Amount:    float64(b.Answered) * s.operations,
			Worked:    float64(b.Worked) * s.operations,
			Load:      b.CPU,
			Latencies: b.Latencies,
		},
	}, nil
}

// arrival is the user's where there is a rate of the user's. Else requests arrive
// independently of one another, as those of many users do.
func (s *standing) arrival() load.Arrival {
	if s.options.Rate > 0 {
		return s.options.Arrival
	}
	return load.Poisson
}

var _ Slicer = (*standing)(nil)

// executed is a Slicer that runs a load program once a slice, and reads what it prints.
type executed struct {
	run func(ctx context.Context) (map[string]float64, error) // values by metric
}

func (executed) Close() error { return nil }

func (e executed) Load(ctx context.Context, w Stretch) ([]Measured, error) {
	values, err := e.run(ctx)
	if err != nil {
		return nil, err
	}
	var all []Measured
	for part, v := range values {
		all = append(all, Measured{Part: part, Window: time.Second, Amount: v, Worked: 1, Load: -1})
	}
	return all, nil
}

// OneRequest is what an operation is called where all are requests of one kind.
const OneRequest = "request"

// Operation is what one operation is called that a metric of slices, of a part, is about:
// "GET", or [OneRequest]; empty where it has no name. half tells that it is measured at half
// of the saturated rate.
func Operation(metric, part string) (name string, half bool) {
	part, half = strings.CutSuffix(part, halfRate)
	switch {
	case part == requests:
		return OneRequest, half
	case part != "" && (metric == part || strings.HasPrefix(metric, part+"-")):
		return strings.ToUpper(part), half
	}
	return "", half
}
