package sched

import (
	"time"

	"tare/probe"
)

// PhaseName names a part of a start.
type PhaseName string

// The phases of a start, in their order. A platform without an engine or a shim
// lacks theirs, and a runtime that creates and starts by one command has no
// PhaseExec: its PhaseInit ends with the program.
const (
	// PhaseAccept: from the request until the engine works on it; without an engine,
	// until the runtime is executed, and on bare metal until a process is there.
	PhaseAccept PhaseName = "engine accepts"
	// PhasePrepare: the engine's own work before the shim, the root's mounts and the
	// network among it. Docker joins the network to the container later, by a hook
	// that the runtime calls: that is in PhaseInit.
	PhasePrepare PhaseName = "engine prepares"
	// PhaseShim: the shim starts, until it runs the runtime.
	PhaseShim PhaseName = "shim"
	// PhaseCreate: the runtime, until it has forked what becomes the application.
	PhaseCreate PhaseName = "runtime create"
	// PhaseInit: namespaces, mounts, limits and filters, until the runtime is asked to
	// let the program go.
	PhaseInit PhaseName = "init"
	// PhaseExec: until the program's first instruction.
	PhaseExec PhaseName = "exec"
	// PhaseApplication: the program's own start, until it serves.
	PhaseApplication PhaseName = "application until ready"
)

// Share is time by what was done with it.
type Share struct{ Running, Ready, Blocked time.Duration }

func (s *Share) add(state State, d time.Duration) {
	switch state {
	case Running:
		s.Running += d
	case Ready:
		s.Ready += d
	case Blocked:
		s.Blocked += d
	}
}

// Phase is a part of a start, with what its time on the critical path went to.
// Its share is the whole of it, its components' shares and its causes' times
// add up to that.
type Phase struct {
	Name       PhaseName
	From, To   time.Duration
	Share      Share
	Causes     map[Cause]time.Duration // of what was blocked
	Components map[probe.Component]Share
}

// ComponentAt gives the component that a segment's process is at a moment.
type ComponentAt func(pid int, t time.Duration) probe.Component

// Component is by what the recording knows; self is the caller's own process.
func (r *Recording) Component(self int) ComponentAt {
	return func(pid int, t time.Duration) probe.Component {
		process, ok := r.Processes.At(pid, t)
		if !ok {
			return probe.Other
		}
		return probe.ComponentOf(process, self)
	}
}

// Phases divides a path by the marks of its start. A mark that was not seen
// ends no phase: its time is the next one's. The path has to begin at Sent and
// to end at Ready, or at Application where the caller waits for no more.
func Phases(path []Segment, marks Marks, component ComponentAt) []Phase {
	if len(path) == 0 {
		return nil
	}
	var phases []Phase
	from, end := path[0].From, path[len(path)-1].To
	until := func(name PhaseName, to time.Duration) {
		to = min(to, end)
		if to > from {
			phases = append(phases, phase(path, name, from, to, component))
			from = to
		}
	}
	if marks.Shim != 0 {
		until(PhaseAccept, accepted(path, marks, component))
		until(PhasePrepare, marks.Shim)
		until(PhaseShim, marks.Runtime)
	} else if marks.Runtime != 0 {
		until(PhaseAccept, marks.Runtime)
	} else {
		until(PhaseAccept, marks.Init)
	}
	if marks.Runtime != 0 {
		until(PhaseCreate, marks.Init)
	}
	if marks.Release != 0 {
		until(PhaseInit, marks.Release)
		until(PhaseExec, marks.Application)
	} else {
		until(PhaseInit, marks.Application)
	}
	until(PhaseApplication, end)
	return phases
}

// accepted is when the engine first works on the start.
func accepted(path []Segment, marks Marks, component ComponentAt) time.Duration {
	for _, s := range path {
		if s.From >= marks.Shim {
			break
		}
		if c := component(s.PID, s.From); s.State == Running && (c == probe.Engine || c == probe.Containerd) {
			return s.From
		}
	}
	return path[0].From
}

func phase(path []Segment, name PhaseName, from, to time.Duration, component ComponentAt) Phase {
	p := Phase{
		Name:       name,
		From:       from,
		To:         to,
		Causes:     map[Cause]time.Duration{},
		Components: map[probe.Component]Share{},
	}
	for _, s := range path {
		begin, end := max(s.From, from), min(s.To, to)
		if begin >= end {
			continue
		}
		d := end - begin
		p.Share.add(s.State, d)
		if s.State == Blocked {
			p.Causes[s.Cause] += d
		}
		c := component(s.PID, begin)
		share := p.Components[c]
		share.add(s.State, d)
		p.Components[c] = share
	}
	return p
}
