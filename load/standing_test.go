package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
)

func openStanding(t testing.TB, target Target, connections int) *Standing {
	t.Helper()
	s, err := OpenStanding(t.Context(), target, connections)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func burstOf(t testing.TB, s *Standing, o BurstOptions) Burst {
	t.Helper()
	b, err := s.Burst(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serveTCP serves each connection until the test ends.
func serveTCP(t testing.TB, serve func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); serve(conn) }()
		}
	}()
	return listener.Addr().String()
}

// pinging is a RESP service: answer is asked before each reply, with which request of the
// connection it is, from 0, and ends the connection where it is false.
func pinging(t testing.TB, answer func(n int) bool) RESP {
	return RESP{Commands: [][]string{{"PING"}}, Address: serveTCP(t, func(conn net.Conn) {
		r := bufio.NewReader(conn)
		for n := 0; ; n++ {
			if _, err := skipReply(r); err != nil || !answer(n) {
				return
			}
			if _, err := io.WriteString(conn, "+PONG\r\n"); err != nil {
				return
			}
		}
	})}
}

// thriftServer counts the calls that it answers.
func thriftServer(t testing.TB, answered *atomic.Int64) (address string) {
	return serveTCP(t, func(conn net.Conn) {
		r := bufio.NewReader(conn)
		p := thrift.NewTBinaryProtocolConf(thrift.NewStreamTransportR(r), nil)
		for {
			name, _, sequence, err := p.ReadMessageBegin(t.Context())
			if err != nil {
				return
			}
			var size int32
			p.ReadStructBegin(t.Context())
			for {
				_, kind, _, err := p.ReadFieldBegin(t.Context())
				if err != nil || kind == thrift.STOP {
					break
				}
				if kind == thrift.I32 {
					size, _ = p.ReadI32(t.Context())
				} else if err := p.Skip(t.Context(), kind); err != nil {
					return
				}
			}
			body := empty
			if name == ThriftSend {
				body = sent(make([]byte, size))
			}
			answered.Add(1)
			if _, err := conn.Write(thriftReply(thrift.REPLY, name, sequence, body)); err != nil {
				return
			}
		}
	})
}

