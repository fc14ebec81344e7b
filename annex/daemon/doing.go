package daemon

import (
	"errors"
	"slices"
	"strings"
	"time"

	"tare/annex"
	"tare/container"
	"tare/kernel/cgroup"
	"tare/kernel/procfs"
)

// doing is what a container does, by its control groups.
type doing struct {
	frozen bool
	// idle is a critical container that used no CPU time worth the name between two looks. That of
	// others is reported by the monitor.
	idle bool
	cpu  time.Duration
	at   annex.Moment // of that; 0 is that it is not known
}

// idleShare is the share of a CPU below which a critical container is idle: that of
// [tare/annex/monitor.Options.Murmur].
const idleShare = 0.0025

// lookAtDoing asks what all containers do.
func (d *Daemon) lookAtDoing(now annex.Moment) {
	for _, id := range d.ids() {
		h := d.held[id]
		if d.parts.Frozen != nil {
			if frozen, err := d.parts.Frozen(h.container); err == nil { // or what is known holds
				h.what.frozen = frozen
				d.parts.Data.Frozen(id, frozen)
			}
		}
		if d.parts.CPU == nil || h.class != annex.Critical {
			continue
		}
		cpu, err := d.parts.CPU(h.container)
		if err != nil {
			h.what.idle, h.what.at = false, 0
			continue
		}
		if took := now.Since(h.what.at); h.what.at != 0 && took > 0 {
			h.what.idle = float64(cpu-h.what.cpu) < idleShare*float64(took)
		}
		h.what.cpu, h.what.at = cpu, now
	}
}

// groups are the control groups of containers in all hierarchies.
type groups struct{ layout cgroup.Layout }

// of finds a container's by the path of the one that is known, or by its first process in those
// hierarchies in which its engine calls it otherwise. A group that holds others' processes too is not
// its own: on a host of both versions engines make none in some hierarchies.
func (g groups) of(c container.Container) cgroup.Group {
	var own cgroup.Group
	in, known := placeOf(g.layout, c.Cgroup)
	for _, h := range g.layout.Hierarchies {
		if h.Version == 1 && !h.Has("freezer") && !h.Has("cpuacct") {
			continue
		}
		at := cgroup.Group{Places: []cgroup.Place{{Hierarchy: h, Path: in.Path}}}
		if known && at.Exists() {
			own.Places = append(own.Places, at.Places[0])
			continue
		}
		if !known || c.PID <= 0 {
			continue
		}
		members, _, _ := g.layout.Of(c.PID) // of one that has ended nothing is known
		for _, p := range members.Places {
			if p.Mount != h.Mount || p.Path == "/" || p.Path == h.Root {
				continue
			}
			if pid, err := g.layout.Outsider(p, in); pid == 0 && err == nil {
				own.Places = append(own.Places, p)
			}
		}
	}
	return own
}

// frozen tells that a container's processes are frozen, or that a signal has stopped each of them.
func (g groups) frozen(c container.Container) (bool, error) {
	if frozen, err := g.of(c).Frozen(); frozen || err != nil {
		return frozen, err
	}
	if c.PID > 0 && g.holds(c.Cgroup, c.PID) {
		if first, err := procfs.Host.Process(c.PID).Stat(); err == nil && !first.Zombie() && first.State != stopped {
			return false, nil // without a look at all the others
		}
	}
	pids, err := c.Processes()
	if err != nil {
		return false, err
	}
	any := false
	for _, pid := range pids {
		stat, err := procfs.Host.Process(pid).Stat()
		switch {
		case procfs.Gone(err), err == nil && stat.Zombie():
		case err != nil:
			return false, err
		case stat.State != stopped:
			return false, nil
		default:
			any = true
		}
	}
	return any, nil
}

// stopped is the state of a process that a signal has stopped (SIGSTOP).
const stopped = 'T'

// holds tells that a process is in a group: the number of one that has ended may be another's.
func (g groups) holds(dir string, pid int) bool {
	in, known := placeOf(g.layout, dir)
	members, _, err := g.layout.Of(pid)
	return known && err == nil && slices.ContainsFunc(members.Places, func(p cgroup.Place) bool {
		return p.Mount == in.Mount && (p.Path == in.Path || strings.HasPrefix(p.Path, in.Path+"/"))
	})
}

// cpu is the CPU time that a container has used.
func (g groups) cpu(c container.Container) (time.Duration, error) {
	of := g.of(c)
	if len(of.Places) == 0 {
		return 0, errors.New("it has no control group of its own")
	}
	use, err := of.Use()
	return use.CPU, err
}
