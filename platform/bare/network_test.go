package bare_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/kernel/netns"
	"tare/platform"
	"tare/platform/bare"
	"tare/platform/conformance"
	"tare/platform/linked"
)

// client makes a place for a load's connections.
func client(t *testing.T, stateDir string, ledger platform.Ledger) *linked.Client {
	t.Helper()
	c, err := linked.NewClient(t.Context(), linked.ClientSpec{StateDir: stateDir, Ledger: ledger, Platform: bare.Bare, Name: fmt.Sprintf("client-%d", os.Getpid())})
	if errors.Is(err, netns.ErrForeign) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// A load program in a client's place has the client's network, and nothing else
// of it differs.
func TestGenerateInANetworkNamespace(t *testing.T) {
	needs(t)
	ledger := &open{}
	state := t.TempDir()
	place := client(t, state, ledger)
	before := len(ledger.entries)
	spec := bare.GeneratorSpec{
		Options: bare.Options{StateDir: state, Ledger: ledger}, Name: "generate-net", Image: conformance.Image(t), NetNS: place.File,
		Args: []string{"sh", "-c", "cat /proc/net/fib_trie; cat /proc/self/cgroup; ls /www"},
	}
	out, err := bare.Generate(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{place.Address.String() + "\n", "/tare-load/generate-net\n", "index.html\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("without %q: %s", want, out)
		}
	}
	spec.NetNS = ""
	if out, err = bare.Generate(t.Context(), spec); err != nil || strings.Contains(string(out), place.Address.String()+"\n") {
		t.Errorf("on the host's network it has the client's address (%v): %s", err, out)
	}
	spec.NetNS = place.File + "-none"
	if _, err := bare.Generate(t.Context(), spec); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), spec.NetNS) {
		t.Errorf("no such namespace: %v", err)
	}
	if len(ledger.entries) != before {
		t.Errorf("the load left %v", ledger.entries[before:])
	}
}

// From a client's place the host is reached, which sees the client's own address:
// nothing is translated on the way.
func TestClientReachesTheHost(t *testing.T) {
	needs(t)
	place := client(t, t.TempDir(), &open{})
	l, err := net.Listen("tcp4", netip.AddrPortFrom(netip.IPv4Unspecified(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := netip.MustParseAddrPort(l.Addr().String()).Port()
	peer := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			peer <- err.Error()
			return
		}
		peer <- c.RemoteAddr().String()
		c.Close()
	}()
	c, err := netns.Dialer(place.File)(t.Context(), netip.AddrPortFrom(place.Host, port).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := <-peer; got != c.LocalAddr().String() || !strings.HasPrefix(got, place.Address.String()+":") {
		t.Errorf("the host saw %s, the client is at %s and dialled from %s", got, place.Address, c.LocalAddr())
	}
}

// What a killed tare leaves of a client's place is removed by its ledger alone.
func TestAbandonedClientIsRemoved(t *testing.T) {
	needs(t)
	ledger, state := &open{}, t.TempDir()
	place := client(t, state, ledger)
	links := 0
	p := bare.New(bare.Options{StateDir: state, Ledger: ledger})
	entries := slices.Clone(ledger.entries)
	slices.Reverse(entries)
	for _, e := range entries {
		if e.Platform != bare.Bare {
			t.Errorf("%+v is not bare metal's to remove", e)
		}
		if e.Kind == "link" {
			links++
		}
		if err := p.Remove(t.Context(), e); err != nil {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if links != 2 {
		t.Errorf("%d links are entered in %v, want the bridge and the pair", links, entries)
	}
	if _, err := os.Stat(filepath.Dir(place.File)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", filepath.Dir(place.File), err)
	}
	last := place.Address.As4()[3]
	if there, err := netns.Exists(fmt.Sprintf("tare-%d", last)); there || err != nil {
		t.Errorf("the pair is left (%v)", err)
	}
}
