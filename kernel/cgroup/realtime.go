package cgroup

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A kernel with CONFIG_RT_GROUP_SCHED runs real-time threads of a group only for
// as long in each period as the group has been granted, and takes none into a
// group without a grant; a group cannot grant those below it, together, a larger
// part than it has itself (Documentation/scheduler/sched-rt-group.rst).

const (
	rtRuntime = "cpu.rt_runtime_us"
	rtPeriod  = "cpu.rt_period_us"
)

// RealTimeRefused says why a group cannot be granted real-time CPU time.
type RealTimeRefused struct {
	Group string // the path of the group that stands in the way
	What  string
	Mend  string
	Err   error // the kernel's own, where it refused a write
}

func (r *RealTimeRefused) Error() string {
	text := fmt.Sprintf("no real-time CPU time for cgroup %s: %s", r.Group, r.What)
	if r.Err != nil {
		text += " (" + r.Err.Error() + ")"
	}
	return text + ": " + r.Mend
}

func (r *RealTimeRefused) Unwrap() error { return r.Err }

// GrantRealTime allows the real-time threads of the group so much CPU time in
// each period, and raises what the groups above it have where that is too
// little, but only groups of tare's own: [ours]. restore takes away what
// was granted; it must come after the last real-time thread has ended or become
// ordinary again, or fails. Nothing needs granting, and nothing is done, where the kernel
// does not count real-time threads by groups. The error is a [*RealTimeRefused]
// where the kernel, or a group that is not ours, stands in the way.
//
// A program that is killed before it restores leaves both: the group's own grant
// until the group is removed, and what was raised above it until tare's own group
// is, which goes with the last group in it ([Group.Remove]). Until then the host's
// other groups can be granted so much less. No ledger of its own is needed for
// that: what removes a killed run's groups removes its grants, and the next grant in
// the same place finds its room there and raises nothing.
func (g Group) GrantRealTime(runtime, period time.Duration) (restore func() error, err error) {
	if runtime < time.Microsecond || period < runtime {
		return nil, fmt.Errorf("real-time CPU time of %v each %v: want at least 1us, and no more than the period", runtime, period)
	}
	place, ok := g.For("cpu")
	if !ok {
		return nil, &RealTimeRefused{Group: g.String(), What: "it has no place in a hierarchy with the cpu controller", Mend: "boot without cgroup_disable=cpu"}
	}
	if place.Version == 2 {
		return place.realTimeOnV2()
	}
	if _, err := os.Stat(place.File(rtRuntime)); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(place.Dir()); err != nil {
			return nil, fmt.Errorf("real-time CPU time for cgroup %s: %w", place.Path, err)
		}
		return func() error { return nil }, nil
	}
	grant := &rtGrant{}
	if err := grant.make(place, rtLimit{runtime, period}); err != nil {
		return nil, errors.Join(err, grant.restore())
	}
	return grant.restore, nil
}

// realTimeOnV2 reports whether version 2 lets groups have real-time threads: it
// has no files to grant anything by, so that with group scheduling only the root
// may have them.
func (p Place) realTimeOnV2() (func() error, error) {
	on, err := rtGroupScheduling()
	if err != nil || !on || p.Path == "/" {
		// What the kernel's configuration does not say shows when a thread is
		// given the class.
		return func() error { return nil }, nil
	}
	return nil, &RealTimeRefused{
		Group: p.Path, What: "the kernel counts real-time threads by groups (CONFIG_RT_GROUP_SCHED), which cgroup v2 has no files for",
		Mend: "boot with rt_group_sched=0 (since Linux 6.15), or with a kernel without CONFIG_RT_GROUP_SCHED",
	}
}

// rtGroupScheduling reads the running kernel's configuration and command line.
func rtGroupScheduling() (bool, error) {
	config, err := kernelConfig()
	if err != nil {
		return false, err
	}
	defer config.Close()
	built, disabled, err := rtGroupsBuilt(config)
	if err != nil || !built {
		return false, err
	}
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return false, err
	}
	return rtGroupsInForce(string(line), disabled), nil
}