// Of every protocol: what is counted as answered is what the service answered, none twice,
// over connections that outlive the bursts or not; and what is due in an open loop is sent.
func TestBurstCountsWhatTheServiceAnswered(t *testing.T) {
	var answered atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered.Add(1)
		if r.URL.Path == "/long" {
			w.Write(bytes.Repeat([]byte("long"), 100<<10)) // in chunks
		}
		io.WriteString(w, "ok")
	}))
	t.Cleanup(web.Close)
	httpAddress := web.Listener.Addr().String()
	thriftAddress := thriftServer(t, &answered)
	respAddress, asked := respServer(t)
	var prepares, turn atomic.Int64

	for name, c := range map[string]struct {
		target Target
		count  func() int64 // of what the service answered; nil is answered
		each   int64        // for one request; 0 is 1
	}{
		"http":                   {target: HTTP{Address: httpAddress, BodyMin: 2}},
		"http, long":             {target: HTTP{Address: httpAddress, Path: "/long", BodyMin: 400<<10 + 2}},
		"http, new connections":  {target: HTTP{Address: httpAddress, NewConnections: true}},
		"http, drawn":            {target: HTTP{Address: httpAddress, Next: func() HTTPRequest { return HTTPRequest{Path: "/x"} }}},
		"thrift ping":            {target: Thrift{Address: thriftAddress}},
		"thrift send":            {target: Thrift{Address: thriftAddress, Call: ThriftSend, Size: 300 << 10}},
		"thrift receive":         {target: Thrift{Address: thriftAddress, Call: ThriftReceive, Size: 4 << 20}},
		"thrift new connections": {target: Thrift{Address: thriftAddress, NewConnections: true}},
		"resp": {target: RESP{Address: respAddress, Pipeline: 3, Commands: [][]string{{"SET", "k", strings.Repeat("v", 100)}, {"GET", "k"}}},
			count: func() int64 { return int64(len(asked())) }, each: 3},
		"op_msg": {target: OpMsg{Next: func() (Document, func(Document) error) { return Document{{"find", int32(1)}}, nil },
			Address: opMsgServer(t, func(Document) Document { answered.Add(1); return Document{{"ok", 1.0}} })}},
		"cql": {target: CQL{Address: keeper(t, &prepares), Statements: []string{"write"},
			Next: func() CQLRequest { turn.Add(1); return CQLRequest{Values: []string{"k", "v"}} }},
			count: turn.Load},
	} {
		t.Run(name, func(t *testing.T) {
			if c.count == nil {
				c.count = answered.Load
			}
			s := openStanding(t, c.target, 3)
			for _, rate := range []float64{0, 0, 500, 500} {
				before := c.count()
				b := burstOf(t, s, BurstOptions{Duration: 40 * time.Millisecond, Ramp: 10 * time.Millisecond, Rate: rate, Arrival: Poisson, Seed: 3, Latencies: true})
				if b.Failed() != 0 || b.Worked == 0 || b.Reopened != 0 {
					t.Fatalf("rate %v: %+v", rate, b)
				}
				if n := (c.count() - before) / max(c.each, 1); n != b.Worked {
					t.Errorf("rate %v: %d answered, and %d by the service", rate, b.Worked, n)
				}
				if b.Answered > b.Worked || b.Window != 30*time.Millisecond || b.CPU <= 0 {
					t.Errorf("rate %v: %+v", rate, b)
				}
				switch n := b.Latencies.TotalCount(); {
				case n > b.Worked:
					t.Errorf("rate %v: %d latencies of %d requests", rate, n, b.Worked)
				case rate == 0 && b.LateMax != 0:
					t.Errorf("late by %v with no schedule", b.LateMax)
				case rate > 0:
					if want := scheduled(rate, Poisson, 3, 40*time.Millisecond); b.Worked != want {
						t.Errorf("%d answered of a schedule of %d", b.Worked, want)
					}
				}
			}
		})
	}
}

// scheduled is how many moments a schedule has.
func scheduled(rate float64, arrival Arrival, seed uint64, duration time.Duration) (n int64) {
	s := newSequence(Options{Rate: rate, Arrival: arrival, Seed: seed, Duration: duration})
	for _, ok := s.next(); ok; _, ok = s.next() {
		n++
	}
	return n
}

// Of three answers over each connection, one comes within the ramp, one within the window
// and one in the drain.
func TestBurstCountsByTheClock(t *testing.T) {
	o := BurstOptions{Duration: time.Second, Ramp: 300 * time.Millisecond, Latencies: true}
	s := openStanding(t, pinging(t, func(n int) bool {
		time.Sleep([]time.Duration{0, o.Ramp, o.Duration}[n])
		return true
	}), 4)
	b := burstOf(t, s, o)
	if b.Worked != 12 || b.Answered != 4 || b.Window != 700*time.Millisecond || b.Failed() != 0 {
		t.Errorf("%+v; want 12 answers, 4 of them in the window", b)
	}
	// Those that were sent after the ramp.
	if n := b.Latencies.TotalCount(); n != 4 {
		t.Errorf("%d latencies, want 4", n)
	}
}

