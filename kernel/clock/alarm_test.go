package clock

import (
	"errors"
	"os"
	"testing"
	"time"
)

func newAlarm(t testing.TB) *Alarm {
	t.Helper()
	a, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func TestAlarmNeverWakesEarly(t *testing.T) {
	a := newAlarm(t)
	for _, d := range []time.Duration{-time.Second, 0, 1, 50 * time.Microsecond, 3 * time.Millisecond} {
		began := time.Now()
		if err := a.Sleep(d); err != nil {
			t.Fatal(err)
		}
		if slept := time.Since(began); slept < d {
			t.Errorf("Sleep(%v) returned after %v", d, slept)
		}
	}
}

func TestCloseEndsSleep(t *testing.T) {
	a := newAlarm(t)
	ended := make(chan error, 1)
	go func() { ended <- a.Sleep(time.Hour) }()
	// Whether Close comes before, within or after the set-up of the sleep, the
	// sleeper must learn of it.
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("Sleep ended with %v, want os.ErrClosed", err)
	}
	if err := a.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestMonotonicIsTheClockOfPackageTime(t *testing.T) {
	outer, first := time.Now(), Monotonic()
	inner := time.Now()
	for time.Since(inner) < 100*time.Microsecond {
	}
	shortest, second := time.Since(inner), Monotonic()
	longest := time.Since(outer)
	// The readings lie between those of package time, so what passes between
	// them does.
	if passed := second - first; passed < shortest || passed > longest {
		t.Errorf("%v passed, where package time saw between %v and %v", passed, shortest, longest)
	}
}

// How late an alarm rings, against a timer of the runtime: the reason why this
// package exists.
func BenchmarkLateness(b *testing.B) {
	const d = 300 * time.Microsecond
	b.Run("alarm", func(b *testing.B) {
		a := newAlarm(b)
		var late time.Duration
		for b.Loop() {
			began := time.Now()
			if err := a.Sleep(d); err != nil {
				b.Fatal(err)
			}
			late += time.Since(began) - d
		}
		b.ReportMetric(float64(late.Microseconds())/float64(b.N), "us-late/op")
	})
	b.Run("runtime", func(b *testing.B) {
		var late time.Duration
		for b.Loop() {
			began := time.Now()
			time.Sleep(d)
			late += time.Since(began) - d
		}
		b.ReportMetric(float64(late.Microseconds())/float64(b.N), "us-late/op")
	})
}
