package faults

import (
	"errors"
	"maps"
	"path/filepath"
	"strconv"
	"testing"

	"tare/probe"
)

// start begins a recording, or skips where this host cannot.
func start(t testing.TB, targets []Target, o Options) *Recorder {
	t.Helper()
	r, err := Start(targets, o)
	var missing *probe.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Stop() })
	return r
}

func stop(t testing.TB, r *Recorder) *Recording {
	t.Helper()
	rec, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if rec.Lost != 0 || rec.Missed != 0 || rec.Dropped != 0 || rec.LostEvents != 0 {
		t.Errorf("%d lost, %d missed, %d dropped, %d events lost", rec.Lost, rec.Missed, rec.Dropped, rec.LostEvents)
	}
	return rec
}

// sort of a fault, as far as these tests tell them apart.
type sort struct {
	Type                Type
	State               State
	Write, Kernel, Anon bool
}

// Each kind of fault, as many as were made and no other in the same place.
func TestFaultsMade(t *testing.T) {
	const n = 100
	anonymousWrite := sort{Type: Anonymous, Write: true, Anon: true}
	for _, c := range []struct {
		kind string
		want map[sort]int
		// unserved are faults that the kernel's own count leaves out.
		unserved int
	}{
		{"anonymous write", map[sort]int{anonymousWrite: n}, 0},
		{"anonymous read write", map[sort]int{
			{Type: Anonymous, Anon: true}:                                  n,
			{Type: WriteProtect, State: ReadOnly, Write: true, Anon: true}: n,
		}, 0},
		{"private read write", map[sort]int{
			{Type: Read}: n,
			{Type: WriteProtect, State: ReadOnly, Write: true}: n,
		}, 0},
		{"private write", map[sort]int{{Type: CopyOnWrite, Write: true}: n}, 0},
		{"shared write", map[sort]int{{Type: Shared, Write: true}: n}, 0},
		{"shared read write", map[sort]int{
			{Type: Read}: n,
			{Type: WriteProtect, State: ReadOnly, Write: true}: n,
		}, 0},
		{"shmem write", map[sort]int{{Type: Shared, Write: true}: n}, 0},
		{"shmem read", map[sort]int{{Type: Read}: n}, 0},
		{"kernel", map[sort]int{{Type: Anonymous, Write: true, Kernel: true, Anon: true}: n}, 0},
		{"stack", map[sort]int{anonymousWrite: n}, 0},
		{"protected", map[sort]int{{Type: Refused, Anon: true}: n}, n},
		{"withdrawn", map[sort]int{{Type: Refused, State: Withdrawn, Anon: true}: n}, n},
		{"unmapped", map[sort]int{{Type: Refused}: n}, n},
		{"guarded", map[sort]int{{Type: Refused, State: Guarded, Anon: true}: n}, 0},
		{"read only", map[sort]int{
			{Type: Anonymous, Anon: true}:                             n,
			{Type: Refused, State: ReadOnly, Write: true, Anon: true}: n,
		}, n},
	} {
		t.Run(c.kind, func(t *testing.T) {
			m := begin(t, nil, c.kind, strconv.Itoa(n), filepath.Join(t.TempDir(), "file"))
			r := start(t, []Target{{Name: "maker", PIDs: []int{m.pid}}}, Options{})
			did := m.act()
			m.end()
			rec := stop(t, r)
			got := map[sort]int{}
			total := 0
			for f := range rec.All() {
				total++
				if f.PID != int32(m.pid) {
					t.Errorf("a fault of process %d, which is not watched", f.PID)
				}
				if did.holds(f.Address) {
					got[sort{f.Type, f.State, f.Write, f.Kernel, f.Mapping.Anonymous}]++
				}
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if n := rec.Counts[0].Total(); n != uint64(total) {
				t.Errorf("%d counted, %d recorded", n, total)
			}
		})
	}
}
