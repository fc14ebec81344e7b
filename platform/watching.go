package platform

import (
	"context"

	"tare/probe/causes"
)

// Watching is an instance that is watched by others than tare's own process, since
// it runs under another kernel: its agent watches it there.
type Watching interface {
	Instance
	// Watch begins to watch the program for the causes of its overhead. The error is a
	// *tare/probe.Missing where that kernel lacks what it needs.
	Watch(ctx context.Context, o causes.Options) (Watch, error)
}

// Watch goes on until it is stopped.
type Watch interface {
	// Stop ends it and gives what was seen. It may be called again.
	Stop(ctx context.Context) (causes.Reading, error)
}

// Apart is an instance under another kernel than tare's own: its Processes are ids of
// that kernel, and nothing of it is to be found in this one's /proc or cgroups.
type Apart interface {
	Instance
	// Machine names the kernel's machine: "vm:tcg".
	Machine() string
}
