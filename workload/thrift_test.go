package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tare/load"
)

func TestThriftRefusesWhatDoesNotGoTogether(t *testing.T) {
	for _, c := range []struct {
		pairs []string
		want  []string
	}{
		{[]string{"client", "python", "rate", "100"}, []string{"rate=100", "client=go"}},
		{[]string{"client", "python", "connections", "2", "server", "go"}, []string{"connections=2", "client=go"}},
		{[]string{"connections", "2"}, []string{"connections=2", "server=go"}},
		{[]string{"server", "rust"}, []string{"server=rust", "python, go"}},
		{[]string{"client", "rust"}, []string{"client=rust", "python"}},
		{[]string{"call", "fly"}, []string{"call=fly", "receive"}},
		{[]string{"size", "16777217"}, []string{"size=16777217", "16777216"}},
		{[]string{"connection", "some"}, []string{"connection=some", "new"}},
		{[]string{"port", "0"}, []string{"port=0", "65535"}},
		{[]string{"work", "1000001"}, []string{"work=1000001", "1000000"}},
		{[]string{"count", "-1"}, []string{"count=-1", "from 0"}},
		{[]string{"arrival", "bursts"}, []string{"arrival=bursts", "poisson"}},
		{[]string{"rate", "fast"}, []string{"rate=fast", "closed"}},
	} {
		overrides := map[string]string{}
		for i := 0; i < len(c.pairs); i += 2 {
			overrides[c.pairs[i]] = c.pairs[i+1]
		}
		_, err := Resolve(thrift{}, overrides)
		refusedAs[*WrongValue](t, err, c.want...)
	}
	for _, pairs := range [][]string{
		{"connections", "2", "connection", "new"}, {"connections", "2", "server", "go"}, {"client", "python", "connection", "new"},
	} {
		resolve(t, thrift{}, pairs...) // ends the test where it is refused
	}
}

func TestThriftOffers(t *testing.T) {
	for _, c := range []struct {
		pairs []string
		want  Offered
	}{
		{nil, Offered{Arrival: load.Uniform, Connections: 1}},
		{[]string{"server", "go", "rate", "250", "arrival", "poisson", "connections", "8"}, Offered{250, load.Poisson, 8, 0}},
	} {
		got, err := thrift{}.Offered(resolve(t, thrift{}, c.pairs...))
		if err != nil || got != c.want {
			t.Errorf("%q: %+v, %v, want %+v", c.pairs, got, err, c.want)
		}
	}
}

// serveThrift launches the service at a free port.
func serveThrift(t *testing.T, pairs ...string) *realTrial {
	t.Helper()
	img := realImage(t, "thrift")
	port := freePort(t)
	return serveAlone(t, thrift{}, resolve(t, thrift{}, append(slices.Clip(pairs), "port", port)...), img, port)
}

// Each server answers each client, in each call, right to the byte.
func TestRealThrift(t *testing.T) {
	w := thrift{}
	for _, server := range []string{inPython, inGo} {
		for _, client := range []string{inPython, inGo} {
			tr := serveThrift(t, "server", server)
			for _, pairs := range [][]string{
				{},
				{"call", "receive", "size", "100000"},
				{"call", "send", "size", "100000"},
				{"call", "send", "size", "0", "connection", "new"},
			} {
				t.Run(strings.Join(append([]string{server, client}, pairs...), " "), func(t *testing.T) {
					tr.records, tr.histograms = nil, nil
					tr.params = resolve(t, w, append(pairs, "server", server, "client", client, "warmup", "20ms", "count", "200")...)
					if err := w.Drive(t.Context(), tr); err != nil {
						t.Fatal(err)
					}
					checkRecorded(t, w, &tr.trial)
					if n := tr.histograms[latencies].TotalCount(); n != 200 {
						t.Errorf("%d latencies, want 200", n)
					}
				})
			}
			tr.end()
		}
	}
}

// dialled is a trial whose load connects by a function of its own.
type dialled struct {
	*realTrial
	dials atomic.Int64
}

