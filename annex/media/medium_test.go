package media

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"tare/annex"
	"tare/kernel/swap"
)

// host is a tree that says what a kernel would.
func host(t *testing.T, files map[string]string) swap.Host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return swap.Host{Root: root}
}

const head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"

func TestInUse(t *testing.T) {
	h := host(t, map[string]string{"proc/swaps": head +
		"/swap/file file 1000 400 -2\n/dev/zram3 partition 2000 2000 100\n/dev/sdb2 partition 3000 0 5\n/dev/zramen partition 10 0 1\n"})
	all, err := InUse(h)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		name string
		kind Kind
		free int64
	}{{"/dev/zram3", ZRAM, 0}, {"/dev/sdb2", Device, 3000 << 10}, {"/dev/zramen", Device, 10 << 10}, {"/swap/file", File, 600 << 10}} {
		m := all[i]
		if room, err := m.Room(); m.Name() != want.name || m.Kind() != want.kind || room.Free != want.free || err != nil {
			t.Errorf("medium %d is %s, of kind %s, with %+v (%v)", i, m.Name(), m.Kind(), room, err)
		}
		if traits := m.Traits(); traits.Chunk < 32 || traits.Chunk > 64 || traits.Wears == (want.kind == ZRAM) {
			t.Errorf("%s: %+v", m.Name(), traits)
		}
	}
	together := Together(all)
	if room, err := together.Room(); room != (Room{6010 << 10, 3610 << 10}) || err != nil {
		t.Errorf("together they have %+v (%v)", room, err)
	}
	// zram is full, and the disk comes next.
	if traits := together.Traits(); together.Kind() != Device || traits.Chunk != 64 || traits.Gap != 2 || !traits.Wears {
		t.Errorf("%s: %+v", together.Kind(), traits)
	}
	var not *NotInUse
	gone := Of(h, swap.Area{Path: "/elsewhere"})
	if room, err := append(Together{gone}, all...).Room(); room.Size != 6010<<10 || err != nil {
		t.Errorf("with one that is out of use they have %+v (%v)", room, err)
	}
	if _, err := (Together{gone}).Room(); !errors.As(err, &not) {
		t.Errorf("none in use: %v", err)
	}
	if _, err := gone.Room(); !errors.As(err, &not) {
		t.Errorf("not in use: %v", err)
	}
}

func TestCounters(t *testing.T) {
	// A file here is on some device, whose number the tree is given.
	path := filepath.Join(t.TempDir(), "swap")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	on, err := swap.Host{}.Below(path)
	if err != nil {
		t.Skip(err)
	}
	h := host(t, map[string]string{
		fmt.Sprintf("sys/dev/block/%s/stat", on):     "1 0 80 0 2 0 160 0 0 0 0",
		fmt.Sprintf("sys/dev/block/%s/inflight", on): "5 7",
		"sys/block/zram0/mm_stat":                    "1 2 300 0 0 0 0",
	})
	file := Of(h, swap.Area{Path: path, File: true})
	if c, err := file.Counters(); c != (Counters{Written: 160 * 512, Read: 80 * 512}) || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if n, err := file.Reading(); n != 5 || err != nil {
		t.Errorf("%d reads wait, %v", n, err)
	}
	packed := compressed{&area{host: h, path: path, kind: ZRAM}, swap.ZRAM{}}
	if c, err := packed.Counters(); c != (Counters{Written: 160 * 512, Read: 80 * 512, Held: 300}) || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
	both := Together{file, packed}
	if c, err := both.Counters(); c != (Counters{Written: 320 * 512, Read: 160 * 512, Held: 300}) || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if n, err := both.Reading(); n != 5 || err != nil {
		t.Errorf("%d reads wait, %v", n, err)
	}
	var none *swap.NoDevice
	if _, err := Of(swap.Host{Root: t.TempDir()}, swap.Area{Path: path, File: true}).Counters(); !errors.As(err, &none) {
		t.Errorf("of no device: %v", err)
	}
}

// What is written is counted for the medium that is being filled.
func TestBudgetOfTheMediumThatIsFilled(t *testing.T) {
	quick, slow := roomy(), roomy()
	quick.name, slow.name = "quick", "slow"
	budgets := map[string]*Budget{"slow": newBudget(t, BudgetOptions{})}
	f := newSpace(8, presentEntry)
	k := on(t, Options{Medium: Together{quick, slow}, Budgets: func(name string) *Budget { return budgets[name] }}, map[annex.Space]*fakeSpace{one: f})
	for _, c := range []struct {
		first, want int
	}{{0, 0}, {4, 4}} {
		if r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: []annex.Run{run(one, c.first, 4)}}); r.Moved != 4 || r.Err != nil {
			t.Errorf("%+v", r)
		}
		if s := budgets["slow"].State(); s.Written != int64(c.want)*annex.PageSize {
			t.Errorf("%+v, want %d pages", s, c.want)
		}
		quick.room.Free = 0
	}
}