// A service that stalls once: what an open loop shows of that and a closed one does not.
func TestBurstMeasuresFromTheIntendedMoment(t *testing.T) {
	const stall, rate = 200 * time.Millisecond, 1000.
	for _, open := range []bool{false, true} {
		var mu sync.Mutex
		var served atomic.Int64
		s := openStanding(t, pinging(t, func(int) bool {
			mu.Lock()
			defer mu.Unlock()
			if served.Add(1) == 20 {
				time.Sleep(stall)
			}
			return true
		}), 2)
		o := BurstOptions{Duration: 400 * time.Millisecond, Latencies: true}
		if open {
			o.Rate = rate
		}
		b := burstOf(t, s, o)
		slow := int64(0)
		for _, bar := range b.Latencies.Distribution() {
			if bar.From >= stall.Microseconds()/2 {
				slow += bar.Count
			}
		}
		switch {
		case b.Failed() != 0 || served.Load() != b.Worked || b.Latencies.TotalCount() != b.Worked:
			t.Errorf("open %v: %d served, %+v", open, served.Load(), b)
		case !open && (slow < 2 || slow > 20):
			t.Errorf("%d slow requests in a closed loop, want one a connection", slow)
		case open && b.Worked != 400:
			t.Errorf("%d requests, want 400", b.Worked)
		case open && slow < 90: // those due in the first half of the stall wait longer than its second half
			t.Errorf("%d requests waited for half of the stall, want about 100", slow)
		case open && b.LateMax >= stall/2:
			t.Errorf("late by %v: what waits for a connection is the service's fault", b.LateMax)
		}
	}
}

// What the schedule has and no connection is free for is counted, once.
func TestBurstCountsWhatIsNeverSent(t *testing.T) {
	hold := make(chan bool)
	var served atomic.Int64
	s := openStanding(t, pinging(t, func(int) bool { return served.Add(1) <= 10 || <-hold }), 2)
	o := BurstOptions{Duration: 50 * time.Millisecond, Rate: 2000, Timeout: 60 * time.Millisecond}
	b := burstOf(t, s, o)
	if all := b.Worked + b.Failed(); all != 100 || b.Worked != 10 || b.Errors[KindTimeout] < 2 || b.Errors[KindUnsent] == 0 {
		t.Errorf("%+v; want 10 answered of 100, and the others timed out or unsent", b)
	}
	close(hold)
}

func TestBurstCountsErrorsByKind(t *testing.T) {
	address, _ := respServer(t)
	b := burstOf(t, openStanding(t, RESP{Address: address, Pipeline: 2, Commands: [][]string{{"PING"}, {"FLY"}}}, 2), BurstOptions{Duration: 20 * time.Millisecond})
	if b.Worked != 0 || b.Answered != 0 || b.Errors["reply ERR"] == 0 || len(b.Errors) != 1 || b.FirstError == nil || b.Reopened != 0 {
		t.Errorf("%+v", b)
	}
}

// A connection that breaks is opened anew, and the load goes on over the others and over it.
func TestBurstOpensBrokenConnectionsAnew(t *testing.T) {
	for _, rate := range []float64{0, 2000} {
		var served atomic.Int64
		s := openStanding(t, pinging(t, func(n int) bool {
			if n == 7 {
				return false
			}
			served.Add(1)
			return true
		}), 3)
		b := burstOf(t, s, BurstOptions{Duration: 50 * time.Millisecond, Rate: rate})
		if b.Worked != served.Load() || b.Worked < 8 || b.Errors[KindClosed] == 0 || len(b.Errors) != 1 {
			t.Errorf("rate %v: %d served, %+v", rate, served.Load(), b)
		}
		if broken := b.Errors[KindClosed]; b.Reopened > broken || b.Reopened < broken-3 {
			t.Errorf("rate %v: %d opened anew of %d broken", rate, b.Reopened, broken)
		}
	}
}

// A service may end a kept connection with its answer, as small HTTP servers do: the answer counts,
// and the next request opens another.
func TestBurstWhereAnswersCloseTheConnection(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(web.Close)
	var settled atomic.Int64
	s := openStanding(t, HTTP{Address: web.Listener.Addr().String(), Next: func() HTTPRequest {
		return HTTPRequest{Path: "/", Done: func(error) { settled.Add(1) }}
	}}, 3)
	for _, rate := range []float64{0, 500} {
		before := settled.Load()
		b := burstOf(t, s, BurstOptions{Duration: 50 * time.Millisecond, Rate: rate})
		if b.Worked < 4 || len(b.Errors) > 0 || settled.Load()-before != b.Worked {
			t.Errorf("rate %v: %d were settled of %+v", rate, settled.Load()-before, b)
		}
	}
}

