package process

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const briefVariable = "TARE_TEST_BRIEF"

// Threads that there are, and those that are made later, have short slices, and nothing
// else is changed.
func TestBrief(t *testing.T) {
	if os.Getenv(briefVariable) == "" {
		if slice, err := Slice(0); err != nil || slice == 0 {
			t.Skip("slices of a thread's own take Linux 6.12: ", slice, err)
		}
		// In a program of its own: there is no way back.
		child := exec.Command("/proc/self/exe", "-test.run=^TestBrief$")
		child.Env = append(os.Environ(), briefVariable+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 3); err != nil {
		t.Fatal(err)
	}
	// The test's own thread has its nice value to itself.
	runtime.LockOSThread()
	own := unix.Gettid()
	if err := unix.Setpriority(unix.PRIO_PROCESS, own, 3); err != nil {
		t.Fatal(err)
	}
	made := make(chan int)
	end := make(chan struct{})
	thread := func() {
		runtime.LockOSThread()
		made <- unix.Gettid()
		<-end
	}
	var threads []int
	for range 4 {
		go thread()
		threads = append(threads, <-made)
	}
	if err := Brief(); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		go thread()
		threads = append(threads, <-made)
	}
	for _, id := range append(threads, own) {
		if slice, err := Slice(id); err != nil || slice != ShortestSlice {
			t.Errorf("thread %d of %d: %v, %v", id, len(threads), slice, err)
		}
	}
	if now, err := attributes(own); err != nil || now.Nice != 3 || now.Policy != unix.SCHED_NORMAL {
		t.Errorf("more was changed than the slice: %+v, %v", now, err)
	}
	close(end)
}

// On one processor, two threads that yield take turns; two that do not run for long.
func TestYield(t *testing.T) {
	cpus, err := Affinity()
	if err != nil {
		t.Fatal(err)
	}
	turns := func(yield func()) (share float64) {
		var count [2]atomic.Int64
		var stop atomic.Bool
		var both sync.WaitGroup
		seen := 0
		for me := range count {
			both.Go(func() {
				runtime.LockOSThread() // and the thread, which is restricted, ends with it
				if err := SetAffinityOf(unix.Gettid(), cpus[:1]); err != nil {
					t.Error(err)
				}
				before := int64(-1)
				for !stop.Load() {
					if me == 0 {
						if other := count[1].Load(); other != before {
							seen++
							before = other
						}
					}
					count[me].Add(1)
					yield()
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		stop.Store(true)
		both.Wait()
		return float64(seen) / float64(max(count[0].Load(), 1))
	}
	with, without := turns(Yield), turns(func() {})
	if with < 0.05 || without > with/10 {
		t.Errorf("the other had a turn in %.3f of the rounds of one that yields, and in %.6f of one that does not", with, without)
	}
}
