package load

import (
	"testing"
	"time"
)

func openStanding(t testing.TB, target Target, connections int) *Standing {
	t.Helper()
	s, err := OpenStanding(t.Context(), target, connections)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func burstOf(t testing.TB, s *Standing, o BurstOptions) Burst {
	t.Helper()
	b, err := s.Burst(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBurstRESP(t *testing.T) {
	address, asked := respServer(t)
	s := openStanding(t, RESP{Address: address, Pipeline: 2, Commands: [][]string{{"SET", "k", "v"}, {"GET", "k"}, {"PING"}}}, 7)
	total := int64(0)
	for range 5 {
		b := burstOf(t, s, BurstOptions{Duration: 40 * time.Millisecond, Ramp: 5 * time.Millisecond, Latencies: true})
		if b.Failed() != 0 || b.Answered == 0 || b.Worked < b.Answered || b.CPU <= 0 || b.LateMax != 0 {
			t.Errorf("%+v", b)
		}
		total += b.Worked
		t.Logf("%+v p50 %d", b, b.Latencies.ValueAtPercentile(50))
	}
	if n := int64(len(asked())); n != 2*total {
		t.Errorf("%d commands, %d asked", 2*total, n)
	}
}
