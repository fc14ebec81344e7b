package load

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// activate is Activate by the runtime's timers, as run is Run.
func activate(ctx context.Context, t *testing.T, targets []Target, o ActivationOptions) (ActivationResult, error) {
	t.Helper()
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return newActivation(targets, o, newTimerSleeper).run(ctx)
}

func mustActivate(t *testing.T, targets []Target, o ActivationOptions) ActivationResult {
	t.Helper()
	r, err := activate(t.Context(), t, targets, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// crowd is n services that answer after a time.
func crowd(n int, after time.Duration) (targets []Target, all []*service) {
	for range n {
		s := &service{answer: func(int64) (bool, error) { time.Sleep(after); return true, nil }}
		targets, all = append(targets, s), append(all, s)
	}
	return targets, all
}

func total(counts []int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// The same schedule stands however many services there are, and every request of it
// is one second's hundredth after the one before.
func TestOpenActivationIsOfOneRate(t *testing.T) {
	for _, n := range []int{1, 7, 49} {
		synctest.Test(t, func(t *testing.T) {
			targets, all := crowd(n, time.Millisecond)
			var each []int
			r := mustActivate(t, targets, ActivationOptions{
				Pattern: PeriodicTarget, Think: 10 * time.Millisecond, Open: true, Duration: 10 * time.Second,
				Each: func(target int) { each = append(each, target) },
			})
			if r.Requests != 1000 || r.Failed() != 0 || r.Rate != 100 {
				t.Errorf("%d services: %d answered, errors %v, %v/s; want 1000 at 100/s", n, r.Requests, r.Errors, r.Rate)
			}
			within(t, "corrected", r.Corrected.Max(), time.Millisecond)
			if r.Lateness.TotalCount() != 1000 || r.Lateness.Max() != 0 {
				t.Errorf("lateness of %d requests, up to %d us", r.Lateness.TotalCount(), r.Lateness.Max())
			}
			for i, s := range all {
				if s.opened.Load() != 1 || s.asked.Load() != r.Turned[i] || s.asked.Load() < int64(1000/n) {
					t.Errorf("service %d of %d: asked %d times over %d connections, turned to %d times", i, n, s.asked.Load(), s.opened.Load(), r.Turned[i])
				}
			}
			if len(each) != 1000 || total(r.Turned) != 1000 || r.Opened != int64(n) {
				t.Errorf("reported %d bursts, counted %d, %d connections", len(each), total(r.Turned), r.Opened)
			}
			if r.Bursts.TotalCount() != 1000 || !r.Bursts.Equals(r.First) {
				t.Errorf("%d bursts, %d first requests, want each request to be one", r.Bursts.TotalCount(), r.First.TotalCount())
			}
		})
	}
}

// A closed loop thinks after each answer.
func TestClosedActivationThinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		targets, _ := crowd(5, 50*time.Millisecond)
		r := mustActivate(t, targets, ActivationOptions{Pattern: RandomTarget, Think: 150 * time.Millisecond, Seed: 1, Duration: 20 * time.Second})
		if r.Requests != 100 || r.Elapsed != 20*time.Second || r.Rate != 5 {
			t.Errorf("%d answered in %v, want one each 200 ms for 20 s", r.Requests, r.Elapsed)
		}
		if !r.Corrected.Equals(r.Uncorrected) || r.Lateness.TotalCount() != 0 {
			t.Error("a closed loop has a schedule")
		}
	})
}

// A burst's requests follow one another; between bursts there is as much longer.
func TestBurstsKeepTheRate(t *testing.T) {
	for _, open := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			const burst = 8
			var n atomic.Int64
			s := &service{answer: func(i int64) (bool, error) {
				if i%burst == 0 {
					time.Sleep(10 * time.Millisecond) // the first of a burst finds it asleep
				}
				time.Sleep(time.Millisecond)
				n.Add(1)
				return true, nil
			}}
			r := mustActivate(t, []Target{s}, ActivationOptions{Pattern: RandomTarget, Think: 10 * time.Millisecond, Open: open, Burst: burst, Duration: 8 * time.Second})
			bursts := int64(100) // each 80 ms
			if !open {
				bursts = 82 // 18 ms longer
			}
			if r.Requests != burst*bursts || total(r.Turned) != bursts {
				t.Errorf("open %t: %d requests in %d bursts, want %d", open, r.Requests, total(r.Turned), bursts)
			}
			within(t, "first", r.First.Min(), 11*time.Millisecond)
			within(t, "burst", r.Bursts.Max(), 18*time.Millisecond)
			within(t, "median request", quantile(r.Corrected, 50), time.Millisecond)
			if r.First.TotalCount() != bursts || r.Bursts.TotalCount() != bursts {
				t.Errorf("open %t: %d first requests of %d bursts", open, r.First.TotalCount(), r.Bursts.TotalCount())
			}
		})
	}
}

