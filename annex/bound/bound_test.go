package bound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tare/annex/guard"
	"tare/container"
	"tare/kernel/cgroup"
	"tare/kernel/pressure"
)

// tree is a hierarchy as the kernel would have it: files are the contents by path.
func tree(t *testing.T, version int, files map[string]string) cgroup.Layout {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return cgroup.Layout{Hierarchies: []cgroup.Hierarchy{{Version: version, Controllers: []string{"memory"}, Mount: root, Root: "/"}}}
}

const mib = 1 << 20

// one is a host of version 1: a box of 1 GiB with two containers.
func one(t *testing.T) cgroup.Layout {
	return tree(t, 1, map[string]string{
		"memory.limit_in_bytes": "9223372036854771712", "memory.usage_in_bytes": "2147483648",
		"box/memory.limit_in_bytes": "1073741824", "box/memory.usage_in_bytes": "805306368",
		"box/memory.memsw.limit_in_bytes": "9223372036854771712", "box/memory.memsw.usage_in_bytes": "0",
		"box/a/memory.limit_in_bytes": "134217728", "box/a/memory.usage_in_bytes": "67108864",
		"box/a/memory.memsw.limit_in_bytes": "134217728", "box/a/memory.memsw.usage_in_bytes": "67108864",
		"box/a/memory.swappiness": "60",
		"box/a/memory.stat":       "total_rss 33554432\ntotal_swap 1048576\ntotal_swapcached 33554432\ntotal_inactive_anon 67108864\ntotal_active_anon 0\ntotal_shmem 0\ntotal_pgmajfault 3",
		"box/b/memory.swappiness": "60", "box/b/c/memory.swappiness": "60",
	})
}

func two(t *testing.T, swapMax string) cgroup.Layout {
	return tree(t, 2, map[string]string{
		"box/memory.max": "1073741824", "box/memory.current": "805306368", "box/memory.low": "0",
		"box/memory.swap.max": swapMax, "box/memory.swap.current": "10485760",
		"box/pod/memory.max": "max", "box/pod/memory.current": "0", "box/pod/memory.low": "0",
		"box/pod/a/memory.max": "134217728", "box/pod/a/memory.current": "67108864", "box/pod/a/memory.low": "0",
		"box/pod/a/memory.swap.max": "max", "box/pod/a/memory.swap.current": "4194304",
		"box/pod/a/memory.stat":     "anon 33554432\npgmajfault 3\nswapcached 33554432\ninactive_anon 60000000\nactive_anon 7108864\nshmem 0",
		"box/pod/a/memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3",
		"box/pod/a/memory.reclaim":  "",
	})
}

func bounded(t *testing.T, l cgroup.Layout, o Options) *Bound {
	t.Helper()
	o.Layout = &l
	b, err := New(o)
	if err != nil {
		t.Skip(err) // no swap in this kernel, or no /proc
	}
	b.meminfo = func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("MemTotal:       4194304 kB\nMemFree:  1 kB\nMemAvailable:    524288 kB\n")), nil
	}
	return b
}

func at(l cgroup.Layout, path string) container.Container {
	return container.Container{ID: path, Name: path, Cgroup: filepath.Join(l.Hierarchies[0].Mount, path)}
}

