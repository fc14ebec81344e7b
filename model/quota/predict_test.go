package quota

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// around is latencies spread evenly by a tenth around a value.
func around(micros int64) *hdrhistogram.Histogram {
	h := newHistogram()
	for i := range int64(1001) {
		_ = h.RecordValue(micros*95/100 + micros*i/10_000)
	}
	return h
}

// thrift is S4's service: 100 us of CPU time in a round trip of 240 us.
func thrift() Service {
	return Service{Demand: Demand{Mean: 100 * time.Microsecond}, Base: around(240)}
}

func mustPredict(t testing.TB, s Service, a Arrival, b Bandwidth, o Options) Prediction {
	t.Helper()
	p, err := Predict(s, a, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The table of S4.2: what was published of another machine and an older kernel,
// from a demand and a round trip that the paper gives. Its demand is known to a
// tenth at best, so the shape is compared, and p99 roughly.
func TestThePublishedSweep(t *testing.T) {
	for _, row := range []struct {
		quota        time.Duration
		p99, stalled float64
	}{
		{1000, 7556, 104996}, {1500, 5816, 68221}, {2000, 4765, 50187}, {2500, 3232, 37334},
		{5000, 341, 0}, {7000, 341, 0}, {10000, 333, 0},
	} {
		p := mustPredict(t, thrift(), Arrival{}, Bandwidth{Quota: row.quota * time.Microsecond, Period: 10 * time.Millisecond}, Options{})
		if math.Abs(p.P99.Value-row.p99) > max(0.35*row.p99, 200) {
			t.Errorf("quota %d µs: p99 %.0f µs, published %.0f", row.quota, p.P99.Value, row.p99)
		}
		if math.Abs(p.Stalled.Value-row.stalled) > 0.1*row.stalled {
			t.Errorf("quota %d µs: %.0f stalled, published %.0f", row.quota, p.Stalled.Value, row.stalled)
		}
	}
}

// One request a period is held, from when the quota is used until the period's end:
// S4's constant product of stalls and quota.
func TestAClosedLoopStallsOnceAPeriod(t *testing.T) {
	const period = 10 * time.Millisecond
	for quota := MinQuota; quota < 3*time.Millisecond; quota += 200 * time.Microsecond {
		p := mustPredict(t, thrift(), Arrival{}, Bandwidth{Quota: quota, Period: period}, Options{})
		product := p.Stalled.Value / 1e6 * float64(quota)
		if d := float64(100 * time.Microsecond); math.Abs(product-d) > 0.02*d {
			t.Errorf("quota %v: stalls times quota is %.0f ns a request, want the demand", quota, product)
		}
		requests := float64(quota) / float64(100*time.Microsecond)
		stall := float64(period.Microseconds()) - requests*240 + 240
		if math.Abs(p.P99.Value-stall) > 240 {
			t.Errorf("quota %v: p99 %.0f µs, want about %.0f", quota, p.P99.Value, stall)
		}
	}
}

func TestAboveTheDemandNothingIsHeld(t *testing.T) {
	base := mustPredict(t, thrift(), Arrival{}, Bandwidth{}, Options{})
	if got := base.Latency.ValueAtQuantile(99); math.Abs(float64(got)-around(240).Mean()*1.05) > 5 {
		t.Errorf("without a quota p99 is %d µs, which is not what was measured", got)
	}
	load, err := Load(thrift(), Arrival{})
	if err != nil {
		t.Fatal(err)
	}
	for _, period := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		quota := time.Duration(1.05*load*float64(period)) + 200*time.Microsecond
		p := mustPredict(t, thrift(), Arrival{}, Bandwidth{Quota: quota, Period: period}, Options{})
		if p.Stalled.High > 0 || p.ThrottledPeriods.High > 0 || p.P99 != base.P99 {
			t.Errorf("quota %v each %v: %v stalled, %v %% throttled, p99 %v", quota, period, p.Stalled, p.ThrottledPeriods, p.P99)
		}
	}
}

// In the long run no group uses more than it is given, and one that wants more
// uses all of it.
func TestTheShareIsTheQuotas(t *testing.T) {
	for _, a := range []Arrival{{}, {Connections: 8}, {Rate: 9000, Poisson: true, Connections: 8}, {Rate: 9000, Connections: 64}} {
		for _, cpus := range []int{1, 3} {
			for _, share := range []float64{0.1, 0.25, 0.35} {
				s := thrift()
				s.CPUs = cpus
				s.Base = around(900)
				if a.Connections == 0 {
					s.Base = around(200)
				}
				const period = 20 * time.Millisecond
				b := Bandwidth{Quota: time.Duration(share * float64(period)), Period: period}
				p := mustPredict(t, s, a, b, Options{Requests: 40_000, Reruns: 3})
				if p.Share.High > 100*share*1.01 || p.Share.Low < 100*share*0.97 {
					t.Errorf("%+v on %d CPUs: uses %.2f %% (%.2f to %.2f) of a CPU, is given %.2f", a, cpus, p.Share.Value, p.Share.Low, p.Share.High, 100*share)
				}
				if want := a.Rate > 0; p.Overloaded != want {
					t.Errorf("%+v: overloaded is %v", a, p.Overloaded)
				}
			}
		}
	}
}

func TestMoreQuotaIsNeverWorse(t *testing.T) {
	for _, a := range []Arrival{{}, {Connections: 4}, {Rate: 3000, Poisson: true, Connections: 4}} {
		last := math.Inf(1)
		for quota := MinQuota; quota <= 10*time.Millisecond; quota += 500 * time.Microsecond {
			p := mustPredict(t, thrift(), a, Bandwidth{Quota: quota, Period: 10 * time.Millisecond}, Options{Requests: 30_000})
			if p.Mean.Value > last*1.02 {
				t.Errorf("%+v: quota %v has a mean of %.0f µs, the smaller one had %.0f", a, quota, p.Mean.Value, last)
			}
			last = p.Mean.Value
		}
	}
}

// What is measured without a quota comes out again without a quota.
func TestWithoutAQuotaNothingChanges(t *testing.T) {
	for _, c := range []struct {
		name    string
		service Service
		arrival Arrival
	}{
		{"closed, alone", thrift(), Arrival{}},
		{"closed, one thread for eight", Service{Demand: Demand{Mean: 100 * time.Microsecond}, Base: around(830), Threads: 1}, Arrival{Connections: 8}},
		{"closed, eight threads", Service{Demand: Demand{Mean: 100 * time.Microsecond}, Base: around(810)}, Arrival{Connections: 8}},
		{"open", thrift(), Arrival{Rate: 2000, Poisson: true}},
	} {
		p := mustPredict(t, c.service, c.arrival, Bandwidth{}, Options{})
		want := c.service.Base.Mean()
		if math.Abs(p.Mean.Value-want) > 0.01*want {
			t.Errorf("%s: mean %.1f µs, measured %.1f", c.name, p.Mean.Value, want)
		}
	}
}

// A quota that holds nothing back changes nothing, down to the last request.
func TestTwinsAreAlike(t *testing.T) {
	for _, connections := range []int{1, 4} {
		a := Arrival{Rate: 2000, Poisson: true, Connections: connections}
		free := mustPredict(t, thrift(), a, Bandwidth{}, Options{})
		held := mustPredict(t, thrift(), a, Bandwidth{Quota: 10 * time.Millisecond, Period: 10 * time.Millisecond}, Options{})
		if held.ThrottledPeriods.High > 0 || !held.Latency.Equals(free.Latency) {
			t.Errorf("%d connections: %v %% throttled, mean %v µs with a quota of a whole CPU and %v without", connections, held.ThrottledPeriods, held.Mean, free.Mean)
		}
	}
}

// Saved quota takes a burst of requests that would have been held.
func TestBurstTakesWhatComesAtOnce(t *testing.T) {
	a := Arrival{Rate: 2000, Poisson: true, Connections: 16}
	b := Bandwidth{Quota: 2500 * time.Microsecond, Period: 10 * time.Millisecond}
	without := mustPredict(t, thrift(), a, b, Options{})
	b.Burst = b.Quota
	with := mustPredict(t, thrift(), a, b, Options{})
	if with.P999.Value >= without.P999.Value || with.Stalled.High >= without.Stalled.Low {
		t.Errorf("p99.9 %v and %v stalled with a burst, %v and %v without", with.P999, with.Stalled, without.P999, without.Stalled)
	}
}

func TestTheDemandsIntervalIsPropagated(t *testing.T) {
	s := thrift()
	b := Bandwidth{Quota: 2 * time.Millisecond, Period: 10 * time.Millisecond}
	known := mustPredict(t, s, Arrival{}, b, Options{})
	s.Demand.Low, s.Demand.High = 80*time.Microsecond, 120*time.Microsecond
	unsure := mustPredict(t, s, Arrival{}, b, Options{})
	if known.P99.Value != unsure.P99.Value {
		t.Errorf("the interval moves the value: %v, %v", known.P99, unsure.P99)
	}
	if unsure.Stalled.High-unsure.Stalled.Low < 10*(known.Stalled.High-known.Stalled.Low) || unsure.Stalled.High < 1.1*known.Stalled.Value {
		t.Errorf("stalls %v with an interval of the demand, %v without", unsure.Stalled, known.Stalled)
	}
}

func TestTheSeedDecides(t *testing.T) {
	b := Bandwidth{Quota: 2 * time.Millisecond, Period: 10 * time.Millisecond}
	a := Arrival{Rate: 1500, Poisson: true, Connections: 4}
	one, same, other := mustPredict(t, thrift(), a, b, Options{Seed: 1}), mustPredict(t, thrift(), a, b, Options{Seed: 1}), mustPredict(t, thrift(), a, b, Options{Seed: 100})
	if one.Mean != same.Mean || !one.Latency.Equals(same.Latency) {
		t.Error("the same seed gave another prediction")
	}
	if one.Mean == other.Mean {
		t.Error("another seed gave the same prediction")
	}
}

func TestSmallest(t *testing.T) {
	const period, wanted = 10 * time.Millisecond, 500 * time.Microsecond
	quota, p, err := Smallest(thrift(), Arrival{}, period, 0, wanted, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Bandwidth.Quota != quota || p.P99.High > float64(wanted.Microseconds()) {
		t.Errorf("%v: p99 %.0f µs at %v", quota, p.P99.Value, p.Bandwidth)
	}
	less := mustPredict(t, thrift(), Arrival{}, Bandwidth{Quota: quota - Grid(period), Period: period}, Options{})
	if less.P99.High <= float64(wanted.Microseconds()) {
		t.Errorf("%v less has a p99 of %.0f µs, and was not taken", Grid(period), less.P99.High)
	}
	if load, _ := Load(thrift(), Arrival{}); math.Abs(float64(quota)/float64(period)/load-1) > 0.1 {
		t.Errorf("%v of %v, where the demand is %.3f CPUs", quota, period, load)
	}
	var unreachable *Unreachable
	if _, _, err := Smallest(thrift(), Arrival{}, period, 0, 100*time.Microsecond, Options{}); !errors.As(err, &unreachable) {
		t.Errorf("100 us of a service that takes 240: %v", err)
	}
}

func TestWrongInputIsNamed(t *testing.T) {
	good := Bandwidth{Quota: 2 * time.Millisecond, Period: 10 * time.Millisecond}
	for name, err := range map[string]error{
		"no demand":       second(Predict(Service{Base: around(240)}, Arrival{}, good, Options{})),
		"no latencies":    second(Predict(Service{Demand: Demand{Mean: 1000}}, Arrival{}, good, Options{})),
		"a small quota":   second(Predict(thrift(), Arrival{}, Bandwidth{Quota: 500 * time.Microsecond, Period: 10 * time.Millisecond}, Options{})),
		"a long period":   second(Predict(thrift(), Arrival{}, Bandwidth{Quota: 2 * time.Millisecond, Period: 2 * time.Second}, Options{})),
		"a great burst":   second(Predict(thrift(), Arrival{}, Bandwidth{Quota: 2 * time.Millisecond, Period: 10 * time.Millisecond, Burst: 3 * time.Millisecond}, Options{})),
		"a negative rate": second(Predict(thrift(), Arrival{Rate: -1}, good, Options{})),
		"few requests":    second(Predict(thrift(), Arrival{}, good, Options{Requests: 1})),
		"a wild shape":    second(Predict(Service{Demand: Demand{Mean: 1000, Shape: []float64{2, 1}}, Base: around(240)}, Arrival{}, good, Options{})),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func second(_ Prediction, err error) error { return err }

func BenchmarkPredict(b *testing.B) {
	for _, c := range []struct {
		name string
		a    Arrival
	}{{"closed", Arrival{}}, {"closed16", Arrival{Connections: 16}}, {"open", Arrival{Rate: 2000, Poisson: true, Connections: 16}}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				mustPredict(b, thrift(), c.a, Bandwidth{Quota: 2 * time.Millisecond, Period: 10 * time.Millisecond}, Options{Requests: 200_000, Reruns: 5})
			}
		})
	}
}

func ExamplePredict() {
	p, err := Predict(
		Service{Demand: Demand{Mean: 100 * time.Microsecond}, Base: around(240)},
		Arrival{}, // one connection, which asks again as soon as it is answered
		Bandwidth{Quota: 2 * time.Millisecond, Period: 10 * time.Millisecond},
		Options{},
	)
	if err != nil {
		panic(err)
	}
	fmt.Printf("p99 %.1f ms, %.1f %% of the requests stalled\n", p.P99.Value/1000, p.Stalled.Value/1e4)
	// Output: p99 5.5 ms, 5.0 % of the requests stalled
}
