package control

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A daemon that is stopped has a socket that takes connections, and says nothing at them.
func TestOneThatDoesNotAnswerIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("what listens has to be root's: run as root")
	}
	socket := filepath.Join(t.TempDir(), "annex.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := dial(socket, 20*time.Millisecond, 20*time.Millisecond)
	defer c.Close()
	_, asking := c.Status(t.Context())
	for what, err := range map[string]error{
		"status": asking,
		"drain":  c.Drain(t.Context(), 0),
		"top":    c.Top(t.Context(), time.Second, func(Status) error { return nil }),
	} {
		var silent *Silent
		if !errors.As(err, &silent) || silent.PID != os.Getpid() || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
