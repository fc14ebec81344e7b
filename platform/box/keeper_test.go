package box

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/kernel/process"
	"tare/kernel/swap"
	"tare/platform"
)

// While this program goes ahead of others, its keepers do not: what they do is in the
// stead of the kernel, which goes before nobody.
func TestTheKeeperStaysOrdinary(t *testing.T) {
	_, restore, err := process.Ahead()
	if err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := restore(); err != nil {
			t.Error(err)
		}
	}()
	ordinary := func() int {
		threads, err := process.Threads(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, tid := range threads {
			class, err := process.ClassOf(tid)
			if err == nil && !class.RealTime() {
				n++
			}
		}
		return n
	}
	// Threads that are born meanwhile are ordinary for a moment: all but the keepers' are
	// put ahead, so that in the end as many stay as there are keepers.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	awaitOrdinary := func(want int) {
		t.Helper()
		for ordinary() != want {
			select {
			case <-ctx.Done():
				t.Fatalf("%d threads of this program are ordinary, want %d", ordinary(), want)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	// The first thread of a Go program never ends: where another test's keeper came to its
	// end on that, it is parked for good, and stays as that left it.
	left := 0
	if class, err := process.ClassOf(os.Getpid()); err != nil {
		t.Fatal(err)
	} else if !class.RealTime() {
		left = 1
	}
	awaitOrdinary(left)
	s := plain
	s.Swap = platform.SwapNone
	k := keep(fakeBox(t, 2, s, nil))
	defer k.end()
	// By then the program has been swept for threads that are not ahead, some times.
	select {
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	case <-time.After(watchEvery):
	}
	awaitOrdinary(left + 1)
}

// What could not be done once is reported by every reading from then on.
func TestTheFirstErrorIsKept(t *testing.T) {
	first := errors.New("the first")
	k := &keeper{}
	for _, err := range []error{nil, first, nil, errors.New("the second")} {
		k.failing(err)
	}
	if got := k.failed(); got != first {
		t.Errorf("%v, want the first", got)
	}
}

// A group of an instance's is protected whenever the keeper looks, which is soon.
func TestGroupsThatComeAreProtectedSoon(t *testing.T) {
	s := plain
	s.Swap, s.Protect = platform.SwapNone, platform.ProtectSwappiness
	b := fakeBox(t, 2, s, map[string]string{"critical/app/memory.low": ""})
	k := &keeper{box: b, limit: s.Memory, idle: -1}
	if err := k.tend(time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if got, want := b.holds(t, "critical/app/memory.low"), strconv.FormatInt(s.Memory, 10); got != want {
		t.Errorf("memory.low of an instance's group is %q, want %s", got, want)
	}
	if got := k.pause(); got != followEvery {
		t.Errorf("the keeper looks every %v, want %v", got, followEvery)
	}
	b.spec.Protect = platform.ProtectNone
	if got := k.pause(); got != watchEvery {
		t.Errorf("with nothing to do it looks every %v, want %v", got, watchEvery)
	}
}

// pooled is a box over a tree of files whose zram device holds so much.
func pooled(t *testing.T, version int, s platform.BoxSpec, files map[string]string) (b *madeBox, hold func(bytes int64)) {
	t.Helper()
	b = fakeBox(t, version, s, files)
	b.ground.root = t.TempDir()
	b.ground.swap.Root = b.ground.root
	b.area.zram = &swap.ZRAM{Size: s.SwapSize}
	stat := filepath.Join(b.ground.root, "sys/block/zram0/mm_stat")
	if err := os.MkdirAll(filepath.Dir(stat), 0o755); err != nil {
		t.Fatal(err)
	}
	return b, func(bytes int64) {
		text := "0 0 " + strconv.FormatInt(bytes, 10) + " 0 0 0 0\n"
		if err := os.WriteFile(stat, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The pool is taken from the idle class' own limit as well: what is kept for the
// critical class stays so.
func TestTheIdleLimitFollowsThePool(t *testing.T) {
	s := plain
	s.Memory, s.Reserve, s.Swap, s.Protect = 256<<20, 64<<20, platform.SwapZRAM, platform.ProtectLimit
	for version, file := range map[int]string{1: "memory.limit_in_bytes", 2: "memory.max"} {
		b, hold := pooled(t, version, s, map[string]string{
			"memory.current": "0", "idle/memory.current": "0", file: "", "idle/" + file: "",
		})
		k := &keeper{box: b, limit: s.Memory, idle: b.idleLimit(s.Memory)}
		for _, c := range []struct{ pool, box, idle int64 }{{10, 246, 182}, {40, 230, 166}, {40, 216, 152}, {0, 256, 192}} {
			hold(c.pool << 20)
			if err := k.follow(time.Unix(0, 0)); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]int64{file: c.box, "idle/" + file: c.idle} {
				if got := b.holds(t, name); got != strconv.FormatInt(want<<20, 10) {
					t.Errorf("v%d, with a pool of %d MiB: %s is %s, want %d MiB", version, c.pool, name, got, want)
				}
			}
		}
	}
}

// A limit that the kernel does not get to is tried again, and refused in the end: the box
// has more memory then than was asked for.
func TestALimitThatDoesNotFollow(t *testing.T) {
	s := plain
	s.Memory, s.Swap = 256<<20, platform.SwapZRAM
	b, hold := pooled(t, 2, s, map[string]string{"memory.current": "268435456", "memory.reclaim": "", "memory.max": ""})
	k := &keeper{box: b, limit: s.Memory, idle: -1}
	hold(64 << 20)
	began := time.Unix(1000, 0)
	for _, after := range []time.Duration{0, followWithin / 2} {
		if err := k.follow(began.Add(after)); err != nil {
			t.Errorf("after %v: %v", after, err)
		}
	}
	if err := k.follow(began.Add(followWithin)); err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("%v, want that the pool of 64 MiB is not made up for", err)
	}
	if got := b.holds(t, "memory.max"); got != "" {
		t.Errorf("its limit was set to %s, below what it holds", got)
	}
}
