// Package pagecache empties the host's page cache, which reaches beyond every
// container: whoever calls it has been permitted to be disruptive.
package pagecache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// control is where the kernel takes the order (Documentation/admin-guide/sysctl/vm.rst).
const control = "/proc/sys/vm/drop_caches"

// Droppable reports whether this process may drop the caches; the error says
// what it lacks.
func Droppable() error {
	f, err := os.OpenFile(control, os.O_WRONLY, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be written: the page cache is dropped as root, on a host of one's own", control)
	case err != nil:
		return err
	}
	return f.Close()
}

// Drop writes dirty pages back and then frees the page cache and the reclaimable
// slabs (dentries, inodes) of the whole host. What is mapped and in use stays.
// Nothing is to be restored: the caches fill again as they are used.
func Drop() error {
	unix.Sync()
	if err := os.WriteFile(control, []byte("3"), 0); err != nil {
		return fmt.Errorf("drop the page cache: %w", err)
	}
	return nil
}