// What a service closes while nothing is under way is no failure of it: before the burst,
// or as its first request is on the way.
func TestBurstForgivesWhatWasClosedIdle(t *testing.T) {
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	refuseNext := false
	target := RESP{Commands: [][]string{{"PING"}}, Address: serveTCP(t, func(conn net.Conn) {
		mu.Lock()
		open[conn] = true
		mu.Unlock()
		for r := bufio.NewReader(conn); ; {
			if _, err := skipReply(r); err != nil {
				return
			}
			mu.Lock()
			refused := refuseNext && open[conn]
			mu.Unlock()
			if refused {
				return
			}
			io.WriteString(conn, "+PONG\r\n")
		}
	})}
	s := openStanding(t, target, 3)
	o := BurstOptions{Duration: 20 * time.Millisecond}
	burstOf(t, s, o)

	mu.Lock()
	for conn := range open {
		conn.Close()
	}
	clear(open)
	mu.Unlock()
	if b := burstOf(t, s, o); b.Failed() != 0 || b.Reopened != 3 || b.Worked == 0 {
		t.Errorf("closed before: %+v", b)
	}

	mu.Lock()
	refuseNext = true // those that are open now
	first := len(open)
	mu.Unlock()
	time.AfterFunc(10*time.Millisecond, func() { mu.Lock(); defer mu.Unlock(); refuseNext = false })
	o.Duration = 100 * time.Millisecond
	if b := burstOf(t, s, o); first != 3 || b.Reopened < 3 || b.Worked == 0 {
		t.Errorf("closed at the first request: %+v", b)
	}
}

// A service that is gone is found gone, without spinning.
func TestBurstOnAServiceThatIsGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	gone := pinging(t, func(int) bool { return ctx.Err() == nil })
	refusing := errors.New("refused")
	gone.Dial = func(dialing context.Context, address string) (net.Conn, error) {
		if ctx.Err() != nil {
			return nil, refusing
		}
		return (&net.Dialer{}).DialContext(dialing, "tcp", address)
	}
	s := openStanding(t, gone, 2)
	cancel()
	for _, rate := range []float64{0, 100} {
		b := burstOf(t, s, BurstOptions{Duration: 100 * time.Millisecond, Rate: rate})
		if b.Worked != 0 || b.Errors[KindConnect] == 0 || b.Errors[KindConnect] > 100 || len(b.Errors) != 1 || !errors.Is(b.FirstError, refusing) {
			t.Errorf("rate %v: %+v", rate, b)
		}
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	s = openStanding(t, HTTP{Address: listener.Addr().String(), NewConnections: true}, 2)
	for _, rate := range []float64{0, 100} {
		b := burstOf(t, s, BurstOptions{Duration: 100 * time.Millisecond, Rate: rate})
		if b.Worked != 0 || b.Errors[KindConnect] == 0 || b.Errors[KindConnect] > 100 || len(b.Errors) != 1 || !errors.Is(b.FirstError, syscall.ECONNREFUSED) {
			t.Errorf("new connections, rate %v: %+v", rate, b)
		}
	}
}

// Cancelling ends a burst with what was counted, and the next one is as any other.
func TestBurstIsCancelled(t *testing.T) {
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	served := 0
	hold := make(chan bool)
	s := openStanding(t, pinging(t, func(n int) bool {
		if served++; served == 100 {
			cancel(why)
			return <-hold
		}
		return true
	}), 1)
	b, err := s.Burst(ctx, BurstOptions{Duration: time.Hour, Timeout: time.Hour})
	if !errors.Is(err, why) || b.Worked != 99 || b.Failed() != 0 {
		t.Errorf("%+v, %v", b, err)
	}
	close(hold)
	if b := burstOf(t, s, BurstOptions{Duration: 10 * time.Millisecond}); b.Worked == 0 || b.Failed() != 0 || b.Reopened != 1 {
		t.Errorf("the next burst: %+v", b)
	}
	if _, err := s.Burst(ctx, BurstOptions{Duration: time.Second}); !errors.Is(err, why) {
		t.Errorf("cancelled before: %v", err)
	}
}

