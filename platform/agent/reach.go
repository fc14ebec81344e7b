package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mdlayher/vsock"
	"golang.org/x/term"
)

// Address is where an agent is reached: over the network, at a Unix socket, or in a
// virtual machine by vsock.
type Address struct {
	Network string // "tcp", "unix", "vsock"
	At      string // "HOST:PORT", a path; empty for vsock
	Context uint32 // the machine's context id
	Port    uint32 // of vsock
}

// ParseAddress reads "HOST:PORT", "unix:PATH" or "vsock:CID:PORT".
func ParseAddress(s string) (Address, error) {
	head, rest, _ := strings.Cut(s, ":")
	switch {
	case head == "unix" && strings.HasPrefix(rest, "/"):
		return Address{Network: "unix", At: rest}, nil
	case head == "vsock":
		machine, port, _ := strings.Cut(rest, ":")
		cid, err := strconv.ParseUint(machine, 10, 32)
		number, perr := strconv.ParseUint(port, 10, 32)
		if err == nil && perr == nil {
			return Address{Network: "vsock", Context: uint32(cid), Port: uint32(number)}, nil
		}
	case head != "unix":
		if host, port, err := net.SplitHostPort(s); err == nil && host != "" {
			if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 {
				return Address{Network: "tcp", At: s}, nil
			}
		}
	}
	return Address{}, fmt.Errorf("%q is no agent's address: want HOST:PORT, unix:/PATH or vsock:CID:PORT", s)
}

func (a Address) String() string {
	switch a.Network {
	case "unix":
		return "unix:" + a.At
	case "vsock":
		return fmt.Sprintf("vsock:%d:%d", a.Context, a.Port)
	}
	return a.At
}

// Dial connects to an agent and shakes hands with it. Identity and agents are for the
// network; a Unix socket and vsock have none.
func Dial(ctx context.Context, a Address, identity *Identity, agents Agents, version string) (*Client, error) {
	conn, err := a.connect(ctx, identity, agents)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", a, err)
	}
	c, err := Connect(ctx, conn, version)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", a, err)
	}
	return c, nil
}

func (a Address) connect(ctx context.Context, identity *Identity, agents Agents) (net.Conn, error) {
	if a.Network == "vsock" {
		return vsock.Dial(a.Context, a.Port, nil)
	}
	if a.Network == "tcp" && identity == nil {
		return nil, errors.New("over the network both ends show who they are, and no identity was given")
	}
	if a.Network == "tcp" { // before anything is asked of who may be anybody
		if _, err := agents.known(a); err != nil {
			return nil, err
		}
	}
	dialer := net.Dialer{Timeout: HandshakeBound, KeepAliveConfig: keepAlive}
	conn, err := dialer.DialContext(ctx, a.Network, a.At)
	if err != nil || a.Network != "tcp" {
		return conn, err
	}
	return identity.Approach(ctx, conn, a, agents)
}

// keepAlive has the kernel find out that a peer's host has gone: within a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3}

// Listener listens on the network for peers alone.
type Listener struct {
	net.Listener
	identity *Identity
	peers    func() (Peers, error)
}

// ListenTCP listens at an address for those whom peers names when they come.
func ListenTCP(
	ctx context.Context,
	address string,
	identity *Identity,
	peers func() (Peers, error),
) (*Listener, error) {
	config := net.ListenConfig{KeepAliveConfig: keepAlive}
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &Listener{l, identity, peers}, nil
}

// Admit lets a connection in that the listener has accepted.
func (l *Listener) Admit(ctx context.Context, conn net.Conn) (net.Conn, error) {
	peers, err := l.peers()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return l.identity.Admit(ctx, conn, peers)
}

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
