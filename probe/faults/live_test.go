package faults

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// sort of a fault, as far as these tests distinguish them.
type sort struct {
	Type                Type
	State               State
	Write, Kernel, Anon bool
}

// Each kind of fault, as many as were made and no other in the same place.
func TestFaultsMade(t *testing.T) { faultsMade(t, Options{}) }

// The same on a kernel where programs cannot declare what a pointer is to.
func TestFaultsMadeByCalls(t *testing.T) { faultsMade(t, Options{calls: true}) }

func faultsMade(t *testing.T, o Options) {
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
			r := start(t, []Target{{Name: "maker", PIDs: []int{m.pid}}}, o)
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

// Two processes that wrote to the same pages before one made the other: each
// write meets an entry that may not be written.
func TestForkIsFollowed(t *testing.T) {
	const n = 100
	m := begin(t, nil, "fork", strconv.Itoa(n))
	r := start(t, []Target{{Name: "maker", PIDs: []int{m.pid}}}, Options{})
	did := m.act()
	m.end()
	rec := stop(t, r)
	written := map[bool]int{} // by the child or not
	for f := range rec.All() {
		if !did.holds(f.Address) {
			continue
		}
		if f.Type != WriteProtect || !f.Write {
			t.Errorf("a %s fault, want write-protect", f.Type)
		}
		if !f.MajorKnown || f.Major {
			t.Errorf("a fault that copies memory is major, or not known")
		}
		written[int(f.PID) != m.pid]++
	}
	if written[true] != n || written[false] != n {
		t.Errorf("%d by the child and %d by its parent, want %d each", written[true], written[false], n)
	}
}

// Nothing is written where a program is executed; so the new program's faults
// are in the same recording, after it.
func TestExecution(t *testing.T) {
	const n = 100
	m := begin(t, nil, "exec", strconv.Itoa(n))
	r := start(t, []Target{{Name: "maker", PIDs: []int{m.pid}}}, Options{})
	m.next()
	if line := m.line(); line != "ready" {
		t.Fatalf("the new program says %q", line)
	}
	did := m.act()
	m.end()
	rec := stop(t, r)
	if len(rec.Executed) != 1 || int(rec.Executed[0].PID) != m.pid || rec.Executed[0].Command != "maker" {
		t.Fatalf("executed: %+v", rec.Executed)
	}
	after := 0
	for f := range rec.All() {
		if did.holds(f.Address) && f.At > rec.Executed[0].At {
			after++
		}
		if path := rec.Path(File{f.Mapping.Device, f.Mapping.Inode}); f.Execute && filepath.Base(path) != "maker" {
			t.Errorf("code of %q was executed", path)
		}
	}
	if after != n {
		t.Errorf("%d faults after the execution, want %d", after, n)
	}
}

// Hundreds of processes that are made, fault and end.
func TestStorm(t *testing.T) {
	const n = 300
	m := begin(t, nil, "storm", strconv.Itoa(n))
	r := start(t, []Target{{Name: "maker", PIDs: []int{m.pid}}}, Options{})
	m.act()
	m.end()
	rec := stop(t, r)
	made := map[int32]int{}
	known := 0
	total := 0
	for f := range rec.All() {
		total++
		if f.MajorKnown {
			known++
		}
		if int(f.PID) != m.pid && f.Type == Anonymous && f.Write && f.Mapping.End-f.Mapping.Start == 4*pageSize {
			made[f.PID]++
		}
	}
	if len(made) != n {
		t.Errorf("%d processes wrote, want %d", len(made), n)
	}
	for pid, pages := range made {
		if pages != 4 {
			t.Errorf("process %d wrote %d fresh pages, want 4", pid, pages)
		}
	}
	if known < total*9/10 {
		t.Errorf("of %d faults it is known of %d whether they were major", total, known)
	}
}

// A huge page is one fault, and the program goes on after it.
func TestHugePages(t *testing.T) {
	if b, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled"); err != nil || strings.Contains(string(b), "[never]") {
		t.Skip("no transparent huge pages: echo madvise >/sys/kernel/mm/transparent_hugepage/enabled")
	}
	const n = 4
	m := begin(t, nil, "huge", strconv.Itoa(n))
	r := start(t, []Target{{Name: "maker", PIDs: []int{m.pid}}}, Options{})
	did := m.act()
	m.end()
	rec := stop(t, r)
	made := 0
	for f := range rec.All() {
		if did.holds(f.Address) {
			made++
			if f.Type != Anonymous || f.Level == 0 {
				t.Errorf("a %s fault at level %d", f.Type, f.Level)
			}
		}
	}
	if made != n {
		t.Errorf("%d faults in %d huge pages", made, n)
	}
}

