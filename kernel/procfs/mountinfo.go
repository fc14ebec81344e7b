package procfs

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Mount is one line of /proc/PID/mountinfo.
type Mount struct {
	ID, Parent   int
	Device       string // "major:minor"
	Root         string // of the mount, within its file system
	Point        string // relative to the process' root
	Options      []string
	Propagation  []string // "shared:1", "master:2"; empty is private
	FSType       string
	Source       string
	SuperOptions []string
}

// ParseMountInfo parses /proc/PID/mountinfo.
func ParseMountInfo(r io.Reader) ([]Mount, error) {
	var mounts []Mount
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20) // an overlay's options name every layer
	for scan.Scan() {
		m, err := parseMount(scan.Text())
		if err != nil {
			return nil, fmt.Errorf("%q: %w", scan.Text(), err)
		}
		mounts = append(mounts, m)
	}
	return mounts, scan.Err()
}

func parseMount(line string) (Mount, error) {
	// Optional fields end with a lone hyphen. Blanks within fields are escaped, and no
	// other white space is that a name may have.
	before, after, ok := strings.Cut(line, " - ")
	if !ok {
		return Mount{}, fmt.Errorf("no separator")
	}
	f, g := strings.Split(before, " "), strings.Split(after, " ")
	if len(f) < 6 || len(g) < 3 {
		return Mount{}, fmt.Errorf("too few fields")
	}
	id, err := strconv.Atoi(f[0])
	if err != nil {
		return Mount{}, err
	}
	parent, err := strconv.Atoi(f[1])
	if err != nil {
		return Mount{}, err
	}
	return Mount{
		ID: id, Parent: parent, Device: f[2],
		Root: Unescape(f[3]), Point: Unescape(f[4]),
		Options: strings.Split(f[5], ","), Propagation: f[6:],
		FSType: Unescape(g[0]), Source: Unescape(g[1]),
		SuperOptions: strings.Split(g[2], ","),
	}, nil
}

// Unescape undoes the kernel's octal escapes of blank, tab, newline, backslash
// and hash (seq_path), in files that escape the backslash as well: mountinfo, /proc/swaps.
func Unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
