package faults

import (
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// As fast as this host can fault, on every CPU at once, nothing is lost, and each
// fault is recorded once.
func TestNothingIsLostAtFullRate(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of every CPU")
	}
	const rounds = 20000
	var makers []*maker
	var targets []Target
	for cpu := range runtime.NumCPU() {
		m := begin(t, nil, "loop", strconv.Itoa(rounds))
		makers = append(makers, m)
		targets = append(targets, Target{Name: "loop " + strconv.Itoa(cpu), PIDs: []int{m.pid}})
	}
	r := start(t, targets, Options{})
	did := make([]made, len(makers))
	var all sync.WaitGroup
	for i, m := range makers {
		m.next()
		all.Go(func() { did[i] = m.done() })
	}
	all.Wait()
	for _, m := range makers {
		m.end()
	}
	rec := stop(t, r)
	recorded := make([]uint64, len(targets))
	for f := range rec.All() {
		if f.Type == Anonymous {
			recorded[f.Target]++
		}
	}
	for i := range targets {
		if got := rec.Counts[i].User[Anonymous] + rec.Counts[i].Kernel[Anonymous]; recorded[i] != got || got < 16*rounds {
			t.Errorf("%s: %d recorded, %d counted, want the same and %d at least", targets[i].Name, recorded[i], got, 16*rounds)
		}
		if served := rec.Served[i]; served.Minor < did[i].minor {
			t.Errorf("%s: the kernel served %d, and told the process of %d", targets[i].Name, served.Minor, did[i].minor)
		}
	}
	t.Logf("%.0f faults/s", rec.Rate(rec.Records()))
}
