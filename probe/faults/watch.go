package faults

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"tare/kernel/process"
	"tare/probe/bpf"
)

// watch is what of the targets the programs need to know.
type watch struct {
	hierarchies *bpf.Hierarchies
	roots       map[bpf.Group]int32
	followed    map[uint32]int32
	processes   []process.Identity // of followed
	below       bpf.Group
	hasBelow    bool
}

func (w *watch) locate(targets []Target, below string) error {
	w.roots, w.followed = map[bpf.Group]int32{}, map[uint32]int32{}
	for i, t := range targets {
		if t.Cgroup == "" && len(t.PIDs) == 0 {
			return fmt.Errorf("target %q names neither a control group nor processes", t.Name)
		}
		for _, pid := range t.PIDs {
			if pid <= 0 {
				return fmt.Errorf("target %q: %d is no process id", t.Name, pid)
			}
			if _, taken := w.followed[uint32(pid)]; !taken {
				w.followed[uint32(pid)] = int32(i)
			}
		}
		if t.Cgroup == "" {
			continue
		}
		d, err := w.hierarchies.Locate(t.Cgroup)
		if err != nil {
			return fmt.Errorf("target %q: %w", t.Name, err)
		}
		if _, taken := w.roots[d]; !taken {
			w.roots[d] = int32(i)
		}
	}
	var err error
	if w.processes, err = bpf.Identify(w.followed); err != nil || below == "" {
		return err
	}
	w.below, err = w.hierarchies.Locate(below)
	w.hasBelow = true
	return err
}

// set passes to the programs what stays the same.
func (w *watch) set(spec *ebpf.CollectionSpec) error {
	var subsystems [bpf.MostHierarchies]int32
	copy(subsystems[:], w.hierarchies.Subsystems)
	err := errors.Join(
		spec.Variables[objectVarHierarchies].Set(uint32(len(w.hierarchies.Subsystems))),
		spec.Variables[objectVarSubsystem].Set(subsystems),
		spec.Variables[objectVarByPid].Set(len(w.followed) > 0),
	)
	if w.hasBelow {
		err = errors.Join(err,
			spec.Variables[objectVarBelowHierarchy].Set(w.below.Hierarchy),
			spec.Variables[objectVarBelowId].Set(w.below.ID))
	}
	return err
}

// watch passes to them what is watched.
func (w *watch) watch(collection *ebpf.Collection) error {
	for d, target := range w.roots {
		if err := collection.Maps[objectMapRoots].Put(d, target); err != nil {
			return fmt.Errorf("watch a control group: %w", err)
		}
	}
	for pid, target := range w.followed {
		if err := collection.Maps[objectMapFollowed].Put(pid, target); err != nil {
			return fmt.Errorf("watch process %d: %w", pid, err)
		}
	}
	return nil
}
