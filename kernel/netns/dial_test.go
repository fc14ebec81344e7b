package netns_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"tare/kernel/netns"
	"tare/kernel/process"
)

// namespace gives a namespace of the test's own, and a listener in it that says
// one word to each that comes.
func namespace(t *testing.T, word string) (file, address string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	file = filepath.Join(t.TempDir(), "ns")
	needRoot(t, netns.Create(file))
	t.Cleanup(func() {
		if err := netns.Delete(file); err != nil {
			t.Error(err)
		}
	})
	var l net.Listener
	err := process.OnFreshThread(func() error {
		if err := netns.Enter(file); err != nil {
			return err
		}
		var err error
		l, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return file, say(t, l, word)
}

func say(t *testing.T, l net.Listener, word string) (address string) {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, word)
			c.Close()
		}
	}()
	return l.Addr().String()
}

func heard(c net.Conn, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer c.Close()
	b, err := io.ReadAll(c)
	return string(b), err
}

// Connections from the namespace and from here, made side by side, arrive each
// where it was made: no thread stays in the other place.
func TestDialer(t *testing.T) {
	file, inside := namespace(t, "inside")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	outside := say(t, l, "outside")
	dial := netns.Dialer(file)
	ordinary := func(ctx context.Context, address string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	}
	var all sync.WaitGroup
	for range 4 {
		for _, way := range []struct {
			dial          func(context.Context, string) (net.Conn, error)
			address, want string
		}{{dial, inside, "inside"}, {ordinary, outside, "outside"}} {
			all.Go(func() {
				for range 50 {
					if got, err := heard(way.dial(t.Context(), way.address)); got != way.want || err != nil {
						t.Errorf("heard %q (%v), want %q", got, err, way.want)
						return
					}
				}
			})
		}
	}
	all.Wait()
	// On each other's loopback nobody listens.
	if _, err := dial(t.Context(), outside); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("from the namespace to the host's loopback: %v, want it refused", err)
	}
}

func TestDialerRefuses(t *testing.T) {
	file, address := namespace(t, "x")
	if _, err := netns.Dialer(file)(t.Context(), "localhost:80"); err == nil {
		t.Error("a name was looked up")
	}
	if _, err := netns.Dialer(file+"-none")(t.Context(), address); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no namespace: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := netns.Dialer(file)(ctx, address); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled dial: %v", err)
	}
}

// Small messages are sent at once.
func TestDialerSetsNoDelay(t *testing.T) {
	file, address := namespace(t, "x")
	c, err := netns.Dialer(file)(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var set int
	if err := raw.Control(func(fd uintptr) { set, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY) }); err != nil {
		t.Fatal(err)
	}
	if set == 0 || err != nil {
		t.Errorf("TCP_NODELAY is %d (%v)", set, err)
	}
}

func TestAddresses(t *testing.T) {
	file, _ := namespace(t, "x")
	if all, err := netns.Addresses(file); len(all) > 0 || err != nil {
		t.Errorf("a namespace with loopback alone has %v (%v)", all, err)
	}
	// Two ends of a pair, of which one is in the namespace, and no bridge at all.
	subnet := netip.MustParsePrefix("10.213.0.0/24")
	other, _ := namespace(t, "y")
	err := process.OnFreshThread(func() error {
		if err := netns.Enter(other); err != nil {
			return err
		}
		if err := netns.MakeBridge(netns.NewLink("bridge"), subnet); err != nil {
			return err
		}
		return netns.Plug(netns.NewLink("port"), "bridge", file, subnet, netns.Gateway(subnet).Next())
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := netns.Addresses(file)
	if want := []netip.Addr{netip.MustParseAddr("10.213.0.2")}; !slices.Equal(all, want) || err != nil {
		t.Errorf("addresses %v (%v), want %v", all, err, want)
	}
}

// A subnet behind a neighbour is used by the namespace, and so no longer free.
func TestAddRoute(t *testing.T) {
	file, _ := namespace(t, "x")
	behind := netip.MustParsePrefix("10.214.1.0/24")
	err := process.OnFreshThread(func() error {
		if err := netns.Enter(file); err != nil {
			return err
		}
		subnet := netip.MustParsePrefix("10.213.0.0/24")
		if err := netns.MakeBridge(netns.NewLink("bridge"), subnet); err != nil {
			return err
		}
		neighbour := netns.Gateway(subnet).Next()
		if err := netns.AddRoute(behind, neighbour); err != nil {
			return err
		}
		if err := netns.AddRoute(behind, neighbour); !errors.Is(err, unix.EEXIST) {
			t.Errorf("the same route again: %v", err)
		}
		used, err := netns.UsedSubnets()
		if !slices.Contains(used, behind) {
			t.Errorf("subnets in use: %v, want %v among them", used, behind)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
