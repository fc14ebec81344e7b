package quota

import (
	"fmt"
	"math"
	"time"
)

// Predict says what a service will do under a bandwidth. The same seed gives the
// same prediction. It takes some 100 ns a request and rerun.
func Predict(service Service, arrival Arrival, bandwidth Bandwidth, options Options) (Prediction, error) {
	m, err := newModel(service, arrival, options)
	if err != nil {
		return Prediction{}, fmt.Errorf("predict a quota's effect: %w", err)
	}
	p, err := m.predict(bandwidth)
	if err != nil {
		return Prediction{}, fmt.Errorf("predict a quota's effect: %w", err)
	}
	return p, nil
}

// model is a service under its arrivals, ready to be put under bandwidths.
type model struct {
	service Service
	base    distribution
	arrival Arrival
	options Options

	waiting int64 // see simulatedWaiting
	rest    int64 // see undisturbed
	// free are the outcomes of an open loop without a quota, by what they differ in.
	free map[rerun]outcome
}

// rerun is one of the simulations of a prediction.
type rerun struct {
	demand time.Duration
	seed   uint64
}

func newModel(service Service, arrival Arrival, options Options) (*model, error) {
	s, err := service.withDefaults()
	if err != nil {
		return nil, err
	}
	a, err := arrival.withDefaults()
	if err != nil {
		return nil, err
	}
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &model{service: s, base: newDistribution(s.Base), arrival: a, options: o, free: map[rerun]outcome{}}
	if a.Rate > 0 {
		m.rest = m.undisturbed()
	} else {
		m.waiting = m.simulatedWaiting()
	}
	return m, nil
}

// hardlyDisturbed is the share of requests that are taken to have waited for
// nothing in an open loop.
const hardlyDisturbed = 0.1

// undisturbed is what of an open loop's latency is neither work nor waiting.
func (m *model) undisturbed() int64 {
	d := m.service.Demand
	return max(m.base.at(hardlyDisturbed)-workAt(int64(d.Mean), d.Shape, hardlyDisturbed), 0)
}

// settling is how many requests the simulations without a quota have, by which
// the waiting is found.
const settling = 20_000

// simulatedWaiting finds how much of a closed loop's latency without a quota was
// waiting for threads and CPUs. That is simulated, so it must not be drawn as
// well: with it taken off what is drawn, the simulation without a quota has the
// mean that was measured without a quota.
func (m *model) simulatedWaiting() int64 {
	// Alone, no request waits for another.
	if m.arrival.Connections == 1 {
		return 0
	}
	mean := func(waiting int64) float64 {
		p := m.parameters(Bandwidth{}, rerun{m.service.Demand.Mean, m.options.Seed})
		p.waiting, p.requests = waiting, settling
		o := simulate(p)
		return o.sum / float64(o.latency.TotalCount())
	}
	if mean(0) <= m.base.mean {
		return 0
	}
	low, high := int64(0), int64(m.base.mean)
	for high-low > int64(m.base.mean)/1000+1 {
		if half := low + (high-low)/2; mean(half) > m.base.mean {
			low = half
		} else {
			high = half
		}
	}
	return high
}

func (m *model) parameters(b Bandwidth, r rerun) parameters {
	return parameters{
		service: m.service, base: &m.base, arrival: m.arrival, bandwidth: b, kernel: m.options.Kernel,
		demand: r.demand, seed: r.seed, waiting: m.waiting, rest: m.rest,
		requests: m.options.Requests, stall: m.options.Stall,
	}
}

// outcome simulates once.
//
// An open loop is simulated twice, with the same moments and the same work, with
// the quota and without: what it adds to a request is the difference, and the
// rest is as it was measured without. So what else delayed requests there (the
// host's own hiccups, which delay many at a time) is neither simulated nor
// counted twice. A closed loop has no twin, for its moments depend on the answers.
func (m *model) outcome(b Bandwidth, r rerun) outcome {
	o := simulate(m.parameters(b, r))
	if m.arrival.Rate == 0 {
		return o
	}
	free, ok := m.free[r]
	if !ok {
		free = simulate(m.parameters(Bandwidth{}, r))
		m.free[r] = free
	}
	o.latency = newHistogram()
	for i := warmUp(int64(len(o.took))); i < int64(len(o.took)); i++ {
		o.record(o.natural[i]+max(o.took[i]-free.took[i], 0), int64(m.options.Stall))
	}
	return o
}