func (d *dialled) Dial(ctx context.Context, address string) (net.Conn, error) {
	d.dials.Add(1)
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", address)
}

// A service is ready once, and loaded several times.
func TestRealThriftIsLoaded(t *testing.T) {
	w := thrift{}
	tr := &dialled{realTrial: serveThrift(t, "server", "go")}
	if err := w.Ready(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	dials := tr.dials.Load()
	if dials == 0 {
		t.Error("readiness was asked past the trial's own way of connecting")
	}
	for _, pairs := range [][]string{
		{"count", "100"},
		{"count", "100", "client", "python"},
		{"rate", "500", "arrival", "poisson", "connections", "4", "count", "100"},
	} {
		tr.params = resolve(t, w, append(pairs, "server", "go", "warmup", "0s", "duration", "10s")...)
		r, err := w.Load(t.Context(), tr, 7)
		if err != nil {
			t.Fatalf("%q: %v", pairs, err)
		}
		if r.Requests != 100 || r.Failed() != 0 || r.Corrected.TotalCount() != 100 || r.Rate <= 0 || r.Elapsed <= 0 || r.Lateness == nil {
			t.Errorf("%q: %+v", pairs, r)
		}
	}
	if got := tr.dials.Load() - dials; got != 1+4 {
		t.Errorf("%d connections by the trial's own way, want %d", got, 1+4)
	}
	if len(tr.records) != 0 || len(tr.histograms) != 0 {
		t.Error("the load recorded something itself")
	}
}

// What the server burns for a request is part of each latency, and CPU time.
func TestRealThriftWorks(t *testing.T) {
	const work = 3 * time.Millisecond
	for _, server := range []string{inPython, inGo} {
		pairs := []string{"server", server, "work", strconv.FormatInt(work.Microseconds(), 10), "warmup", "0s", "count", "50"}
		tr := serveThrift(t, pairs...)
		if err := (thrift{}).Ready(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		before := cpuOf(t, tr.pid)
		r, err := thrift{}.Load(t.Context(), tr, 1)
		if err != nil {
			t.Fatal(err)
		}
		used := cpuOf(t, tr.pid) - before
		if least := r.Corrected.Min(); least < work.Microseconds() {
			t.Errorf("%s: a request took %d us, want %v or more", server, least, work)
		}
		// A tick less at most, by which /proc counts.
		if want := 50*work - 10*time.Millisecond; used < want {
			t.Errorf("%s: it used %v of CPU time, want %v or more", server, used, want)
		}
		tr.end()
	}
}

// cpuOf is the CPU time of a process and its threads, in ticks of 10 ms.
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')'):]))
	user, _ := strconv.Atoi(fields[12])
	system, _ := strconv.Atoi(fields[13])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// A server that dies under the load is reported in a line, whichever client it is, and
// long before the load would have been over.
func TestRealThriftDies(t *testing.T) {
	for _, client := range []string{inPython, inGo} {
		tr := serveThrift(t, "client", client, "duration", "10m", "warmup", "0s")
		if err := (thrift{}).Ready(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		// It dies once the client has a connection.
		go func() {
			for !connected(tr.address) && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			_ = signalTo(tr.pid, syscall.SIGKILL)
		}()
		_, err := thrift{}.Load(t.Context(), tr, 1)
		refusedAs[*Ended](t, err, "the service ended by itself")
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than a line: %q", client, err)
		}
	}
}

func signalTo(pid int, signal os.Signal) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer func() { _ = process.Release() }()
	return process.Signal(signal)
}

// connected tells whether somebody has a connection to a port of loopback.
func connected(address string) bool {
	_, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port)
	text, err := os.ReadFile("/proc/net/tcp")
	// Field 2 is the other side; state 01 is an established connection.
	return err == nil && strings.Contains(string(text), fmt.Sprintf(":%04X 01 ", n))
}

