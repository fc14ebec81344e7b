package faults

import (
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// As fast as this host can fault, on every CPU at once, nothing is lost, and each
// fault is recorded once. A host that is itself kept from running, as a virtual
// machine is, may hold up the reader alone: so one quiet moment of three will do.
func TestNothingIsLostAtFullRate(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of every CPU")
	}
	const attempts = 3
	var lost uint64
	for range attempts {
		if lost = fullRate(t); lost == 0 {
			return
		}
		t.Logf("%d records were lost", lost)
	}
	t.Errorf("each of %d times records were lost, at last %d", attempts, lost)
}

// fullRate faults on every CPU, and reports how many records were lost, without which the
// others are to be as they should.
func fullRate(t *testing.T) (lost uint64) {
	t.Helper()
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
	rec, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if rec.Missed != 0 || rec.Dropped != 0 || rec.LostEvents != 0 {
		t.Errorf("%d missed, %d dropped, %d events lost", rec.Missed, rec.Dropped, rec.LostEvents)
	}
	if rec.Lost != 0 {
		return rec.Lost
	}
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
			t.Errorf("%s: the kernel served %d, and reported %d to the process", targets[i].Name, served.Minor, did[i].minor)
		}
	}
	t.Logf("%.0f faults/s", rec.Rate(rec.Records()))
	return 0
}

// A ring that is far too small, and a bound on what is kept: whatever is lost, the
// counts are whole, and what there is no record of is reported.
func TestCountsAreWholeWhateverIsLost(t *testing.T) {
	const rounds = 5000
	for _, o := range []Options{{Ring: 1}, {Keep: 1000}, {Ring: 1, Keep: 20000}} {
		m := begin(t, nil, "loop", strconv.Itoa(rounds))
		r := start(t, []Target{{Name: "loop", PIDs: []int{m.pid}}}, o)
		did := m.act()
		m.end()
		rec, err := r.Stop()
		if err != nil {
			t.Fatal(err)
		}
		counted := rec.Counts[0].Total()
		if counted < did.minor || counted < 16*rounds {
			t.Errorf("%+v: %d counted of %d", o, counted, did.minor)
		}
		var recorded uint64
		for range rec.All() {
			recorded++
		}
		// Of a ring that is too small as well, little may come to be kept or dropped.
		if o.Keep > 0 && (recorded > uint64(o.Keep) || rec.Dropped == 0 && o.Ring == 0) {
			t.Errorf("%+v: %d kept, %d dropped", o, recorded, rec.Dropped)
		}
		if recorded+rec.Lost+rec.Dropped != counted || rec.Records() != recorded {
			t.Errorf("%+v: %d recorded (%d reported), %d lost and %d dropped of %d", o, recorded, rec.Records(), rec.Lost, rec.Dropped, counted)
		}
	}
}
