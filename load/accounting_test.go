package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// accounted is what an open loop has to record of requests whose spans are known,
// by arithmetic alone: each begins when it is due, or when the connection that is
// free first is free, whichever is later. Over one connection this is wrk2's
// account.
func accounted(intended, spans []time.Duration, connections int) (corrected, uncorrected *hdrhistogram.Histogram) {
	corrected, uncorrected = NewHistogram(), NewHistogram()
	free := make([]time.Duration, connections)
	for i, due := range intended {
		first := 0
		for c := range free {
			if free[c] < free[first] {
				first = c
			}
		}
		free[first] = max(free[first], due) + spans[i]
		record(corrected, free[first]-due)
		record(uncorrected, spans[i])
	}
	return corrected, uncorrected
}

// An open loop against a server that stalls at known requests for known times
// records what wrk2's account says, value by value: the stalls stand in the
// corrected p99, and the uncorrected does not know of them.
func TestOpenLoopAgreesWithTheAccount(t *testing.T) {
	const count, each, rate = 6000, 300 * time.Microsecond, 1000.
	stalls := map[int]time.Duration{500: 400 * time.Millisecond, 2500: 150 * time.Millisecond, 2600: 90 * time.Millisecond, 5000: 700 * time.Millisecond}
	spans := make([]time.Duration, count)
	for i := range spans {
		spans[i] = each + stalls[i]
	}
	for _, arrival := range []Arrival{Uniform, Poisson} {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int64
			target := serveHTTP(t, func(http.ResponseWriter, *http.Request) { time.Sleep(spans[n.Add(1)-1]) })
			o := Options{Rate: rate, Arrival: arrival, Seed: 7, Connections: 1, Count: count}
			r := mustRun(t, target, o)
			corrected, uncorrected := accounted(Moments(arrival, rate, count, o.Seed), spans, 1)
			if !r.Corrected.Equals(corrected) {
				t.Errorf("%s: corrected p50 %d, p99 %d, max %d us; by arithmetic %d, %d, %d", arrival,
					quantile(r.Corrected, 50), quantile(r.Corrected, 99), r.Corrected.Max(),
					quantile(corrected, 50), quantile(corrected, 99), corrected.Max())
			}
			if !r.Uncorrected.Equals(uncorrected) {
				t.Errorf("%s: uncorrected p99 %d, max %d us; by arithmetic %d, %d", arrival,
					quantile(r.Uncorrected, 99), r.Uncorrected.Max(), quantile(uncorrected, 99), uncorrected.Max())
			}
			// The stalls hold back far more than one request in a hundred.
			if hidden, shown := quantile(r.Uncorrected, 99), quantile(r.Corrected, 99); hidden > 2*each.Microseconds() || shown < 100*hidden {
				t.Errorf("%s: p99 %d us corrected and %d us uncorrected: the stalls must show in the first alone", arrival, shown, hidden)
			}
		})
	}
}

// The same over several connections, against services of all manner of spans.
func TestOpenLoopAgreesWithTheAccountOfManyConnections(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		connections, count := 1+random.IntN(6), 500+random.IntN(1000)
		// From nearly idle to overloaded.
		rate := 100 + 900*random.Float64()
		mean := float64(connections) / rate * (0.1 + 1.1*random.Float64())
		spans := make([]time.Duration, count)
		for i := range spans {
			spans[i] = time.Duration(random.ExpFloat64() * mean * float64(time.Second))
		}
		synctest.Test(t, func(t *testing.T) {
			s := &service{answer: func(n int64) (bool, error) { time.Sleep(spans[n]); return true, nil }}
			o := Options{Rate: rate, Arrival: Poisson, Seed: seed, Connections: connections, Count: int64(count), Timeout: time.Hour}
			r := mustRun(t, s, o)
			corrected, _ := accounted(Moments(Poisson, rate, count, seed), spans, connections)
			if !r.Corrected.Equals(corrected) {
				t.Errorf("seed %d, %d connections, %.0f/s: mean %.1f us, p99 %d; by arithmetic %.1f, %d", seed, connections, rate,
					r.Corrected.Mean(), quantile(r.Corrected, 99), corrected.Mean(), quantile(corrected, 99))
			}
		})
	}
}

// A closed loop's latency is the service's, to the microsecond of the histogram:
// what comes before and after, looking into the answer among it, is no part of it.
func TestClosedLoopRecordsTheServiceAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		spans := make([]time.Duration, 400)
		for i := range spans {
			spans[i] = time.Duration(random.IntN(3000)) * time.Microsecond
		}
		var n atomic.Int64
		target := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { time.Sleep(spans[n.Add(1)-1]) })
		target.Next = func() HTTPRequest {
			time.Sleep(time.Millisecond) // before it is sent
			return HTTPRequest{Check: func([]byte) error { time.Sleep(5 * time.Millisecond); return nil }}
		}
		var each []Answered
		r := mustRun(t, target, Options{Connections: 1, Count: int64(len(spans)), Each: func(a Answered) { each = append(each, a) }})
		if len(each) != len(spans) || r.Requests != int64(len(spans)) {
			t.Fatalf("%d reported, %d requests, want %d", len(each), r.Requests, len(spans))
		}
		for i, a := range each {
			// Drawing the request is part of the sending, which the loop has begun.
			if got, want := a.Answered-a.Sent, spans[i]+time.Millisecond; got != want {
				t.Fatalf("request %d took %v, want %v", i, got, want)
			}
			if a.Intended != a.Sent {
				t.Errorf("request %d was due at %v and sent at %v", i, a.Intended, a.Sent)
			}
		}
	})
}