func TestMemory(t *testing.T) {
	l := one(t)
	host := bounded(t, l, Options{})
	m, err := host.Memory()
	if err != nil || m.Limit != 4096*mib || m.Free != 512*mib || m.At == 0 {
		t.Errorf("host: %+v, %v", m, err)
	}
	for _, name := range []string{"/box", l.Hierarchies[0].Mount + "/box"} {
		box := bounded(t, l, Options{Group: name})
		if m, err = box.Memory(); err != nil || m.Limit != 1024*mib || m.Free != 256*mib {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	// What is above is nearer its limit; and the host has less than either.
	inner := bounded(t, l, Options{Group: "/box/a"})
	if m, err = inner.Memory(); err != nil || m.Limit != 128*mib || m.Free != 64*mib {
		t.Errorf("inner: %+v, %v", m, err)
	}
	if err := os.WriteFile(filepath.Join(l.Hierarchies[0].Mount, "box/memory.usage_in_bytes"), []byte("1073000000"), 0); err != nil {
		t.Fatal(err)
	}
	if m, err = inner.Memory(); err != nil || m.Free != 1<<30-1073000000 {
		t.Errorf("a full box: %+v, %v", m, err)
	}
	if err := os.WriteFile(filepath.Join(l.Hierarchies[0].Mount, "box/memory.limit_in_bytes"), []byte("9223372036854771712"), 0); err != nil {
		t.Fatal(err)
	}
	unbounded := new(Unbounded)
	if _, err := New(Options{Group: "/box", Layout: &l}); !errors.As(err, &unbounded) || !strings.Contains(err.Error(), "echo BYTES >") {
		t.Errorf("without a limit: %v", err)
	}
	if _, err := New(Options{Group: "/nobody", Layout: &l}); err == nil {
		t.Error("a group that is not there is defended")
	}
}

// Where its engine tells a group of one hierarchy alone, its first process tells that of the
// others; but not where the process of that number is in another container by now.
func TestPlaceByAProcessThatIsAnothers(t *testing.T) {
	b, err := New(Options{})
	if err != nil {
		t.Skip(err)
	}
	for _, h := range b.layout.Hierarchies {
		if h.Has("memory") || len(b.layout.Hierarchies) == 1 {
			continue
		}
		c := container.Container{Name: "gone", Cgroup: filepath.Join(h.Mount, "there-is-no-such-group"), PID: os.Getpid()}
		if _, err := b.Place(c); err == nil || !strings.Contains(err.Error(), "is not in "+c.Cgroup) {
			t.Errorf("by %s: %v", h.Mount, err)
		}
		// In the root of that hierarchy it is.
		c.Cgroup = h.Mount
		if _, err := b.Place(c); err != nil && strings.Contains(err.Error(), "is not in") {
			t.Errorf("by %s: %v", h.Mount, err)
		}
	}
}

// What lies elsewhere frees nothing of what is defended by leaving.
func TestWithin(t *testing.T) {
	l := two(t, "max")
	for path, want := range map[string]bool{"box": true, "box/pod": true, "box/pod/a": true, "box2/a": false, "other": false} {
		if err := os.MkdirAll(filepath.Join(l.Hierarchies[0].Mount, path), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, err := bounded(t, l, Options{Group: "/box"}).Within(at(l, path)); got != want || err != nil {
			t.Errorf("%s in /box: %v, %v, want %v", path, got, err, want)
		}
		if got, err := bounded(t, l, Options{}).Within(at(l, path)); !got || err != nil {
			t.Errorf("%s in the host: %v, %v", path, got, err)
		}
	}
	unplaced := new(Unplaced)
	rooted := container.Container{Name: "rooted", Cgroup: l.Hierarchies[0].Mount}
	if _, err := bounded(t, l, Options{Group: "/box"}).Within(rooted); !errors.As(err, &unplaced) {
		t.Errorf("in the root: %v", err)
	}
}

// A limit of swap of which half is used costs places as swap does that is half full.
func TestCrowded(t *testing.T) {
	for limit, want := range map[string]string{"max": "", "0": "", "20971521": "", "20971520": "/box", "10485760": "/box"} {
		l := two(t, limit)
		if got, err := bounded(t, l, Options{}).Crowded(at(l, "box/pod/a")); err != nil || got != want {
			t.Errorf("10 MiB are used of %s bytes: %q, %v, want %q", limit, got, err, want)
		}
	}
	l := two(t, "10485760") // its own comes before what it lies in
	if err := os.WriteFile(filepath.Join(l.Hierarchies[0].Mount, "box/pod/a/memory.swap.max"), []byte("8388608"), 0); err != nil {
		t.Fatal(err)
	}
	if got, err := bounded(t, l, Options{}).Crowded(at(l, "box/pod/a")); err != nil || got != "/box/pod/a" {
		t.Errorf("4 MiB are used of 8: %q, %v", got, err)
	}
	l = one(t)
	if got, err := bounded(t, l, Options{}).Crowded(at(l, "box/a")); err != nil || got != "" {
		t.Errorf("on version 1: %q, %v", got, err)
	}
}

func TestContainer(t *testing.T) {
	l := one(t)
	b := bounded(t, l, Options{})
	got, err := b.Container(at(l, "box/a"))
	want := Container{
		Group: "/box/a", Usage: 64 * mib, Anonymous: 32 * mib, Unmapped: 32 * mib, Swapped: mib,
		Limit: 128 * mib, Tightest: cgroup.Level{Path: "/box/a", Limit: 128 * mib, Usage: 64 * mib},
		SwapMost: 128 * mib, // of both together: it keeps no page from leaving
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("v1: %v\n%s", err, diff)
	}
	if most, fixed := b.Inspect(at(l, "box/a")); most != 128*mib || fixed != "" {
		t.Errorf("v1: %d, %q", most, fixed)
	}
	if room, limited := b.Room(at(l, "box/a")); room < 64*mib || room >= 128*mib || !limited {
		t.Errorf("v1: room for %d, limited %v: want what the limit leaves, and idle page cache", room, limited)
	}
	if err := os.WriteFile(filepath.Join(l.Hierarchies[0].Mount, "box/a/memory.limit_in_bytes"), []byte("9223372036854771712"), 0); err != nil {
		t.Fatal(err)
	}
	if _, limited := b.Room(at(l, "box/a")); !limited {
		t.Error("v1: its box's limit is none")
	}
	if room, limited := bounded(t, l, Options{Group: "/box"}).Room(at(l, "box/a")); limited {
		t.Errorf("v1: room for %d by the limit of what is defended, of which Memory tells", room)
	}
	if err := os.WriteFile(filepath.Join(l.Hierarchies[0].Mount, "box/a/memory.swappiness"), []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	if _, fixed := b.Inspect(at(l, "box/a")); !strings.Contains(fixed, "swappiness") || !strings.Contains(fixed, "echo 60 > ") {
		t.Errorf("v1 with a swappiness of 0: %q", fixed)
	}
	if _, fixed := b.Inspect(container.Container{Name: "rooted", Cgroup: l.Hierarchies[0].Mount}); !strings.Contains(fixed, "no control group of its own") {
		t.Errorf("in the root: %q", fixed)
	}

	for limit, most := range map[string]int64{"max": cgroup.NoBound, "20971520": 4*mib + 10*mib, "0": 4 * mib} {
		l := two(t, limit)
		b := bounded(t, l, Options{})
		got, err := b.Container(at(l, "box/pod/a"))
		if err != nil || got.SwapMost != most || got.Usage != 64*mib || got.Unmapped != 32*mib || got.Tightest.Path != "/box/pod/a" {
			t.Errorf("v2, swap.max of the box %s: %+v, %v", limit, got, err)
		}
		fixed := new(Fixed)
		if errors.As(got.Fixed, &fixed) != (limit == "0") {
			t.Errorf("v2, swap.max of the box %s: %v", limit, got.Fixed)
		}
		if limit == "0" && !strings.Contains(got.Fixed.Error(), "box/memory.swap.max") {
			t.Errorf("the mend names another group: %v", got.Fixed)
		}
		if most, reason := b.Inspect(at(l, "box/pod/a")); (reason != "") != (limit == "0") || limit == "max" && most != 0 {
			t.Errorf("v2, swap.max of the box %s: %d, %q", limit, most, reason)
		}
	}
	// Others have all of what may be had: that is little, and not any amount.
	l = two(t, "10485760")
	if err := os.WriteFile(filepath.Join(l.Hierarchies[0].Mount, "box/pod/a/memory.swap.current"), []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	if most, fixed := bounded(t, l, Options{}).Inspect(at(l, "box/pod/a")); most != 1 || fixed != "" {
		t.Errorf("nothing left: %d, %q", most, fixed)
	}
	// Version 2 without the controller handed down.
	l = tree(t, 2, map[string]string{"a/cgroup.procs": ""})
	if _, fixed := bounded(t, l, Options{}).Inspect(at(l, "a")); !strings.Contains(fixed, "subtree_control") {
		t.Errorf("without the controller: %q", fixed)
	}
}

func TestPressure(t *testing.T) {
	l := two(t, "max")
	b := bounded(t, l, Options{})
	p, err := b.Pressure(at(l, "box/pod/a"))
	if err != nil || p.Some.Microseconds() != 5 || p.Full.Microseconds() != 3 || p.At == 0 {
		t.Errorf("%+v, %v", p, err)
	}
	none := new(NoPressure)
	l = one(t)
	if _, err := bounded(t, l, Options{}).Pressure(at(l, "box/a")); !errors.As(err, &none) || !strings.Contains(err.Error(), "mount") {
		t.Errorf("without version 2: %v", err)
	}
	// In the version 2 tree it is with everybody.
	l.Hierarchies = append(l.Hierarchies, cgroup.Hierarchy{Version: 2, Mount: t.TempDir(), Root: "/"})
	if _, err := bounded(t, l, Options{}).Pressure(at(l, "box/a")); !errors.As(err, &none) {
		t.Errorf("in the root: %v", err)
	}
	var off *pressure.Off
	if err := os.Mkdir(filepath.Join(l.Hierarchies[1].Mount, "box"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(l.Hierarchies[1].Mount, "box/a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := bounded(t, l, Options{}).Pressure(at(l, "box/a")); !errors.As(err, &off) {
		t.Errorf("no pressure file: %v", err)
	}
}

// knobs remembers what was asked for.
type knobs struct {
	asked []string
	kept  map[string]string
	now   map[string]string // what is set while something is done
	err   error
}

func (k *knobs) While(_ context.Context, file, text string, do func() error) (guard.Outcome, error) {
	if k.err != nil {
		return guard.Outcome{}, k.err
	}
	name := filepath.Base(filepath.Dir(file)) + "/" + filepath.Base(file)
	k.now = map[string]string{name: text}
	defer func() { k.now = nil }()
	return guard.Outcome{}, do()
}

func (k *knobs) Momentarily(_ context.Context, file, text string) (guard.Outcome, error) {
	k.asked = append(k.asked, filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file)+"="+text)
	return guard.Outcome{}, k.err
}

func (k *knobs) Keep(_ context.Context, file, text string) error {
	if k.kept == nil {
		k.kept = map[string]string{}
	}
	k.kept[filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file)] = text
	return k.err
}

func (k *knobs) Restore(files ...string) ([]guard.Outcome, error) {
	if len(files) == 0 {
		k.kept = nil
	}
	for _, f := range files {
		delete(k.kept, filepath.Base(filepath.Dir(f))+"/"+filepath.Base(f))
	}
	return nil, k.err
}

func TestReclaimByTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		bytes int64
		usage string
		want  []string
		near  bool
	}{
		"less than has left": {10 * mib, "67108864", []string{"a/memory.limit_in_bytes=56623104"}, false},
		"as much as has left, but for the slack, in steps": {64 * mib, "67108864", []string{
			"a/memory.limit_in_bytes=50331648", "a/memory.limit_in_bytes=51380224", // 16 and 15 MiB below a usage that stays here
		}, false},
		"not worth it":           {worth - 1, "67108864", nil, false},
		"too near its own limit": {10 * mib, "130000000", nil, true},
	} {
		l := one(t)
		k := &knobs{}
		b := bounded(t, l, Options{Knobs: k})
		if err := os.WriteFile(filepath.Join(l.Hierarchies[0].Mount, "box/a/memory.usage_in_bytes"), []byte(c.usage), 0); err != nil {
			t.Fatal(err)
		}
		_, err := b.Reclaim(t.Context(), at(l, "box/a"), c.bytes)
		near := new(Near)
		if diff := cmp.Diff(c.want, k.asked); diff != "" || errors.As(err, &near) != c.near || !c.near && err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	l := one(t)
	if _, err := bounded(t, l, Options{}).Reclaim(t.Context(), at(l, "box/a"), mib); !errors.Is(err, ErrObserving) {
		t.Errorf("without a guard: %v", err)
	}
}

// What was reckoned with is no error; that a limit was not put back is one all the same.
func TestReclaimTellsWhatWasNotPutBack(t *testing.T) {
	low := errors.New("memory.limit_in_bytes holds 1 instead of 2: set it by hand")
	write := func(err error) error { return &os.PathError{Op: "write", Path: "memory.limit_in_bytes", Err: err} }
	for name, c := range map[string]struct{ err, want error }{
		"there is no more":               {write(syscall.EBUSY), nil},
		"time is up":                     {write(context.DeadlineExceeded), nil},
		"there is no more, and it stays": {errors.Join(write(syscall.EBUSY), low), low},
		"time is up, and it stays":       {errors.Join(write(context.DeadlineExceeded), low), low},
		"another error, and it stays":    {errors.Join(write(syscall.EIO), low), syscall.EIO},
	} {
		l := one(t)
		k := &knobs{err: c.err}
		b := bounded(t, l, Options{Knobs: k})
		_, err := b.Reclaim(t.Context(), at(l, "box/a"), 16*mib)
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if errors.Is(err, syscall.EBUSY) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v tells of what was reckoned with", name, err)
		}
		if a := b.Account(); (a.Refused > 0) != (c.want != nil) {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// swappiness tells how a knob was set while the limit was lowered.
type swappiness struct {
	knobs
	lowered int // how often
	while   string
}

func (k *swappiness) Momentarily(context.Context, string, string) (guard.Outcome, error) {
	k.lowered++
	k.while = k.now["a/memory.swappiness"]
	return guard.Outcome{}, k.err
}

// Page cache stays: for as long as it is reclaimed from, the container's anonymous
// memory is all that is taken. That is for a moment, as the lowered limit is: nothing is kept.
func TestReclaimSparesPageCache(t *testing.T) {
	for name, c := range map[string]struct{ cache, swappiness, want string }{
		"with page cache":   {"8388608", "60", "200"},
		"with next to none": {"4096", "60", ""},
		"spared already":    {"8388608", "200", ""},
	} {
		l := one(t)
		if err := os.WriteFile(filepath.Join(l.Hierarchies[0].Mount, "box/a/memory.swappiness"), []byte(c.swappiness), 0); err != nil {
			t.Fatal(err)
		}
		stat := filepath.Join(l.Hierarchies[0].Mount, "box/a/memory.stat")
		text, err := os.ReadFile(stat)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(stat, append(text, "total_active_file "+c.cache+"\n"...), 0); err != nil {
			t.Fatal(err)
		}
		k := &swappiness{}
		if _, err := bounded(t, l, Options{Knobs: k}).Reclaim(t.Context(), at(l, "box/a"), 16*mib); err != nil {
			t.Fatal(err)
		}
		if k.lowered == 0 || k.while != c.want || k.kept != nil {
			t.Errorf("%s: lowered %d times, at a swappiness of %q, want %q; %v was kept", name, k.lowered, k.while, c.want, k.kept)
		}
	}
}

func TestReclaimOnVersion2(t *testing.T) {
	l := two(t, "max")
	k := &knobs{}
	b := bounded(t, l, Options{Knobs: k})
	b.within = time.Minute // pieces are counted, which takes a slow machine longer than it may
	if freed, err := b.Reclaim(t.Context(), at(l, "box/pod/a"), 64*mib); err != nil || freed != 32*mib {
		t.Fatalf("%d bytes freed of 64 MiB of which 32 lie in memory still, and stay: want the other 32; %v", freed, err)
	}
	got, err := os.ReadFile(filepath.Join(l.Hierarchies[0].Mount, "box/pod/a/memory.reclaim"))
	if string(got) != "1048576 swappiness=max" || err != nil || len(k.asked) != 0 {
		t.Errorf("%q, %v, %v; want what has left in pieces, and no limit touched", got, err, k.asked)
	}
	if a := b.Account(); a.Reclaims != 1 || a.Asked != 31*mib {
		t.Errorf("%+v", a)
	}
	// Pages that get a place in swap were in use.
	for inUse, want := range map[int64]int{0: 1 + 6, piece / 8: 1 + 6, piece / 4: 1 + 2, piece: 1 + 1} {
		asked := 0
		b.slots = func(cgroup.Group, cgroup.Place) (int64, bool, error) { asked++; return int64(asked) * inUse, true, nil }
		if _, err := b.Reclaim(t.Context(), at(l, "box/pod/a"), 6*mib); err != nil || asked != want {
			t.Errorf("with %d bytes of each piece in use: %d pieces, %v; want %d", inUse, asked-1, err, want-1)
		}
	}
	// The kernel frees more than it is asked for: what is not there any more is not asked for.
	has := func(unmapped int64) {
		stat := fmt.Sprintf("anon 33554432\nswapcached %d\ninactive_anon %d\nactive_anon 0\nshmem 0", unmapped, 33554432+unmapped)
		if err := os.WriteFile(filepath.Join(l.Hierarchies[0].Mount, "box/pod/a/memory.stat"), []byte(stat), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for frees, want := range map[int64]int{piece: 31, 2 * piece: 16, 8 * piece: 4, 32 * piece: 1} {
		asked := 0
		has(32 * mib)
		b.slots = func(cgroup.Group, cgroup.Place) (int64, bool, error) {
			has(32*mib - int64(asked)*frees)
			asked++
			return 0, true, nil
		}
		if _, err := b.Reclaim(t.Context(), at(l, "box/pod/a"), 64*mib); err != nil || asked-1 != want {
			t.Errorf("where each piece frees %d bytes: %d pieces, %v; want %d", frees, asked-1, err, want)
		}
	}
	has(32 * mib)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := os.WriteFile(filepath.Join(l.Hierarchies[0].Mount, "box/pod/a/memory.reclaim"), nil, 0); err != nil {
		t.Fatal(err)
	}
	_, err = b.Reclaim(ended, at(l, "box/pod/a"), 64*mib)
	if got, reading := os.ReadFile(filepath.Join(l.Hierarchies[0].Mount, "box/pod/a/memory.reclaim")); !errors.Is(err, context.Canceled) || len(got) > 0 || reading != nil {
		t.Errorf("with a context that has ended: %v, %q is asked for (%v)", err, got, reading)
	}
}

func TestProtectOnVersion1(t *testing.T) {
	l := one(t)
	k := &knobs{}
	b := bounded(t, l, Options{Knobs: k})
	for range 2 {
		if err := b.Protect(at(l, "box/b")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"b/memory.swappiness": "0", "c/memory.swappiness": "0"}, k.kept); diff != "" {
			t.Error(diff)
		}
	}
	if err := b.Unprotect(at(l, "box/b")); err != nil || len(k.kept) != 0 {
		t.Errorf("%v, %v", err, k.kept)
	}
	if err := bounded(t, l, Options{}).Protect(at(l, "box/b")); !errors.Is(err, ErrObserving) {
		t.Errorf("without a guard: %v", err)
	}
}

// Two containers of one id, as of two engines, are two: what is put back of one leaves the other's.
func TestProtectTwoOfOneID(t *testing.T) {
	l := one(t)
	k := &knobs{}
	b := bounded(t, l, Options{Knobs: k})
	first, second := at(l, "box/a"), at(l, "box/b")
	first.ID, second.ID = "same", "same"
	if err := errors.Join(b.Protect(first), b.Protect(second), b.Protect(first), b.Unprotect(first)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"b/memory.swappiness": "0", "c/memory.swappiness": "0"}, k.kept); diff != "" {
		t.Error(diff)
	}
	if err := b.Unprotect(second); err != nil || len(k.kept) != 0 {
		t.Errorf("%v, %v", err, k.kept)
	}
}

// Of a group below a critical one that has gone nothing is kept.
func TestProtectForgetsGroupsThatAreGone(t *testing.T) {
	l := one(t)
	k := &knobs{}
	b := bounded(t, l, Options{Knobs: k})
	for _, want := range []map[string]string{
		{"b/memory.swappiness": "0", "c/memory.swappiness": "0"},
		{"b/memory.swappiness": "0"},
	} {
		if err := b.Protect(at(l, "box/b")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, k.kept); diff != "" {
			t.Error(diff)
		}
		if err := os.RemoveAll(filepath.Join(l.Hierarchies[0].Mount, "box/b/c")); err != nil {
			t.Fatal(err)
		}
	}
}

// The best that the kernel knows is found by trying, once.
func TestSwappinessIsFoundByTrying(t *testing.T) {
	for knows, want := range map[string][]string{
		"max 200": {"1 swappiness=max", "1 swappiness=max"},
		"200":     {"1 swappiness=max", "1 swappiness=200", "1 swappiness=200"},
		"":        {"1 swappiness=max", "1 swappiness=200", "1", "1"},
	} {
		b, asked := &Bound{}, []string(nil)
		kernel := func(text string) error {
			asked = append(asked, text)
			if _, word, has := strings.Cut(text, "swappiness="); has && !slices.Contains(strings.Fields(knows), word) {
				return syscall.EINVAL
			}
			return nil
		}
		for range 2 {
			if err := b.askFor(kernel, 1); err != nil {
				t.Errorf("%q: %v", knows, err)
			}
		}
		if !slices.Equal(asked, want) {
			t.Errorf("a kernel that knows %q is asked %q, want %q", knows, asked, want)
		}
	}
	b := &Bound{}
	if err := b.askFor(func(string) error { return syscall.EINVAL }, 1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("one that refuses all: %v", err)
	}
}

// Where page cache goes in place of what has left, that is told, and no more is asked for.
func TestReclaimThatTakesPageCache(t *testing.T) {
	l := two(t, "max")
	b := bounded(t, l, Options{Knobs: &knobs{}})
	b.within = time.Minute
	for takes, stops := range map[int64]bool{0: false, piece / 16: false, piece: true} {
		asked := 0
		has := func() {
			set(t, l, "box/pod/a/memory.stat", fmt.Sprintf("anon 33554432\nfile %d\nactive_file %[1]d\ninactive_file 0\nswapcached 33554432\ninactive_anon 67108864\nactive_anon 0\nshmem 0", 64*mib-int64(asked)*takes))
		}
		has()
		b.slots = func(cgroup.Group, cgroup.Place) (int64, bool, error) {
			has()
			asked++
			return 0, true, nil
		}
		_, err := b.Reclaim(t.Context(), at(l, "box/pod/a"), 8*mib)
		taken := new(CacheTaken)
		if errors.As(err, &taken) != stops || (asked-1 < 8) != stops || stops && taken.Bytes < piece {
			t.Errorf("%d bytes of cache for each piece: %v after %d pieces", takes, err, asked-1)
		}
	}
}

// On version 2 the groups above, below what is defended, are given what those below them
// have together.
func TestProtectOnVersion2(t *testing.T) {
	l := two(t, "max")
	other := filepath.Join(l.Hierarchies[0].Mount, "box/pod/b")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"memory.current": "4194304", "memory.max": "max", "memory.low": "0"} {
		if err := os.WriteFile(filepath.Join(other, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k := &knobs{}
	b := bounded(t, l, Options{Group: "/box", Knobs: k})
	if err := errors.Join(b.Protect(at(l, "box/pod/a")), b.Protect(at(l, "box/pod/b"))); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a/memory.low": "71303168", "b/memory.low": "8388608", "pod/memory.low": "79691776"}
	if diff := cmp.Diff(want, k.kept); diff != "" {
		t.Error(diff)
	}
	if err := b.Unprotect(at(l, "box/pod/a")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"b/memory.low": "8388608", "pod/memory.low": "8388608"}, k.kept); diff != "" {
		t.Error(diff)
	}
	if err := b.Release(); err != nil || len(k.kept) != 0 {
		t.Errorf("%v, %v", err, k.kept)
	}
}

// A group above two critical ones that goes with them is not missed.
func TestUnprotectWhereTheGroupAboveIsGone(t *testing.T) {
	l := two(t, "max")
	pod := filepath.Join(l.Hierarchies[0].Mount, "box/pod")
	if err := os.Mkdir(filepath.Join(pod, "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"memory.current": "4194304", "memory.max": "max", "memory.low": "0"} {
		set(t, l, "box/pod/b/"+name, text)
	}
	b := bounded(t, l, Options{Group: "/box", Knobs: &knobs{}})
	first, second := at(l, "box/pod/a"), at(l, "box/pod/b")
	if err := errors.Join(b.Protect(first), b.Protect(second), os.RemoveAll(pod)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Unprotect(first), b.Unprotect(second)); err != nil {
		t.Error(err)
	}
}

// set writes a knob of a tree, as somebody else would.
func set(t *testing.T, l cgroup.Layout, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(l.Hierarchies[0].Mount, name), []byte(text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What was protected on version 2 before is protected still, of the container and of the others
// in the groups above it, and is put back as it was found first.
func TestProtectNeverLowers(t *testing.T) {
	const own, pod = "box/pod/a/memory.low", "box/pod/memory.low"
	for name, c := range map[string]struct {
		own, pod           string
		keptOwn, keptPod   string // with 64 MiB in use
		grownOwn, grownPod string // with 128
	}{
		"none":                      {"0", "0", "71303168", "71303168", "142606336", "142606336"},
		"all":                       {"max", "max", "max", "max", "max", "max"},
		"more":                      {"2147483648", "4294967296", "2147483648", "4366270464", "2147483648", "4437573632"},
		"less":                      {"4194304", "1048576", "71303168", "72351744", "142606336", "143654912"},
		"enough until it has grown": {"104857600", "104857600", "104857600", "176160768", "142606336", "247463936"},
	} {
		l := two(t, "max")
		root := l.Hierarchies[0].Mount
		set(t, l, own, c.own)
		set(t, l, pod, c.pod)
		knobs := guarded(t, root)
		b := bounded(t, l, Options{Group: "/box", Knobs: knobs})
		for _, grown := range []bool{false, false, true, true, false} {
			current, wantOwn, wantPod := "67108864", c.keptOwn, c.keptPod
			if grown {
				current, wantOwn, wantPod = "134217728", c.grownOwn, c.grownPod
			}
			set(t, l, "box/pod/a/memory.current", current)
			if err := b.Protect(at(l, "box/pod/a")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if gotOwn, gotPod := contents(t, filepath.Join(root, own)), contents(t, filepath.Join(root, pod)); gotOwn != wantOwn || gotPod != wantPod {
				t.Errorf("%s, with %s in use: %s, and %s above; want %s and %s", name, current, gotOwn, gotPod, wantOwn, wantPod)
			}
		}
		if err := b.Unprotect(at(l, "box/pod/a")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		holds(t, filepath.Join(root, own), c.own)
		holds(t, filepath.Join(root, pod), c.pod)
		if open := knobs.Open(); len(open) != 0 || len(b.lows) != 0 {
			t.Errorf("%s: %+v is open, and %v remembered", name, open, b.lows)
		}
	}
}

// What somebody else sets while a container is protected is his, also where nothing was written
// since there was enough. Of the groups above that is no error.
func TestProtectLeavesWhatOthersSet(t *testing.T) {
	const own, pod, theirs = "box/pod/a/memory.low", "box/pod/memory.low", "1048576"
	for _, found := range []string{"0", "max"} {
		l := two(t, "max")
		root := l.Hierarchies[0].Mount
		if err := os.Mkdir(filepath.Join(root, "box/pod/b"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"memory.current": "4194304", "memory.max": "max", "memory.low": "0"} {
			set(t, l, "box/pod/b/"+name, text)
		}
		set(t, l, own, found)
		set(t, l, pod, found)
		b := bounded(t, l, Options{Group: "/box", Knobs: guarded(t, root)})
		if err := errors.Join(b.Protect(at(l, "box/pod/a")), b.Protect(at(l, "box/pod/b"))); err != nil {
			t.Fatal(err)
		}
		set(t, l, own, theirs)
		set(t, l, pod, theirs)
		changed := new(guard.Changed)
		for range 2 {
			if err := b.Protect(at(l, "box/pod/a")); !errors.As(err, &changed) || changed.File != filepath.Join(root, own) {
				t.Errorf("%s was found: %v", found, err)
			}
		}
		if err := errors.Join(b.Protect(at(l, "box/pod/b")), b.Unprotect(at(l, "box/pod/a")), b.Release()); err != nil {
			t.Errorf("%s was found: %v", found, err)
		}
		holds(t, filepath.Join(root, own), theirs)
		holds(t, filepath.Join(root, pod), theirs)
		holds(t, filepath.Join(root, "box/pod/b/memory.low"), "0")
	}
}

// systemd that is reloaded sets back what it owns, which is protected again, and put back in the end.
// Whatever else somebody sets stays.
func TestProtectWhatSystemdSetsBack(t *testing.T) {
	const own, pod = "box/pod/a/memory.low", "box/pod/memory.low"
	units := func(low, group string) func(context.Context, string) (Unit, error) {
		return func(_ context.Context, name string) (Unit, error) {
			if name == "pod" {
				return Unit{"/box/pod", "0"}, nil
			}
			return Unit{group, low}, nil
		}
	}
	for name, c := range map[string]struct {
		found, set string
		unit       func(context.Context, string) (Unit, error)
		kept       bool
	}{
		"reload":               {"0", "0", units("0", "/box/pod/a"), true},
		"of all":               {"67108864", "67108864", units("67109000", "/box/pod/a"), true},
		"another's group":      {"0", "0", units("0", "/elsewhere/a"), false},
		"another wish":         {"0", "0", units("8388608", "/box/pod/a"), false},
		"everything":           {"0", "0", units("infinity", "/box/pod/a"), false},
		"another value":        {"0", "4096", units("4096", "/box/pod/a"), false},
		"no systemd":           {"0", "0", nil, false},
		"systemd that hangs":   {"0", "0", func(context.Context, string) (Unit, error) { return Unit{}, context.DeadlineExceeded }, false},
		"what is not a number": {"0", "0", units("[not set]", "/box/pod/a"), false},
	} {
		l := two(t, "max")
		root := l.Hierarchies[0].Mount
		set(t, l, own, c.found)
		knobs := guarded(t, root)
		b := bounded(t, l, Options{Group: "/box", Knobs: knobs, Unit: c.unit})
		for range 3 {
			if err := b.Protect(at(l, "box/pod/a")); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			set(t, l, own, c.set)
			set(t, l, pod, "0")
			changed := new(guard.Changed)
			if err := b.Protect(at(l, "box/pod/a")); errors.As(err, &changed) == c.kept || err != nil && c.kept {
				t.Errorf("%s: %v", name, err)
			}
			if !c.kept {
				break
			}
			holds(t, filepath.Join(root, own), "71303168")
			holds(t, filepath.Join(root, pod), "71303168")
			if open := knobs.Open(); len(open) != 2 {
				t.Errorf("%s: open are %+v", name, open)
			}
		}
		if err := errors.Join(b.Unprotect(at(l, "box/pod/a")), b.Release()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		holds(t, filepath.Join(root, own), c.set)
	}
}

// That systemd does not answer is said, and others' settings do not wait for it each time.
func TestSystemdThatDoesNotAnswer(t *testing.T) {
	const own = "box/pod/a/memory.low"
	l := two(t, "max")
	set(t, l, own, "0")
	asked := 0
	unit := func(context.Context, string) (Unit, error) {
		asked++
		return Unit{}, errors.New("no answer")
	}
	b := bounded(t, l, Options{Group: "/box", Knobs: guarded(t, l.Hierarchies[0].Mount), Unit: unit})
	if err := b.Protect(at(l, "box/pod/a")); err != nil {
		t.Fatal(err)
	}
	set(t, l, own, "0")
	for range 3 {
		changed := new(guard.Changed)
		if err := b.Protect(at(l, "box/pod/a")); !errors.As(err, &changed) || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("it is protected: %v", err)
		}
	}
	if asked != 1 {
		t.Errorf("systemd was asked %d times", asked)
	}
	b.silentSince = time.Time{} // later
	if err := b.Protect(at(l, "box/pod/a")); err == nil || asked != 2 {
		t.Errorf("systemd was asked %d times: %v", asked, err)
	}
}

// While systemd takes its time the account, which the status asks for, is to be had.
func TestSystemdKeepsNobodyWaiting(t *testing.T) {
	const own = "box/pod/a/memory.low"
	l := two(t, "max")
	set(t, l, own, "0")
	asked, answer := make(chan struct{}), make(chan struct{})
	unit := func(context.Context, string) (Unit, error) {
		close(asked)
		<-answer
		return Unit{"/box/pod/a", "0"}, nil
	}
	b := bounded(t, l, Options{Group: "/box", Knobs: guarded(t, l.Hierarchies[0].Mount), Unit: unit})
	if err := b.Protect(at(l, "box/pod/a")); err != nil {
		t.Fatal(err)
	}
	set(t, l, own, "0")
	ended := make(chan error, 1)
	go func() { ended <- b.Protect(at(l, "box/pod/a")) }()
	<-asked
	accounted := make(chan struct{})
	go func() { b.Account(); close(accounted) }()
	select {
	case <-accounted:
	case <-time.After(10 * time.Second):
		t.Error("the account is not to be had while systemd is asked")
	}
	close(answer)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-accounted
}

// What was written last is known as that, until somebody else sets something, or it is put back.
func TestOwnProtection(t *testing.T) {
	const own, pod = "box/pod/a/memory.low", "box/pod/memory.low"
	l := two(t, "max")
	root := l.Hierarchies[0].Mount
	b := bounded(t, l, Options{Group: "/box", Knobs: guarded(t, root)})
	owns := func(want bool, when string) {
		t.Helper()
		for _, file := range []string{own, pod} {
			if b.IsOwn(filepath.Join(root, file)) != want {
				t.Errorf("%s: %s is its own: %t", when, file, !want)
			}
		}
	}
	owns(false, "at first")
	if err := b.Protect(at(l, "box/pod/a")); err != nil {
		t.Fatal(err)
	}
	owns(true, "protected")
	for _, file := range []string{own, pod} {
		set(t, l, file, "0")
	}
	owns(false, "set by somebody else")
	if err := b.Protect(at(l, "box/pod/a")); err == nil {
		t.Fatal("protected again, though somebody else has set it back")
	}
	owns(false, "left alone")
	if err := b.Release(); err != nil {
		t.Fatal(err)
	}
	owns(false, "put back")
}

// What a group had is not what one has that is made under its name.
func TestProtectAGroupThatIsMadeAgain(t *testing.T) {
	l := two(t, "max")
	root := l.Hierarchies[0].Mount
	set(t, l, "box/pod/a/memory.low", "max")
	b := bounded(t, l, Options{Group: "/box", Knobs: guarded(t, root)})
	if err := b.Protect(at(l, "box/pod/a")); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "box/pod/a")
	if err := os.Rename(dir, filepath.Join(root, "gone")); err != nil { // so that its number is not given again
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	set(t, l, "box/pod/a/memory.current", "67108864")
	set(t, l, "box/pod/a/memory.low", "0")
	if err := b.Protect(at(l, "box/pod/a")); err != nil {
		t.Fatal(err)
	}
	holds(t, filepath.Join(dir, "memory.low"), "71303168")
}

// What could not be put back holds what was kept, which is not taken for what was found.
func TestProtectRemembersWhatIsNotPutBack(t *testing.T) {
	l := two(t, "max")
	file := filepath.Join(l.Hierarchies[0].Mount, "box/pod/a/memory.low")
	k := &failing{}
	b := bounded(t, l, Options{Group: "/box", Knobs: k})
	if err := b.Protect(at(l, "box/pod/a")); err != nil {
		t.Fatal(err)
	}
	for _, ending := range []guard.Ending{guard.Failed, guard.Restored} {
		k.outcomes = []guard.Outcome{{Entry: guard.Entry{File: file}, Ending: ending}}
		if err := b.Release(); err != nil {
			t.Fatal(err)
		}
		if _, remembered := b.lows[file]; remembered != (ending == guard.Failed) {
			t.Errorf("%s: remembered %t", ending, remembered)
		}
	}
}

// failing says what became of what is put back.
type failing struct {
	knobs
	outcomes []guard.Outcome
}

func (k *failing) Restore(...string) ([]guard.Outcome, error) { return k.outcomes, nil }

func FuzzParseMeminfo(f *testing.F) {
	f.Add("MemTotal:       4194304 kB\nMemAvailable:    524288 kB\n")
	f.Add("MemTotal: -1 kB\nMemAvailable: 99999999999999999999 kB\n")
	f.Fuzz(func(t *testing.T, text string) {
		total, available, err := parseMeminfo(strings.NewReader(text))
		if total < 0 || available < 0 || err != nil && total+available != 0 {
			t.Errorf("%d, %d, %v", total, available, err)
		}
	})
}

// stuckKnobs wait for a device, and hear of no context.
type stuckKnobs struct {
	knobs
	answers chan struct{}
}

func (k *stuckKnobs) Momentarily(context.Context, string, string) (guard.Outcome, error) {
	<-k.answers
	return guard.Outcome{}, syscall.EBUSY
}

// A device that does not answer holds nobody up but the thread that waits for it.
func TestReclaimIsStuck(t *testing.T) {
	l := one(t)
	k := &stuckKnobs{answers: make(chan struct{})}
	b := bounded(t, l, Options{Knobs: k})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stuck := new(Stuck)
	if _, err := b.Reclaim(ctx, at(l, "box/a"), 16*mib); !errors.As(err, &stuck) || b.Account().Stuck != 1 {
		t.Errorf("%v, %+v", err, b.Account())
	}
	// Another is not begun meanwhile.
	if _, err := b.Reclaim(ctx, at(l, "box/a"), 16*mib); !errors.As(err, &stuck) || b.Account().Stuck != 1 {
		t.Errorf("again: %v, %+v", err, b.Account())
	}
	close(k.answers)
	for end := time.Now().Add(time.Minute); b.Account().Stuck != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it counts as stuck a minute after the answer")
		}
	}
}
