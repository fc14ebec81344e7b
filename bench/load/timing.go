package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/kernel/clock"
	"tare/kernel/process"
	"tare/kernel/socket"
	"tare/load"
)

// timing compares a closed loop's latencies with the server's own spans. The
// three ways take turns, so that what the host does meanwhile meets all.
func (b *bench) timing(ctx context.Context) (err error) {
	s, err := startServer(b.server, behaviour{delay: b.delay, poll: true, realtime: b.realtime})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	var bare, polling, sleeping []*hdrhistogram.Histogram
	floor := time.Duration(math.MaxInt64)
	for range b.repetitions {
		for _, way := range []struct {
			into    *[]*hdrhistogram.Histogram
			measure func() (*hdrhistogram.Histogram, error)
		}{
			{&bare, func() (*hdrhistogram.Histogram, error) { return b.exchange(s.address) }},
			{&polling, func() (*hdrhistogram.Histogram, error) {
				return b.closed(ctx, s.address, load.Polling(nil, load.LongestPoll), b.realtime)
			}},
			{&sleeping, func() (*hdrhistogram.Histogram, error) { return b.closed(ctx, s.address, nil, false) }},
		} {
			var h *hdrhistogram.Histogram
			if err := b.calm(ctx, func() (err error) { h, err = way.measure(); return err }); err != nil {
				return err
			}
			*way.into = append(*way.into, h)
		}
		floor = min(floor, time.Duration(bare[len(bare)-1].Min()))
	}
	fmt.Fprintf(b.table, "floor of the path, beyond the server's %v\t%.1f\tleast\t%d in %d\n", b.delay, float64(floor)/1e3, b.requests*b.repetitions, b.repetitions)
	b.quantiles("bare exchange, above the floor", bare, floor, 0.5, 0.99)
	b.quantiles("error of a closed loop, polling", polling, floor, 0.5, 0.99, 0.999)
	b.quantiles("error of a closed loop, sleeping", sleeping, floor, 0.5, 0.99, 0.999)
	return nil
}

// closed loads by the generator and records what its latencies exceed the
// server's spans by.
func (b *bench) closed(
	ctx context.Context,
	address string,
	dial func(context.Context, string) (net.Conn, error),
	punctual bool,
) (*hdrhistogram.Histogram, error) {
	excess := nanoseconds()
	var span time.Duration
	target := load.HTTP{Address: address, Dial: dial, Next: func() load.HTTPRequest {
		return load.HTTPRequest{Check: func(body []byte) (err error) { span, err = spanOf(body); return err }}
	}}
	// Over one connection an answer is recorded before the next one comes.
	result, err := load.Run(ctx, target, load.Options{
		Connections: 1, Punctual: punctual, Warmup: 50 * time.Millisecond, Count: int64(b.requests),
		Each: func(a load.Answered) { keep(excess, a.Answered-a.Intended-span) },
	})
	if err == nil && result.Failed() > 0 {
		err = result.FirstError
	}
	return excess, err
}

// exchange sends the same bytes without the generator, and parses nothing but
// the span, afterwards.
func (b *bench) exchange(address string) (*hdrhistogram.Histogram, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if b.realtime {
		restore, err := process.Punctual()
		if err != nil {
			return nil, err
		}
		defer restore()
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	polled, err := socket.Poll(conn, socket.LongestPoll)
	if err != nil {
		return nil, err
	}
	excess := nanoseconds()
	request := []byte("GET / HTTP/1.1\r\nHost: " + address + "\r\nUser-Agent: tare\r\n\r\n")
	answer := make([]byte, len(answerHead)+bodyDigits)
	for range b.requests {
		began := clock.Monotonic()
		if _, err := polled.Write(request); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(polled, answer); err != nil {
			return nil, err
		}
		took := clock.Monotonic() - began
		if !bytes.HasPrefix(answer, []byte(answerHead)) {
			return nil, fmt.Errorf("bare exchange: answer %.60q", answer)
		}
		span, err := spanOf(answer[len(answerHead):])
		if err != nil {
			return nil, err
		}
		keep(excess, took-span)
	}
	return excess, nil
}
