package diagnose

import (
	"math"
	"strconv"
	"testing"
	"time"
)

func TestWorkersThatHardlyRunCountForNothing(t *testing.T) {
	before := map[string]time.Duration{"1": 10 * ms, "2": 5 * ms}
	for name, c := range map[string]struct {
		after map[string]time.Duration
		want  float64
	}{
		"one beside a runtime's": {map[string]time.Duration{"1": 310 * ms, "2": 10 * ms, "3": 5 * ms}, 1.07},
		"two alike":              {map[string]time.Duration{"1": 110 * ms, "2": 105 * ms}, 2},
		"none":                   {before, 0},
	} {
		if got := workers(before, c.after); math.Abs(got-c.want) > 0.02 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Many short bursts of a runtime's own leave what the quota has to hold as it is: no burst of some
// ms is proposed for work that exceeds it.
func TestSettingsAreForTheWorkAndNotForARuntime(t *testing.T) {
	alone, beside := isolated(), isolated()
	alone.Workers, beside.Workers = 1, 1.1
	for range 1500 {
		beside.Sched.Burst.Add(10 * time.Microsecond)
	}
	beside.Sched.CPUTime += 15 * ms
	want, got := one(t, throttled(quietHost, alone)).Set, one(t, throttled(quietHost, beside)).Set
	// The model's periods and bursts of work fall together by chance: a millisecond is none of the runtime's.
	cpus := func(s Remedy) float64 {
		n, err := strconv.ParseFloat(s.Change["cpus"], 64)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	if len(got) != 1 || len(want) != 1 || math.Abs(cpus(got[0])-cpus(want[0])) > 0.011 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if w := workOf(beside); w.count != 8 {
		t.Errorf("%d pieces of work, want those of 30 ms", w.count)
	}
}
