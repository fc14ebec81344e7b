package quota

import (
	"math/rand/v2"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

func onePool(b Bandwidth) (*pool, *account) {
	p := newPool(b, DefaultKernel, 0)
	return &p, &account{remaining: 1}
}

// What a CPU runs past its share it owes, and the next periods pay.
func TestDebtIsPaidFirst(t *testing.T) {
	p, a := onePool(Bandwidth{Quota: 2 * time.Millisecond, Period: 10 * time.Millisecond})
	if p.charge(a, 5*ms, 1*ms) {
		t.Fatal("5 ms used of 2, and the CPU may run on")
	}
	p.throttle(a)
	released := 0
	free := func(*account) { released++ }
	p.fire(p.next(), free) // owes 3, gets 2
	if released != 0 || a.remaining >= 0 {
		t.Fatalf("released with %d ns of debt", -a.remaining)
	}
	p.fire(p.next(), free)
	if released != 1 || a.throttled || a.remaining != 1 {
		t.Fatalf("released %d times, has %d ns", released, a.remaining)
	}
	if p.periods != 2 || p.short != 2 {
		t.Errorf("%d periods, %d of them short: want 2 and 2", p.periods, p.short)
	}
}

// A CPU whose last task sleeps keeps a millisecond, which does not expire.
func TestAnIdleCPUKeepsAMillisecond(t *testing.T) {
	p, a := onePool(Bandwidth{Quota: 10 * time.Millisecond, Period: 100 * time.Millisecond})
	if !p.charge(a, ms/10, 1) {
		t.Fatal("throttled at once")
	}
	p.giveBack(a, 2)
	if a.remaining != ms {
		t.Errorf("kept %d ns, want a millisecond", a.remaining)
	}
	for range 3 {
		p.fire(p.next(), nil)
	}
	if a.remaining != ms || p.runtime != 10*ms {
		t.Errorf("later it has %d ns and the pool %d", a.remaining, p.runtime)
	}
}

// The timer stops after a period without a taker, and goes on in its old phase.
func TestTheTimerStopsAndKeepsItsPhase(t *testing.T) {
	p, a := onePool(Bandwidth{Quota: 10 * time.Millisecond, Period: 100 * time.Millisecond})
	p.fill = 7 * ms
	p.charge(a, 2, 8*ms)
	if p.next() != 107*ms {
		t.Fatalf("filled at %d", p.next())
	}
	p.fire(p.next(), nil)
	p.fire(p.next(), nil)
	if p.active || p.next() != never {
		t.Fatal("the timer runs on with nobody to fill for")
	}
	p.charge(a, 20*ms, 1234*ms)
	if p.next() != 1307*ms {
		t.Errorf("filled at %d ms, want 1307", p.next()/ms)
	}
}

func TestBurstSavesUpToItsLimit(t *testing.T) {
	p, a := onePool(Bandwidth{Quota: 10 * time.Millisecond, Period: 100 * time.Millisecond, Burst: 4 * time.Millisecond})
	p.charge(a, 2, 1) // starts the timer
	p.giveBack(a, 2)
	p.fire(p.next(), nil)
	if p.runtime != 14*ms {
		t.Errorf("the pool holds %d ns, want quota and burst", p.runtime)
	}
}

// What is given back while another CPU is throttled reaches it before the period ends.
func TestWhatIsGivenBackIsHandedOut(t *testing.T) {
	p, a := onePool(Bandwidth{Quota: 20 * time.Millisecond, Period: 100 * time.Millisecond})
	p.slice = 20 * ms
	b := &account{remaining: 1, cpu: 1}
	p.charge(a, 2, 1)
	p.charge(b, ms, 2)
	p.throttle(b)
	p.giveBack(a, 3)
	if p.next() != never && p.next() < p.fill {
		t.Fatal("19 ms are less than a slice, and are handed out")
	}
	p.slice = 5 * ms
	a.remaining += 2 * kept
	p.giveBack(a, 4)
	if p.next() != 4+slackDelay {
		t.Fatalf("handed out at %d", p.next())
	}
	released := false
	p.fire(p.next(), func(*account) { released = true })
	if !released || b.remaining != 1 {
		t.Errorf("released %v, with %d ns", released, b.remaining)
	}
}

// No time comes from nowhere: what is filled is used, held, or thrown away above
// the limit.
func TestRuntimeIsConserved(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b := Bandwidth{Quota: time.Duration(1+random.IntN(30)) * time.Millisecond, Period: 100 * time.Millisecond}
		b.Burst = time.Duration(random.Int64N(int64(b.Quota) + 1))
		p := newPool(b, DefaultKernel, random.Int64N(int64(b.Period)))
		accounts := make([]account, 1+random.IntN(4))
		total := func() int64 {
			sum := p.runtime
			for _, a := range accounts {
				sum += a.remaining
			}
			return sum
		}
		now := int64(0)
		for range 500 {
			before := total()
			now = min(now+random.Int64N(3*ms), p.next())
			if now == p.next() {
				held := p.runtime
				p.fire(now, func(*account) {})
				if got := total() - before; got < 0 && held <= p.quota || got > p.quota {
					t.Fatalf("filling with %d ns came to %d", p.quota, got)
				}
				continue
			}
			a := &accounts[random.IntN(len(accounts))]
			if a.throttled {
				continue
			}
			used := random.Int64N(2 * ms)
			may := p.charge(a, used, now)
			if got := before - total(); got != used {
				t.Fatalf("%d ns used, %d accounted for", used, got)
			}
			if !may {
				if p.runtime > 0 {
					t.Fatalf("throttled with %d ns in the pool", p.runtime)
				}
				p.throttle(a)
			} else if random.IntN(2) == 0 {
				p.giveBack(a, now)
				if total() != before-used {
					t.Fatal("giving back made time")
				}
			}
			if p.runtime < 0 || p.runtime > p.quota+p.burst+int64(len(accounts))*p.slice {
				t.Fatalf("the pool holds %d ns", p.runtime)
			}
		}
	}
}
