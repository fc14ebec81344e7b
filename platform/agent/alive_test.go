package agent

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

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

// patience is long for whoever must survive it on a busy host.
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
