package socket_test

import (
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"tare/kernel/socket"
)

// A program that is given ports to listen at must not find there what the kernel gave to
// some client meanwhile.
func TestPortsAreDrawnBelowThoseOfClients(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip(err)
	}
	lowest, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		t.Fatal(err)
	}
	if lowest < 32768 {
		t.Skipf("this host gives clients ports from %d on, where the kernel's default is 32768", lowest)
	}
	for _, count := range []int{1, 3, 7} {
		for range 1000 {
			first := socket.DrawPorts(count, rand.IntN, func(int) bool { return true })
			if first < 1024 || first+count > lowest {
				t.Fatalf("%d ports from %d on, where clients' begin at %d", count, first, lowest)
			}
		}
	}
}

func TestPortsThatAreTakenAreNotDrawn(t *testing.T) {
	taken := map[int]bool{}
	for range 50 {
		first := socket.DrawPorts(2, rand.IntN, func(port int) bool { return !taken[port] })
		if first == 0 || taken[first] || taken[first+1] {
			t.Fatalf("drew %d, with %v taken", first, taken)
		}
		taken[first+1] = true // the second of two is as good as the first
	}
	if first := socket.DrawPorts(2, rand.IntN, func(int) bool { return false }); first != 0 {
		t.Errorf("drew %d, where none is free", first)
	}
}

func TestPortFree(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if port := l.Addr().(*net.TCPAddr).Port; socket.PortFree(port) {
		t.Errorf("port %d is free, where a listener has it", port)
	}
}