// A port that another has is reported at once where the load is.
func TestRealThriftPortTaken(t *testing.T) {
	for _, server := range []string{inPython, inGo} {
		first := serveThrift(t, "server", server, "count", "10")
		if err := (thrift{}).Ready(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		port := first.params["port"]
		second := serveAlone(t, thrift{}, first.params, realImage(t, "thrift"), port)
		<-second.ended
		_, err := thrift{}.Load(t.Context(), second, 1)
		refusedAs[*Ended](t, err, "ended by itself, with status 1", port, "in use")
		first.end()
	}
}

// Clients that disappear within a request, or talk nonsense, are none of a server's
// business.
func TestRealThriftSurvivesItsClients(t *testing.T) {
	const ping = "\x80\x01\x00\x01\x00\x00\x00\x04ping\x00\x00\x00\x07\x00"
	for _, server := range []string{inPython, inGo} {
		tr := serveThrift(t, "server", server, "count", "20", "warmup", "0s")
		if err := (thrift{}).Ready(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		for _, nonsense := range []string{
			"", ping[:7], ping[:len(ping)-1], ping, "GET / HTTP/1.1\r\n\r\n", strings.Repeat("\xff", 100),
			"\x80\x01\x00\x01\x7f\xff\xff\xff", // a name of 2 GiB
		} {
			conn, err := net.Dial("tcp", tr.address)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write([]byte(nonsense)); err != nil {
				t.Fatal(err)
			}
			conn.Close()
			if _, err := (thrift{}).Load(t.Context(), tr, 1); err != nil {
				t.Errorf("%s, after %q: %v", server, nonsense, err)
			}
		}
		tr.end()
		if stdout, stderr := tr.Output(); len(stdout)+len(stderr) > 0 {
			t.Errorf("%s printed %s%s", server, stdout, stderr)
		}
	}
}

// What a server refuses is an exception, to either client.
func TestRealThriftRefuses(t *testing.T) {
	for _, server := range []string{inPython, inGo} {
		tr := serveThrift(t, "server", server)
		if err := (thrift{}).Ready(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		// Beyond what the clients themselves would ask for.
		conn, err := net.Dial("tcp", tr.address)
		if err != nil {
			t.Fatal(err)
		}
		const send = "\x80\x01\x00\x01\x00\x00\x00\x04send\x00\x00\x00\x07\x08\x00\x01\x7f\xff\xff\xff\x00"
		if _, err := conn.Write([]byte(send)); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		answer := make([]byte, 256)
		n, err := conn.Read(answer)
		if err != nil || !strings.Contains(string(answer[:n]), "size 2147483647: want 0 to 16777216") {
			t.Errorf("%s answers %q, %v", server, answer[:n], err)
		}
		conn.Close()
	}
}

// Whoever goes on living is terminated as a service is.
func TestRealThriftEndsOnRequest(t *testing.T) {
	for _, server := range []string{inPython, inGo} {
		tr := serveThrift(t, "server", server)
		if err := (thrift{}).Ready(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		if err := signalTo(tr.pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-tr.ended
		stdout, stderr := tr.Output()
		if tr.exit.Code != 0 || len(stdout)+len(stderr) > 0 {
			t.Errorf("%s: status %d, and it printed %s%s", server, tr.exit.Code, stdout, stderr)
		}
	}
}

func TestRealThriftIsSustained(t *testing.T) {
	for _, client := range []string{inPython, inGo} {
		tr := serveThrift(t, "client", client)
		if err := (thrift{}).Ready(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		// The server at work is what tells that the client is: how long an interpreter
		// takes to start is the host's.
		before := ticks(t, tr.pid)
		if err := sustainUntil(t, thrift{}, tr, 1, func() bool { return ticks(t, tr.pid) >= before+10 }); err != nil {
			t.Errorf("%s: %v", client, err)
		}
		tr.end()
		if err := (thrift{}).Sustain(t.Context(), tr, 1); err == nil || !errors.As(err, new(*Ended)) {
			t.Errorf("%s: after its end: %v", client, err)
		}
	}
}

// ticks is the processor time that a process has used, in clock ticks.
func ticks(t *testing.T, pid int) uint64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// utime and stime of proc_pid_stat(5), the 12th and 13th after the command's bracket.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var sum uint64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}
