// Package startup asks how fast containers come up under load, and where the
// time goes: S1's first study (Characterization of containers, section 5.1).
//
// A set of containers is created, and then started on a schedule that does not
// wait for answers. Each start has an intended moment, and three latencies are
// counted from it:
//
//	answer  until the platform has answered the start
//	first   until the first instruction of the application: its execve
//	ready   until the service has answered its first request
//
// A start that fails is counted, and is in no latency. What a trial of each
// kind is stands in ramp.go (one rate), knee.go (the highest rate that is kept
// up with), single.go (one start at a time, traced), burst.go (all at once).
//
// After a ramp its containers are ended and removed, a few at a time; how long that takes
// is timed beside the starts.
//
// Where S1 and this study differ: S1 says neither how many containers it
// started a point nor how long, and measured the answer alone, with arrivals
// that it does not describe; here the number is stated, arrivals are uniform or
// Poisson, and a rate that the platform does not keep up with is reported as
// such, since its latencies depend on how long one looks.
package startup

import (
	"fmt"
	"time"

	"tare/workload"
)

// Name is the study's, in the store.
const Name = "startup"

// The names of what a trial yields. Latencies are in microseconds.
const (
	answer = "answer" // histogram, and prefix of metrics
	first  = "first"
	ready  = "ready"
	late   = "lateness" // called - intended: the generator's own fault

	failed     = "failed"
	growth     = "growth"
	throughput = "throughput"
	inFlight   = "in-flight"
	tearDown   = "tear-down-mean"
	kneeRate   = "knee"
)

// latencies are what a start is timed until, in order.
var latencies = []struct{ name, doc string }{
	{answer, "from the intended moment to the platform's answer"},
	{first, "from the intended moment to the application's first instruction"},
	{ready, "from the intended moment to the first served request"},
}

// rampMetrics are those of a trial at one rate.
func rampMetrics(service bool) []workload.Metric {
	var m []workload.Metric
	for _, l := range latencies {
		if l.name == ready && !service {
			continue
		}
		m = append(m,
			workload.Metric{Name: l.name + "-mean", Unit: "us", Better: workload.Lower,
				Doc: "mean time " + l.doc, Primary: l.name == answer},
			workload.Metric{
				Name:      l.name + "-p50",
				Unit:      "us",
				Better:    workload.Lower,
				Quantile:  0.50,
				Histogram: l.name,
			},
			workload.Metric{
				Name:      l.name + "-p95",
				Unit:      "us",
				Better:    workload.Lower,
				Quantile:  0.95,
				Histogram: l.name,
				Primary:   l.name == answer,
			},
			workload.Metric{
				Name:      l.name + "-p99",
				Unit:      "us",
				Better:    workload.Lower,
				Quantile:  0.99,
				Histogram: l.name,
			},
			workload.Metric{Name: l.name + "-max", Unit: "us", Better: workload.Lower, Doc: "the largest of a trial"},
		)
	}
	return append(m,
		workload.Metric{Name: failed, Unit: "starts", Better: workload.Lower, Count: true,
			Doc: "starts that failed, and are in no latency"},
		workload.Metric{Name: growth, Unit: "%", Better: workload.Lower, Count: true,
			Doc: "share of the arrivals that pile up: above 0 where the platform does not keep up"},
		workload.Metric{Name: throughput, Unit: "starts/s", Better: workload.Higher,
			Doc: "starts answered, over the time from the first's moment to the last's answer"},
		workload.Metric{Name: inFlight, Unit: "starts", Better: workload.Lower,
			Doc: "most starts that were due and not answered at one moment"},
		workload.Metric{Name: tearDown, Unit: "us", Better: workload.Lower,
			Doc: fmt.Sprintf("mean time to end and remove a container, %d at a time", makers)},
		workload.Metric{Name: late + "-p99", Unit: "us", Better: workload.Lower, Quantile: 0.99, Histogram: late,
			Doc: "how late the generator called the platform's client"},
	)
}

// kneeMetrics are those of a search for the knee.
func kneeMetrics() []workload.Metric {
	return []workload.Metric{
		{Name: kneeRate, Unit: "starts/s", Better: workload.Higher, Primary: true,
			Doc: "highest rate at which the backlog does not grow"},
		{Name: failed, Unit: "starts", Better: workload.Lower, Count: true, Doc: "starts that failed"},
	}
}

// Limits of what may be asked for.
const (
	MinRate  = 0.01 // starts a second
	MaxRate  = 1000
	MaxCount = 1000 // containers of one trial
)

// Bounds of waiting, after which a start has failed.
const (
	answerLimit = 60 * time.Second
	readyLimit  = 60 * time.Second
)
