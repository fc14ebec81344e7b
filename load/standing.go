package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/kernel/poll"
	"tare/kernel/socket"
)

// ErrBlocking is the error of [OpenStanding] for a target that can only be waited for
// one connection at a time. [Run] loads it.
var ErrBlocking = errors.New("the target's connections cannot be waited for together")

// Standing is a set of connections to one service that stay open between bursts of load.
// Meanwhile the service may be frozen. Its methods may be called from several goroutines:
// one burst follows the other.
type Standing struct {
	target  Target
	set     *poll.Set
	opened  chan opening // what openings under way have come to
	restore func()       // of the collector of garbage

	mu        sync.Mutex // held by a burst
	slots     []slot
	latencies *hdrhistogram.Histogram // made once asked for
	idle      queue
	closed    bool
}

// slot is the place of one connection.
type slot struct {
	exchange   exchange         // nil where it has to be opened
	socket     *socket.Detached // nil where there is no connection
	generation int32            // of the socket
	in         inbox
	direct     netip.AddrPort // to which each request connects; not valid where none does
	connection                // what is under way on it
}

// opening is what came of opening a slot's connection.
type opening struct {
	place    int
	exchange exchange
	socket   *socket.Detached
	err      error
}

// OpenStanding connects to a target so many times: 1 to 65536. Where each request takes a
// connection of its own, none is opened before a burst, and connections bounds the
// requests under way.
//
// The error wraps ErrBlocking where the target's protocol, or what its Dial function
// returns, only serves Run. The garbage collector runs seldom until Close (see [Run]).
func OpenStanding(ctx context.Context, target Target, connections int) (*Standing, error) {
	if connections < 1 || connections > 1<<16 {
		return nil, fmt.Errorf("load: %d standing connections: want 1 to %d", connections, 1<<16)
	}
	set, err := poll.New()
	if err != nil {
		return nil, fmt.Errorf("load: standing connections: %w", err)
	}
	s := &Standing{
		target: target, set: set, restore: quiet(),
		opened: make(chan opening, connections), slots: make([]slot, connections), idle: newQueue(connections),
	}
	if err := s.openMissing(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("load: standing connections: %w", err)
	}
	return s, nil
}

// Close closes the connections, once a burst under way has ended. It may be called again.
func (s *Standing) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	for i := range s.slots {
		s.drop(&s.slots[i])
	}
	s.restore()
	return s.set.Close()
}

// openMissing opens the connections that are not there, all at once. The error is the
// first one's.
func (s *Standing) openMissing(ctx context.Context) (failed error) {
	under := 0
	for i := range s.slots {
		if missing := s.slots[i].exchange == nil; missing {
			under++
			go s.open(ctx, i, nil)
		}
	}
	for range under {
		o := <-s.opened
		err := o.err
		if err == nil {
			err = s.take(o)
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// open opens a slot's connection, through the exchange where it has one, and reports it.
func (s *Standing) open(ctx context.Context, place int, through exchange) {
	o := opening{place: place, exchange: through}
	var conn net.Conn
	if through != nil {
		conn, o.err = through.(renewing).dial(ctx)
	} else {
		o.exchange, conn, o.err = openExchange(ctx, s.target)
	}
	if o.err == nil && conn != nil {
		if o.socket, o.err = socket.Detach(conn); o.err != nil {
			o.err = fmt.Errorf("%w: %w", ErrBlocking, o.err)
		}
	}
	s.opened <- o
	s.set.Wake()
}

// openExchange opens a target; conn is nil where each request takes one.
func openExchange(ctx context.Context, target Target) (exchange, net.Conn, error) {
	conn, err := target.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	e, ok := conn.(exchange)
	if !ok {
		conn.Close()
		return nil, nil, fmt.Errorf("%T: %w", target, ErrBlocking)
	}
	return e, e.detach(), nil
}

// take gives a slot the connection that was opened for it.
func (s *Standing) take(o opening) error {
	slot := &s.slots[o.place]
	slot.exchange, slot.socket = o.exchange, o.socket
	slot.in.clear()
	if r, ok := o.exchange.(renewing); ok && r.renews() {
		slot.direct = r.direct()
	}
	if o.socket == nil {
		return nil
	}
	slot.generation++
	if err := s.set.Add(o.socket.Descriptor(), slot.token(o.place)); err != nil {
		s.drop(slot)
		return err
	}
	return nil
}

func (s *slot) token(place int) poll.Token {
	return poll.Token{Place: int32(place), Generation: s.generation}
}

// drop closes a slot's connection.
func (s *Standing) drop(slot *slot) {
	if slot.socket != nil {
		_ = slot.socket.Close() // what it carried is over
		slot.socket = nil
	}
	if !renews(slot.exchange) {
		slot.exchange = nil
	}
	slot.in.clear()
}

func renews(e exchange) bool {
	r, ok := e.(renewing)
	return ok && r.renews()
}

// queue is the places of slots that are idle, the one that is so for longest first.
type queue struct {
	places      []int
	first, size int
}

func newQueue(room int) queue { return queue{places: make([]int, room)} }

func (q *queue) push(place int) {
	q.places[(q.first+q.size)%len(q.places)] = place
	q.size++
}

func (q *queue) pop() int {
	place := q.places[q.first]
	q.first = (q.first + 1) % len(q.places)
	q.size--
	return place
}

func (q *queue) head() int { return q.places[q.first] }
