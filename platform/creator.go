package platform

import (
	"context"
	"time"
)

// Creator is a platform on which a program can be laid out first and started
// later, as `docker create` and `docker start` do it: what a study of start-up
// needs, which times the start alone, at moments of its own choosing.
//
// What Create does is what can be done without a process: files, a network
// where tare makes it, the cgroup where tare makes it, and, in an engine, the
// container's entry in its books. Everything else is the start's, and so in its
// time: whatever the engine, its shim and the runtime do from the container at
// rest to the program running. (`runc create` makes a process, and is therefore
// the start's.)
type Creator interface {
	Platform
	// Create makes a container at rest. When it returns an error nothing is left.
	Create(ctx context.Context, spec Spec) (Created, error)
}

// Created is a container at rest, and later its program.
type Created interface {
	// ID is the word by which the platform's own processes name the container in
	// their arguments and its cgroup's path: the engine's id, or the name that
	// the runtime was given. Bare metal's is the instance's name, and in no
	// process' arguments.
	ID() string
	// Start starts the program and returns when the platform has answered. It
	// asks nothing else of the platform, so that its time is that of one start.
	// It is called once. After an error only Stop may follow.
	Start(ctx context.Context) error
	// Instance takes hold of the started program: its processes, its addresses.
	// It may ask the engine. Its Wait, Usage and so on are as after Launch. A
	// program that has ended already is no error.
	Instance(ctx context.Context) (Instance, error)
	// Stop ends the program if it runs, and removes everything that Create and
	// Start made. It may be called in any state, and again; after Instance it is
	// the instance's own Stop.
	Stop(ctx context.Context) error
}

// Phased is a Created whose platform reports the phases of its start.
type Phased interface {
	Created
	// Phases are those of a start that has come to the program, in order and without gaps,
	// from the call of Start on.
	Phases() []Phase
}

// Phase is a part of a start.
type Phase struct {
	Name string
	Time time.Duration
}
