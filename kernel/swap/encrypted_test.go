package swap

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// dm-crypt is found below other mappings, and missed where one of several devices lacks it.
func TestEncrypted(t *testing.T) {
	h := fake(t, map[string]string{
		"sys/dev/block/8:1/partition":                "1",
		"sys/dev/block/253:0/dm/uuid":                "CRYPT-PLAIN-cryptswap\n",
		"sys/dev/block/253:0/slaves/sda/dev":         "8:0",
		"sys/dev/block/253:1/dm/uuid":                "LVM-abc\n",
		"sys/dev/block/253:1/slaves/dm-0/dm/uuid":    "CRYPT-LUKS2-abc-root\n",
		"sys/dev/block/253:2/dm/uuid":                "LVM-abc\n",
		"sys/dev/block/253:2/slaves/sda1/partition":  "1",
		"sys/dev/block/9:0/slaves/dm-0/dm/uuid":      "CRYPT-LUKS2-abc\n",
		"sys/dev/block/9:0/slaves/sdb1/partition":    "1",
		"sys/dev/block/253:3/slaves/a/slaves/b/size": "1",
	})
	for device, want := range map[Device]bool{
		{8, 1}: false, {253, 0}: true, {253, 1}: true, {253, 2}: false, {9, 0}: false, {253, 3}: false,
	} {
		if got, err := h.Encrypted(device); got != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", device, got, err, want)
		}
	}
	if _, err := h.Encrypted(Device{7, 7}); !os.IsNotExist(err) {
		t.Errorf("a device that is not there: %v", err)
	}
}

// linked is a fake host in which devices lie as in sysfs: by their numbers as links.
func linked(t *testing.T, files, links map[string]string) Host {
	t.Helper()
	h := fake(t, files)
	for name, to := range links {
		link := h.path(name)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(h.path(to), link); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// What lies below a partition lies below its disk.
func TestEncryptedPartition(t *testing.T) {
	h := linked(t, map[string]string{
		"sys/devices/sda/sda1/partition":  "1",
		"sys/devices/md0/md0p1/partition": "1",
		"sys/devices/md1/md1p1/partition": "1",
		"sys/devices/dm-0/dm/uuid":        "CRYPT-LUKS2-abc\n",
	}, map[string]string{
		"sys/dev/block/8:1":           "sys/devices/sda/sda1",
		"sys/dev/block/259:0":         "sys/devices/md0/md0p1",
		"sys/dev/block/259:1":         "sys/devices/md1/md1p1",
		"sys/devices/md0/slaves/dm-0": "sys/devices/dm-0",
		"sys/devices/md1/slaves/dm-0": "sys/devices/dm-0",
		"sys/devices/md1/slaves/sda1": "sys/devices/sda/sda1",
	})
	for device, want := range map[Device]bool{{8, 1}: false, {259, 0}: true, {259, 1}: false} {
		if got, err := h.Encrypted(device); got != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", device, got, err, want)
		}
	}
}

// What lies below a loop device lies below its file. Where that is not known nothing is.
func TestEncryptedLoop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	below, err := Host{}.Below(file)
	if none := new(NoDevice); errors.As(err, &none) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for uuid, want := range map[string]bool{"CRYPT-LUKS2-abc\n": true, "LVM-abc\n": false} {
		h := linked(t, map[string]string{
			"sys/devices/loop0/loop/backing_file": file + "\n",
			"sys/devices/loop0/loop0p1/partition": "1",
			"sys/devices/loop1/loop/backing_file": file + " (deleted)\n",
			"sys/devices/below/dm/uuid":           uuid,
			"sys/devices/below/stat":              "",
		}, map[string]string{
			"sys/dev/block/7:0":               "sys/devices/loop0",
			"sys/dev/block/259:0":             "sys/devices/loop0/loop0p1",
			"sys/dev/block/7:1":               "sys/devices/loop1",
			"sys/dev/block/" + below.String(): "sys/devices/below",
		})
		for _, device := range []Device{{7, 0}, {259, 0}} {
			if got, err := h.Encrypted(device); got != want || err != nil {
				t.Errorf("%s on %q: %v, %v", device, uuid, got, err)
			}
		}
		if _, err := h.Encrypted(Device{7, 1}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("of a file that is gone: %v", err)
		}
	}
}
