package platform

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"tare/kernel/cgroup"
	"tare/probe/causes"
)

// WatchTarget is what a probe watches of an instance of this kernel: its processes with
// what they start, and the control group that it has to itself, where it has one.
func WatchTarget(inst Instance) (causes.Target, error) {
	pids, err := inst.Processes()
	if err != nil {
		return causes.Target{}, err
	}
	if len(pids) == 0 {
		return causes.Target{}, fmt.Errorf("it has no process: %w", ErrGone)
	}
	group, err := OwnGroup(pids[0])
	if err != nil {
		return causes.Target{}, err
	}
	layout, err := cgroup.Host()
	if err != nil {
		return causes.Target{}, err
	}
	ours, _, err := layout.Of(os.Getpid())
	if err != nil {
		return causes.Target{}, err
	}
	return causes.Target{Cgroup: ownDirectory(group, ours), PIDs: pids}, nil
}

// ownDirectory is the directory of the group that a program has to itself; empty where
// it has none. Bare metal's is in one hierarchy alone: in the others the program is
// where tare is, and with it tare and the load that it makes. That with the CPU
// controller goes before others, since it tells of throttling.
func ownDirectory(group, ours cgroup.Group) string {
	if p, has := group.For("cpu"); has && own(p, ours) {
		return p.Dir()
	}
	for _, p := range group.Places {
		if own(p, ours) && !above(p, group) {
			return p.Dir()
		}
	}
	return ""
}

// own tells that a place is a program's alone: neither where tare is or anything above
// it, nor what the system shares out among many.
func own(p cgroup.Place, ours cgroup.Group) bool {
	if p.Path == "/" || p.Path == CgroupParent || strings.HasSuffix(p.Path, ".slice") {
		return false
	}
	for _, o := range ours.Places {
		if o.Mount == p.Mount && strings.HasPrefix(o.Path+"/", p.Path+"/") {
			return false
		}
	}
	return true
}

// above tells that a place is above where the program is in another hierarchy: that of
// bare metal's programs in a box, whose memory they share.
func above(p cgroup.Place, group cgroup.Group) bool {
	return slices.ContainsFunc(group.Places, func(o cgroup.Place) bool { return strings.HasPrefix(o.Path, p.Path+"/") })
}
