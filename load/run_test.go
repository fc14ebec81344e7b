package load

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// run is Run by the runtime's timers, so that in a bubble of package synctest
// time is that of the bubble and every figure is exact.
func run(ctx context.Context, t *testing.T, target Target, o Options) (Result, error) {
	t.Helper()
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	g := &generator{target: target, options: o, recorder: newRecorder(o), sleeper: newTimerSleeper}
	return g.run(ctx)
}

// mustRun is run, where nothing cancels.
func mustRun(t *testing.T, target Target, o Options) Result {
	t.Helper()
	r, err := run(t.Context(), t, target, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// service is a Target whose nth request (from 0, over all connections) is
// answered by a function.
type service struct {
	answer func(n int64) (reusable bool, err error)
	open   func() error
	asked  atomic.Int64
	opened atomic.Int64
}

func (s *service) Open(context.Context) (Conn, error) {
	s.opened.Add(1)
	if s.open != nil {
		if err := s.open(); err != nil {
			return nil, err
		}
	}
	return serviceConn{s}, nil
}

type serviceConn struct{ *service }

func (c serviceConn) Do(time.Time) (bool, error) { return c.answer(c.asked.Add(1) - 1) }
func (c serviceConn) Close() error               { return nil }

// within fails unless a histogram's value is want to its three digits.
func within(t *testing.T, what string, got int64, want time.Duration) {
	t.Helper()
	w := float64(want.Microseconds())
	if float64(got) < 0.998*w || float64(got) > 1.002*w+1 {
		t.Errorf("%s: %d us, want %v", what, got, want)
	}
}

func quantile(h *hdrhistogram.Histogram, percent float64) int64 { return h.ValueAtPercentile(percent) }

// A service that stalls once: what a closed loop hides and an open one shows.
func TestStallShowsInCorrectedLatencyOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			each  = 100 * time.Microsecond
			stall = 500 * time.Millisecond
		)
		var n atomic.Int64
		target := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(each)
			if n.Add(1) == 2000 {
				time.Sleep(stall)
			}
		})
		r := mustRun(t, target, Options{Rate: 1000, Connections: 1, Count: 5000})

		if r.Requests != 5000 || r.Failed() != 0 {
			t.Fatalf("%d requests, errors %v, want 5000 and none", r.Requests, r.Errors)
		}
		within(t, "uncorrected p99", quantile(r.Uncorrected, 99), each)
		within(t, "uncorrected max", r.Uncorrected.Max(), stall+each)
		// The backlog of the stall is a tenth of all requests; it shrinks by
		// 0.9 ms a request, so that p99 lies a tenth below its height.
		if p99, least := quantile(r.Corrected, 99), (stall * 8 / 10).Microseconds(); p99 < least {
			t.Errorf("corrected p99: %d us, want at least %d", p99, least)
		}
		within(t, "corrected max", r.Corrected.Max(), stall+each)
		within(t, "corrected median", quantile(r.Corrected, 50), each)
		if r.BacklogMax < 490 || r.BacklogMax > 500 {
			t.Errorf("backlog %d, want the requests due in the stall, about 500", r.BacklogMax)
		}
		// The requests that the stall held back are not the generator's lateness.
		if late := r.Lateness.Max(); late != 0 {
			t.Errorf("lateness %d us, want 0", late)
		}
		if r.Queued.TotalCount() < 500 {
			t.Errorf("%d queued, want those due in the stall, at least 500", r.Queued.TotalCount())
		}
		if sum := r.Lateness.TotalCount() + r.Queued.TotalCount(); sum != r.Requests {
			t.Errorf("lateness and queued hold %d requests, want %d", sum, r.Requests)
		}
	})
}

func TestOtherConnectionsSendDuringStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{answer: func(n int64) (bool, error) {
			if n == 100 {
				time.Sleep(time.Second)
			}
			return true, nil
		}}
		r := mustRun(t, s, Options{Rate: 1000, Connections: 2, Count: 1000})
		if r.BacklogMax != 0 || quantile(r.Corrected, 99.8) != 0 {
			t.Errorf("backlog %d, corrected p99.8 %d us: one stalled connection of two held back the schedule",
				r.BacklogMax, quantile(r.Corrected, 99.8))
		}
		within(t, "corrected max", r.Corrected.Max(), time.Second)
	})
}

