package swap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Encrypted tells whether dm-crypt lies below a device, also where other mappings (LVM, RAID) lie between:
// of several devices all must be encrypted. What a disk does by itself is not seen. See
// Documentation/ABI/testing/sysfs-block-dm of the kernel.
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
	for _, one := range below {
		if is, err := h.encrypted(filepath.Join(dir, "slaves", one.Name()), left-1); !is || err != nil {
			return false, err
		}
	}
	return len(below) > 0, nil
}
