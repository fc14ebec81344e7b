package socket

import (
	"net"
	"strconv"
)

// Ports are drawn below those that the kernel gives to clients
// (net.ipv4.ip_local_port_range begins at 32768), and above the well-known ones.
const (
	lowestPort = 20000
	ports      = 12000
)

// DrawPorts gives the first of count successive TCP ports that are all free, as free reports;
// 0 if a hundred draws find none. Two results for one count are count ports apart at least,
// or the same. draw gives a number from 0 to n-1, such as [math/rand/v2.IntN] does.
func DrawPorts(count int, draw func(n int) int, free func(port int) bool) int {
	for range 100 {
		port := lowestPort + count*draw(ports/count)
		found := 0
		for found < count && free(port+found) {
			found++
		}
		if found == count {
			return port
		}
	}
	return 0
}

// PortFree reports whether nobody on this host listens at a TCP port.
func PortFree(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = listener.Close() // nothing was accepted
	return true
}