// An open loop does not wait: what is due while a service stalls goes to the others.
func TestAStalledServiceHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		targets, _ := crowd(3, time.Millisecond)
		targets = append(targets, &service{answer: func(int64) (bool, error) {
			time.Sleep(2 * time.Second)
			return false, context.DeadlineExceeded
		}})
		r := mustActivate(t, targets, ActivationOptions{Pattern: PeriodicTarget, Think: 100 * time.Millisecond, Open: true, Timeout: 2 * time.Second, Duration: 40 * time.Second})
		if r.Requests != 300 || r.Errors[KindTimeout] != 100 || len(r.Errors) != 1 {
			t.Errorf("%d answered, errors %v, want 300, and 100 timeouts", r.Requests, r.Errors)
		}
		within(t, "corrected", r.Corrected.Max(), time.Millisecond)
		if r.BacklogMax != 0 || r.Queued.TotalCount() != 0 {
			t.Errorf("backlog %d, %d queued, want none", r.BacklogMax, r.Queued.TotalCount())
		}
	})
}

// With too few connections the stall shows as a backlog, and from the intended start.
func TestABacklogIsReportedAndSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{answer: func(n int64) (bool, error) {
			if n == 10 {
				time.Sleep(time.Second)
			}
			return true, nil
		}}
		r := mustActivate(t, []Target{s}, ActivationOptions{Pattern: RandomTarget, Think: 10 * time.Millisecond, Open: true, Connections: 1, Duration: 2 * time.Second})
		if r.Requests != 200 || r.Failed() != 0 {
			t.Errorf("%d answered, errors %v, want all 200", r.Requests, r.Errors)
		}
		if r.BacklogMax < 98 || r.BacklogMax > 100 || r.Queued.TotalCount() < 99 {
			t.Errorf("backlog %d, %d queued, want those of a second, about 99", r.BacklogMax, r.Queued.TotalCount())
		}
		within(t, "corrected p75", quantile(r.Corrected, 75), 500*time.Millisecond)
		within(t, "uncorrected p99", quantile(r.Uncorrected, 99), 0)
	})
}

func TestABacklogThatDoesNotDrainIsUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{answer: func(int64) (bool, error) { time.Sleep(time.Second); return true, nil }}
		r := mustActivate(t, []Target{s}, ActivationOptions{Pattern: RandomTarget, Think: 10 * time.Millisecond, Open: true, Burst: 2, Connections: 1, Duration: 4 * time.Second, Timeout: 3 * time.Second})
		if r.Requests+r.Failed() != 400 || r.Errors[KindUnsent] != 400-r.Requests || r.Requests < 6 || r.Requests > 10 {
			t.Errorf("%d answered, errors %v, want 400 in all, of which few were sent", r.Requests, r.Errors)
		}
	})
}

// A burst ends with the connection that it was sent over, and the next finds another.
func TestAFailedConnectionEndsItsBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{answer: func(n int64) (bool, error) {
			time.Sleep(time.Millisecond)
			switch n % 6 {
			case 1:
				return true, &Error{Kind: "status 503"} // the burst goes on
			case 5:
				return false, errors.New("garbage") // the second of the second burst
			}
			return true, nil
		}}
		r := mustActivate(t, []Target{s}, ActivationOptions{Pattern: RandomTarget, Think: 10 * time.Millisecond, Open: true, Burst: 4, Duration: 80 * time.Millisecond})
		// Four requests, one of them wrong; two, of which the last broke; two were not sent.
		if r.Requests != 4 || r.Errors["status 503"] != 1 || r.Errors[KindProtocol] != 1 || r.Errors[KindUnsent] != 2 {
			t.Errorf("%d answered, errors %v", r.Requests, r.Errors)
		}
		if r.Bursts.TotalCount() != 0 || r.First.TotalCount() != 2 || s.opened.Load() != 1 {
			t.Errorf("%d whole bursts, %d first requests, %d connections", r.Bursts.TotalCount(), r.First.TotalCount(), s.opened.Load())
		}
	})
}

