package cgroup

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Limits are what a group may be held to. A zero field is no limit.
type Limits struct {
	Bandwidth
	Shares int    // on the scale of version 1, 2 to 262144
	CPUs   string // list format
	Memory int64  // bytes
}

// Apply sets the limits of a group that exists. The kernel's refusal names the
// file and the value.
func (g Group) Apply(l Limits) error {
	for _, w := range []struct {
		wanted     bool
		controller string
		write      func(Place) error
	}{
		{l.Quota > 0, "cpu", l.writeBandwidth},
		{l.Shares > 0, "cpu", l.writeShares},
		{l.CPUs != "", "cpuset", func(p Place) error { return p.write("cpuset.cpus", l.CPUs) }},
		{l.Memory > 0, "memory", l.writeMemory},
	} {
		if !w.wanted {
			continue
		}
		place, ok := g.For(w.controller)
		if !ok {
			return fmt.Errorf("cgroup %s: no hierarchy of this host carries the %s controller: boot without cgroup_disable=%[2]s", g, w.controller)
		}
		if err := w.write(place); err != nil {
			return err
		}
	}
	return nil
}

func (l Limits) writeBandwidth(p Place) error {
	quota, period := micros(l.Quota), micros(l.Period)
	burst := "cpu.max.burst"
	if p.Version == 2 {
		if err := p.write("cpu.max", quota+" "+period); err != nil {
			return err
		}
	} else {
		burst = "cpu.cfs_burst_us"
		// The period first: the kernel checks the quota against it.
		if err := p.write("cpu.cfs_period_us", period); err != nil {
			return err
		}
		if err := p.write("cpu.cfs_quota_us", quota); err != nil {
			return err
		}
	}
	if l.Burst == 0 {
		return nil
	}
	return p.write(burst, micros(l.Burst))
}

func (l Limits) writeShares(p Place) error {
	if p.Version == 2 {
		return p.write("cpu.weight", strconv.Itoa(WeightOfShares(l.Shares)))
	}
	return p.write("cpu.shares", strconv.Itoa(l.Shares))
}

// writeMemory allows as much swap again, as container engines do.
func (l Limits) writeMemory(p Place) error {
	if p.Version == 2 {
		if err := p.write("memory.max", strconv.FormatInt(l.Memory, 10)); err != nil {
			return err
		}
		return optional(p.write("memory.swap.max", strconv.FormatInt(l.Memory, 10)))
	}
	if err := p.write("memory.limit_in_bytes", strconv.FormatInt(l.Memory, 10)); err != nil {
		return err
	}
	return optional(p.write("memory.memsw.limit_in_bytes", strconv.FormatInt(2*l.Memory, 10)))
}

// What the kernel accepts as a bandwidth in both versions (tg_set_bandwidth, kernel/sched/core.c),
// in whole microseconds. A quota of more than all CPUs can run is accepted as well.
const (
	LeastQuota     = time.Millisecond
	GreatestQuota  = (1<<44 - 1) * time.Microsecond
	LeastPeriod    = time.Millisecond
	GreatestPeriod = time.Second
)

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// HasBurst reports whether this kernel can save up unused quota (Linux 5.14 or newer).
func (l Layout) HasBurst() bool {
	h, ok := l.For("cpu")
	if !ok {
		return false
	}
	if h.Version == 1 {
		_, err := os.Stat(filepath.Join(h.Mount, "cpu.cfs_burst_us"))
		return err == nil
	}
	// The root of version 2 has no limits; any group below it shows.
	if files, err := filepath.Glob(filepath.Join(h.Mount, "*", "cpu.max.burst")); err == nil && len(files) > 0 {
		return true
	}
	if files, err := filepath.Glob(filepath.Join(h.Mount, "*", "cpu.max")); err != nil || len(files) > 0 {
		return false
	}
	// No group has the controller yet, as on a machine that has just booted.
	var name unix.Utsname
	return unix.Uname(&name) == nil && savesBurst(unix.ByteSliceToString(name.Release[:]))
}

