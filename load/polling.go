package load

import (
	"context"
	"net"
	"time"

	"tare/kernel/socket"
)

// LongestPoll bounds what [Polling] takes.
const LongestPoll = socket.LongestPoll

// Polling makes a target's Dial function of another, nil being TCP: connections
// that ask again and again for their answer, for up to limit, before they sleep
// until it comes.
//
// An answer that is slept for is seen late, by the tens of microseconds that it
// takes to wake a CPU, a thread and a goroutine, which then stand in each
// latency. Polling takes them off, at the price of a CPU: it is for one
// connection, where neither the service nor anything else under trial runs on
// the generator's CPUs. Where those are threads of the service's own cores, the
// service has less of them.
func Polling(
	by func(ctx context.Context, address string) (net.Conn, error),
	limit time.Duration,
) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dialing(by).connect(ctx, address)
		if err != nil {
			return nil, err
		}
		polled, err := socket.Poll(conn, limit)
		if err != nil {
			conn.Close()
		}
		return polled, err
	}
}
