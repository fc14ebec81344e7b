package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
	"tare/kernel/swap"
)

// Each area has the bounds of its own tier, and an account of its own.
func TestTiers(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	set := func(used string, out string) {
		put(t, root, "proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/first file 1024 "+used+" 2\n/second file 1024 0 1\n")
		put(t, root, "proc/vmstat", "pswpout "+out+"\n")
	}
	set("0", "1000")
	c := config.Config{Tiers: []config.Tier{{Area: "/second", WriteRate: 1 << 20, WriteDaily: 64 << 20}}}
	a := &areas{host: swap.Host{Root: root}}
	tiers := newTiers(a.host, a, dir, func() config.Config { return c })
	if err := tiers.open(); err != nil {
		t.Fatal(err)
	}
	anew := func() {
		a.at = time.Time{}
		if err := tiers.close(); err != nil { // which asks what was written
			t.Fatal(err)
		}
	}
	want := func(first, second int64) {
		t.Helper()
		all := tiers.status()
		if len(all) != 2 || all[0].WrittenTodayBytes != first*annex.PageSize || all[0].DailyBytes != 0 || all[1].WrittenTodayBytes != second*annex.PageSize || all[1].DailyBytes != c.Tiers[0].WriteDaily || all[1].RateBytesPerSecond != 1<<20 {
			t.Errorf("%+v, want %d and %d pages written, and a bound of the second alone", all, first, second)
		}
	}
	want(0, 0)
	set("0", "1010")
	anew()
	want(10, 0)
	if name := a.Filling().Name(); name != "/first" {
		t.Errorf("%s is being filled", name)
	}
	set("1024", "1030") // the first is full
	anew()
	want(10, 20)
	if name := a.Filling().Name(); name != "/second" {
		t.Errorf("%s is being filled", name)
	}
	c.Tiers[0].WriteDaily = 32 << 20
	tiers.set(c)
	want(10, 20)
	for _, name := range []string{"written-%2Ffirst", "written-%2Fsecond"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	again := newTiers(a.host, a, dir, func() config.Config { return c })
	if all := again.status(); len(all) != 2 || all[1].WrittenTodayBytes != 20*annex.PageSize {
		t.Errorf("started anew: %+v", all)
	}
	if err := newTiers(a.host, a, filepath.Join(dir, "none"), func() config.Config { return c }).open(); err == nil || !strings.Contains(err.Error(), "/first") {
		t.Errorf("an account that cannot be kept: %v", err)
	}
}

func TestSpent(t *testing.T) {
	all := spent([]control.Tier{{Area: "/a", WrittenTodayBytes: 5 << 30}, {Area: "/b", WrittenTodayBytes: 9 << 20, DailyBytes: 10 << 20}, {Area: "/c", WrittenTodayBytes: 10<<20 - 4096, DailyBytes: 10 << 20}})
	if len(all) != 1 || !strings.HasPrefix(all[0], "/c: ") {
		t.Errorf("%q, want the third", all)
	}
}
