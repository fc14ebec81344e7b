package agent_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/platform/agent"
)

func identity(t testing.TB) *agent.Identity {
	t.Helper()
	i, err := agent.OpenIdentity(filepath.Join(t.TempDir(), "agent", "identity.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// listening is an agent on the network that lets one peer in. What it reports of strangers
// comes through the channel.
func listening(t *testing.T, own *agent.Identity, peers agent.Peers) (agent.Address, <-chan error) {
	t.Helper()
	l, err := agent.ListenTCP(t.Context(), "127.0.0.1:0", own, func() (agent.Peers, error) { return peers, nil })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	complaints := make(chan error, 16)
	done := make(chan error, 1)
	go func() {
		s := &agent.Server{Version: version, Platforms: of(newFake())}
		done <- agent.Accept(ctx, l, func(ctx context.Context, conn net.Conn) error { return s.Serve(ctx, conn) }, func(err error) { complaints <- err })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	at, err := agent.ParseAddress(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return at, complaints
}

func only(i *agent.Identity) agent.Peers { return agent.Peers{i.Fingerprint(): true} }

// reaching is what a client knows that calls one agent.
func reaching(at agent.Address, i *agent.Identity) agent.Agents {
	return agent.Agents{at.String(): only(i)}
}

func TestPeersReachOneAnother(t *testing.T) {
	server, client := identity(t), identity(t)
	at, _ := listening(t, server, only(client))
	c, err := agent.Dial(t.Context(), at, client, reaching(at, server), version)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Platform("fake").Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// Strangers are refused at either end, and learn what to do.
func TestStrangersAreRefused(t *testing.T) {
	server, client, stranger := identity(t), identity(t), identity(t)
	at, complaints := listening(t, server, only(client))

	_, err := agent.Dial(t.Context(), at, stranger, reaching(at, server), version)
	if err == nil || !strings.Contains(err.Error(), stranger.Fingerprint()) || !strings.Contains(err.Error(), "peers") {
		t.Errorf("a client that is not let in gets: %v", err)
	}
	var refused *agent.Stranger
	if err := <-complaints; !errors.As(err, &refused) || refused.Fingerprint != stranger.Fingerprint() {
		t.Errorf("the agent reports: %v", err)
	}

	_, err = agent.Dial(t.Context(), at, client, reaching(at, stranger), version)
	if !errors.As(err, &refused) || refused.Fingerprint != server.Fingerprint() || refused.Address != at.String() {
		t.Errorf("an agent that is not who was expected: %v", err)
	}
	<-complaints

	if _, err := agent.Dial(t.Context(), at, nil, nil, version); err == nil || !strings.Contains(err.Error(), "identity") {
		t.Errorf("no identity at all: %v", err)
	}
}

// Without a key, nothing of the protocol is answered: not to plain bytes, not by TLS
// without a certificate, not by an older TLS.
func TestNothingIsSaidToWhoShowsNoKey(t *testing.T) {
	server, client := identity(t), identity(t)
	at, complaints := listening(t, server, only(client))

	conn, err := net.Dial("tcp", at.At)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// What a client of the protocol itself would begin with.
	_, _ = conn.Write([]byte{0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0})
	conn.(*net.TCPConn).CloseWrite()
	answered, _ := io.ReadAll(conn)
	if len(answered) > 7 { // an alert of TLS, at most
		t.Errorf("plain bytes are answered by %q", answered)
	}
	if err := <-complaints; err == nil {
		t.Error("nothing is reported of plain bytes")
	}

	for name, config := range map[string]*tls.Config{
		"no certificate": {InsecureSkipVerify: true, NextProtos: []string{"tare-agent/1"}},
		"TLS 1.2":        {InsecureSkipVerify: true, NextProtos: []string{"tare-agent/1"}, MaxVersion: tls.VersionTLS12},
	} {
		secured, err := tls.Dial("tcp", at.At, config)
		if err == nil {
			n, rerr := secured.Read(make([]byte, 1))
			if n != 0 || rerr == nil {
				t.Errorf("%s: answered", name)
			}
			secured.Close()
		}
		if err := <-complaints; err == nil {
			t.Errorf("%s: let in", name)
		}
	}
}

func TestIdentityIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent", "identity.pem")
	first, err := agent.OpenIdentity(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := agent.OpenIdentity(path)
	if err != nil || second.Fingerprint() != first.Fingerprint() {
		t.Errorf("opened again: %v, %v", second, err)
	}
	if _, err := agent.ReadPeers(strings.NewReader(first.Fingerprint() + " node1\n")); err != nil {
		t.Errorf("what it prints is no peer: %v", err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.OpenIdentity(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others may read: %v", err)
	}
	if err := os.WriteFile(path, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.OpenIdentity(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that holds none: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for _, good := range []string{"node1:7070", "127.0.0.1:1", "[::1]:7070", "unix:/run/a.sock", "vsock:2:7070"} {
		a, err := agent.ParseAddress(good)
		if err != nil || a.String() != good {
			t.Errorf("%s: %v, %v", good, a, err)
		}
	}
	for _, bad := range []string{"", "node1", ":7070", "node1:0", "node1:http", "unix:relative", "vsock:x:1", "vsock:1"} {
		if a, err := agent.ParseAddress(bad); err == nil {
			t.Errorf("%q is taken for %+v", bad, a)
		}
	}
}