// kernelConfig opens what the running kernel was built with: as it says itself
// (CONFIG_IKCONFIG_PROC), or as distributions leave it beside the kernel.
func kernelConfig() (io.ReadCloser, error) {
	if file, err := os.Open("/proc/config.gz"); err == nil {
		text, err := gzip.NewReader(file)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("/proc/config.gz: %w", err), file.Close())
		}
		return struct {
			io.Reader
			io.Closer
		}{text, file}, nil
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, os.NewSyscallError("uname", err)
	}
	return os.Open("/boot/config-" + unix.ByteSliceToString(name.Release[:]))
}

// rtGroupsBuilt finds group scheduling in a kernel's configuration, and whether
// it has to be turned on.
func rtGroupsBuilt(config io.Reader) (built, disabled bool, err error) {
	lines := bufio.NewScanner(config)
	for lines.Scan() {
		switch lines.Text() {
		case "CONFIG_RT_GROUP_SCHED=y":
			built = true
		case "CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y":
			disabled = true
		}
	}
	return built, disabled, lines.Err()
}

// rtGroupsInForce reads the last rt_group_sched= of a kernel command line.
func rtGroupsInForce(commandLine string, disabledByDefault bool) bool {
	on := !disabledByDefault
	for word := range strings.FieldsSeq(commandLine) {
		if value, ok := strings.CutPrefix(word, "rt_group_sched="); ok {
			if b, err := strconv.ParseBool(value); err == nil {
				on = b
			}
		}
	}
	return on
}

// rtLimit is a group's real-time CPU time; a negative runtime is no limit.
type rtLimit struct{ runtime, period time.Duration }

func (l rtLimit) share() float64 {
	switch {
	case l.runtime < 0:
		return math.Inf(1)
	case l.period <= 0:
		return 0
	}
	return float64(l.runtime) / float64(l.period)
}

func (p Place) realTime() (l rtLimit, err error) {
	runtime, err := readInt(p.Dir(), rtRuntime)
	if err != nil {
		return l, err
	}
	period, err := readInt(p.Dir(), rtPeriod)
	return rtLimit{time.Duration(runtime) * time.Microsecond, time.Duration(period) * time.Microsecond}, err
}

// setRealTime writes both files. The kernel checks each write by itself, so the
// order that is allowed depends on what was there.
func (p Place) setRealTime(l rtLimit) error {
	now, err := p.realTime()
	if err != nil {
		return err
	}
	order := [][2]string{{rtPeriod, micros(l.period)}, {rtRuntime, micros(l.runtime)}}
	if now.runtime > l.period || l.share() < now.share() {
		slices.Reverse(order)
	}
	for _, w := range order {
		if err := p.write(w[0], w[1]); err != nil {
			return err
		}
	}
	return nil
}

// grantedBelow sums what the groups directly below a place have been granted, but
// for one of them.
func (p Place) grantedBelow(except string) (float64, error) {
	entries, err := os.ReadDir(p.Dir())
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, e := range entries {
		child := Place{p.Hierarchy, path.Join(p.Path, e.Name())}
		if !e.IsDir() || child.Path == except {
			continue
		}
		l, err := child.realTime()
		if optional(err) != nil {
			return 0, err
		}
		sum += max(0, l.share())
	}
	return sum, nil
}

// rtGrant is what was changed for one grant, the topmost group first.
type rtGrant struct {
	mu      sync.Mutex
	changes []rtChange
}

type rtChange struct {
	place Place
	// By how much the runtime was raised; the group's own grant was set, and goes
	// back to what was.
	raised      time.Duration
	own         bool
	before, now rtLimit
}

