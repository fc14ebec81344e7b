package diagnose

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

const (
	readBytes = 64 << 20 // of the file that the planted service reads
	readEach  = 200      // pages at a time
	readPause = 20 * ms
)

// readsPages reads pages of a file, drawn at random, and prints how long that took.
func readsPages() {
	const path = "/pages"
	if err := os.WriteFile(path, make([]byte, readBytes), 0o600); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	f, err := os.Open(path)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if err := f.Sync(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	b := make([]byte, page)
	for {
		began := time.Now()
		for range readEach {
			_, _ = f.ReadAt(b, rand.Int64N(readBytes/page)*page)
		}
		fmt.Println(time.Since(began).Nanoseconds())
		time.Sleep(readPause)
	}
}

// Of two services that read the same pages, the one whose memory limit is below them reads them back from the
// disk again and again.
func TestMemoryLimitInDocker(t *testing.T) {
	const span = 8 * time.Second
	e := dockerd(t)
	starved := e.start(t, "starved", "reads", "--memory", "32m", "--memory-swap", "32m")
	roomy := e.start(t, "roomy", "reads", "--memory", "256m")
	all := e.find(t)
	for _, name := range e.names {
		for began := time.Now(); len(e.took(t, name).took) < 200; time.Sleep(100 * ms) {
			if time.Since(began) > time.Minute {
				t.Skipf("%s reads too slowly: the host is too busy", name)
			}
		}
	}
	r := watched(t, all, span)
	typical := func(name string) time.Duration {
		took := e.took(t, name).took
		took = took[len(took)/2:]
		slices.Sort(took)
		return took[len(took)/2]
	}
	work, slow := typical(roomy), typical(starved)
	truth := rate(slow-work, slow+readPause)
	t.Logf("%s: %v for %d pages in place of %v, %.3f s/s", starved, slow, readEach, work, truth)
	isStarved := func(f Finding) bool { return f.Kind == MemoryLimit }
	i := slices.IndexFunc(r.Findings, isStarved)
	if i < 0 || r.Findings[i].Container != starved {
		t.Fatalf("%s is not named", starved)
	}
	if f := r.Findings[i]; f.Cost.Rate < truth*3/4 || f.Cost.Rate > truth*5/4 {
		t.Errorf("%s: %.3f s/s were found (%s), and it lost %.3f; %+v", f.ID, f.Cost.Rate, f.Based, truth, f.Evidence)
	}
	if slices.ContainsFunc(r.Findings[i+1:], isStarved) {
		t.Errorf("%s is said to lack memory", roomy)
	}
}
