package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAgentBadInput(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nobody.sock")
	for _, c := range []struct {
		args string
		code int
		says []string
	}{
		{"agent", exitUsage, []string{"one way", "--listen HOST:PORT"}},
		{"agent --unix /x --stdio", exitUsage, []string{"not 2"}},
		{"agent --listen 7070", exitUsage, []string{"--listen 7070", "0.0.0.0:7070"}},
		{"agent --vsock x", exitUsage, []string{"--vsock x", "port"}},
		{"agent --vsock 0", exitUsage, []string{"--vsock 0", "1 to"}},
		{"agent --vsock 4294967295", exitUsage, []string{"--vsock 4294967295", "1 to"}},
		{"agent --listen 127.0.0.1:99999", exitUsage, []string{"--listen 127.0.0.1:99999", "65535"}},
		{"agent --listen 127.0.0.1:nosuchport", exitUsage, []string{"nosuchport"}},
		{"agent --channel /nonexistent", exitHost, []string{"/nonexistent"}},
		{"agent --channel /etc/passwd", exitHost, []string{"/etc/passwd", "character device"}},
		{"agent --listen 127.0.0.1:0", exitFailure, []string{"peers", "tare agent identity"}},
		{"agent x", exitUsage, []string{"takes 0 arguments"}},
		{"agent ping", exitUsage, []string{"takes 1 argument,"}},
		{"agent ping node1", exitUsage, []string{"node1", "HOST:PORT"}},
		{"agent ping unix:/x --count 0", exitUsage, []string{"--count 0"}},
		{"agent ping unix:" + socket, exitFailure, []string{socket}},
		{"agent ping 127.0.0.1:1", exitFailure, []string{"agent/agents", "tare agent identity"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			if os.Geteuid() != 0 && strings.HasPrefix(c.args, "agent --") {
				t.Skip("an agent needs root")
			}
			code, stdout, stderr := tare(t, t.TempDir(), strings.Fields(c.args)...)
			if code != c.code || stdout != "" || strings.Count(stderr, "\n") != 1 {
				t.Errorf("code %d, want %d; printed %q and %q", code, c.code, stdout, stderr)
			}
			for _, want := range c.says {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q does not say %q", stderr, want)
				}
			}
		})
	}
}

// Two hosts that know one another's fingerprints reach one another; the third does not.
func TestAgentPing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an agent needs root")
	}
	home := func() string {
		t.Helper()
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	identity := func(home string) string {
		t.Helper()
		code, line, stderr := tare(t, home, "agent", "identity")
		if code != exitSuccess || !strings.HasPrefix(line, "SHA256:") {
			t.Fatalf("identity: %d %q %q", code, line, stderr)
		}
		return line
	}
	writes := func(home, file, line string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(home, "agent", file), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server, client, stranger := home(), home(), home()
	at := identity(server)
	writes(server, "peers", identity(client))
	identity(stranger)

	ctx, cancel := context.WithCancel(t.Context())
	output, printing := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"tare", "--home", server, "agent", "--listen", "127.0.0.1:0"}, io.Discard, printing)
	}()
	lines := bufio.NewReader(output)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, lines)
	_, address, _ := strings.Cut(strings.TrimSpace(first), "serving at ")

	// That the client lets the agent in does not make it whom the client calls there.
	writes(client, "peers", at)
	writes(client, "agents", "127.0.0.1:1 "+at)
	code, stdout, stderr := tare(t, client, "agent", "ping", address)
	if code != exitHost || stdout != "" || !strings.Contains(stderr, "no key is known") || !strings.Contains(stderr, address) {
		t.Errorf("an agent that is known at another address: %d %q %q", code, stdout, stderr)
	}
	writes(client, "agents", address+" "+at)
	writes(stranger, "agents", address+" "+at)

	code, stdout, stderr = tare(t, client, "agent", "ping", address, "--count", "10")
	if code != exitSuccess || !strings.Contains(stdout, "round trip") || !strings.Contains(stdout, "clock") {
		t.Errorf("ping: %d %q %q", code, stdout, stderr)
	}
	code, stdout, stderr = tare(t, client, "agent", "ping", address, "--count", "10", "--json", "-")
	var p ping
	if err := json.NewDecoder(bytes.NewBufferString(stdout)).Decode(&p); err != nil || code != exitSuccess || p.Trips != 10 || p.P50 <= 0 || p.P99 < p.P50 || p.Agent.CPUs < 1 {
		t.Errorf("ping --json: %d %+v %v %q", code, p, err, stderr)
	}
	code, _, stderr = tare(t, stranger, "agent", "ping", address)
	if code != exitHost || !strings.Contains(stderr, "does not let this host in") {
		t.Errorf("a stranger: %d %q", code, stderr)
	}
	cancel()
	if code := <-ended; code != exitSuccess {
		t.Errorf("the agent ended with code %d", code)
	}
}

// Nor is one in a state directory that is still to be made in another's.
func TestAgentKeyBelowAnothers(t *testing.T) {
	another := t.TempDir()
	if err := os.Chown(another, 65534, 65534); err != nil {
		t.Skip("needs root: ", err)
	}
	home := filepath.Join(another, "state")
	if code, _, stderr := tare(t, home, "agent", "identity"); code != exitUsage || !strings.Contains(stderr, another+" belongs to user 65534") {
		t.Errorf("%d %q", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(home, "agent")); err == nil {
		t.Error("a key was made there")
	}
}

// A key in a state directory that others may write is nobody's.
func TestAgentKeyAmongOthers(t *testing.T) {
	home := t.TempDir()
	if err := os.Chmod(home, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"agent", "identity"}, {"agent", "ping", "127.0.0.1:1"}} {
		if code, _, stderr := tare(t, home, args...); code != exitUsage || !strings.Contains(stderr, home+" can be written by others") {
			t.Errorf("%v: %d %q", args, code, stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "agent", "identity.pem")); err == nil {
		t.Error("a key was made there")
	}
}

// Standard streams that nobody reads or writes any more end no later than others.
func TestStandardStreamsEnd(t *testing.T) {
	in, _ := io.Pipe()
	_, out := io.Pipe()
	s := openStdio(in, out)
	if _, err := s.Write([]byte("what nobody reads")); err != nil {
		t.Fatal(err)
	}
	writing, reading := make(chan error), make(chan error)
	go func() { _, err := s.Write([]byte("more")); writing <- err }()
	go func() { _, err := s.Read(make([]byte, 1)); reading <- err }()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if w, r := <-writing, <-reading; w == nil || r == nil {
		t.Errorf("closed: writing %v, reading %v", w, r)
	}
}
