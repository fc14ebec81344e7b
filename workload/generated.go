package workload

import (
	"context"
	"strconv"
	"time"

	"tare/load"
)

// loadParams are the parameters of a workload that our own generator loads.
func loadParams(warmup string) []Param {
	return []Param{
		{"rate", closed, "requests per second (open loop), 0.001 to 1e6, or closed: each connection sends as soon as it has its answer"},
		{"connections", "16", "at most under way at once, 1 to 256"},
		{"warmup", warmup, "loaded and forgotten, 0s to 10m"},
		{"duration", "2s", "of what is measured, 100ms to 1h"},
	}
}

// pacedParams are loadParams with how the requests of an open loop come, and how
// many there are at most.
func pacedParams(warmup string, connections int) []Param {
	params := loadParams(warmup)
	for i := range params {
		if params[i].Name == "connections" {
			params[i].Default = strconv.Itoa(connections)
		}
	}
	return append(params,
		Param{"arrival", string(load.Uniform), "of an open loop's requests: uniform, evenly spaced; or poisson, independently of one another"},
		Param{"count", "0", "requests at most of what is measured, 0 to 1000000000; 0: its duration alone ends it"},
	)
}

// loadOptions reads them.
func loadOptions(p Params) (o load.Options, err error) {
	if o.Rate, err = p.rate("rate"); err != nil {
		return o, err
	}
	connections, err := p.whole("connections", 1, 256)
	if err != nil {
		return o, err
	}
	o.Connections = int(connections)
	if o.Warmup, err = p.duration("warmup", 0, 10*time.Minute); err != nil {
		return o, err
	}
	if o.Duration, err = p.duration("duration", 100*time.Millisecond, time.Hour); err != nil {
		return o, err
	}
	o.Arrival = load.Uniform
	if _, ok := p["arrival"]; ok { // of pacedParams
		arrival, err := p.oneOf("arrival", string(load.Uniform), string(load.Poisson))
		if err != nil {
			return o, err
		}
		o.Arrival = load.Arrival(arrival)
		o.Count, err = p.whole("count", 0, 1e9)
		return o, err
	}
	return o, nil
}

// loadMetrics are what such a workload yields: the verdict is on throughput in
// a closed loop, and on the tail where requests come whatever the service does.
func loadMetrics(p Params) []Metric {
	o, err := loadOptions(p)
	if err != nil {
		return nil // Program has refused the parameters
	}
	throughput := Metric{Name: "throughput", Unit: "requests/s", Better: Higher, Primary: o.Rate == 0, Doc: "requests answered rightly"}
	quantile := func(name string, q float64, primary bool) Metric {
		m := latencyMetric(q)
		m.Name, m.Primary = name, primary
		return m
	}
	if o.Rate == 0 {
		return []Metric{throughput, quantile("p50", 0.5, false), quantile("p99", 0.99, false)}
	}
	return []Metric{quantile("p99", 0.99, true), quantile("p50", 0.5, false), quantile("p99.9", 0.999, false), throughput}
}

// measure loads a service and records those metrics. One failed request makes
// the trial not valid.
func measure(ctx context.Context, t Trial, target load.Target) error {
	options, err := loadOptions(t.Params())
	if err != nil {
		return err
	}
	o, err := loading{target: target, options: options, operations: 1}.run(ctx, t)
	if err != nil {
		return err
	}
	recordLoad(t, o.result)
	t.Record("throughput", o.result.Rate)
	return nil
}
