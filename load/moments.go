package load

import "time"

// Moments gives the first count moments of an open loop, from its start, for
// whoever sends something else than requests on its schedule: the starts of
// containers. Rate is above 0.
func Moments(arrival Arrival, rate float64, count int, seed uint64) []time.Duration {
	s := newSequence(Options{Rate: rate, Arrival: arrival, Seed: seed, Count: int64(count)})
	moments := make([]time.Duration, 0, count)
	for {
		m, ok := s.next()
		if !ok {
			return moments
		}
		moments = append(moments, m)
	}
}
