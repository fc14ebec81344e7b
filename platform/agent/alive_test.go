package agent

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mdlayher/vsock"

	"tare/image"
	"tare/platform"
)

// pulse is what a client's asking whether its agent is alive sees, beat by beat.
type pulse struct {
	t      *testing.T
	client *Client
	beats  chan time.Time
	asked  chan struct{}
	answer chan error
	gone   chan struct{}
}

func newPulse(t *testing.T) *pulse {
	p := &pulse{t, &Client{}, make(chan time.Time), make(chan struct{}), make(chan error), make(chan struct{})}
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	go func() {
		defer close(p.gone)
		p.client.untilDead(over, p.beats, func() error {
			select {
			case p.asked <- struct{}{}:
			case <-over:
				return nil
			}
			select {
			case err := <-p.answer:
				return err
			case <-over:
				return nil
			}
		})
	}()
	return p
}

// beat waits until a beat has been taken, and with it everything before.
func (p *pulse) beat() {
	p.t.Helper()
	select {
	case p.beats <- time.Time{}:
	case <-p.asked:
		p.t.Fatal("an agent that sleeps is asked")
	case <-p.gone:
		p.t.Fatal("the agent is taken for dead")
	}
}

var errSilent = errors.New("no answer")

// One whose machine sleeps is not asked, and not taken for dead for what it did not
// answer because it fell asleep; one that is awake and does not answer is dead.
func TestDeathIsDistinguishedFromSleep(t *testing.T) {
	p := newPulse(t)
	p.client.Sleep()
	for range 3 {
		p.beat()
	}
	p.client.Wake()
	p.beat()
	<-p.asked
	p.client.Sleep() // and wakes, both while it is asked
	p.client.Wake()
	p.answer <- errSilent
	p.beat()
	<-p.asked
	p.answer <- nil
	p.beat()
	<-p.asked
	p.answer <- errSilent
	<-p.gone
}

// valve is a stream whose other end can be kept from hearing anything: a machine that
// is paused, or has died without a word.
type valve struct {
	net.Conn
	shut sync.RWMutex
}

func (v *valve) Read(p []byte) (int, error) {
	n, err := v.Conn.Read(p)
	v.shut.RLock()
	defer v.shut.RUnlock()
	return n, err
}

// patience is long for whoever must survive it on a busy host; who must be sent away is
// waited for as long.
const patience = 3 * time.Second

// An agent that is dead is known to be, though its stream stands.
func TestDeathIsNoticed(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	v := &valve{Conn: server}
	served := make(chan error, 1)
	go func() {
		s := &Server{Version: "1", Platforms: func(string) (platform.Platform, error) { return inert{}, nil }}
		served <- s.Serve(context.Background(), v)
	}()
	c, err := connect(t.Context(), client, "1", 5*time.Millisecond, patience)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Clock(t.Context()); err != nil {
		t.Errorf("alive: %v", err)
	}
	v.shut.Lock()
	<-c.Done()
	v.shut.Unlock()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// Who connects and says nothing keeps no place; who has shaken hands may be silent for
// longer than that.
func TestSilentClientsAreSentAway(t *testing.T) {
	t.Parallel()
	dial, complaints := opened(t, bounds{patience, 4, 4})
	c, err := Connect(t.Context(), dial(), "1")
	if err != nil {
		t.Fatal(err)
	}
	silent := dial()
	if n, err := silent.Read(make([]byte, 64)); err == nil && n == 0 {
		t.Error("it is answered")
	}
	if err := <-complaints; err == nil || !strings.Contains(err.Error(), "shake hands") {
		t.Errorf("reported: %v", err)
	}
	if _, err := c.Clock(t.Context()); err != nil {
		t.Errorf("who has shaken hands before: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A client that is dead, though its stream stands, is noticed on every way in: what it has
// left is stopped, and the agent goes on. One that lives and says nothing is left alone.
func TestDeadClientsAreNoticed(t *testing.T) {
	for name, ends := range waysIn(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &counted{}
			s := &Server{
				Version: "1", Platforms: func(string) (platform.Platform, error) { return p, nil },
				pace: pace{20 * time.Millisecond, patience / 2},
			}
			s.images.attached = map[string]string{"sha256:0": "/"}
			client, server := ends()
			v := &valve{Conn: client}
			served := make(chan error, 1)
			go func() { served <- s.Serve(context.Background(), server) }()
			// The client asks nothing: its own watch would end it.
			c, err := connect(t.Context(), v, "1", time.Hour, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			spec := platform.Spec{Name: "x", Image: image.Image{Digest: "sha256:0"}}
			if _, err := c.Platform("inert").Launch(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-served:
				t.Fatalf("a client that lives is sent away: %v", err)
			case <-time.After(200 * time.Millisecond): // ten askings
			}
			v.shut.Lock() // stopped: it takes what comes, and answers nothing
			if err := <-served; err == nil || !strings.Contains(err.Error(), "does not answer") {
				t.Errorf("reported: %v", err)
			}
			v.shut.Unlock()
			if n := p.alive.Load(); n != 0 {
				t.Errorf("%d of its programs are left", n)
			}
			c.Close()
		})
	}
}

// waysIn are pairs of ends of connections of each kind.
func waysIn(t *testing.T) map[string]func() (client, server net.Conn) {
	dialled := func(l net.Listener, err error, dial func() (net.Conn, error)) func() (net.Conn, net.Conn) {
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return func() (net.Conn, net.Conn) {
			client, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return client, server
		}
	}
	ways := map[string]func() (net.Conn, net.Conn){"pipe": net.Pipe}
	path := filepath.Join(t.TempDir(), "socket")
	unix, err := net.Listen("unix", path)
	ways["unix"] = dialled(unix, err, func() (net.Conn, error) { return net.Dial("unix", path) })
	// A host has its loopback where the module is there.
	const port = 0x7a7e
	if l, err := vsock.Listen(port, nil); err == nil {
		if probe, err := vsock.Dial(vsock.Local, port, nil); err == nil {
			if met, err := l.Accept(); err == nil {
				met.Close()
			}
			probe.Close()
			ways["vsock"] = dialled(l, nil, func() (net.Conn, error) { return vsock.Dial(vsock.Local, port, nil) })
		} else {
			l.Close()
		}
	}
	return ways
}

// counted launches what does nothing, and counts it.
type counted struct {
	inert
	alive atomic.Int64
}

func (c *counted) Launch(context.Context, platform.Spec) (platform.Instance, error) {
	c.alive.Add(1)
	return &one{of: c}, nil
}

type one struct {
	platform.Instance
	of   *counted
	once sync.Once
}

func (o *one) Stop(context.Context) error { o.once.Do(func() { o.of.alive.Add(-1) }); return nil }
func (o *one) Wait(context.Context) (platform.Exit, error) {
	return platform.Exit{}, nil
}

// Who is served alone, as through ssh, shakes hands in time or is sent away.
func TestASilentClientThatIsServedAlone(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	defer client.Close()
	s := &Server{Version: "1", Patience: 50 * time.Millisecond}
	if err := s.Serve(t.Context(), server); !errors.Is(err, errUnmet) {
		t.Errorf("reported: %v", err)
	}
}
