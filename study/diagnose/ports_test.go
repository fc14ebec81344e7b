package diagnose

import (
	"context"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// echoPort is where the program "echoes" answers.
const echoPort = "7000"

// echoes sends back what it receives.
func echoes() {
	l, err := net.Listen("tcp", ":"+echoPort)
	for err == nil {
		var c net.Conn
		if c, err = l.Accept(); err == nil {
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}
	os.Exit(1)
}

// floods prints some hundred KiB a second.
func floods() {
	line := []byte(strings.Repeat("x", 127) + "\n")
	for {
		for range 64 {
			_, _ = os.Stdout.Write(line)
		}
		time.Sleep(10 * ms)
	}
}

// exchange sends messages to and fro until the test ends, and counts them.
func exchange(t *testing.T, address string) *atomic.Int64 {
	t.Helper()
	var c net.Conn
	var err error
	for began := time.Now(); ; time.Sleep(50 * ms) {
		if c, err = net.DialTimeout("tcp", address, time.Second); err == nil {
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	ended, count := make(chan struct{}), new(atomic.Int64)
	t.Cleanup(func() { stop(); _ = c.Close(); <-ended })
	go func() {
		defer close(ended)
		message := make([]byte, 64)
		for ctx.Err() == nil {
			if _, err := c.Write(message); err != nil {
				return
			}
			if _, err := io.ReadFull(c, message); err != nil {
				return
			}
			count.Add(1)
		}
	}()
	return count
}

// A log that is flooded, a port behind the userland proxy, one behind the host's rules, and a healthy
// container: each is named, and nothing else of these kinds.
func TestLogAndPortsInDocker(t *testing.T) {
	const span = 5 * time.Second
	e := dockerd(t)
	bridge, err := net.InterfaceByName("docker0")
	if err != nil {
		t.Skip(err)
	}
	addresses, err := bridge.Addrs()
	if err != nil || len(addresses) == 0 {
		t.Skip("docker0 has no address: ", err)
	}
	gateway, _, _ := strings.Cut(addresses[0].String(), "/")
	flood := e.start(t, "flood", "floods", "--log-driver", "json-file")
	proxied := e.start(t, "proxied", "echoes", "--publish=127.0.0.1::"+echoPort)
	direct := e.start(t, "direct", "echoes", "--publish="+gateway+"::"+echoPort)
	e.start(t, "healthy", "1ms 100ms")
	at := func(name string) string { return strings.TrimSpace(e.docker(t, nil, "port", name, echoPort)) }
	exchange(t, at(proxied))
	trips := exchange(t, at(direct))
	all := e.find(t)

	began, before := time.Now(), trips.Load()
	r := watched(t, all, span)
	perSecond := float64(trips.Load()-before) / time.Since(began).Seconds()
	if r.Span > 2*span {
		t.Skipf("watching for %v took %v: the host is too busy", span, r.Span)
	}
	want := map[string]Kind{flood: Log, proxied: Proxy, direct: Translation}
	for _, name := range e.names {
		var kinds []Kind
		for _, f := range r.Findings {
			if f.Container != name || !slices.Contains([]Kind{Log, Proxy, Translation}, f.Kind) {
				continue
			}
			kinds = append(kinds, f.Kind)
			if f.Kind == Translation { // a packet each way, which carries the acknowledgement
				t.Logf("%s: %.0f round trips a second were made", f.ID, perSecond)
				if got := f.Cost.Events; got < 2*perSecond*3/4 || got > 2*perSecond*5/4 {
					t.Errorf("%s: %.0f packets a second were found, and %.0f trips made", f.ID, got, perSecond)
				}
			}
		}
		switch kind, ok := want[name]; {
		case !ok && len(kinds) > 0, ok && !slices.Equal(kinds, []Kind{kind}):
			t.Errorf("%s: found %v, want %q alone", name, kinds, kind)
		}
	}
}