func TestAServiceThatIsGoneIsAnError(t *testing.T) {
	for _, open := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			targets, _ := crowd(1, 0)
			targets = append(targets, &service{open: func() error { return errors.New("refused") }})
			r := mustActivate(t, targets, ActivationOptions{Pattern: PeriodicTarget, Think: 100 * time.Millisecond, Open: open, Duration: 10 * time.Second})
			if r.Requests != 50 || r.Errors[KindConnect] != 50 || len(r.Errors) != 1 {
				t.Errorf("open %t: %d answered, errors %v, want 50 each", open, r.Requests, r.Errors)
			}
		})
	}
}

// Two loads of which one goes on after the other ask whom one load asks, each its turn.
func TestALoadGoesOnAfterAnother(t *testing.T) {
	for _, open := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			targets, _ := crowd(7, 0)
			asked := func(d time.Duration, after int64) (whom []int, turns int64) {
				r := mustActivate(t, targets, ActivationOptions{Pattern: PeriodicTarget, Think: 100 * time.Millisecond, Open: open, Connections: 1, Duration: d, Seed: 4, After: after,
					Each: func(target int) { whom = append(whom, target) }})
				return whom, r.Turns
			}
			whole, _ := asked(2*time.Second, 0)
			first, turns := asked(time.Second, 0)
			if turns != int64(len(first)) || turns != 10 {
				t.Fatalf("open %t: %d turns of %d", open, turns, len(first))
			}
			second, _ := asked(time.Second, turns)
			if both := append(first, second...); !slices.Equal(both, whole) {
				t.Errorf("open %t: %v, want %v", open, both, whole)
			}
		})
	}
}

// Ending is no failure: what is under way is answered, what is due later is not asked.
func TestEndLetsWhatIsUnderWayBeAnswered(t *testing.T) {
	for _, open := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			end := make(chan struct{})
			s := &service{answer: func(n int64) (bool, error) {
				if n == 5 {
					time.Sleep(time.Second)
					close(end)
					time.Sleep(time.Second)
				}
				return true, nil
			}}
			r := mustActivate(t, []Target{s}, ActivationOptions{Pattern: RandomTarget, Think: 100 * time.Millisecond, Open: open, End: end, Connections: 1})
			want, elapsed := int64(6), 2500*time.Millisecond
			if open {
				want = 15 // those that were due in the second before, too
			}
			if r.Requests != want || r.Failed() != 0 || r.Elapsed != elapsed {
				t.Errorf("open %t: %d answered, errors %v, in %v; want %d in %v", open, r.Requests, r.Errors, r.Elapsed, want, elapsed)
			}
		})
	}
}

func TestEndWakesWhoWaits(t *testing.T) {
	for _, open := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			end := make(chan struct{})
			targets, _ := crowd(2, 0)
			time.AfterFunc(90*time.Minute, func() { close(end) })
			r := mustActivate(t, targets, ActivationOptions{Pattern: RandomTarget, Think: time.Hour, Open: open, End: end, Duration: 900 * time.Hour})
			if r.Requests != 2 || r.Elapsed != 90*time.Minute {
				t.Errorf("open %t: %d answered in %v, want 2 in 90 minutes", open, r.Requests, r.Elapsed)
			}
		})
	}
}

func TestCancelKeepsWhatWasActivated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("interrupted by the user")
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &service{answer: func(n int64) (bool, error) {
			if n == 20 {
				cancel(why)
			}
			return true, nil
		}}
		r, err := activate(ctx, t, []Target{s}, ActivationOptions{Pattern: PoissonTarget, Think: 100 * time.Millisecond, Open: true, Duration: time.Hour})
		if !errors.Is(err, why) || r.Requests != 20 || r.Failed() != 0 {
			t.Errorf("%d answered, errors %v: %v", r.Requests, r.Errors, err)
		}
	})
}

