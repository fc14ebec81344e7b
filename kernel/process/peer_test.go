package process_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"tare/kernel/process"
)

func TestPeer(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "socket"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := process.Peer(conn); pid != os.Getpid() || err != nil {
		t.Errorf("%d, %v; this program, %d, listens itself", pid, err, os.Getpid())
	}
	if uid, err := process.PeerUser(conn); int(uid) != os.Geteuid() || err != nil {
		t.Errorf("user %d, %v; this program is %d's", uid, err, os.Geteuid())
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Peer(conn); err == nil {
		t.Error("a closed connection has a peer")
	}
	if _, err := process.PeerUser(conn); err == nil {
		t.Error("a closed connection has a user")
	}
}
