// Command server is the service of service.thrift on Apache Thrift's Go library, as
// its tutorial has it: the binary protocol over a buffered transport, a goroutine for
// each connection. Beside the same in Python it tells what the interpreter costs. In
// the image it is called thrift-server:
//
//	thrift-server [--address ADDRESS] --port PORT [--work MICROS]
//
// It is compiled by the distribution's Go, in the image's tools: its code keeps
// to what Go 1.19 knows, and to nothing but the standard library and Thrift's.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/apache/thrift/lib/go/thrift"
)

const (
	// mostBytes is what a request carries at most, either way.
	mostBytes = 16 << 20
	mostWork  = time.Second
	// buffered holds S4's largest message and its frame, so that it is written at
	// once, as Python's buffered transport writes any.
	buffered = 128 << 10
)

func main() {
	flags := flag.NewFlagSet("thrift-server", flag.ContinueOnError)
	flags.SetOutput(new(bytes.Buffer)) // what is wrong is told in one line, below
	address := flags.String("address", "0.0.0.0", "")
	port := flags.Int("port", 0, "")
	micros := flags.Int64("work", 0, "")
	err := flags.Parse(os.Args[1:])
	work := time.Duration(*micros) * time.Microsecond
	if err != nil || flags.NArg() > 0 || net.ParseIP(*address) == nil || *port < 1 || *port > 65535 || *micros < 0 ||
		*micros > mostWork.Microseconds() {
		fmt.Fprintln(os.Stderr, "usage: thrift-server [--address ADDRESS] --port PORT [--work MICROS], with MICROS of CPU time for each request, 0 to 1000000")
		os.Exit(2)
	}
	// The first process of a container gets no signal that it does not ask for.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stop
		os.Exit(0)
	}()
	if err := serve(net.JoinHostPort(*address, strconv.Itoa(*port)), &handler{work: work}); err != nil {
		fmt.Fprintln(os.Stderr, "thrift-server:", err)
		os.Exit(1)
	}
}

func serve(address string, h *handler) error {
	// Else each request has a goroutine of its own that looks after the connection
	// while the request is handled, for handlers that can be interrupted: ours cannot.
	thrift.ServerConnectivityCheckInterval = 0
	socket, err := thrift.NewTServerSocket(address)
	if err != nil {
		return err
	}
	config := &thrift.TConfiguration{MaxMessageSize: mostBytes + 1<<10}
	server := thrift.NewTSimpleServer4(NewLatencyProcessor(h), socket,
		thrift.NewTBufferedTransportFactory(buffered), thrift.NewTBinaryProtocolFactoryConf(config))
	server.SetLogger(thrift.NopLogger) // a client that disappears is nothing to tell of
	if err := server.Listen(); err != nil {
		return err
	}
	return server.AcceptLoop()
}

// handler answers the calls.
type handler struct {
	work time.Duration // of the CPU, before each answer

	mu    sync.Mutex
	bytes []byte // what send sends
}

func (h *handler) Ping(context.Context) error { return h.burn() }

func (h *handler) Receive(_ context.Context, _ []byte) error { return h.burn() }

func (h *handler) Send(_ context.Context, size int32) ([]byte, error) {
	if size < 0 || size > mostBytes {
		return nil, &Refused{Why: fmt.Sprintf("size %d: want 0 to %d", size, mostBytes)}
	}
	return h.some(int(size)), h.burn()
}

// some gives bytes to send, made once: clients ask for the same again.
func (h *handler) some(size int) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.bytes) < size {
		h.bytes = bytes.Repeat([]byte{'x'}, size)
	}
	return h.bytes[:size]
}

// burn uses CPU time of this thread until it has had as much as it should: what
// the kernel gives to others meanwhile does not count.
func (h *handler) burn() error {
	if h.work == 0 {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, err := threadTime()
	if err != nil {
		return err
	}
	for {
		now, err := threadTime()
		if err != nil || now-began >= h.work {
			return err
		}
	}
}

// threadTime is the CPU time that this thread has used. getrusage would tell it
// only as of the last tick of the scheduler.
func threadTime() (time.Duration, error) {
	const clockThread = 3 // CLOCK_THREAD_CPUTIME_ID
	var t syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockThread, uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("clock_gettime of the thread's CPU time: %w", errno)
	}
	return time.Duration(t.Nano()), nil
}
