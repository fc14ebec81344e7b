package k8s

import (
	"net"
	"testing"
	"time"

	"tare/platform"
)

// A Service leads to one pod at a time, and only to one that has no more ports than it.
func TestTake(t *testing.T) {
	p := New(Options{})
	p.Provide([]Service{
		{Network: platform.NetworkClusterIP, Name: "a", Ports: []int{1}},
		{Network: platform.NetworkClusterIP, Name: "b", Ports: []int{1, 2}},
		{Network: platform.NetworkNodePort, Name: "c", Ports: []int{1}},
	})
	first, second := &launch{p: p}, &launch{p: p}
	two, err := first.take(platform.NetworkClusterIP, 2)
	if err != nil || two.Name != "b" {
		t.Fatalf("%+v, %v", two, err)
	}
	if one, err := second.take(platform.NetworkClusterIP, 1); err != nil || one.Name != "a" {
		t.Errorf("%+v, %v", one, err)
	}
	if s, err := second.take(platform.NetworkClusterIP, 1); err == nil {
		t.Errorf("%s leads to two pods", s.Name)
	}
	first.ways.service = two
	first.give()
	if again, err := second.take(platform.NetworkClusterIP, 2); err != nil || again != two {
		t.Errorf("%+v, %v", again, err)
	}
	first.give() // it is another's by now
	if s, err := first.take(platform.NetworkClusterIP, 2); err == nil {
		t.Errorf("%s leads to two pods", s.Name)
	}
}

// A Service whose clients are refused leads to no pod. One that is answered leads to an earlier one still.
func TestAwaitEmpty(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{Name: "a", Address: loopback, Ports: []int{l.Addr().(*net.TCPAddr).Port}}
	if err := s.awaitEmpty(t.Context(), 200*time.Millisecond); err == nil {
		t.Error("one that is answered is taken for empty")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.awaitEmpty(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
}