// Each receives what is in the histograms, and of nothing else.
func TestEachReceivesWhatCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{answer: func(n int64) (bool, error) {
			time.Sleep(time.Duration(n%11) * time.Millisecond)
			if n%7 == 0 {
				return true, &Error{Kind: "seventh"}
			}
			return true, nil
		}}
		corrected, uncorrected := NewHistogram(), NewHistogram()
		r := mustRun(t, s, Options{Rate: 300, Connections: 2, Warmup: time.Second, Duration: 2 * time.Second, Each: func(a Answered) {
			record(corrected, a.Answered-a.Intended)
			record(uncorrected, a.Answered-a.Sent)
		}})
		if r.Errors["seventh"] == 0 || !corrected.Equals(r.Corrected) || !uncorrected.Equals(r.Uncorrected) {
			t.Errorf("reported %d, recorded %d, errors %v", corrected.TotalCount(), r.Requests, r.Errors)
		}
	})
}

// On the real clock: a server's own span of a request lies within the latency
// that the generator records of it, whether the connection polls or sleeps.
func TestLatencyHoldsTheServersSpan(t *testing.T) {
	address := serveSpans(t)
	for name, limit := range map[string]time.Duration{"sleeping": 0, "polling briefly": time.Microsecond, "polling": LongestPoll} {
		var span time.Duration
		target := HTTP{Address: address, Dial: Polling(nil, limit), Next: func() HTTPRequest {
			return HTTPRequest{Check: func(body []byte) (err error) {
				ns, err := strconv.ParseInt(string(body), 10, 64)
				span = time.Duration(ns)
				return err
			}}
		}}
		var short []time.Duration
		r, err := Run(t.Context(), target, Options{Connections: 1, Count: 300, Each: func(a Answered) {
			if a.Answered-a.Sent < span {
				short = append(short, span-(a.Answered-a.Sent))
			}
		}})
		if err != nil || r.Requests != 300 {
			t.Fatalf("%s: %d requests, %v, %v", name, r.Requests, r.FirstError, err)
		}
		if len(short) > 0 {
			t.Errorf("%s: %d latencies are shorter than the server's own span, by up to %v", name, len(short), slices.Max(short))
		}
	}
}

// Punctual or not, the same is loaded, and cancelling ends a sleep before its time.
func TestPunctual(t *testing.T) {
	target := HTTP{Address: serveSpans(t), Dial: Polling(nil, LongestPoll)}
	for _, rate := range []float64{0, 2000} {
		r, err := Run(t.Context(), target, Options{Rate: rate, Connections: 1, Count: 200, Punctual: true})
		if err != nil || r.Requests != 200 {
			t.Errorf("rate %v: %d answered, errors %v, %v", rate, r.Requests, r.Errors, err)
		}
		for _, p := range []float64{50, 99, 100} {
			if quantile(r.Corrected, p) < quantile(r.Uncorrected, p) {
				t.Errorf("rate %v, p%v: corrected %d us below uncorrected %d us", rate, p, quantile(r.Corrected, p), quantile(r.Uncorrected, p))
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	// The second request is due after a thousand seconds.
	r, err := Run(ctx, target, Options{Rate: 1e-3, Connections: 1, Count: 2, Punctual: true, Each: func(Answered) { cancel() }})
	if !errors.Is(err, context.Canceled) || r.Requests != 1 {
		t.Errorf("cancelled: %d answered, %v", r.Requests, err)
	}
}

func TestThreadSleeperNeverWakesEarly(t *testing.T) {
	s := newThreadSleeper()
	for _, d := range []time.Duration{-time.Second, 0, 1, 50 * time.Microsecond, nap + time.Millisecond} {
		began := time.Now()
		if err := s.Sleep(d); err != nil {
			t.Fatal(err)
		}
		if slept := time.Since(began); slept < d {
			t.Errorf("Sleep(%v) returned after %v", d, slept)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Sleep(time.Hour); !errors.Is(err, errSleeperClosed) {
		t.Errorf("closed, it slept and said %v", err)
	}
}

func TestPollingRefuses(t *testing.T) {
	if _, err := (HTTP{Address: serveSpans(t), Dial: Polling(nil, LongestPoll+1)}).Open(t.Context()); err == nil {
		t.Error("polls for longer than it may")
	}
	if _, err := (HTTP{Address: "127.0.0.1:0", Dial: Polling(nil, LongestPoll)}).Open(t.Context()); err == nil {
		t.Error("connected to nothing")
	}
}

// serveSpans answers each request with how long it took over it.
func serveSpans(t *testing.T) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		began := time.Now()
		for i := range 1000 {
			_ = strconv.Itoa(i)
		}
		_, _ = w.Write(strconv.AppendInt(nil, int64(time.Since(began)), 10))
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}
