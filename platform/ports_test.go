package platform_test

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/platform"
)

func TestCheckPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	spec := platform.Spec{Ports: []int{port}}
	if err := spec.CheckPorts(); err == nil || !strings.Contains(err.Error(), strconv.Itoa(port)) {
		t.Errorf("a port that is served: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := spec.CheckPorts(); err != nil {
		t.Errorf("a free port: %v", err)
	}
	// One that is just ending is waited for.
	late, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = late.Close() })
	if err := spec.CheckPorts(); err != nil {
		t.Errorf("a port that is served for a moment more: %v", err)
	}
	if err := (platform.Spec{Ports: []int{70000}}).CheckPorts(); err == nil {
		t.Error("a port that does not exist")
	}
}
