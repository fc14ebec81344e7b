package cgroup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/kernel/small"
)

// Bandwidth is a limit of CPU time.
type Bandwidth struct {
	Quota  time.Duration // in each period; 0 is no limit
	Period time.Duration
	Burst  time.Duration
}

// CPUs is the limit in CPUs; infinite where there is none.
func (b Bandwidth) CPUs() float64 {
	if b.Quota <= 0 || b.Period <= 0 {
		return math.Inf(1)
	}
	return float64(b.Quota) / float64(b.Period)
}

// Bandwidth is the tightest limit that holds for the group: its own or that of
// one above it. The zero value is no limit.
func (g Group) Bandwidth() (Bandwidth, error) {
	var tightest Bandwidth
	place, ok := g.For("cpu")
	if !ok {
		return tightest, nil
	}
	err := place.upward(func(dir string) error {
		b, err := readBandwidth(place.Version, dir)
		if err == nil && b.CPUs() < tightest.CPUs() {
			tightest = b
		}
		return err
	})
	return tightest, err
}

func readBandwidth(version int, dir string) (b Bandwidth, err error) {
	if version == 2 {
		text, err := readFile(dir, "cpu.max")
		if err != nil {
			return b, err
		}
		if b.Quota, b.Period, err = ParseCPUMax(text); err != nil || b.Quota == 0 {
			return Bandwidth{}, err
		}
		b.Burst, err = readMicros(dir, "cpu.max.burst")
		return b, optional(err)
	}
	quota, err := readInt(dir, "cpu.cfs_quota_us")
	if err != nil || quota <= 0 {
		return Bandwidth{}, err
	}
	b.Quota = time.Duration(quota) * time.Microsecond
	if b.Period, err = readMicros(dir, "cpu.cfs_period_us"); err != nil {
		return Bandwidth{}, err
	}
	b.Burst, err = readMicros(dir, "cpu.cfs_burst_us")
	return b, optional(err)
}

// ParseCPUMax parses cpu.max of version 2: "50000 100000" or "max 100000", in
// microseconds. No limit is a quota of 0.
func ParseCPUMax(text string) (quota, period time.Duration, err error) {
	f := strings.Fields(text)
	if len(f) != 2 {
		return 0, 0, fmt.Errorf("cpu.max %q is not QUOTA PERIOD", text)
	}
	p, err := parseMicros(f[1])
	if err != nil || p == 0 {
		return 0, 0, fmt.Errorf("cpu.max %q: the period is not a number of microseconds", text)
	}
	if f[0] == "max" {
		return 0, p, nil
	}
	q, err := parseMicros(f[0])
	if err != nil || q == 0 {
		return 0, 0, fmt.Errorf("cpu.max %q: the quota is not a number of microseconds", text)
	}
	return q, p, nil
}

func parseMicros(s string) (time.Duration, error) {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, err
	}
	if v > math.MaxInt64/uint64(time.Microsecond) {
		return 0, strconv.ErrRange
	}
	return time.Duration(v) * time.Microsecond, nil
}

// Shares is the group's own CPU weight on the scale of version 1; 0 where it
// has none (the root of version 2, or no cpu controller).
func (g Group) Shares() (int, error) {
	place, ok := g.For("cpu")
	if !ok {
		return 0, nil
	}
	if place.Version == 1 {
		v, err := readInt(place.Dir(), "cpu.shares")
		return int(v), err
	}
	v, err := readInt(place.Dir(), "cpu.weight")
	if err != nil {
		return 0, optional(err)
	}
	return SharesOfWeight(int(v)), nil
}

// CPUs is the list of CPUs that the group's cpuset leaves, empty where no
// cpuset is in force.
func (g Group) CPUs() (string, error) {
	place, ok := g.For("cpuset")
	if !ok {
		return "", nil
	}
	name := "cpuset.cpus.effective"
	if place.Version == 1 {
		name = "cpuset.effective_cpus"
	}
	text, err := readFile(place.Dir(), name)
	return text, optional(err)
}

// MemoryLimit is the tightest limit in bytes that holds for the group: its own
// or that of one above it; 0 is none.
func (g Group) MemoryLimit() (int64, error) {
	place, ok := g.For("memory")
	if !ok {
		return 0, nil
	}
	name := "memory.max"
	if place.Version == 1 {
		name = "memory.limit_in_bytes"
	}
	var tightest int64
	err := place.upward(func(dir string) error {
		text, err := readFile(dir, name)
		if err != nil {
			return err
		}
		limit, err := ParseMemoryLimit(text)
		if err == nil && limit > 0 && (tightest == 0 || limit < tightest) {
			tightest = limit
		}
		return err
	})
	return tightest, err
}

