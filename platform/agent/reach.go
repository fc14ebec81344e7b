package agent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/mdlayher/vsock"
	"golang.org/x/term"
)

// ListenVsock listens on a port of vsock for the machine's host.
func ListenVsock(port uint32) (net.Listener, error) {
	l, err := vsock.Listen(port, nil)
	if err != nil {
		return nil, err
	}
	return &hostOnly{l}, nil
}

// hostOnly turns others away: guests, where it listens on a host, and this machine's own programs, since
// those of every user may use the loopback.
type hostOnly struct{ net.Listener }

func (h *hostOnly) Accept() (net.Conn, error) {
	for {
		conn, err := h.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if from, ok := conn.RemoteAddr().(*vsock.Addr); ok && from.ContextID == vsock.Host {
			return conn, nil
		}
		_ = conn.Close()
	}
}

// OpenChannel opens a character device as a stream: a virtio serial port
// (/dev/virtio-ports/NAME), a serial line. A terminal is made to carry bytes as they are.
func OpenChannel(path string) (io.ReadWriteCloser, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open the channel: %w", err)
	}
	if info.Mode()&os.ModeCharDevice == 0 {
		return nil, fmt.Errorf("open the channel: %s is no character device, such as /dev/virtio-ports/tare", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open the channel: %w", err)
	}
	if err := makeRaw(f); err != nil {
		return nil, errors.Join(fmt.Errorf("open the channel: %s: %w", path, err), f.Close())
	}
	return &channel{File: f}, nil
}

// makeRaw has a terminal carry bytes as they are; what is none is left alone.
func makeRaw(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var making error
	err = raw.Control(func(fd uintptr) {
		if term.IsTerminal(int(fd)) {
			_, making = term.MakeRaw(int(fd))
		}
	})
	return errors.Join(err, making)
}

// channel is a serial port of a virtual machine. As long as nobody has connected on the
// host, the kernel answers a reading with the end (drivers/char/virtio_console.c); a
// client's leaving is reported in the same way, but only after it has spoken.
type channel struct {
	*os.File
	spoken bool
}

// idlePoll is how often the port is looked at while nobody is there: the kernel reports
// of a connection by no event that a reading could wait for.
const idlePoll = 20 * time.Millisecond

func (c *channel) Read(p []byte) (int, error) {
	for {
		n, err := c.File.Read(p)
		if n > 0 {
			c.spoken = true
		}
		if c.spoken || err != io.EOF {
			return n, err
		}
		time.Sleep(idlePoll)
	}
}
