package agent_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"tare/platform"
	"tare/platform/agent"
	"tare/platform/bare"
	"tare/platform/conformance"
	"tare/platform/oci"
)

func TestMain(m *testing.M) {
	bare.Reexec()
	os.Exit(m.Run())
}

const version = "test"

// sockets is both ends of a unix socket.
func sockets(t testing.TB) (client, server net.Conn) {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if client, err = net.Dial("unix", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// serve serves one client at the server's end of a stream. When the test ends, the
// client is closed, and the server must have ended without an error.
func serve(t testing.TB, s *agent.Server, client, server net.Conn) *agent.Client {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), server) }()
	c, err := agent.Connect(t.Context(), client, s.Version)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return c
}

// host gives the platforms of this host over a ledger.
func host(state string, ledger platform.Ledger) func(string) (platform.Platform, error) {
	return func(name string) (platform.Platform, error) {
		switch name {
		case "bare":
			return bare.New(bare.Options{StateDir: state, Ledger: ledger}), nil
		case "oci:runc":
			return oci.New("runc", oci.Options{StateDir: state, Ledger: ledger}), nil
		case "oci:crun":
			return oci.New("crun", oci.Options{StateDir: state, Ledger: ledger}), nil
		}
		return nil, &platform.Missing{What: "no platform " + name}
	}
}

// The stream carries what platforms do, and knows nothing of which runtime does it: one
// platform without a creator through a pipe and one with, through a socket, show that. A
// second runtime is asked for by TARE_TEST_ALL=1.
func TestConformance(t *testing.T) {
	for _, name := range []string{"bare", "oci:runc", "oci:crun"} {
		t.Run(name, func(t *testing.T) {
			if name == "oci:crun" && os.Getenv("TARE_TEST_ALL") != "1" {
				t.Skip("oci:runc shows the same of the stream: set TARE_TEST_ALL=1 to run it too")
			}
			state, images := conformance.OpenDir(t), t.TempDir()
			conformance.Run(t, func(t *testing.T, l platform.Ledger) platform.Platform {
				client, server := sockets(t)
				if name == "bare" {
					client, server = net.Pipe()
				}
				s := &agent.Server{Version: version, Platforms: host(state, l), ImageDir: images}
				return serve(t, s, client, server).Platform(name)
			}, conformance.Image(t), conformance.LedgerAcross)
		})
	}
}
