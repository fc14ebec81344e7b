package density

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/load"
	"tare/record"
	"tare/report"
)

func TestRatesOfSpans(t *testing.T) {
	for _, c := range []struct {
		tail time.Duration
		want []float64
	}{
		{time.Second, []float64{5, 0, 3}},
		{500 * time.Millisecond, []float64{5, 0, 6}},
		{200 * time.Millisecond, []float64{5, 2.5}}, // 3 in 1.2 s
	} {
		b := &Batches{Length: time.Second, Count: 3, Tail: c.tail, Answered: map[int]int64{0: 5, 2: 3}}
		got := b.rates()
		if !slices.EqualFunc(got, c.want, func(x, y float64) bool { return math.Abs(x-y) < 1e-9 }) {
			t.Errorf("tail %v: %v, want %v", c.tail, got, c.want)
		}
	}
}

func TestSpansOfALoad(t *testing.T) {
	h := latencies(7)
	r := load.Result{Elapsed: 2500 * time.Millisecond, Batches: &load.Batches{Length: time.Second, Answered: []int64{4, 0, 1}}}
	want := &Batches{Length: time.Second, Count: 3, Tail: 500 * time.Millisecond, Answered: map[int]int64{0: 4, 2: 1}}
	if got := batchesOf(r); !reflect.DeepEqual(got, want) {
		t.Errorf("closed: %+v", got)
	}
	r.Batches.Corrected, r.Batches.Failed = []*hdrhistogram.Histogram{h, latencies()}, []int64{0, 2}
	open := batchesOf(r)
	if want := (&Batches{Length: time.Second, Count: 2, Tail: time.Second, Failed: map[int]int64{1: 2}, Latency: map[int]*hdrhistogram.Histogram{0: h}}); !reflect.DeepEqual(open, want) {
		t.Errorf("open: %+v", open)
	}
	if all := open.latencies(5000); all[0].TotalCount() != 1 || all[1].TotalCount() != 2 || all[1].Max() < 5000 {
		t.Errorf("with those that failed: %+v", all)
	}
	if batchesOf(load.Result{}) != nil {
		t.Error("a load that is not recorded in spans has some")
	}
	both := want.followed(want)
	if both.Count != 5 || both.Answered[0] != 4 || both.Answered[2] != 4 || both.Answered[4] != 1 || both.Tail != want.Tail {
		t.Errorf("one after the other: %+v", both)
	}
	if want.followed(nil) != nil || (*Batches)(nil).followed(want) != nil {
		t.Error("a load that is not recorded in spans has some, by another that is")
	}
}

