package media

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"tare/annex"
	"tare/kernel/swap"
)

// What is written counts for the device that has it by its own count, and for the file that is
// being filled.
func TestWrites(t *testing.T) {
	zram := filepath.Join(t.TempDir(), "zram0")
	if err := os.WriteFile(zram, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	on, err := swap.Host{}.Below(zram) // a number that the tree is given
	if err != nil {
		t.Skip(err)
	}
	set := func(h swap.Host, file, text string) {
		if err := os.WriteFile(filepath.Join(h.Root, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	swaps := func(firstUsed int) string {
		return head + zram + " partition 1000 0 100\n" + fmt.Sprintf("/first file 1000 %d 2\n/second file 1000 0 1\n", firstUsed)
	}
	stat := fmt.Sprintf("sys/dev/block/%s/stat", on)
	h := host(t, map[string]string{"proc/swaps": swaps(0), "proc/vmstat": "pswpout 1000\n", stat: "0 0 0 0 0 0 0 0 0 0 0", "sys/block/zram0/mm_stat": "1 2 300 0 0 0 0"})
	w := NewWrites(h, func() Together { all, _ := InUse(h); return all })
	const page = annex.PageSize
	for n, c := range []struct {
		out, device         int // pages, since the beginning
		firstUsed           int
		zram, first, second int64
	}{
		{1000, 0, 0, 0, 0, 0}, // what was before is nobody's
		{1010, 4, 0, 4, 6, 0},
		{1010, 4, 0, 4, 6, 0},
		{1030, 14, 999, 14, 6, 10}, // the first is full
		{1050, 14, 0, 14, 26, 10},
		{1050, 2, 0, 2, 26, 10}, // another device of the name
	} {
		set(h, "proc/vmstat", fmt.Sprintf("pswpout %d\n", c.out))
		set(h, "proc/swaps", swaps(c.firstUsed))
		set(h, stat, fmt.Sprintf("0 0 0 0 1 0 %d 0 0 0 0", c.device*page/512))
		for area, want := range map[string]int64{zram: c.zram, "/first": c.first, "/second": c.second} {
			if n2, err := w.To(area); n2 != want*page || err != nil {
				t.Errorf("step %d: %d bytes to %s (%v), want %d pages", n, n2, area, err, want)
			}
		}
	}
}

// While one device does not tell its count nothing is taken note of, so that what the others had
// meanwhile is not taken for the file's afterwards.
func TestWritesOfASilentDevice(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "zram0"), filepath.Join(dir, "zram1")
	for _, file := range []string{first, second} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	on, err := swap.Host{}.Below(first) // both have the same number, and so the same count
	if err != nil {
		t.Skip(err)
	}
	const mm = "1 2 300 0 0 0 0"
	stat, figures := fmt.Sprintf("sys/dev/block/%s/stat", on), "sys/block/zram1/mm_stat"
	h := host(t, map[string]string{
		"proc/swaps":  head + first + " partition 1000 0 100\n" + second + " partition 1000 0 99\n/file file 1000 0 2\n",
		"proc/vmstat": "pswpout 1000\n", stat: "0 0 0 0 0 0 0 0 0 0 0", "sys/block/zram0/mm_stat": mm, figures: mm,
	})
	w := NewWrites(h, func() Together { all, _ := InUse(h); return all })
	const page = annex.PageSize
	step := func(out, device int) (int64, error) {
		for file, text := range map[string]string{"proc/vmstat": fmt.Sprintf("pswpout %d\n", out), stat: fmt.Sprintf("0 0 0 0 1 0 %d 0 0 0 0", device*page/512)} {
			if err := os.WriteFile(filepath.Join(h.Root, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return w.To("/file")
	}
	if n, err := step(1000, 0); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if err := os.Rename(filepath.Join(h.Root, figures), filepath.Join(h.Root, "kept")); err != nil {
		t.Fatal(err)
	}
	if n, err := step(1010, 4); err == nil {
		t.Errorf("%d bytes, though a device does not tell", n)
	}
	if err := os.Rename(filepath.Join(h.Root, "kept"), filepath.Join(h.Root, figures)); err != nil {
		t.Fatal(err)
	}
	if n, err := step(1020, 5); n != 10*page || err != nil {
		t.Errorf("%d pages (%v), want 10: 20 of all, of which each device had 5", n/page, err)
	}
}