func (m *model) predict(b Bandwidth) (Prediction, error) {
	if b.Period == 0 {
		b.Period = DefaultPeriod
	}
	if err := b.check(); err != nil {
		return Prediction{}, err
	}
	p := Prediction{Bandwidth: b, Latency: newHistogram(), Overloaded: m.overloaded(b)}
	var whole sums
	var each []figures
	for i := range m.options.Reruns {
		o := m.outcome(b, rerun{m.service.Demand.Mean, m.options.Seed + uint64(i)})
		p.Latency.Merge(o.latency)
		whole.add(o)
		each = append(each, whole.of(o))
	}
	value := whole.figures(p.Latency)
	if d := m.service.Demand; d.High > 0 {
		for i, demand := range []time.Duration{max(d.Low, 1), d.High} {
			each = append(each, whole.of(m.outcome(b, rerun{demand, m.options.Seed + uint64(m.options.Reruns+i)})))
		}
	}
	for i, to := range []*Figure{&p.Mean, &p.P50, &p.P99, &p.P999, &p.Stalled, &p.ThrottledPeriods, &p.ThrottledTime,
		&p.Throughput, &p.Share} {
		*to = Figure{Value: value[i], Low: value[i], High: value[i]}
		for _, f := range each {
			to.Low, to.High = min(to.Low, f[i]), max(to.High, f[i])
		}
	}
	return p, nil
}

// overloaded reports whether an open loop asks for more than there is.
func (m *model) overloaded(b Bandwidth) bool {
	may := float64(m.service.CPUs)
	if t := m.service.Threads; t > 0 {
		may = min(may, float64(t))
	}
	if b.Quota > 0 {
		may = min(may, float64(b.Quota)/float64(b.Period))
	}
	return m.arrival.Rate*m.service.Demand.Mean.Seconds() > may
}

// Load is the CPU time that the service asks for without a quota, in CPUs: where
// the cliff is.
func Load(service Service, arrival Arrival) (float64, error) {
	s, err := service.withDefaults()
	if err != nil {
		return 0, err
	}
	a, err := arrival.withDefaults()
	if err != nil {
		return 0, err
	}
	rate := a.Rate
	if rate == 0 {
		cycle := s.Base.Mean()/1e6 + a.Think.Seconds()
		rate = float64(a.Connections) / cycle
	}
	return min(rate*s.Demand.Mean.Seconds(), float64(s.CPUs)), nil
}

// figures are those of a [Prediction], in its order.
type figures [9]float64

// sums are the outcomes of several simulations together.
type sums struct {
	latency                                    float64
	requests, stalled                          int64
	elapsed, used, held, periods, shortPeriods int64
}

func (s *sums) add(o outcome) {
	s.latency += o.sum
	s.requests += o.latency.TotalCount()
	s.stalled += o.stalled
	s.elapsed += o.elapsed
	s.used += o.used
	s.held += o.held
	s.periods += o.periods
	s.shortPeriods += o.throttled
}

// of gives the figures of one outcome alone.
func (sums) of(o outcome) figures {
	var one sums
	one.add(o)
	return one.figures(o.latency)
}

func (s *sums) figures(latency histogram) figures {
	n := float64(s.requests)
	f := figures{
		s.latency / n / float64(time.Microsecond),
		float64(latency.ValueAtQuantile(50)),
		float64(latency.ValueAtQuantile(99)),
		float64(latency.ValueAtQuantile(99.9)),
		1e6 * float64(s.stalled) / n,
		100 * float64(s.shortPeriods) / math.Max(float64(s.periods), 1),
		100 * float64(s.held) / float64(s.elapsed),
		n / time.Duration(s.elapsed).Seconds(),
		100 * float64(s.used) / float64(s.elapsed),
	}
	return f
}

type histogram interface{ ValueAtQuantile(q float64) int64 }
