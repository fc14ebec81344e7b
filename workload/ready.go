package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"time"

	"tare/load"
)

// readySpec says how a service from a file shows that it is ready.
type readySpec struct {
	kind    string // "tcp", "http", "output", "log"; empty where there is no way
	port    int
	path    value
	status  value
	text    value // of output and log
	timeout value
}

// readReady reads the key ready; without it the first port is waited for.
func readReady(n node, ports []int) (r readySpec, err error) {
	if n.ast == nil {
		if len(ports) > 0 {
			r.kind, r.port = "tcp", ports[0]
		}
		return r, nil
	}
	f, err := n.mapping("tcp", "http", "output", "log", "timeout")
	if err != nil {
		return r, err
	}
	for _, kind := range []string{"tcp", "http", "output", "log"} {
		if _, ok := f[kind]; !ok {
			continue
		}
		if r.kind != "" {
			return r, n.at.wrong("has both %s and %s, want one of tcp, http, output, log", r.kind, kind)
		}
		r.kind = kind
	}
	if n, ok := f["timeout"]; ok {
		if r.timeout, err = n.scalar("a duration"); err != nil {
			return r, err
		}
	}
	switch how := f[r.kind]; r.kind {
	case "tcp":
		r.port, err = readPort(how, ports)
	case "http":
		err = r.readHTTP(how, ports)
	case "output", "log":
		r.text, err = how.scalar("a text")
		if err == nil && r.text.text == "" {
			err = how.at.wrong("is empty")
		}
	default:
		err = n.at.wrong("says not how: want one of tcp, http, output, log")
	}
	return r, err
}

func (r *readySpec) readHTTP(n node, ports []int) error {
	f, err := n.mapping("port", "path", "status")
	if err != nil {
		return err
	}
	if r.port, err = portOf(f, n, ports); err != nil {
		return err
	}
	for key, to := range map[string]*value{"path": &r.path, "status": &r.status} {
		if n, ok := f[key]; ok {
			if *to, err = n.scalar("a text"); err != nil {
				return err
			}
		}
	}
	return nil
}

// portOf is the key port, and else the first of the program's.
func portOf(f fields, of node, ports []int) (int, error) {
	if n, ok := f["port"]; ok {
		return readPort(n, ports)
	}
	if len(ports) == 0 {
		return 0, of.at.wrong("needs a port: list it under ports")
	}
	return ports[0], nil
}

// readPort reads one of the program's ports.
func readPort(n node, ports []int) (int, error) {
	v, err := n.scalar("a TCP port")
	if err != nil {
		return 0, err
	}
	port, err := scope{}.whole(v, 1, 65535, 0)
	if err != nil {
		return 0, err
	}
	if !slices.Contains(ports, int(port)) {
		return 0, v.at.wrong("port %d is not under ports, so no client could reach it", port)
	}
	return int(port), nil
}

// readiness is a readySpec with all its values.
type readiness struct {
	what    string
	timeout time.Duration
	ask     func(ctx context.Context, t Trial) error
}

func (r readySpec) compile(s scope) (readiness, error) {
	timeout, err := s.duration(r.timeout, time.Millisecond, time.Hour, 30*time.Second)
	if err != nil {
		return readiness{}, err
	}
	switch r.kind {
	case "http":
		path, err := s.text(r.path, "/")
		if err != nil {
			return readiness{}, err
		}
		status, err := s.whole(r.status, 100, 599, 0)
		if err != nil {
			return readiness{}, err
		}
		target := load.HTTP{Address: s.addresses(r.port), Path: path, Status: int(status), NewConnections: true}
		if err := checkTarget(target); err != nil {
			return readiness{}, r.path.at.wrong("%v", err)
		}
		return readiness{fmt.Sprintf("http://%s%s answers rightly", target.Address, path), timeout, func(ctx context.Context, t Trial) error {
			asked := target
			asked.Dial = dialOf(t)
			return askHTTP(ctx, asked)
		}}, nil
	case "output":
		pattern, err := s.pattern(r.text)
		if err != nil {
			return readiness{}, err
		}
		return readiness{fmt.Sprintf("its output matches %q", pattern), timeout, func(_ context.Context, t Trial) error {
			return seen(t, pattern)
		}}, nil
	case "log":
		text, err := s.text(r.text, "")
		if err != nil {
			return readiness{}, err
		}
		pattern := regexp.MustCompile(regexp.QuoteMeta(text))
		return readiness{fmt.Sprintf("its output has a line with %q", text), timeout, func(_ context.Context, t Trial) error {
			return seen(t, pattern)
		}}, nil
	default:
		return accepts(s.addresses(r.port), timeout), nil
	}
}

// accepts is the readiness of a service that accepts connections at an address.
func accepts(address string, timeout time.Duration) readiness {
	return readiness{"it accepts connections at " + address, timeout, func(ctx context.Context, t Trial) error {
		dial := dialOf(t)
		if dial == nil {
			dial = func(ctx context.Context, address string) (net.Conn, error) {
				var dialer net.Dialer
				return dialer.DialContext(ctx, "tcp", address)
			}
		}
		conn, err := dial(ctx, address)
		if err != nil {
			return err
		}
		return conn.Close()
	}}
}

func (r readiness) await(ctx context.Context, t Trial) error {
	return awaitReady(ctx, r.timeout, r.what, func(ctx context.Context) error { return r.ask(ctx, t) })
}

func askHTTP(ctx context.Context, target load.HTTP) error { return askOnce(ctx, target) }

// askBy is when an answer has to be there.
func askBy(ctx context.Context) time.Time {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline
	}
	return time.Now().Add(probeLimit)
}

// checkTarget tells whether a request can be built, without connecting.
func checkTarget(target load.HTTP) error {
	target.NewConnections = true
	conn, err := target.Open(context.Background())
	if err != nil {
		return err
	}
	return conn.Close()
}

func seen(t Trial, pattern *regexp.Regexp) error {
	stdout, stderr := t.Output()
	if pattern.Match(stdout) || pattern.Match(stderr) {
		return nil
	}
	if len(bytes.TrimSpace(stdout)) == 0 && len(bytes.TrimSpace(stderr)) == 0 {
		return errors.New("it has printed nothing")
	}
	return errors.New("not in what it has printed: " + lastWords(t))
}
