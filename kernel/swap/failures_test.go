package swap

import (
	"os"
	"path/filepath"
	"testing"
)

func TestParseFailure(t *testing.T) {
	for record, want := range map[string]Failure{
		"1,2101,81920538224,-;Read-error on swap-device (7:0:1680)\n":            {Device: Device{7, 0}},
		"1,2102,81920538224,-;Write-error on swap-device (254:16:8)\n":           {Device: Device{254, 16}, Write: true},
		"1,2103,1,c;Write-error on swap-device (8:2:0)\n SUBSYSTEM=block\n":      {Device: Device{8, 2}, Write: true},
		"12,2104,1,-;Write-error on swap-device (8:2:0)\n":                       {}, // a program wrote it
		"6,2105,1,-;Adding 65532k swap on /dev/loop0.  Priority:1 extents:1\n":   {},
		"1,2106,1,-;Read-error on swap-device (8:2)\n":                           {},
		"3,2107,1,-;Buffer I/O error on dev sda1, logical block 0, async page\n": {},
		"":                            {},
		"Read-error on swap-device":   {},
		"1,1,1,-;Read-error on swap-": {},
	} {
		got, ok := ParseFailure(record)
		if is := want != (Failure{}); ok != is || ok && got != want {
			t.Errorf("%q: %+v, %v", record, got, ok)
		}
	}
}

func FuzzParseFailure(f *testing.F) {
	f.Add("1,2101,81920538224,-;Read-error on swap-device (7:0:1680)\n")
	f.Fuzz(func(t *testing.T, record string) { ParseFailure(record) })
}

// A partition has the number of its disk beside its own.
func TestDisk(t *testing.T) {
	root := t.TempDir()
	disk := filepath.Join(root, "sys/devices/sda")
	for name, text := range map[string]string{"dev": "8:0\n", "sda1/dev": "8:1\n", "sda1/partition": "1\n"} {
		name = filepath.Join(disk, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	links := filepath.Join(root, "sys/dev/block")
	if err := os.MkdirAll(links, 0o755); err != nil {
		t.Fatal(err)
	}
	for number, to := range map[string]string{"8:0": disk, "8:1": filepath.Join(disk, "sda1")} {
		if err := os.Symlink(to, filepath.Join(links, number)); err != nil {
			t.Fatal(err)
		}
	}
	for of, want := range map[Device]Device{{8, 0}: {8, 0}, {8, 1}: {8, 0}, {9, 0}: {9, 0}} {
		if got := (Host{Root: root}).Disk(of); got != want {
			t.Errorf("%v is of %v, want %v", of, got, want)
		}
	}
}

// Nothing was in the log since it was opened, or nothing of this kind.
func TestFailuresOfThisHost(t *testing.T) {
	f, err := Host{}.Failures()
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	if _, err := f.Read(); err != nil {
		t.Error(err)
	}
}
