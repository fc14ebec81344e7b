package agent

import (
	"context"
	"net"
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
