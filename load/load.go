// Package load sends requests to a service and records how long each took,
// from the moment it was due.
//
// # Latency from the intended start
//
// An open-loop generator sends on a schedule that does not wait for answers.
// Where a service stalls, the requests that were due meanwhile are sent late,
// or would have been sent late had the generator not waited with the service
// (Tene's "coordinated omission"; wrk2 made the remedy known). So each request
// has an intended moment, fixed by the schedule before anything is sent:
//
//	Corrected    answered - intended    what a user would have waited
//	Uncorrected  answered - sent        what a closed loop would report
//	Lateness     sent - intended        where a connection stood ready: the generator's own fault
//	Queued       sent - intended        where every connection was busy: the service's fault
//
// An answer has come when its last byte has been read: looking into it takes
// none of its latency. Over TCP an answer that is waited for is seen late by
// what it takes to wake up, unless the connection polls ([Polling]).
//
// Lateness is how the instrument weighs itself. Errors are counted by kind and
// never enter a latency. A closed loop ([Options.Rate] 0) has no schedule; its
// Corrected and Uncorrected are the same.
//
// # Schedule and connections
//
// The schedule is a sequence of moments, evenly spaced or a Poisson process
// drawn from a seed. An idle connection takes the next moment, waits for it,
// and sends; one that becomes free takes the oldest moment that is overdue. So
// requests are sent in the order of their moments, and as soon as any
// connection can: what remains is the backlog, which is counted.
//
// All moments of a schedule may be its start, too ([AtOnce]): as many requests as
// there are connections are then sent together.
//
// # One client, many services
//
// [Run] loads one service, and [Activate] is a client that turns to many, each now and
// then. There a schedule has a moment for each burst of requests, which goes to one of
// the services; how the moments lie does not depend on how many services there are.
//
// # Standing connections and bursts
//
// [Standing] is for load in slices of some 40 ms, between which the service may be frozen
// for minutes. Its connections stay open, and [Standing.Burst] loads them for a while:
//
//	|-- Ramp --|------- Window -------|-- drain --|
//	0                                 Duration    the last answer
//
//	Answered   requests whose right answers came within the window
//	Worked     all requests that were answered rightly, ramp and drain included
//	Errors     all others, ramp and drain included
//	CPU        of the generator's thread, for Worked and Errors
//	Latencies  of requests that were due after the ramp, in microseconds from their intended start
//
// A request of [RESP] is its whole pipeline. In a closed loop every connection sends at 0,
// and none at Duration or later. In an open loop the schedule has moments up to
// Duration. What is overdue then is still sent, for Timeout at most, so that Latencies
// leave out nothing.
//
// One thread sends and receives, and waits for all connections by epoll(7). So a request
// costs the generator less than most services, and the threads of the Go runtime have no
// part in it. Nothing is allocated for a request of fixed content, and the garbage of
// others is collected between bursts. Two things happen beside that thread: a broken
// connection is opened anew, and a connection for a single request is opened where the
// target has a Dial function or the name of a host. CPU does not hold these.
//
// The package speaks HTTP/1.1, RESP (Redis' protocol), OP_MSG (MongoDB's), Thrift's
// binary protocol and CQL's (Cassandra's), starts no program and computes no statistics but the histograms.
package load

import (
	"context"
	"time"
)

// Target is a service that can be sent requests.
type Target interface {
	// Open connects.
	Open(ctx context.Context) (Conn, error)
}

// Conn is one connection. Its methods are called by one goroutine, save Close,
// which may come from another and ends a request under way.
type Conn interface {
	// Do sends one request and reads its answer, by the deadline. reusable
	// tells whether another request may follow on this connection, whatever
	// the error. An error that is an *Error says its kind.
	Do(deadline time.Time) (reusable bool, err error)
	Close() error
}