// Real sockets, a real clock and several at once: nothing about times, all about counts.
func TestActivateOnLoopback(t *testing.T) {
	const n = 6
	var mu sync.Mutex
	connections := make([]map[string]bool, n)
	var targets []Target
	for i := range n {
		connections[i] = map[string]bool{}
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			connections[i][r.RemoteAddr] = true
		}))
		t.Cleanup(server.Close)
		targets = append(targets, HTTP{Address: server.Listener.Addr().String()})
	}
	for _, pattern := range Patterns {
		end := make(chan struct{})
		bursts := 0
		r, err := Activate(t.Context(), targets, ActivationOptions{
			Pattern: pattern, Think: 100 * time.Microsecond, Open: true, Burst: 4, Seed: 1, End: end, Connections: keptIdle,
			Each: func(int) {
				if bursts++; bursts == 100 {
					close(end)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.Failed() != 0 || total(r.Turned) < 100 || r.Requests != 4*total(r.Turned) || r.Bursts.TotalCount() != total(r.Turned) {
			t.Errorf("%s: %d answered in %d bursts, %d of them whole, errors %v", pattern, r.Requests, total(r.Turned), r.Bursts.TotalCount(), r.Errors)
		}
		for i, seen := range connections {
			if len(seen) > keptIdle*len(Patterns) {
				t.Errorf("%d connections to service %d", len(seen), i)
			}
		}
		for _, p := range []float64{50, 99, 100} {
			if quantile(r.Corrected, p) < quantile(r.Uncorrected, p) {
				t.Errorf("%s, p%v: corrected %d us below uncorrected %d us", pattern, p, quantile(r.Corrected, p), quantile(r.Uncorrected, p))
			}
		}
	}
}

func TestActivationRefused(t *testing.T) {
	good := ActivationOptions{Pattern: RandomTarget, Think: time.Second, Duration: time.Second}
	if _, err := Activate(t.Context(), nil, good); err == nil {
		t.Error("asked nobody")
	}
	for name, change := range map[string]func(*ActivationOptions){
		"no pattern":      func(o *ActivationOptions) { o.Pattern = "" },
		"no think":        func(o *ActivationOptions) { o.Think = 0 },
		"endless think":   func(o *ActivationOptions) { o.Think = 1 << 62 },
		"no end":          func(o *ActivationOptions) { o.Duration = 0 },
		"negative":        func(o *ActivationOptions) { o.Duration = -1 },
		"after less":      func(o *ActivationOptions) { o.After = -1 },
		"negative burst":  func(o *ActivationOptions) { o.Burst = -1 },
		"endless burst":   func(o *ActivationOptions) { o.Burst = 1 << 40 },
		"no timeout":      func(o *ActivationOptions) { o.Timeout = -1 },
		"few connections": func(o *ActivationOptions) { o.Connections = -1 },
	} {
		o := good
		change(&o)
		if _, err := Activate(t.Context(), []Target{&service{}}, o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// An open loop has as many connections as a service that never answers takes up.
func TestConnectionsOfAnActivation(t *testing.T) {
	for _, c := range []struct {
		o    ActivationOptions
		want int
	}{
		{ActivationOptions{Think: 150 * time.Millisecond}, 1},
		{ActivationOptions{Think: 150 * time.Millisecond, Open: true}, 67},
		{ActivationOptions{Think: 150 * time.Millisecond, Open: true, Burst: 32}, DefaultConnections},
		{ActivationOptions{Think: 150 * time.Microsecond, Open: true}, MostBursts},
		{ActivationOptions{Think: 150 * time.Microsecond, Open: true, Connections: 3}, 3},
	} {
		c.o.Pattern, c.o.Duration = RandomTarget, time.Second
		o, err := c.o.withDefaults()
		if err != nil || o.Connections != c.want {
			t.Errorf("%+v: %d connections, want %d (%v)", c.o, o.Connections, c.want, err)
		}
	}
}
