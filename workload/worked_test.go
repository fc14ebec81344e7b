package workload

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestWorkedOutOnce(t *testing.T) {
	var w worked[int, int]
	var times atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			key := i % 2
			if got := w.get(key, func() int { times.Add(1); return 10 + key }); got != 10+key {
				t.Errorf("%d gives %d", key, got)
			}
		})
	}
	all.Wait()
	if n := times.Load(); n != 2 {
		t.Errorf("worked %d times for two keys", n)
	}
}
