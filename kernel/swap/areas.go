package swap

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tare/kernel/procfs"
	"tare/kernel/small"
)

// Area is a line of /proc/swaps: a place that pages go to.
type Area struct {
	Path    string `json:"path"`    // as the reader's root has it
	Deleted bool   `json:"deleted"` // the file has no name any more, so that nobody can take it out of use
	File    bool   `json:"file"`    // a file, not a block device
	Size    int64  `json:"size_bytes"`
	Used    int64  `json:"used_bytes"`
	// Priority: areas of a higher one are filled first, those of the same in turn. A
	// negative one is the kernel's own choice.
	Priority int `json:"priority"`
}

// MaxPriority is the highest that an area can have: SWAP_FLAG_PRIO_MASK.
const MaxPriority = 1<<15 - 1

// Areas lists what is in use, in the kernel's order.
func (h Host) Areas() ([]Area, error) {
	b, err := small.Read(h.path("proc/swaps"))
	if err != nil {
		return nil, fmt.Errorf("this kernel has no swap at all (CONFIG_SWAP): %w", err)
	}
	areas, err := ParseAreas(bytes.NewReader(b))
	for i := range areas {
		// A file may have a name that ends as the kernel marks a deleted one.
		if a := &areas[i]; a.Deleted {
			if _, err := os.Lstat(h.path(a.Path + deleted)); err == nil {
				a.Path, a.Deleted = a.Path+deleted, false
			}
		}
	}
	return areas, err
}

// Area finds the one of that path; ok is false where it is not in use.
func (h Host) Area(path string) (a Area, ok bool, err error) {
	areas, err := h.Areas()
	if err != nil {
		return Area{}, false, err
	}
	// The kernel knows the file by its own path, not by a link's.
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	for _, a := range areas {
		if !a.Deleted && (a.Path == real || a.Path == path) {
			return a, true, nil
		}
	}
	return Area{}, false, nil
}

const deleted = " (deleted)"

// ParseAreas reads a /proc/swaps, whose sizes are in KiB. A file whose name ends in
// " (deleted)" is taken for one that is gone.
func ParseAreas(r io.Reader) ([]Area, error) {
	var areas []Area
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20) // a path of 4096 bytes may take four times as many
	if !lines.Scan() {
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("/proc/swaps: %w", err)
		}
		return nil, nil // before Linux 2.6 it had no head while empty
	}
	for lines.Scan() {
		a, err := parseArea(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("/proc/swaps: %q: %w", lines.Text(), err)
		}
		areas = append(areas, a)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("/proc/swaps: %w", err)
	}
	return areas, nil
}

func parseArea(line string) (Area, error) {
	f := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(f) != 5 {
		return Area{}, fmt.Errorf("%d fields, want path, type, size, used and priority", len(f))
	}
	a := Area{Path: procfs.Unescape(f[0]), File: f[1] == "file"}
	a.Path, a.Deleted = strings.CutSuffix(a.Path, deleted)
	var err error
	if a.Size, err = kibibytes(f[2]); err != nil {
		return Area{}, fmt.Errorf("size: %w", err)
	}
	if a.Used, err = kibibytes(f[3]); err != nil {
		return Area{}, fmt.Errorf("used: %w", err)
	}
	if a.Priority, err = strconv.Atoi(f[4]); err != nil {
		return Area{}, fmt.Errorf("priority: %w", err)
	}
	return a, nil
}

func kibibytes(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, err
	}
	if n < 0 || n > 1<<52 {
		return 0, fmt.Errorf("%q is not a number of KiB", text)
	}
	return n << 10, nil
}

// Taken says that no priority is left above the areas in use: a new area could at best
// share their pages with them.
type Taken struct{ By Area }

func (t *Taken) Error() string {
	return fmt.Sprintf("swap area %s has the highest priority there is (%d), so that nothing can be used before it: take it out of use for the while (swapoff), or give it a lower one", t.By.Path, t.By.Priority)
}

// PriorityAbove is one that has pages go to a new area before they go to any of those;
// the error is a [*Taken].
func PriorityAbove(areas []Area) (int, error) {
	priority := 0
	for _, a := range areas {
		if a.Priority >= MaxPriority {
			return 0, &Taken{a}
		}
		priority = max(priority, a.Priority+1)
	}
	return priority, nil
}