// ParseMemoryLimit parses a limit in bytes; none is 0. Version 1 has no word
// for none: it gives the largest number of whole pages.
func ParseMemoryLimit(text string) (int64, error) {
	if text == "max" {
		return 0, nil
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 {
		return 0, fmt.Errorf("memory limit %q is not a number of bytes", text)
	}
	if v >= math.MaxInt64&^(1<<20-1) {
		return 0, nil
	}
	return v, nil
}

// Use is what the processes of a group have used since it was made.
type Use struct {
	CPU           time.Duration
	System        time.Duration // the part of CPU in the kernel, as far as ticks show it
	Periods       int64         // of the quota, in which something ran
	Throttled     int64         // periods in which the quota ran out
	ThrottledTime time.Duration
	MemoryPeak    int64 // bytes; 0 where the kernel does not say
	OOMKills      int64
}

// Use reads the group's counters, of those hierarchies that it has a place in.
func (g Group) Use() (Use, error) {
	var u Use
	for _, p := range g.Places {
		if err := p.addUse(&u); err != nil {
			return u, err
		}
	}
	return u, nil
}

// CPUUse reads of these counters those of CPU time alone, which are few files.
func (g Group) CPUUse() (Use, error) {
	var u Use
	for _, p := range g.Places {
		if err := p.addCPUUse(&u); err != nil {
			return u, err
		}
	}
	return u, nil
}

func (p Place) addCPUUse(u *Use) error {
	dir := p.Dir()
	if p.Version == 2 || p.Has("cpu") {
		stat, err := readKeyed(dir, "cpu.stat")
		if optional(err) != nil {
			return err
		}
		if n, ok := stat["nr_throttled"]; ok {
			u.Throttled, u.Periods = n, stat["nr_periods"]
			// Version 1 counts in nanoseconds.
			u.ThrottledTime = time.Duration(stat["throttled_usec"])*time.Microsecond + time.Duration(stat["throttled_time"])
		}
		// Version 2 accounts CPU time in every group, with no controller at all.
		// Where version 1 has an accounting controller beside it, both say the same.
		if cpu := time.Duration(stat["usage_usec"]) * time.Microsecond; cpu > u.CPU {
			u.CPU = cpu
		}
		u.System = max(u.System, time.Duration(stat["system_usec"])*time.Microsecond)
	}
	if p.Version == 1 && p.Has("cpuacct") {
		nanos, err := readInt(dir, "cpuacct.usage")
		if optional(err) != nil {
			return err
		}
		u.CPU = max(u.CPU, time.Duration(nanos))
		stat, err := readKeyed(dir, "cpuacct.stat")
		if optional(err) != nil {
			return err
		}
		u.System = max(u.System, time.Duration(stat["system"])*tick)
	}
	return nil
}

func (p Place) addUse(u *Use) error {
	if err := p.addCPUUse(u); err != nil || !p.Has("memory") {
		return err
	}
	dir := p.Dir()
	peak, events := "memory.peak", "memory.events"
	if p.Version == 1 {
		peak, events = "memory.max_usage_in_bytes", "memory.oom_control"
	}
	v, err := readInt(dir, peak)
	if optional(err) != nil {
		return err
	}
	u.MemoryPeak = v
	e, err := readKeyed(dir, events)
	if optional(err) != nil {
		return err
	}
	u.OOMKills = e["oom_kill"]
	return nil
}

// tick is the unit of cpuacct.stat: USER_HZ, which is 100 everywhere.
const tick = 10 * time.Millisecond

// ParseKeyed parses a flat keyed file, such as cpu.stat: "KEY VALUE" lines.
func ParseKeyed(r io.Reader) (map[string]int64, error) {
	values := map[string]int64{}
	scan := bufio.NewScanner(r)
	for scan.Scan() {
		key, value, ok := strings.Cut(scan.Text(), " ")
		if !ok {
			return nil, fmt.Errorf("%q is not KEY VALUE", scan.Text())
		}
		v, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		values[key] = v
	}
	return values, scan.Err()
}

// Processes lists the processes of the group and of all groups below it,
// sorted. Zombies are in no group any more.
func (g Group) Processes() ([]int, error) {
	var pids []int
	for _, p := range g.Places {
		err := filepath.WalkDir(p.Dir(), func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return optional(err)
			}
			if !d.IsDir() {
				return nil
			}
			b, err := os.ReadFile(filepath.Join(name, "cgroup.procs"))
			if err != nil {
				return optional(err)
			}
			for _, word := range strings.Fields(string(b)) {
				// A process of another pid namespace's reading shows as 0.
				if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
					pids = append(pids, pid)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// upward calls read for the group and each one above it. A group without the
// file (the root of version 2, or one whose parent does not hand the
// controller down) has no say.
func (p Place) upward(read func(dir string) error) error {
	for at := p.Path; ; at = path.Dir(at) {
		if err := optional(read(Place{p.Hierarchy, at}.Dir())); err != nil {
			return err
		}
		if at == "/" || at == p.Root || at == "." {
			return nil
		}
	}
}

// optional forgives a file that this kernel, or this place in the tree, does not have.
func optional(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func readFile(dir, name string) (string, error) {
	b, err := small.Read(filepath.Join(dir, name))
	return string(bytes.TrimSpace(b)), err
}

func readInt(dir, name string) (int64, error) {
	text, err := readFile(dir, name)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return v, nil
}

func readMicros(dir, name string) (time.Duration, error) {
	v, err := readInt(dir, name)
	return time.Duration(v) * time.Microsecond, err
}

func readKeyed(dir, name string) (map[string]int64, error) {
	b, err := small.Read(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	m, err := ParseKeyed(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return m, nil
}

// WeightOfShares converts a weight of version 1 (2 to 262144) to version 2 (1
// to 10000), linearly, as OCI runtimes have long done.
func WeightOfShares(shares int) int {
	shares = min(max(shares, 2), 262144)
	return 1 + (shares-2)*9999/262142
}

// SharesOfWeight converts the other way. Several shares map to one weight, so
// what comes back is near what went in, not equal.
func SharesOfWeight(weight int) int {
	weight = min(max(weight, 1), 10000)
	return 2 + (weight-1)*262142/9999
}
