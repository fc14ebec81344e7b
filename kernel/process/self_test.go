package process

import (
	"sync"
	"testing"
	"time"
)

// Of two threads that both want one processor one waits while the other runs.
func TestWaited(t *testing.T) {
	cpus, err := Affinity()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Waited(); err != nil {
		t.Skip(err)
	}
	const long = 200 * time.Millisecond
	// Threads that have ended are not reported: both stay until it was asked.
	asked := make(chan struct{})
	var ran, ended sync.WaitGroup
	before, err := Waited()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ran.Add(1)
		ended.Go(func() {
			err := OnFreshThread(func() error {
				err := SetAffinity(cpus[:1])
				for began := time.Now(); time.Since(began) < long; {
				}
				ran.Done()
				<-asked
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	ran.Wait()
	after, err := Waited()
	close(asked)
	ended.Wait()
	if waited := after - before; err != nil || waited < long/2 {
		t.Errorf("waited %v, error %v, while two threads had one processor for %v", waited, err, long)
	}
}
func BenchmarkWaited(b *testing.B) {
	for b.Loop() {
		if _, err := Waited(); err != nil {
			b.Skip(err)
		}
	}
}

// What is no account of a thread is refused, and whatever is read nobody falls.
func FuzzParseSchedstat(f *testing.F) {
	for _, text := range []string{"12 34 5\n", "0 0 0\n", "", "12", "12 34", "a b c", "12 34 5 6", "99999999999999999999 1 2", "-1 2 3"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		ran, waited, err := parseSchedstat(text)
		if err != nil && (ran != 0 || waited != 0) {
			t.Errorf("%q: %v and %v beside the error %v", text, ran, waited, err)
		}
	})
}

func TestParseSchedstat(t *testing.T) {
	if ran, waited, err := parseSchedstat([]byte("12 34 5\n")); ran != 12 || waited != 34 || err != nil {
		t.Errorf("%v, %v, %v", ran, waited, err)
	}
	for _, text := range []string{"", "12", "12 34", "a b c", "12 34 5 6"} {
		if _, _, err := parseSchedstat([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
