package held

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/platform"
)

// The kinds of things that the platforms which drive the kernel themselves
// enter in the ledger.
const (
	Directory = "dir"     // ID: its path; what is mounted in it goes with it
	Mount     = "mount"   // ID: its path
	Cgroup    = "cgroup"  // ID: its path from the root, in every hierarchy; the processes in it go with it
	Process   = "process" // ID: its id; Attrs[Start]
	NetNS     = "netns"   // ID: the file that keeps it
	Link      = "link"    // ID: its name; Attrs[MAC]
)

// Attributes of entries.
const (
	Start = "start" // clock ticks since boot
	MAC   = "mac"
)

// CgroupEntry names a group.
func CgroupEntry(platformName string, g cgroup.Group) platform.Entry {
	return platform.Entry{Platform: platformName, Kind: Cgroup, ID: g.String()}
}

// RemoveCgroup ends every process of the group that the entry names, in every
// hierarchy that has one, and removes it. It refuses a group that cannot be tare's.
func RemoveCgroup(ctx context.Context, e platform.Entry) error {
	parent := path.Base(path.Dir(e.ID))
	// In a box it is deeper than others.
	inBox := strings.HasPrefix(e.ID, platform.CgroupParent+"/")
	if !inBox && !strings.HasPrefix(parent, "tare") || path.Clean(e.ID) != e.ID {
		return fmt.Errorf("cgroup %q is not below one of tare's: it is left alone", e.ID)
	}
	layout, err := cgroup.Host()
	if err != nil {
		return err
	}
	return EndGroup(ctx, layout.At(e.ID))
}

// EndGroup ends every process of the group and removes it.
func EndGroup(ctx context.Context, g cgroup.Group) error {
	if err := EndProcesses(ctx, g, 0); err != nil {
		return err
	}
	return g.Remove(ctx)
}

// EndProcesses ends every process of the group, and reaps those that have
// become this program's children; but first, where it is one, is waited for
// elsewhere.
func EndProcesses(ctx context.Context, g cgroup.Group, first int) error {
	pids, err := g.Processes()
	if err != nil {
		return err
	}
	if err := g.Kill(ctx); err != nil {
		return err
	}
	return process.ReapKilled(ctx, g.String(), pids, first)
}

// RemoveProcess ends the process that the entry names, if it is still that one.
func RemoveProcess(ctx context.Context, e platform.Entry) error {
	start, ok := e.Attrs[Start]
	if !ok {
		return errors.New("process " + e.ID + " was entered without its start time, so it cannot be distinguished from another: it is left alone")
	}
	id, err := process.ParseIdentity(e.ID, start)
	if err != nil {
		return err
	}
	return id.Kill(ctx)
}