func TestOverloadedServiceIsCountedNotAveraged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{answer: func(int64) (bool, error) { time.Sleep(10 * time.Millisecond); return true, nil }}
		r := mustRun(t, s, Options{Rate: 1000, Connections: 1, Duration: 10 * time.Second, Timeout: 5 * time.Second})
		if total := r.Requests + r.Failed(); total != 10_000 {
			t.Errorf("%d answered and %v: want 10000 in all", r.Requests, r.Errors)
		}
		if r.Requests < 1495 || r.Requests > 1505 {
			t.Errorf("%d answered, want 100 a second for 15 s", r.Requests)
		}
		if r.Errors[KindUnsent] != 10_000-r.Requests {
			t.Errorf("errors %v, want the rest unsent", r.Errors)
		}
		if r.Rate < 99 || r.Rate > 101 {
			t.Errorf("rate %v, want the service's 100", r.Rate)
		}
		if r.Corrected.TotalCount() != r.Requests {
			t.Errorf("%d latencies of %d answers", r.Corrected.TotalCount(), r.Requests)
		}
	})
}

func TestWarmupIsForgotten(t *testing.T) {
	for _, rate := range []float64{0, 100} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{answer: func(n int64) (bool, error) {
				switch {
				case n < 50:
					time.Sleep(9 * time.Millisecond)
					return true, &Error{Kind: "cold"}
				default:
					time.Sleep(time.Millisecond)
					return true, nil
				}
			}}
			r := mustRun(t, s, Options{Rate: rate, Connections: 1, Warmup: time.Second, Duration: 2 * time.Second})
			if r.Failed() != 0 {
				t.Errorf("rate %v: errors %v of the warm-up were kept", rate, r.Errors)
			}
			want := int64(200)
			if rate == 0 {
				want = 2000
			}
			if r.Requests < want-1 || r.Requests > want+1 {
				t.Errorf("rate %v: %d requests, want %d", rate, r.Requests, want)
			}
			if r.Elapsed < 2*time.Second || r.Elapsed > 2*time.Second+time.Millisecond {
				t.Errorf("rate %v: elapsed %v, want 2s", rate, r.Elapsed)
			}
			within(t, "max", r.Corrected.Max(), time.Millisecond)
		})
	}
}

func TestClosedLoopHasOneLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{answer: func(n int64) (bool, error) {
			time.Sleep(time.Duration(1+n%7) * time.Millisecond)
			return true, nil
		}}
		r := mustRun(t, s, Options{Connections: 4, Count: 700})
		if r.Requests != 700 {
			t.Errorf("%d requests, want 700", r.Requests)
		}
		if !r.Corrected.Equals(r.Uncorrected) {
			t.Error("corrected and uncorrected differ without a schedule")
		}
		if n := r.Lateness.TotalCount() + r.Queued.TotalCount(); n != 0 {
			t.Errorf("%d late or queued, want none without a schedule", n)
		}
	})
}

func TestErrorsAreCountedByKindAndConnectionsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reset := errors.New("garbage")
		s := &service{answer: func(n int64) (bool, error) {
			time.Sleep(time.Millisecond)
			switch n % 4 {
			case 1:
				return true, &Error{Kind: "status 503"}
			case 2:
				return false, reset
			default:
				return true, nil
			}
		}}
		r := mustRun(t, s, Options{Rate: 100, Connections: 1, Count: 400})
		if r.Requests != 200 || r.Errors["status 503"] != 100 || r.Errors[KindProtocol] != 100 || len(r.Errors) != 2 {
			t.Errorf("%d answered, errors %v", r.Requests, r.Errors)
		}
		if opened := s.opened.Load(); opened != 101 {
			t.Errorf("%d connections made, want one and one after each of 100 broken", opened)
		}
		if r.FirstError == nil || r.FirstError.Error() != "status 503" {
			t.Errorf("first error %v", r.FirstError)
		}
		if r.Corrected.TotalCount() != 200 {
			t.Errorf("%d latencies, want those of the 200 answered", r.Corrected.TotalCount())
		}
	})
}

