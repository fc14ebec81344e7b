// Package control is how the memory extension's daemon is spoken to: a server on a socket
// that root alone may use, its client, and metrics for Prometheus on the loopback.
//
// It is HTTP with JSON over a Unix socket. It decides nothing and measures nothing: what it
// tells comes from a [Daemon], and what it is asked to do a Daemon does.
//
//	GET  /status              a Status
//	GET  /top                 a Status each interval (?interval=1s), a line each, until the client leaves
//	GET  /explain?container=  an Explanation
//	POST /drain?rate=         begin to bring everything back, at so many bytes a second (0 or absent: no limit)
//	POST /off                 the same, and put every setting back
//	POST /reload              read the configuration anew
//
// An error is a [Problem]. The socket has mode 0600, and whoever connects is asked of the
// kernel who it is (SO_PEERCRED) besides.
package control

import (
	"context"
	"fmt"
	"strings"
)

// Daemon is what a server speaks for. Its methods are called by several goroutines at
// once.
type Daemon interface {
	// Status tells how it stands. It is called often, and answers from what is known.
	Status() Status
	// Explain tells of one container, by name, id or the beginning of one. The error is an
	// *Unknown where there is no such container.
	Explain(name string) (Explanation, error)
	// Drain begins to bring everything back, at most bytesPerSecond of it (0 is no bound),
	// and stops evicting; Status tells how far it is. What does not fit stays where it is.
	// A *Refused says that the daemon is in no state for it.
	Drain(ctx context.Context, bytesPerSecond int64) error
	// Off does the same without a bound, and puts every setting back to what was found. The
	// daemon stays, and does nothing more until a Reload.
	Off(ctx context.Context) error
	// Reload reads the configuration anew and takes up managing again after a Drain or an
	// Off. A configuration with errors (*config.Invalid) leaves the one in force as it is. It
	// returns the keys whose change takes effect only when the daemon is started anew.
	Reload(ctx context.Context) (restart []string, err error)
}

// Unknown is a container that is not there.
type Unknown struct {
	Container string
	// Near are names that may have been meant, and Several those that all fit.
	Near, Several []string
}

func (u *Unknown) Error() string {
	switch {
	case len(u.Several) > 0:
		return fmt.Sprintf("%q is several containers: %s: give more of the id", u.Container, strings.Join(u.Several, ", "))
	case len(u.Near) > 0:
		return fmt.Sprintf("no container %q is known: did you mean %s?", u.Container, strings.Join(u.Near, " or "))
	}
	return fmt.Sprintf("no container %q is known: annex status lists them", u.Container)
}

// Refused says that the daemon does not do what was asked, in the state in which it is.
type Refused struct {
	What  string // "drain"
	State State
	Mend  string
}

func (r *Refused) Error() string {
	text := fmt.Sprintf("cannot %s while %s", r.What, r.State)
	if r.Mend != "" {
		text += ": " + r.Mend
	}
	return text
}
