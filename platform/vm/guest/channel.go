package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// hostBound is how long the host may leave an agent that is there without a word.
const hostBound = 2 * time.Minute

// openChannel opens what the host and the agent talk through, by its name in the order
// ([Order.Channel]).
func openChannel(ctx context.Context, name string) (io.ReadWriteCloser, error) {
	file, err := awaitPort(ctx, strings.TrimPrefix(name, virtioChannel))
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &port{File: f, until: time.Now().Add(hostBound)}, nil
}

// awaitPort finds the virtio-serial port of that name: its device is the kernel's
// choice, and the host tells its name by a message after the driver is there.
func awaitPort(ctx context.Context, name string) (string, error) {
	for {
		found, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return "", err
		}
		for _, file := range found {
			text, err := os.ReadFile(file)
			if err == nil && strings.TrimSpace(string(text)) == name {
				return filepath.Join("/dev", filepath.Base(filepath.Dir(file))), nil
			}
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("no virtio-serial port is named %s: %w", name, fs.ErrNotExist)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// port is a virtio-serial port. As long as nobody has connected on the host, reading
// from one tells of the end (drivers/char/virtio_console.c, port_fops_read), which is
// true only later.
type port struct {
	*os.File
	until   time.Time // by when the host has to have connected
	spoken  bool
	waiting time.Duration
}

func (p *port) Read(b []byte) (int, error) {
	for {
		n, err := p.File.Read(b)
		if n > 0 {
			p.spoken = true
		}
		if p.spoken || !errors.Is(err, io.EOF) {
			return n, err
		}
		if time.Now().After(p.until) {
			return 0, fmt.Errorf("the host has not connected within %s: %w", hostBound, io.ErrUnexpectedEOF)
		}
		p.waiting = min(max(2*p.waiting, 200*time.Microsecond), 5*time.Millisecond)
		time.Sleep(p.waiting)
	}
}
