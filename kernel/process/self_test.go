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
	// Threads that have ended are not told of: both stay until it was asked.
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
