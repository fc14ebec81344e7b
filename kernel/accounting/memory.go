package accounting

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Memory is the host's memory in bytes.
type Memory struct {
	Total     int64
	Available int64 // without swapping, as the kernel estimates it (MemAvailable)
}

// ReadMemory reads meminfo below root ("/proc").
func ReadMemory(root string) (Memory, error) {
	file, err := os.Open(filepath.Join(root, "meminfo"))
	if err != nil {
		return Memory{}, fmt.Errorf("read the host's memory: %w", err)
	}
	defer file.Close()
	return ParseMemory(file)
}

// ParseMemory reads a /proc/meminfo.
func ParseMemory(r io.Reader) (Memory, error) {
	var m Memory
	wanted := map[string]*int64{"MemTotal": &m.Total, "MemAvailable": &m.Available}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, rest, ok := strings.Cut(lines.Text(), ":")
		into := wanted[name]
		if !ok || into == nil {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil || kib < 0 || kib > 1<<52 {
			return Memory{}, fmt.Errorf("/proc/meminfo: %s is %q", name, strings.TrimSpace(rest))
		}
		*into = kib << 10
	}
	if err := lines.Err(); err != nil {
		return Memory{}, fmt.Errorf("/proc/meminfo: %w", err)
	}
	if m.Total == 0 {
		return Memory{}, fmt.Errorf("/proc/meminfo does not tell how much memory there is")
	}
	return m, nil
}