func TestServiceThatIsGone(t *testing.T) {
	for _, rate := range []float64{0, 50} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{open: func() error { return errors.New("refused") }}
			r := mustRun(t, s, Options{Rate: rate, Connections: 2, Duration: 10 * time.Second})
			if r.Requests != 0 || r.Errors[KindConnect] == 0 || len(r.Errors) != 1 || r.Rate != 0 {
				t.Errorf("rate %v: %d answered, errors %v, rate %v", rate, r.Requests, r.Errors, r.Rate)
			}
			// In a bubble a loop that spins would never end; that it paused shows in the count.
			if rate == 0 && r.Errors[KindConnect] > 300 {
				t.Errorf("closed loop tried %d times in 10 s, want it to pause", r.Errors[KindConnect])
			}
		})
	}
}

func TestCancelKeepsWhatWasRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("interrupted by the user")
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &service{answer: func(n int64) (bool, error) {
			if n == 99 {
				cancel(why)
			}
			return true, nil
		}}
		r, err := run(ctx, t, s, Options{Rate: 10, Connections: 3, Duration: time.Hour})
		if !errors.Is(err, why) {
			t.Errorf("error %v, want it to wrap %v", err, why)
		}
		if r.Requests != 99 || r.Failed() != 0 {
			t.Errorf("%d answered, errors %v, want 99 and none", r.Requests, r.Errors)
		}
	})
}

// Cancelling must end a request that waits for its answer, on a real socket.
func TestCancelEndsRequestUnderWay(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			conn.Read(make([]byte, 1)) // the request is under way
			cancel()
		}
	}()
	r, err := Run(ctx, HTTP{Address: listener.Addr().String()}, Options{Connections: 2, Duration: time.Hour, Timeout: time.Hour})
	if !errors.Is(err, context.Canceled) || r.Requests+r.Failed() != 0 {
		t.Errorf("%d answered, errors %v, error %v", r.Requests, r.Errors, err)
	}
}

// The real clock and sockets: nothing about times, all about counts.
func TestRunOnLoopback(t *testing.T) {
	var served atomic.Int64
	var mu sync.Mutex
	remotes := map[string]bool{}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		mu.Lock()
		remotes[r.RemoteAddr] = true
		mu.Unlock()
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	defer server.Close()
	r, err := Run(t.Context(), HTTP{Address: listener.Addr().String()},
		Options{Rate: 2000, Arrival: Poisson, Seed: 1, Connections: 4, Count: 500})
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 500 || served.Load() != 500 || r.Failed() != 0 {
		t.Errorf("%d answered, %d served, errors %v, want 500", r.Requests, served.Load(), r.Errors)
	}
	if len(remotes) > 4 {
		t.Errorf("%d connections, want at most 4", len(remotes))
	}
	// A request cannot be answered in less time since it was due than since it was sent.
	for _, p := range []float64{50, 90, 99, 100} {
		if quantile(r.Corrected, p) < quantile(r.Uncorrected, p) {
			t.Errorf("p%v: corrected %d us below uncorrected %d us", p, quantile(r.Corrected, p), quantile(r.Uncorrected, p))
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"unbounded":       {Rate: 1},
		"negative rate":   {Rate: -1, Count: 1},
		"punctual crowd":  {Count: 1, Connections: 2, Punctual: true},
		"rate too high":   {Rate: 1e9, Count: 1},
		"unknown arrival": {Rate: 1, Count: 1, Arrival: "bursty"},
		"no connection":   {Count: 1, Connections: -1},
		"negative warmup": {Count: 1, Warmup: -1},
		"endless":         {Duration: 1 << 62, Warmup: 1 << 62},
	} {
		if _, err := Run(t.Context(), &service{}, o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
