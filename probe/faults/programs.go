package faults

import (
	"strings"
	"time"

	"tare/probe"
)

// Began is when a target that appeared while recording executed its program: what its
// process faulted before is the runtime's own, which makes a container's first
// process and becomes its program. ok is false of targets that were given, and of
// those that have executed none yet.
func (r *Recording) Began(target int32) (at time.Duration, ok bool) {
	if int(target) < r.given {
		return 0, false
	}
	for _, e := range r.Executed {
		if e.Target == target && !ofRuntime(e.Command) {
			return e.At, true
		}
	}
	return 0, false
}

// ofRuntime reports whether a name is of a runtime that executes itself again: its
// own, or that of the link or descriptor by which it does.
func ofRuntime(command string) bool {
	return probe.ComponentOf(probe.Process{PID: 1, Comm: command}, 0) == probe.Runtime ||
		command == "exe" || strings.Trim(command, "0123456789") == ""
}

// Programs gives what distinguishes the faults of containers' programs from those of the
// runtime that started them while recording; for [Recording.Duplicates].
func (r *Recording) Programs() func(*Fault) bool {
	began := make([]time.Duration, len(r.Targets))
	for i := range r.Targets {
		at, ok := r.Began(int32(i))
		if !ok && i >= r.given {
			at = r.To // it has not begun
		}
		began[i] = at
	}
	return func(f *Fault) bool {
		return f.Target >= 0 && int(f.Target) < len(began) && f.At >= began[f.Target]
	}
}
