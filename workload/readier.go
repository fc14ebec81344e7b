package workload

import "context"

// Readier is a service that can be asked whether it serves. A workload that is
// none is ready when it runs: a batch program's first instruction is all that
// start-up has of it.
type Readier interface {
	Workload
	// Ready blocks until the service has answered its first request, or the
	// check that its file declares holds. It asks again and again, and waits
	// between two questions for a twentieth of the time since the first, at
	// least a millisecond: so it is at most 5 % late, or a millisecond. The
	// error says what was asked last, and what came of it. It loads nothing.
	Ready(ctx context.Context, t Trial) error
}