// savesBurst knows it by a kernel's release.
func savesBurst(release string) bool { return since(release, 5, 14) }

// since reports whether a kernel's release, "6.1.0-18-amd64", is of that version or later.
func since(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a > major || a == major && b >= minor
}

// write sets one of the group's files. Only files that exist are written: a
// cgroup file system creates none.
func (p Place) write(name, value string) error {
	file := filepath.Join(p.Dir(), name)
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", value, err)
	}
	return nil
}

// handDown offers the wanted controllers to the children of every group above
// this one (version 2 only; "no internal processes" forbids it where a group
// on the way holds processes itself).
func (p Place) handDown(wanted []string) error {
	var words []string
	for _, c := range wanted {
		if p.Has(c) {
			words = append(words, "+"+c)
		}
	}
	if len(words) == 0 {
		return nil
	}
	var way []string
	for at := path.Dir(p.Path); ; at = path.Dir(at) {
		way = append(way, at)
		if at == "/" || at == "." || at == p.Root {
			break
		}
	}
	slices.Reverse(way)
	for _, at := range way {
		up := Place{p.Hierarchy, at}
		have, err := readFile(up.Dir(), "cgroup.subtree_control")
		if err != nil {
			return err
		}
		if containsAll(strings.Fields(have), words) {
			continue
		}
		if err := up.write("cgroup.subtree_control", strings.Join(words, " ")); err != nil {
			return fmt.Errorf("%w: cgroup %s must hold groups only, no processes: start tare elsewhere (systemd-run --scope)", err, at)
		}
	}
	return nil
}

func containsAll(have, words []string) bool {
	for _, w := range words {
		if !slices.Contains(have, strings.TrimPrefix(w, "+")) {
			return false
		}
	}
	return true
}

// Own reads the limits that the group itself has, whatever holds above it.
func (g Group) Own() (l Limits, err error) {
	if p, ok := g.For("cpu"); ok {
		if l.Bandwidth, err = readBandwidth(p.Version, p.Dir()); optional(err) != nil {
			return l, err
		}
		if l.Shares, err = g.Shares(); err != nil {
			return l, err
		}
	}
	if l.CPUs, err = g.CPUs(); err != nil {
		return l, err
	}
	if p, ok := g.For("memory"); ok {
		name := "memory.max"
		if p.Version == 1 {
			name = "memory.limit_in_bytes"
		}
		text, err := readFile(p.Dir(), name)
		if err != nil {
			return l, optional(err)
		}
		if l.Memory, err = ParseMemoryLimit(text); err != nil {
			return l, err
		}
	}
	return l, nil
}

// Missing says which of the limits wanted are not among those that a group
// has; it is empty where all are. Shares may have gone through the coarser
// scale of version 2, and memory is rounded to pages.
func (l Limits) Missing(have Limits) string {
	var all []string
	say := func(what string, want, got any) {
		all = append(all, fmt.Sprintf("%s is %v instead of %v", what, got, want))
	}
	if l.Quota > 0 && l.Bandwidth != have.Bandwidth {
		say("the CPU bandwidth", l.Bandwidth, have.Bandwidth)
	}
	if l.Shares > 0 && l.Shares != have.Shares && SharesOfWeight(WeightOfShares(l.Shares)) != have.Shares {
		say("the number of CPU shares", l.Shares, have.Shares)
	}
	if l.CPUs != "" && l.CPUs != have.CPUs {
		say("the set of CPUs", l.CPUs, have.CPUs)
	}
	if page := int64(os.Getpagesize()); l.Memory > 0 && l.Memory/page != have.Memory/page {
		say("the memory limit", l.Memory, have.Memory)
	}
	return strings.Join(all, ", ")
}

// String writes a bandwidth as "50ms each 100ms".
func (b Bandwidth) String() string {
	if b.Quota == 0 {
		return "unlimited"
	}
	s := fmt.Sprintf("%v each %v", b.Quota, b.Period)
	if b.Burst > 0 {
		s += fmt.Sprintf(", saving up to %v", b.Burst)
	}
	return s
}
