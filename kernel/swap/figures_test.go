package swap

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseVMStat(t *testing.T) {
	v, err := ParseVMStat(strings.NewReader("nr_free_pages 5\npswpin 1\npswpout 2\npgmajfault 3\nzswpin 4\nzswpout 5\nzswpwb 6\noom_kill 7\n"))
	if err != nil {
		t.Fatal(err)
	}
	if v.PSwpIn != 1 || v.PSwpOut != 2 || v.PgMajFault != 3 || v.ZswpIn != 4 || v.ZswpOut != 5 || v.ZswpWb != 6 || v.OOMKill != 7 {
		t.Errorf("%+v", v)
	}
	if !slices.Contains(v.Absent, "swpin_zero") || slices.Contains(v.Absent, "pswpin") {
		t.Errorf("absent: %v", v.Absent)
	}
	for _, text := range []string{"pswpin -1\n", "pswpin\n", "pswpin much\n"} {
		if _, err := ParseVMStat(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "pswpin") {
			t.Errorf("%q: %v", text, err)
		}
	}
	here, err := Host{}.VMStat()
	if err != nil || slices.Contains(here.Absent, "pgmajfault") || here.PgMajFault == 0 {
		t.Errorf("this host: %+v, %v", here, err)
	}
}

func TestQueue(t *testing.T) {
	h := fake(t, map[string]string{"sys/dev/block/253:0/inflight": "       3       12\n", "sys/dev/block/253:1/inflight": "3\n"})
	q, err := h.Queue(Device{253, 0})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		text          string
		reads, writes int64
	}{{"3 12", 3, 12}, {"0 1234567", 0, 1234567}} {
		if err := os.WriteFile(q.file.Name(), []byte(want.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if reads, writes, err := q.Length(); reads != want.reads || writes != want.writes || err != nil {
			t.Errorf("%d reads, %d writes, %v; want %+v", reads, writes, err, want)
		}
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := q.Length(); err == nil {
		t.Error("closed, it is still reported")
	}
	half, err := h.Queue(Device{253, 1})
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	if _, _, err := half.Length(); err == nil || !strings.Contains(err.Error(), "253:1") {
		t.Errorf("half a queue: %v", err)
	}
	var none *NoDevice
	if _, err := h.Queue(Device{253, 2}); !errors.As(err, &none) {
		t.Errorf("no device: %v", err)
	}
	for _, text := range []string{"", "1 2 3", "-1 2", "1 many"} {
		if _, _, err := parseQueue(text); err == nil {
			t.Errorf("%q is a queue", text)
		}
	}
}

func TestDeviceIO(t *testing.T) {
	// With the discards and flushes of Linux 4.18 and 5.5.
	const stat = "  2200  147  147728  1450  4000  55  900  70  3  1490  1540 0 0 0 0 9 8\n"
	h := fake(t, map[string]string{"sys/dev/block/253:0/stat": stat})
	got, err := h.IO(Device{253, 0})
	want := DeviceIO{ReadIOs: 2200, ReadBytes: 147728 * 512, ReadMillis: 1450, WriteIOs: 4000, WrittenBytes: 900 * 512, WriteMillis: 70, InFlight: 3, BusyMillis: 1490}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	var none *NoDevice
	if _, err := h.IO(Device{253, 1}); !errors.As(err, &none) {
		t.Errorf("of a device that is not there: %v", err)
	}
	for _, text := range []string{"", "1 2 3", strings.Repeat("x ", 11), strings.Repeat("-1 ", 11)} {
		if _, err := ParseDeviceIO(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// What is written and brought to the disk shows in the counts of the device below.
func TestBelow(t *testing.T) {
	dir := t.TempDir()
	d, err := Host{}.Below(dir)
	var none *NoDevice
	if errors.As(err, &none) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	before, err := Host{}.IO(d)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 4 << 20
	if _, err := f.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	after, err := Host{}.IO(d)
	if err != nil {
		t.Fatal(err)
	}
	if written := after.WrittenBytes - before.WrittenBytes; written < size {
		t.Errorf("%d bytes were written to %s, and %d to a file on it", written, d, size)
	}
	if d, err := (Host{}).Below("/proc"); !errors.As(err, &none) {
		t.Errorf("below /proc is %v, %v", d, err)
	}
}

func TestParseZRAMStat(t *testing.T) {
	got, err := ParseZRAMStat("  67108864 3000 70000 0 80000 12 1 2 3\n")
	want := ZRAMStat{67108864, 3000, 70000, 0, 80000, 12, 1, 2, 3}
	if got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := ParseZRAMStat("1 2 3 4 5 6 7"); err != nil || got.PagesCompacted != 7 || got.HugePages != 0 {
		t.Errorf("of an older kernel: %+v, %v", got, err)
	}
	for _, text := range []string{"", "1 2 3", "1 2 3 4 5 6 -7", "1 2 3 4 5 6 x"} {
		if _, err := ParseZRAMStat(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestParseAlgorithms(t *testing.T) {
	for text, want := range map[string]string{"lzo-rle [lz4] zstd": "lz4 lzo-rle zstd", "[lzo]": "lzo", "": ""} {
		if got := strings.Join(parseAlgorithms(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzParseVMStat(f *testing.F) {
	f.Add("pswpin 1\npswpout 2\n")
	f.Add("pswpin 9223372036854775808\n")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ParseVMStat(strings.NewReader(text))
		for _, field := range v.fields() {
			if *field.to < 0 || err != nil && *field.to != 0 {
				t.Errorf("%s is %d, %v", field.name, *field.to, err)
			}
		}
	})
}

func FuzzParseZRAMStat(f *testing.F) {
	f.Add("67108864 3000 70000 0 80000 12 1 2 3")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseZRAMStat(text); err == nil && (s.OrigDataSize < 0 || s.MemUsedTotal < 0 || s.HugePagesSince < 0) || err != nil && s != (ZRAMStat{}) {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

func FuzzParseDeviceIO(f *testing.F) {
	f.Add("2200 147 147728 1450 4000 55 900 70 3 1490 1540 0 0 0 0 9 8")
	f.Add(strings.Repeat("18446744073709551615 ", 11))
	f.Fuzz(func(t *testing.T, text string) {
		if io, err := ParseDeviceIO(text); io.ReadBytes < 0 || io.WrittenBytes < 0 || err != nil && io != (DeviceIO{}) {
			t.Errorf("%+v, %v", io, err)
		}
	})
}

func FuzzParseZswapPool(f *testing.F) {
	f.Add("Zswap: 12 kB\nZswapped: 40 kB\n")
	f.Fuzz(func(t *testing.T, text string) {
		if pool, _, err := parseZswapPool(text); pool.Held < 0 || pool.Stored < 0 || err != nil && pool != (ZswapPool{}) {
			t.Errorf("%+v, %v", pool, err)
		}
	})
}