// The source of the requests receives each result once, in bursts too.
func TestBurstTellsWhatCameOfEachRequest(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/9" {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(web.Close)
	for _, anew := range []bool{false, true} {
		drawn, settled, failed := 0, 0, int64(0)
		s := openStanding(t, HTTP{Address: web.Listener.Addr().String(), NewConnections: anew, Next: func() HTTPRequest {
			n := drawn
			drawn++
			path := fmt.Sprintf("/%d", n%10)
			if n%50 == 7 {
				path = "no path"
			}
			reported := false
			return HTTPRequest{Path: path, Done: func(err error) {
				if reported {
					t.Errorf("request %d is settled twice", n)
				}
				if reported = true; err != nil {
					failed++
				}
				settled++
			}}
		}}, 3)
		b := burstOf(t, s, BurstOptions{Duration: 50 * time.Millisecond})
		if drawn != settled || b.Failed() != failed || b.Worked != int64(drawn)-failed || failed == 0 {
			t.Errorf("new connections %v: %d drawn, %d settled, %d of them failed; %+v", anew, drawn, settled, failed, b)
		}
	}
}

func TestStandingRefusals(t *testing.T) {
	service := &service{answer: func(int64) (bool, error) { return true, nil }}
	if _, err := OpenStanding(t.Context(), service, 2); !errors.Is(err, ErrBlocking) {
		t.Errorf("a target of another kind: %v", err)
	}
	inMemory := serveHTTP(t, func(http.ResponseWriter, *http.Request) {})
	if _, err := OpenStanding(t.Context(), inMemory, 2); !errors.Is(err, ErrBlocking) {
		t.Errorf("a connection that is no socket: %v", err)
	}
	if _, err := OpenStanding(t.Context(), RESP{Address: "127.0.0.1:1", Commands: [][]string{{"PING"}}}, 2); err == nil || errors.Is(err, ErrBlocking) {
		t.Errorf("nobody there: %v", err)
	}
	target := pinging(t, func(int) bool { return true })
	for _, n := range []int{0, -1, 1<<16 + 1} {
		if _, err := OpenStanding(t.Context(), target, n); err == nil {
			t.Errorf("%d connections are opened", n)
		}
	}
	s := openStanding(t, target, 1)
	for name, o := range map[string]BurstOptions{
		"no duration":      {},
		"all ramp":         {Duration: time.Second, Ramp: time.Second},
		"negative ramp":    {Duration: time.Second, Ramp: -1},
		"negative timeout": {Duration: time.Second, Timeout: -1},
		"rate too high":    {Duration: time.Second, Rate: 1e9},
		"at once":          {Duration: time.Second, Arrival: AtOnce},
		"other arrival":    {Duration: time.Second, Arrival: "bursty"},
	} {
		if _, err := s.Burst(t.Context(), o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Burst(t.Context(), BurstOptions{Duration: time.Second}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// The service of another process, which can be stopped and whose memory is its own.
const serverVariable = "TARE_TEST_LOAD_SERVER"

func TestMain(m *testing.M) {
	if protocol := os.Getenv(serverVariable); protocol != "" {
		serveAlone(protocol)
		return
	}
	os.Exit(m.Run())
}

// serveAlone answers whatever a connection is sent at once by a small answer, until
// standard input ends.
func serveAlone(protocol string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	for {
		conn, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			defer conn.Close()
			buffer := make([]byte, 4096)
			for {
				n, err := conn.Read(buffer)
				if err != nil {
					return
				}
				reply := []byte("+PONG\r\n")
				switch protocol {
				case "http":
					reply = []byte("HTTP/1.1 200 OK\r\nServer: small\r\nContent-Length: 5\r\n\r\nhello")
				case "thrift":
					reply = append(buffer[:n:n], 0)[:n] // the call again, as a reply: its struct is empty
					reply[3] = byte(thrift.REPLY)
				}
				if _, err := conn.Write(reply); err != nil {
					return
				}
			}
		}()
	}
}

// otherProcess starts one that serves, until the test ends.
func otherProcess(t testing.TB, protocol string) (address string, process *os.Process) {
	t.Helper()
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), serverVariable+"="+protocol)
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); in.Close(); server.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), server.Process
}

