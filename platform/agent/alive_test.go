package agent

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/platform"
)

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

// An agent that is dead is known to be, though its stream stands; one whose machine
// sleeps is waited for.
func TestDeathIsToldFromSleep(t *testing.T) {
	const interval, bound = 5 * time.Millisecond, 250 * time.Millisecond
	client, server := net.Pipe()
	v := &valve{Conn: server}
	served := make(chan error, 1)
	go func() {
		s := &Server{Version: "1", Platforms: func(string) (platform.Platform, error) { return inert{}, nil }}
		served <- s.Serve(context.Background(), v)
	}()
	c, err := connect(t.Context(), client, "1", interval, bound)
	if err != nil {
		t.Fatal(err)
	}
	c.Sleep()
	v.shut.Lock()
	select {
	case <-c.Done():
		t.Error("an agent that sleeps is taken for dead")
	case <-time.After(2 * bound): // that nothing happens makes no event
	}
	v.shut.Unlock()
	c.Wake()
	if _, err := c.Clock(t.Context()); err != nil {
		t.Errorf("woken: %v", err)
	}
	v.shut.Lock()
	<-c.Done()
	v.shut.Unlock()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// Who connects and says nothing keeps no place; who has shaken hands may be silent.
func TestSilentClientsAreSentAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const bound = 200 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	complaints, done := make(chan error, 4), make(chan error, 1)
	s := &Server{Version: "1", Platforms: func(string) (platform.Platform, error) { return inert{}, nil }}
	go func() {
		done <- accept(ctx, l, func(ctx context.Context, conn net.Conn) error { return s.Serve(ctx, conn) }, func(err error) { complaints <- err }, bound)
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := Connect(t.Context(), conn, "1")
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if n, err := silent.Read(make([]byte, 64)); err == nil && n == 0 {
		t.Error("it is answered")
	}
	if err := <-complaints; err == nil || !strings.Contains(err.Error(), "shake hands") {
		t.Errorf("told of it: %v", err)
	}
	if _, err := c.Clock(t.Context()); err != nil {
		t.Errorf("who has shaken hands before: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// picky refuses every setting.
type picky struct{ inert }

func (picky) Supports(platform.Setting) error {
	return &platform.Unsupported{Platform: "inert", Key: "memory", Reason: "no limit"}
}

// A platform that is called otherwise on this side refuses by that name.
func TestPlatformUnderAnotherName(t *testing.T) {
	client, server := net.Pipe()
	served := make(chan error, 1)
	go func() {
		s := &Server{Version: "1", Platforms: func(string) (platform.Platform, error) { return picky{}, nil }}
		served <- s.Serve(context.Background(), server)
	}()
	c, err := Connect(t.Context(), client, "1")
	if err != nil {
		t.Fatal(err)
	}
	const shown = "agent:node1:7070/inert"
	p := c.PlatformAs("inert", shown)
	var refused *platform.Unsupported
	if err := p.Supports(platform.Setting{}); p.Name() != shown || !errors.As(err, &refused) || refused.Platform != shown || !strings.HasPrefix(err.Error(), shown) {
		t.Errorf("%s refuses by %v", p.Name(), err)
	}
	if name := c.Platform("inert").Name(); name != "inert" {
		t.Errorf("its own name is %s", name)
	}
	c.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
