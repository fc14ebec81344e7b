package startup

import (
	"context"

	"tare/lab"
	"tare/workload"
)

// burst is a trial that starts all containers at once: the platform's capacity,
// and so the measure of what an observer costs it.
type burst struct{ ramp }

// burstRate makes all moments of a burst one: what follows within a
// millisecond is at once.
const burstRate = 1e5

func (r burst) run(ctx context.Context, b lab.Bench) error {
	r.rate = burstRate
	timings, _, err := r.measure(ctx, b)
	if err != nil {
		return err
	}
	b.Record(throughput, throughputOf(timings))
	b.Record(failed, float64(failuresOf(timings)))
	return nil
}

func burstMetrics() []workload.Metric {
	return []workload.Metric{
		{Name: throughput, Unit: "starts/s", Better: workload.Higher, Primary: true,
			Doc: "starts answered, over the time from the first's moment to the last's answer"},
		{Name: failed, Unit: "starts", Better: workload.Lower, Count: true, Doc: "starts that failed"},
	}
}
