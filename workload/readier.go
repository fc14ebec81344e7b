package workload

import "context"

// Readier is a workload that can be asked whether it is ready: a service, whether
// it serves; a batch program that can be watched at work, whether it is at it
// ([Sustainer]). A workload that is none is ready when it runs.
type Readier interface {
	Workload
	// Ready blocks until the service has answered its first request, or the
	// check that its file declares holds. It asks again and again, and waits
	// between two questions for a twentieth of the time since the first, at
	// least a millisecond: so it is at most 5 % late, or a millisecond. The
	// error says what was asked last, and what came of it. It puts no load on the
	// service; data that the parameters ask for are put in before it returns.
	Ready(ctx context.Context, t Trial) error
}

// Listener is a workload whose readiness shows in what its program prints. Whoever
// asks it must have the program's output at hand.
type Listener interface {
	Listens() bool
}

// Serves gives the check by which a service's start-up ends. A program that ends
// by itself has none, nor has one that nobody can ask and that says nothing: their
// first instruction is all that start-up has of them.
func Serves(w Workload, p Program) (r Readier, ok bool) {
	r, ok = w.(Readier)
	return r, ok && p.Service && (len(p.Ports) > 0 || listens(w))
}

func listens(w Workload) bool {
	l, ok := w.(Listener)
	return ok && l.Listens()
}