// What the kernel counts of a process is what was recorded of it, but for what
// it refused and what it brought in by itself.
func TestServedIsWhatTheKernelCounts(t *testing.T) {
	m := begin(t, nil, "loop", "50")
	r := start(t, []Target{{Name: "maker", PIDs: []int{m.pid}}}, Options{})
	did := m.act()
	m.end()
	rec := stop(t, r)
	if got := rec.Counts[0].Total(); got < did.minor || got < 50*16 || rec.Served[0].Minor+rec.Served[0].Major != got {
		t.Errorf("%d recorded, %+v served, and the process saw %d", got, rec.Served[0], did.minor)
	}
	sites := map[Site]int{}
	for f := range rec.All() {
		if s, ok := f.Site(); ok {
			sites[s]++
		}
	}
	if most := slices.Max(slices.Collect(maps.Values(sites))); most < 50*16 {
		t.Errorf("the loop's instruction took %d faults, want %d at least: %v", most, 50*16, sites)
	}
	names, err := rec.Names()
	if err != nil {
		t.Fatal(err)
	}
	for s, n := range sites {
		// The compiler may have put the loop into main.
		if name, ok := names.Function(s); n >= 50*16 && (!ok || name != "loop" && name != "main") {
			t.Errorf("the loop's instruction is in %q of %s", name, rec.Path(s.File))
		}
	}
}

func TestSnapshotAndStop(t *testing.T) {
	m := begin(t, nil, "anonymous write", "100")
	r := start(t, []Target{{Name: "maker", PIDs: []int{m.pid}}}, Options{})
	m.act()
	targets, counts, err := r.Snapshot()
	if err != nil || len(targets) != 1 || counts[0].User[Anonymous] < 100 {
		t.Errorf("meanwhile %+v, %v", counts, err)
	}
	m.end()
	stop(t, r)
	if _, err := r.Stop(); err == nil {
		t.Error("a recording can be stopped twice")
	}
	if _, _, err := r.Snapshot(); err == nil {
		t.Error("a recording that was stopped counts on")
	}
}

func TestWhatCannotBeWatched(t *testing.T) {
	for what, targets := range map[string][]Target{
		"nothing":          nil,
		"a target of none": {{Name: "empty"}},
		"an id of none":    {{Name: "none", PIDs: []int{0}}},
		"no directory":     {{Name: "absent", Cgroup: "/nowhere"}},
		"no control group": {{Name: "elsewhere", Cgroup: t.TempDir()}},
	} {
		if r, err := Start(targets, Options{}); err == nil {
			r.Stop()
			t.Errorf("%s is watched", what)
		}
	}
}

// Threads that change the same address space all the time: what they fault on is
// typed all the same, for the kernel changes other mappings meanwhile.
func TestThreadsThatMap(t *testing.T) {
	const rounds, threads = 2000, 4
	m := begin(t, nil, "threads", strconv.Itoa(rounds))
	r := start(t, []Target{{Name: "maker", PIDs: []int{m.pid}}}, Options{})
	m.act()
	m.end()
	rec := stop(t, r)
	c := rec.Counts[0]
	// One in thousands where the threads run; more while one that maps has to wait for a CPU.
	if n := c.User[Anonymous] + c.User[Untyped]; n < 16*rounds*threads {
		t.Errorf("%d anonymous faults, want %d at least: %+v", n, 16*rounds*threads, c)
	}
	if c.Of(Untyped) != rec.Unsettled || c.Of(Untyped) > c.Total()/20 {
		t.Errorf("%d of %d faults have no type, %d mappings changed meanwhile", c.Of(Untyped), c.Total(), rec.Unsettled)
	}
	t.Logf("%d of %d untyped, %d refused", c.Of(Untyped), c.Total(), c.Of(Refused))
}
