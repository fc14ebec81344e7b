package platform_test

import (
	"net"
	"strconv"
	"strings"
	"testing"

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
	if err := (platform.Spec{Ports: []int{70000}}).CheckPorts(); err == nil {
		t.Error("a port that does not exist")
	}
}