func (r *rtGrant) make(place Place, wanted rtLimit) error {
	var way []Place // from the root's child to the group's parent
	for at := path.Dir(place.Path); at != "/" && at != "." && at != place.Root; at = path.Dir(at) {
		way = append(way, Place{place.Hierarchy, at})
	}
	slices.Reverse(way)
	chain := append(way, place)
	// What each must have depends on what the one below it will have.
	var raises []rtChange
	share := wanted.share()
	for i, at := range slices.Backward(way) {
		have, err := at.realTime()
		if err != nil {
			return fmt.Errorf("real-time CPU time of cgroup %s: %w", at.Path, err)
		}
		others, err := at.grantedBelow(chain[i+1].Path)
		if err != nil {
			return fmt.Errorf("real-time CPU time below cgroup %s: %w", at.Path, err)
		}
		// Rounded up, but for what the sum of fractions is off by.
		const off = 1e-6
		needed := time.Duration(
			math.Ceil((others+share)*float64(have.period)/float64(time.Microsecond)-off),
		) * time.Microsecond
		if have.runtime < 0 || have.runtime >= needed {
			break // and those above it have room for that already
		}
		if !at.isOurs() {
			return &RealTimeRefused{
				Group: at.Path, What: fmt.Sprintf("it has %v each %v, of which %v would be needed, and it is not tare's to change", have.runtime, have.period, needed),
				Mend: fmt.Sprintf("write %s to its %s", micros(needed), rtRuntime),
			}
		}
		now := rtLimit{needed, have.period}
		share = now.share()
		raises = append(raises, rtChange{place: at, raised: needed - have.runtime, before: have, now: now})
	}
	for _, raise := range slices.Backward(raises) {
		if err := raise.place.setRealTime(raise.now); err != nil {
			return refusedRealTime(raise.place, raise.now, err)
		}
		r.changes = append(r.changes, raise)
	}
	have, err := place.realTime()
	if err != nil {
		return fmt.Errorf("real-time CPU time of cgroup %s: %w", place.Path, err)
	}
	if have == wanted {
		return nil
	}
	if err := place.setRealTime(wanted); err != nil {
		return refusedRealTime(place, wanted, errors.Join(err, place.setBack(have)))
	}
	r.changes = append(r.changes, rtChange{place: place, own: true, before: have, now: wanted})
	return nil
}

// setBack undoes a write of which only the first half was taken.
func (p Place) setBack(before rtLimit) error {
	if now, err := p.realTime(); err != nil || now == before {
		return err
	}
	return p.setRealTime(before)
}

// ours are the groups at the top of the tree that tare makes and nobody else: what
// all platforms put their programs below, and what systemd calls that. (What
// programs are only followed in never has the cpu controller.)
var ours = []string{"tare", "tare.slice"}

// isOurs reports whether a group is one of these or below one. A name that only
// begins like theirs is somebody else's.
func (p Place) isOurs() bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(within(p.Root, p.Path), "/"), "/")
	return slices.Contains(ours, first)
}

func refusedRealTime(p Place, l rtLimit, err error) error {
	r := &RealTimeRefused{Group: p.Path, What: fmt.Sprintf("the kernel refuses %v each %v", l.runtime, l.period), Err: err}
	switch {
	case errors.Is(err, unix.EINVAL):
		r.Mend = "the groups beside it have been granted the rest of what is above them (kernel.sched_rt_runtime_us of kernel.sched_rt_period_us at the top): ask for less"
	case errors.Is(err, unix.EBUSY):
		r.Mend = "real-time threads still run in it: end them first"
	case errors.Is(err, fs.ErrPermission):
		r.Mend = "run as root"
	default:
		r.Mend = "look at " + p.File(rtRuntime)
	}
	return r
}

// restore takes back, the group itself first. What somebody else has changed
// since, and groups that are gone, are left. It may be called again.
func (r *rtGrant) restore() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.changes) > 0 {
		last := r.changes[len(r.changes)-1]
		if err := last.undo(); err != nil {
			return err
		}
		r.changes = r.changes[:len(r.changes)-1]
	}
	return nil
}

func (c rtChange) undo() error {
	now, err := c.place.realTime()
	if err != nil {
		return optional(err)
	}
	back := c.before
	switch {
	case c.own && now != c.now, now.period != c.now.period:
		return nil
	case !c.own:
		// Another grant may have raised it further meanwhile: that part stays.
		if back = (rtLimit{now.runtime - c.raised, now.period}); back.runtime < 0 {
			return nil
		}
	}
	if err := c.place.setRealTime(back); optional(err) != nil {
		return fmt.Errorf("take real-time CPU time back: %w", refusedRealTime(c.place, back, err))
	}
	return nil
}
