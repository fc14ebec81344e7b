package workload

import "context"

// Divided is a service of several programs, each of which can have a container of its
// own. In one container they run beside one another ([Workload.Program]).
type Divided interface {
	Loader
	// Parts lists the programs in the order in which they are started: each finds what
	// it needs among those before it. The last is the one that clients reach: a Trial's
	// Address is of that.
	Parts(p Params) ([]Part, error)
}

// Part is one program of several.
type Part struct {
	Name string // "database"
	// Program says what to run, where the parts before it answer at at(part, port).
	Program func(at func(part string, port int) string) Program
	// Ready waits until the part answers, for up to the context's time; nil where
	// nothing needs it before the whole is ready.
	Ready func(ctx context.Context, address func(port int) string) error
}
