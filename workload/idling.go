package workload

import (
	"context"
	"fmt"

	"tare/load"
)

// Idling is a service that is kept for what it has in memory, and is asked only now and
// then: the neighbour whose presence is weighed. Many of one kind run at a time, so that
// each has a parameter "port", its own.
type Idling interface {
	Readier
	// Sized gives the parameters with which it holds about so many bytes of objects, all
	// in memory of its own. The error is a *[WrongSize] where it cannot hold so many, or so
	// few.
	Sized(p Params, bytes int64) (Params, error)
	// Fill makes the ready service hold its objects. Seed determines what is in them.
	Fill(ctx context.Context, t Trial, seed uint64) error
	// Asks is the service as a load's target: each request asks for one object, drawn by
	// seed as the parameters say, and what comes back is checked to be the one that Fill
	// with its seed laid there.
	Asks(t Trial, filled, seed uint64) (load.Target, error)
}

// WrongSize says that an idling service cannot hold so much.
type WrongSize struct{ Bytes, Least, Most int64 }

func (w *WrongSize) Error() string {
	return fmt.Sprintf("%d bytes of objects: want at least %d, and at most %d", w.Bytes, w.Least, w.Most)
}
