package filesystem

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Dirty is what of the page cache is not yet on a disk, and what the kernel makes of
// it, over the whole host. In bytes.
type Dirty struct {
	Waiting int64 // written by programs, and not begun to be brought to a disk
	Writing int64 // on its way
	// Background is from where on the kernel brings it to disks in the background,
	// and Limit from where on who writes is made to wait for that: vm.dirty_ratio of
	// what can be dirtied now, or vm.dirty_bytes.
	Background, Limit int64
}

// Left is all that is not on a disk.
func (d Dirty) Left() int64 { return d.Waiting + d.Writing }

// ReadDirty reads the host's.
func ReadDirty() (Dirty, error) {
	f, err := os.Open("/proc/vmstat")
	if err != nil {
		return Dirty{}, err
	}
	defer f.Close()
	return ParseDirty(f, int64(os.Getpagesize()))
}

// ParseDirty reads a /proc/vmstat, which counts in pages.
func ParseDirty(r io.Reader, page int64) (Dirty, error) {
	var d Dirty
	fields := map[string]*int64{"nr_dirty": &d.Waiting, "nr_writeback": &d.Writing, "nr_dirty_background_threshold": &d.Background, "nr_dirty_threshold": &d.Limit}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		to, wanted := fields[name]
		if !wanted {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > (1<<62)/page {
			return Dirty{}, fmt.Errorf("/proc/vmstat: %s is %q, want a number of pages", name, text)
		}
		*to = n * page
		delete(fields, name)
	}
	if err := lines.Err(); err != nil {
		return Dirty{}, fmt.Errorf("/proc/vmstat: %w", err)
	}
	for name := range fields {
		return Dirty{}, fmt.Errorf("/proc/vmstat has no %s: what is dirty cannot be known", name)
	}
	return d, nil
}
