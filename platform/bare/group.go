package bare

import (
	"context"
	"os"
	"syscall"

	"tare/kernel/cgroup"
	"tare/platform"
	"tare/platform/held"
)

// trackingParent is the cgroup, below tare's own, that bare programs are followed in.
const trackingParent = "tare-bare"

// grouping is where a program's processes are.
type grouping struct {
	// own is theirs alone: by it they are followed, counted and ended.
	own cgroup.Group
	// box is the group with the memory controller in a box, for a program without a group
	// of its own in that hierarchy; else it has no place.
	box cgroup.Group
	// killed counts, of all in the box, those that the kernel had killed for
	// memory when the program was laid out.
	killed int64
}

// makeGroup makes the cgroup that the program's processes are in.
func (h *host) makeGroup(ctx context.Context, things *held.Things, spec platform.Spec) (grouping, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return grouping{}, err
	}
	if err := spec.FindGroup(layout); err != nil {
		return grouping{}, err
	}
	var limits cgroup.Limits
	var controllers []string
	var g grouping
	switch {
	case h.name == Cgroup:
		controllers = []string{"cpu", "cpuset", "memory", "pids", "io"}
		limits = spec.Setting.Limits()
		g.own = layout.At(spec.Parent()).Child(spec.Name)
	case spec.Group != "":
		if g, err = inBox(layout, spec); err != nil {
			return g, err
		}
	default:
		tare, _, err := layout.Of(os.Getpid())
		if err != nil {
			return g, err
		}
		g.own = tare.Tracking().Child(trackingParent).Child(spec.Name)
	}
	err = things.Take(ctx, held.CgroupEntry(h.name, g.own), func() error {
		if err := g.own.Create(controllers...); err != nil {
			return err
		}
		if _, ok := layout.For("cpuset"); !ok {
			limits.CPUs = "" // a kernel of one CPU, by Check: there is nothing to set
		}
		return g.own.Apply(limits)
	}, func(ctx context.Context) error { return held.EndGroup(ctx, g.own) })
	return g, err
}

// inBox is the grouping of bare metal in a box: the group that it is followed by, which
// no controller acts on, lies in the box's, so that what is read of that (time
// waited for memory, for one) holds the program too.
func inBox(layout cgroup.Layout, spec platform.Spec) (g grouping, err error) {
	g.own = layout.At("/").Tracking().Child(spec.Parent()).Child(spec.Name)
	memory, ok := layout.At(spec.Parent()).For("memory")
	if !ok {
		return g, &platform.Missing{What: "no cgroup hierarchy carries the memory controller, which a box is made by", Mend: "boot without cgroup_disable=memory"}
	}
	g.box.Places = []cgroup.Place{memory}
	use, err := g.box.Use()
	g.killed = use.OOMKills
	return g, err
}

// processFiles are the files by which the program joins its groups. Where versions 1 and
// 2 are beside each other the box's memory is in the one, and what follows in the
// other; in version 2 alone, what lies in the box's group is in the box by that.
func (g grouping) processFiles() []string {
	files := g.own.ProcessFiles()
	for _, p := range g.box.Places {
		if p.Version == 1 {
			files = append(files, p.File("cgroup.procs"))
		}
	}
	return files
}

// oomKilled reports whether a program that ended with that code was ended by the kernel,
// for its memory. The kernel counts a kill where the killed process is, whichever
// limit above it was met. In a box all of bare metal's programs are in one place: there
// it is distinguished from a kill since the program was laid out, and the program's own end by
// SIGKILL, which two programs that end so may both be.
func (g grouping) oomKilled(code int) (bool, error) {
	own, err := platform.OOMKilled(g.own)
	if own || err != nil || len(g.box.Places) == 0 || code != 128+int(syscall.SIGKILL) {
		return own, err
	}
	use, err := g.box.Use()
	return use.OOMKills > g.killed, err
}
