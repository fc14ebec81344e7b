package cli

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/platform/agent"
)

func TestAgentBadInput(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says []string
	}{
		{"agent", exitUsage, []string{"one way", "--vsock PORT"}},
		{"agent --vsock 7070 --stdio", exitUsage, []string{"not 2"}},
		{"agent --vsock x", exitUsage, []string{"--vsock x", "port"}},
		{"agent --vsock 0", exitUsage, []string{"--vsock 0", "1 to"}},
		{"agent --vsock 4294967295", exitUsage, []string{"--vsock 4294967295", "1 to"}},
		{"agent --channel /nonexistent", exitHost, []string{"/nonexistent"}},
		{"agent --channel /etc/passwd", exitHost, []string{"/etc/passwd", "character device"}},
		{"agent x", exitUsage, []string{"takes 0 arguments"}},
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

// A client has the platforms of the agent's host, from a state directory that is root's alone.
func TestAgentServesAClient(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an agent needs root")
	}
	client, server := net.Pipe()
	served := make(chan error, 1)
	a := &app{out: io.Discard, err: io.Discard}
	go func() { served <- a.serveClient(context.Background(), t.TempDir(), server, agent.HandshakeBound) }()
	c, err := agent.Connect(t.Context(), client, versionText())
	if err != nil {
		t.Fatal(err)
	}
	if hello := c.Hello(); hello.CPUs < 1 || hello.Kernel == "" {
		t.Errorf("the agent says %+v", hello)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Nothing is served from a state directory that is to be made in another's, or that others may write.
func TestAgentInAnothersDirectory(t *testing.T) {
	another, open := t.TempDir(), t.TempDir()
	if err := os.Chown(another, 65534, 65534); err != nil {
		t.Skip("needs root: ", err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for home, says := range map[string]string{
		filepath.Join(another, "state"): another + " belongs to user 65534",
		open:                            open + " can be written by others",
	} {
		if code, _, stderr := tare(t, home, "agent", "--stdio"); code != exitUsage || !strings.Contains(stderr, says) {
			t.Errorf("%d %q, want %q", code, stderr, says)
		}
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
