package swap

import (
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"testing"
)

func TestSetAndRestore(t *testing.T) {
	s := fake(t, map[string]string{"proc/sys/vm/page-cluster": "3\n"}).PageCluster()
	holds := func(want string) {
		t.Helper()
		if have, err := s.Read(); have != want || err != nil {
			t.Errorf("holds %q (%v), want %q", have, err, want)
		}
	}
	restore, err := s.Set("0")
	if err != nil {
		t.Fatal(err)
	}
	holds("0")
	for range 2 { // a second time does nothing
		if err := restore(); err != nil {
			t.Error(err)
		}
		holds("3")
	}
	if restore, err = s.Set("0"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.File, []byte("5"), 0o644); err != nil {
		t.Fatal(err)
	}
	var foreign *Foreign
	if err := restore(); !errors.As(err, &foreign) || foreign.Have != "5" {
		t.Errorf("over what somebody else set: %v", err)
	}
	holds("5")
	// As it is already: what puts it back changes nothing either.
	if restore, err = s.Set("5"); err != nil {
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Error(err)
	}
	holds("5")
}

// Another program undoes what this one wrote down, wherever it was stopped.
func TestChangeWrittenDown(t *testing.T) {
	h := fake(t, map[string]string{"proc/sys/vm/page-cluster": "3\n"})
	c, err := h.PageCluster().Change("0")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var read Change
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	for _, made := range []bool{false, true} {
		if made {
			if err := c.Make(); err != nil {
				t.Fatal(err)
			}
		}
		if c.Made() != made {
			t.Errorf("made: %v, want %v", c.Made(), made)
		}
		if err := h.Check(read); err != nil {
			t.Error(err)
		}
		if err := read.Undo(); err != nil {
			t.Error(err)
		}
		if have, err := h.PageCluster().Read(); have != "3" || err != nil {
			t.Errorf("holds %q, %v", have, err)
		}
	}
	if err := os.Remove(c.File); err != nil {
		t.Fatal(err)
	}
	if err := read.Undo(); err != nil {
		t.Errorf("of a setting that is gone: %v", err)
	}
	for _, file := range []string{"/etc/passwd", h.path("proc/sys/vm/../kernel/core_pattern"), ""} {
		if err := h.Check(Change{File: file}); err == nil {
			t.Errorf("%q is taken for a setting", file)
		}
	}
}

func TestChangeZswap(t *testing.T) {
	const dir = "sys/module/zswap/parameters/"
	h := fake(t, map[string]string{dir + "enabled": "N\n", dir + "compressor": "lzo\n", dir + "max_pool_percent": "20\n"})
	before, err := h.Zswap()
	if err != nil || before != (Zswap{false, "lzo", 20}) {
		t.Fatalf("%+v, %v", before, err)
	}
	wanted := Zswap{true, "lz4", 50}
	changes, err := h.ChangeZswap(wanted)
	if err != nil || len(changes) != 3 || changes[2].File != h.zswap("enabled").File {
		t.Fatalf("%+v, %v, want it enabled last", changes, err)
	}
	for _, c := range changes {
		if err := c.Make(); err != nil {
			t.Fatal(err)
		}
	}
	if z, err := h.Zswap(); z != wanted || err != nil {
		t.Errorf("%+v, %v", z, err)
	}
	if again, err := h.ChangeZswap(Zswap{Enabled: true}); len(again) > 0 || err != nil {
		t.Errorf("as it is: %+v, %v", again, err)
	}
	for i := range changes {
		if err := changes[len(changes)-1-i].Undo(); err != nil {
			t.Error(err)
		}
	}
	if z, err := h.Zswap(); z != before || err != nil {
		t.Errorf("%+v, %v", z, err)
	}
	var none *NoZswap
	if _, err := fake(t, nil).ChangeZswap(wanted); !errors.As(err, &none) {
		t.Errorf("without one: %v", err)
	}
}

func TestZswapPool(t *testing.T) {
	const debug = "sys/kernel/debug/zswap/"
	page := int64(os.Getpagesize())
	for name, c := range map[string]struct {
		files map[string]string
		want  ZswapPool
	}{
		"meminfo": {map[string]string{"proc/meminfo": "MemTotal: 8 kB\nZswap:  12 kB\nZswapped:   40 kB\n"}, ZswapPool{12 << 10, 40 << 10}},
		"debugfs": {map[string]string{"proc/meminfo": "MemTotal: 8 kB\n", debug + "pool_total_size": "8192\n", debug + "stored_pages": "7\n"}, ZswapPool{8192, 7 * page}},
	} {
		if got, err := fake(t, c.files).ZswapPool(); got != c.want || err != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	var none *NoZswap
	if _, err := fake(t, map[string]string{"proc/meminfo": "MemTotal: 8 kB\n"}).ZswapPool(); !errors.As(err, &none) {
		t.Errorf("reported nowhere: %v", err)
	}
	if _, err := fake(t, map[string]string{"proc/meminfo": "Zswap: many kB\n"}).ZswapPool(); err == nil || errors.As(err, &none) {
		t.Errorf("a figure that is none: %v", err)
	}
}

// On the real kernel: set, in force, and as before; and left alone where another has
// set it meanwhile.
func TestPageClusterInTheKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("setting vm.page-cluster needs root")
	}
	s := Host{}.PageCluster()
	before, err := s.Read()
	if err != nil {
		t.Skip(err)
	}
	n, err := strconv.Atoi(before)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := strconv.Itoa((n+1)%6), strconv.Itoa((n+2)%6)
	restore, err := s.Set(ours)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		for _, value := range []string{ours, theirs} {
			_ = Change{s.File, before, value}.Undo()
		}
		if have, err := s.Read(); have != before || err != nil {
			t.Errorf("vm.page-cluster is %s (%v), and was %s", have, err, before)
		}
	})
	if have, err := s.Read(); have != ours || err != nil {
		t.Errorf("%q, %v", have, err)
	}
	if err := put(s.File, theirs); err != nil {
		t.Fatal(err)
	}
	var foreign *Foreign
	if err := restore(); !errors.As(err, &foreign) || foreign.Have != theirs {
		t.Errorf("over what another has set: %v", err)
	}
}
