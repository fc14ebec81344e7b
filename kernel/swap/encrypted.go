package swap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Encrypted tells whether dm-crypt lies below a device, also where other mappings (LVM, RAID), partitions
// of these and loop devices lie between: of several devices all must be encrypted. What a disk does by
// itself is not seen. See Documentation/ABI/testing/sysfs-block-dm of the kernel.
func (h Host) Encrypted(d Device) (bool, error) {
	return h.encrypted(h.path("sys/dev/block", d.String()), deepest)
}

// deepest is how many mappings may lie over one another.
const deepest = 16

func (h Host) encrypted(dir string, left int) (bool, error) {
	if left == 0 {
		return false, fmt.Errorf("%s has more than %d mappings below it", dir, deepest)
	}
	if _, err := os.Stat(dir); err != nil {
		return false, err
	}
	uuid, err := os.ReadFile(filepath.Join(dir, "dm/uuid"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if strings.HasPrefix(string(uuid), "CRYPT-") {
		return true, nil
	}
	below, err := os.ReadDir(filepath.Join(dir, "slaves"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a partition has none
		return false, err
	}
	if len(below) == 0 {
		return h.encryptedWhole(dir, left)
	}
	for _, one := range below {
		if is, err := h.encrypted(filepath.Join(dir, "slaves", one.Name()), left-1); !is || err != nil {
			return false, err
		}
	}
	return true, nil
}

// encryptedWhole looks below a device that is not a mapping of others: below the disk that a partition is
// of, and below the file that a loop device stands for.
func (h Host) encryptedWhole(dir string, left int) (bool, error) {
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return false, err
		}
		return h.encrypted(filepath.Dir(real), left-1)
	}
	file, err := os.ReadFile(filepath.Join(dir, "loop/backing_file"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	d, err := h.Below(strings.TrimSuffix(string(file), "\n"))
	if err != nil {
		return false, err
	}
	return h.encrypted(h.path("sys/dev/block", d.String()), left-1)
}