// A stored run's numbers of spans are bounded, wherever they are used after.
func TestSpansOfAStoredRunAreBounded(t *testing.T) {
	for name, b := range map[string]Batches{
		"more than a load has": {Length: time.Second, Tail: time.Second, Count: mostSpans + 1},
		"fewer than none":      {Length: time.Second, Tail: time.Second, Count: -1},
		"negative":             {Length: -time.Second, Count: 3},
		"negative tail":        {Length: time.Second, Tail: -1, Count: 3},
		"a tail that is more":  {Length: time.Second, Tail: 2 * time.Second, Count: 3},
	} {
		run := withOrder(Continuous, 1, file(s3)).run(t)
		trial := run.Trials[0]
		steps, err := stepsOf(trial)
		if err != nil {
			t.Fatal(err)
		}
		steps[0].Closed.Batches = &b
		if err := keep(kept{&trial}, steps); err != nil {
			t.Fatal(err)
		}
		if _, err := stepsOf(trial); err == nil || !strings.Contains(err.Error(), "span") {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
}

// stalling is a step of which requests are slow, and few are answered, for a while at a
// time: series in which each request's latency, and each span's count, goes by the one
// before.
func stalling(random *rand.Rand, neighbours int) Step {
	const spanOpen, spanClosed = 250 * time.Millisecond, 125 * time.Millisecond
	s := Step{Neighbours: neighbours, Overcommit: float64(neighbours), Elapsed: 6 * time.Second,
		Open:   Served{Latency: latencies(), Elapsed: 4 * time.Second, Batches: &Batches{Length: spanOpen, Count: batches, Tail: spanOpen, Latency: map[int]*hdrhistogram.Histogram{}}},
		Closed: Served{Latency: latencies(1), Elapsed: 2 * time.Second, Batches: &Batches{Length: spanClosed, Count: batches, Tail: spanClosed, Answered: map[int]int64{}}},
	}
	state := random.NormFloat64()
	next := func(correlation float64) float64 {
		state = correlation*state + math.Sqrt(1-correlation*correlation)*random.NormFloat64()
		return state
	}
	for i := range batches {
		h := latencies()
		for range 400 {
			_ = h.RecordValue(int64(2000 * math.Exp(0.5*next(0.9))))
		}
		s.Open.Batches.Latency[i] = h
		s.Open.Latency.Merge(h)
		s.Open.Requests += h.TotalCount()
	}
	state = random.NormFloat64()
	for i := range batches {
		n := int64(200 * math.Exp(0.3*next(0.4)))
		s.Closed.Batches.Answered[i] = n
		s.Closed.Requests += n
	}
	s.Closed.Rate = float64(s.Closed.Requests) / 2
	return s
}

// Repeats of the same whose requests are slow together agree by spans, and would not if
// each request were independent; so a run that was kept before there were spans
// is still read, and says so.
func TestRepeatsOfStallsAgreeBySpans(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	m := withOrder(Continuous, 3, file(s3))
	m.numbers = to49(4)
	run := m.run(t)
	for i := range run.Trials {
		trial := &run.Trials[i]
		trial.Covariates, trial.Histograms, trial.Attachments = map[string]float64{}, map[string]record.Histogram{}, nil
		var steps []Step
		for _, n := range m.numbers {
			steps = append(steps, stalling(random, n))
		}
		if err := keep(kept{trial}, steps); err != nil {
			t.Fatal(err)
		}
		back, err := stepsOf(*trial)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range back {
			if b := s.Open.Batches; b == nil || b.Count != batches || len(b.Latency) != batches || !b.Latency[3].Equals(steps[i].Open.Batches.Latency[3]) {
				t.Fatalf("%d neighbours: %+v", s.Neighbours, b)
			}
			if !reflect.DeepEqual(s.Closed.Batches, steps[i].Closed.Batches) {
				t.Fatalf("%d neighbours: %+v, want %+v", s.Neighbours, s.Closed.Batches, steps[i].Closed.Batches)
			}
		}
	}
	r := read(run, nil)
	throughput, tail := r.agreements(r.arms[0])
	const taken = "Their intervals take requests for independent"
	if text := r.agreementTable()[0].(report.Table).Note; strings.Contains(text, taken) {
		t.Errorf("by spans: %s", text)
	}
	all := len(m.numbers)
	if throughput.compared() != all || throughput.agree < all-2 || throughput.independent+tail.independent != 0 {
		t.Errorf("throughput by spans: %+v", throughput)
	}
	// Those without an upper end cannot disagree: they are to be few.
	if tail.compared() != all || tail.agree+tail.unbounded < all-2 || tail.unbounded > all/4 {
		t.Errorf("p99 by spans: %+v", tail)
	}
	for i := range run.Trials {
		trial := &run.Trials[i]
		for name := range trial.Covariates {
			if strings.Contains(name, ".batches.") {
				delete(trial.Covariates, name)
			}
		}
	}
	r = read(run, nil)
	throughput, tail = r.agreements(r.arms[0])
	if throughput.agree > all/2 || tail.agree > all/2 || throughput.independent == 0 || tail.independent == 0 {
		t.Errorf("without spans: %+v, %+v", throughput, tail)
	}
	if text := r.agreementTable()[0].(report.Table).Note; !strings.Contains(text, taken) {
		t.Errorf("without spans: %s", text)
	}
}
