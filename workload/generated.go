package workload

import (
	"context"
	"time"

	"tare/load"
)

// usualLoad is the load that our own generator makes of a service unless parameters say
// otherwise.
type usualLoad struct {
	rate             string
	connections      int64
	warmup, duration string
	arrival          load.Arrival
}

// byClients is a load in a closed loop.
func byClients(connections int64, warmup string) usualLoad {
	return usualLoad{rate: closed, connections: connections, warmup: warmup, duration: "2s", arrival: load.Uniform}
}

// load reads a load.
func (from *parameters) load(usual usualLoad) load.Options {
	return load.Options{
		Rate: from.rate("rate", usual.rate, "requests per second (open loop), 0.001 to 1e6, or closed: "+
			"each connection sends as soon as it has its answer"),
		Connections: int(from.whole("connections", usual.connections, 1, 256, "at most under way at once, RANGE")),
		Warmup:      from.duration("warmup", usual.warmup, 0, 10*time.Minute, "loaded and forgotten, 0s to 10m"),
		Duration: from.duration("duration", usual.duration, 100*time.Millisecond, time.Hour,
			"of what is measured, 100ms to 1h"),
		Arrival: usual.arrival,
	}
}

// pacedLoad reads a load with how the requests of an open loop arrive, and how many there
// are at most.
func (from *parameters) pacedLoad(usual usualLoad) load.Options {
	o := from.load(usual)
	o.Arrival = from.arrival(usual.arrival, "requests")
	o.Count = from.whole("count", 0, 0, 1e9, "requests at most of what is measured, RANGE; 0: its duration alone ends it")
	return o
}

// arrival reads how the requests of an open loop arrive, by whatever they are called.
func (from *parameters) arrival(usual load.Arrival, requests string) load.Arrival {
	return load.Arrival(from.word("arrival", string(usual), "of an open loop's "+requests+
		": uniform, evenly spaced; or poisson, independently of one another", string(load.Uniform), string(load.Poisson)))
}

// freshConnections reads whether each request has a connection of its own.
func (from *parameters) freshConnections() bool {
	return from.word("connection", "kept", "kept, or new: one for each request", "kept", "new") == "new"
}

// loadMetrics are what such a workload yields: the verdict is on throughput in
// a closed loop, and on the tail where requests come whatever the service does.
func loadMetrics(o load.Options) []Metric {
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
func measure(ctx context.Context, t Trial, target load.Target, options load.Options) error {
	o, err := loading{target: target, options: options, operations: 1}.run(ctx, t)
	if err != nil {
		return err
	}
	recordLoad(t, o.result)
	t.Record("throughput", o.result.Rate)
	return nil
}
