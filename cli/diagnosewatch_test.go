package cli

import (
	"net"
	"strings"
	"testing"
)

// A port alone is served to this host alone; a host that is named is taken at its word.
func TestWhereMetricsAreServed(t *testing.T) {
	for address, isLoopback := range map[string]bool{"0": true, ":0": true, "127.0.0.1:0": true, "[::1]:0": true, "0.0.0.0:0": false} {
		l, err := listenFor(address)
		if err != nil {
			if address == "[::1]:0" {
				continue // a host without version 6
			}
			t.Fatal(err)
		}
		if at := l.Addr().(*net.TCPAddr); at.IP.IsLoopback() != isLoopback {
			t.Errorf("%s is served at %s", address, at)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, address := range []string{"web", "127.0.0.1:99999", "192.0.2.1:0"} {
		l, err := listenFor(address)
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "want PORT, or HOST:PORT of this host") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
