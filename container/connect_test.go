package container

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Who comes while others wait to be let in waits, too.
func TestConnectWaitsBehindOthers(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	raw, err := listener.(*net.UnixListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), 0) }); err != nil {
		t.Fatal(err)
	}
	first, err := connect(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	time.AfterFunc(20*time.Millisecond, func() {
		for range 2 {
			if conn, err := listener.Accept(); err == nil {
				conn.Close()
			}
		}
	})
	second, err := connect(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}