// A service that stands still between bursts goes on with the next; one that stands still
// within a burst is found so, and the burst after that is as any other.
func TestBurstsOnAServiceThatIsStoppedMeanwhile(t *testing.T) {
	address, server := otherProcess(t, "resp")
	s := openStanding(t, RESP{Address: address, Commands: [][]string{{"PING"}}}, 5)
	o := BurstOptions{Duration: 20 * time.Millisecond}
	signal := func(s syscall.Signal) {
		t.Helper()
		if err := server.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if b := burstOf(t, s, o); b.Worked == 0 || b.Failed() != 0 || b.Reopened != 0 {
			t.Errorf("%+v", b)
		}
		signal(syscall.SIGSTOP)
		signal(syscall.SIGCONT)
	}
	signal(syscall.SIGSTOP)
	stopped := o
	stopped.Timeout = 50 * time.Millisecond
	if b := burstOf(t, s, stopped); b.Errors[KindTimeout] < 5 || len(b.Errors) != 1 {
		t.Errorf("stopped: %+v", b)
	}
	signal(syscall.SIGCONT)
	if b := burstOf(t, s, o); b.Worked == 0 || b.Failed() != 0 {
		t.Errorf("afterwards: %+v", b)
	}
}

// A request leaves no garbage: that would be collected in the midst of a burst.
func TestBurstsLeaveNoGarbage(t *testing.T) {
	for protocol, of := range map[string]func(address string) Target{
		"resp":   func(a string) Target { return RESP{Address: a, Commands: [][]string{{"GET", "k"}}} },
		"http":   func(a string) Target { return HTTP{Address: a, BodyMin: 5} },
		"thrift": func(a string) Target { return Thrift{Address: a} },
	} {
		address, _ := otherProcess(t, protocol)
		s := openStanding(t, of(address), 4)
		for _, rate := range []float64{0, 5000} {
			o := BurstOptions{Duration: 100 * time.Millisecond, Latencies: true, Rate: rate}
			burstOf(t, s, o) // makes what is kept
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			b := burstOf(t, s, o)
			runtime.ReadMemStats(&after)
			if b.Worked < 100 || b.Failed() != 0 {
				t.Fatalf("%s: %+v", protocol, b)
			}
			if n := after.Mallocs - before.Mallocs; n > 60+uint64(b.Worked)/100 {
				t.Errorf("%s, rate %v: %d allocations for %d requests", protocol, rate, n, b.Worked)
			}
		}
	}
}

// The same service in one process, by connections that are opened for the load and driven
// by goroutines, and by standing ones.
func BenchmarkBurst(b *testing.B) {
	const connections = 50
	target := pinging(b, func(int) bool { return true })
	b.Run("run", func(b *testing.B) {
		r, err := Run(b.Context(), target, Options{Connections: connections, Count: int64(b.N)})
		if err != nil || r.Failed() != 0 {
			b.Fatal(err, r.FirstError)
		}
		b.ReportMetric(r.Rate, "requests/s")
	})
	b.Run("burst", func(b *testing.B) {
		s := openStanding(b, target, connections)
		b.ResetTimer()
		var all, within int64
		var window, cpu time.Duration
		for all < int64(b.N) {
			burst := burstOf(b, s, BurstOptions{Duration: 40 * time.Millisecond, Ramp: 5 * time.Millisecond})
			if burst.Failed() != 0 {
				b.Fatal(burst.FirstError)
			}
			all, within, window, cpu = all+burst.Worked, within+burst.Answered, window+burst.Window, cpu+burst.CPU
		}
		b.ReportMetric(float64(within)/window.Seconds(), "requests/s")
		b.ReportMetric(float64(cpu.Nanoseconds())/float64(all), "generator-ns/request")
	})
}
