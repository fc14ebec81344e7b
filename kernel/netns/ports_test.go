package netns_test

import (
	"os"
	"strings"
	"testing"

	"tare/kernel/netns"
	"tare/kernel/process"
)

// The client's namespace has the ports, and the host's is as it was.
func TestSparePorts(t *testing.T) {
	const files = "/proc/sys/net/ipv4/"
	read := func(name string) string {
		b, err := os.ReadFile(files + name)
		if err != nil {
			t.Error(err)
		}
		return strings.Join(strings.Fields(string(b)), " ")
	}
	before := read("ip_local_port_range") + ", " + read("tcp_tw_reuse")
	file, _ := namespace(t, "x")
	if err := netns.SparePorts(file); err != nil {
		t.Fatal(err)
	}
	var inside string
	err := process.OnFreshThread(func() error {
		err := netns.Enter(file)
		inside = read("ip_local_port_range") + ", " + read("tcp_tw_reuse")
		return err
	})
	if inside != "1024 65535, 1" || err != nil {
		t.Errorf("inside: %s (%v)", inside, err)
	}
	if after := read("ip_local_port_range") + ", " + read("tcp_tw_reuse"); after != before {
		t.Errorf("the host has %s, had %s", after, before)
	}
	if err := netns.SparePorts(file + "-none"); err == nil {
		t.Error("no namespace, no error")
	}
}
