package workload

import (
	"context"
	"net"

	"tare/load"
)

// Loader is a service whose load can be asked for apart from its start: what a
// study of latency needs, which reads the kernel's accounts just before and
// just after the load, and loads one program several times.
type Loader interface {
	Readier
	// Offered says how the parameters have requests arrive.
	Offered(p Params) (Offered, error)
	// Load loads the ready service once, as the trial's parameters say (warm-up
	// and duration among them), and returns what came of it; it records nothing.
	// Seed determines what is drawn: moments, and what is asked for. A request
	// that fails is in the result; the error is for a load that could not be
	// made, a service that ended, and a load of which nothing was answered.
	Load(ctx context.Context, t Trial, seed uint64) (load.Result, error)
}

// Offered is how requests arrive at a service.
type Offered struct {
	Rate        float64      // requests per second of an open loop; 0 is a closed one
	Arrival     load.Arrival // of an open loop
	Connections int          // at most under way at once
	Threads     int          // of the service that answer; 0 is one for each connection
}

// Dialing is a Trial whose load comes from elsewhere than the host's own
// network: from a client's network namespace. A workload that loads by tare's
// own generator connects through it where its trial is one.
type Dialing interface {
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// Remembering is a Trial that keeps what a workload knows of its service, for as long as
// that runs, from one load to the next: what was left there, to hold later answers to.
type Remembering interface {
	// Remembered gives what was kept, and first has it made.
	Remembered(make func() any) any
}

// Batching is a Trial whose load is reported in spans of time, too, where tare's own generator
// makes it.
type Batching interface {
	// Batches is how many; 0 is none.
	Batches() int
}

// batchesOf is how many spans a trial's load is reported in.
func batchesOf(t Trial) int {
	if b, ok := t.(Batching); ok {
		return b.Batches()
	}
	return 0
}

// dialOf is how a trial's load connects; nil is over the host's own network.
func dialOf(t Trial) func(ctx context.Context, address string) (net.Conn, error) {
	if d, ok := t.(Dialing); ok {
		return d.Dial
	}
	return nil
}
