package containerd

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/engine"
)

// book is a ledger that is kept in memory.
type book struct {
	mu   sync.Mutex
	open []*platform.Entry
}

func (b *book) Add(e platform.Entry) (func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = append(b.open, &e)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.open = slices.DeleteFunc(b.open, func(o *platform.Entry) bool { return o == &e })
	}, nil
}

// left lists what is not crossed out, the latest first.
func (b *book) left() []platform.Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []platform.Entry
	for _, e := range slices.Backward(b.open) {
		all = append(all, *e)
	}
	return all
}

// short is a directory whose name leaves room for a socket's, of which the
// kernel takes 108 bytes.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// real gives a platform over the host's containerd, or skips.
func real(t *testing.T) *Platform {
	t.Helper()
	p := New(Options{StateDir: t.TempDir(), Ledger: &book{}})
	if err := p.Check(t.Context()); err != nil {
		t.Skip(err)
	}
	return p
}

// silent listens, accepts, and never says a word.
func silent(t *testing.T) (address string) {
	t.Helper()
	address = filepath.Join(short(t), "s")
	l, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return address
}

// refusing is a socket that nobody listens at any more.
func refusing(t *testing.T) (address string) {
	t.Helper()
	address = filepath.Join(short(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return address
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: without it, that is what is missing")
	}
	for what, address := range map[string]string{
		"no socket": filepath.Join(short(t), "s"), "nobody listens": refusing(t), "nobody answers": silent(t),
	} {
		for _, named := range []string{"by option", "by environment"} {
			p := New(Options{StateDir: t.TempDir()})
			if named == "by option" {
				p.options.Address = address
			} else {
				t.Setenv(addressVariable, "unix://"+address)
			}
			p.requests.Patience = 50 * time.Millisecond
			err := p.Check(t.Context())
			var missing *platform.Missing
			if !errors.As(err, &missing) || missing.Mend == "" || !strings.Contains(missing.What, address) {
				t.Errorf("%s, %s: %v, want a *platform.Missing that names the socket and the mend", what, named, err)
			}
			if v := p.Version(t.Context()); v != "" {
				t.Errorf("%s: its version is %q", what, v)
			}
		}
	}
}

// A caller that gives up gets no error that containerd is missing.
func TestCheckCancelled(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: without it, that is what is missing")
	}
	p := New(Options{Address: silent(t), StateDir: t.TempDir()})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.holds(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want one that wraps the caller's own deadline", err)
	}
}

// wire stands between the platform and containerd, and can fail.
type wire struct {
	to string
	l  net.Listener

	mu     sync.Mutex
	frozen chan struct{} // closed when the wire carries again; nil while it does
	ends   []net.Conn
	cut    bool
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(short(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{to: to, l: l}
	t.Cleanup(func() { w.thaw(); _ = l.Close(); w.sever() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			w.join(near)
		}
	}()
	return w
}

func (w *wire) join(near net.Conn) {
	far, err := net.Dial("unix", w.to)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || w.cut {
		_ = near.Close()
		return
	}
	w.ends = append(w.ends, near, far)
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			_, _ = io.Copy(way[1], gated{way[0], w})
			_, _ = way[0].Close(), way[1].Close()
		}()
	}
}

// gated reads nothing on while the wire is frozen.
type gated struct {
	net.Conn
	w *wire
}

func (g gated) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	g.w.mu.Lock()
	frozen := g.w.frozen
	g.w.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	return n, err
}

func (w *wire) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = make(chan struct{})
}

func (w *wire) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen != nil {
		close(w.frozen)
		w.frozen = nil
	}
}

// sever ends all connections, and lets no new one through until it is mended.
func (w *wire) sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for _, end := range w.ends {
		_ = end.Close()
	}
	w.ends = nil
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = false
}

// A containerd that stops answering, or goes away, while a program runs: the
// program is ended nevertheless, everything is bounded, and what containerd
// keeps stays in the ledger, from which it is removed when it is back.
func TestContainerdFails(t *testing.T) {
	direct := real(t)
	img := conformance.Image(t)
	for _, fault := range []struct {
		name         string
		fail, repair func(*wire)
	}{
		{"stops answering", (*wire).freeze, (*wire).thaw},
		{"goes away", (*wire).sever, (*wire).mend},
	} {
		t.Run(fault.name, func(t *testing.T) {
			w, b := newWire(t, direct.address), &book{}
			p := New(Options{Address: w.l.Addr().String(), StateDir: t.TempDir(), Ledger: b})
			p.requests.Patience = 3 * time.Second
			if err := p.Prepare(t.Context(), img); err != nil {
				t.Fatal(err)
			}
			prepared := len(b.left())
			name := "faulty-" + engine.NewMark()
			spec := platform.Spec{Name: name, Image: img, Args: []string{"sleep", "3600"}}
			running, err := p.Launch(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			pids, err := running.Processes()
			if err != nil {
				t.Fatal(err)
			}
			id, err := process.Identify(pids[0])
			if err != nil {
				t.Fatal(err)
			}

			fault.fail(w)
			other := spec
			other.Name += "-other"
			if _, err := p.Launch(t.Context(), other); !errors.Is(err, platform.ErrGone) {
				t.Errorf("Launch: %v, want one that wraps ErrGone", err)
			}
			if err := running.Stop(t.Context()); !errors.Is(err, platform.ErrGone) {
				t.Errorf("Stop: %v, want one that wraps ErrGone", err)
			}
			if id.Alive() {
				t.Error("the program goes on")
			}
			if _, err := running.Wait(t.Context()); !errors.Is(err, platform.ErrGone) {
				t.Errorf("Wait: %v, want one that wraps ErrGone", err)
			}
			if !slices.ContainsFunc(b.left(), func(e platform.Entry) bool { return e.Kind == kindContainer && e.ID == name }) {
				t.Error("the container is crossed out, and containerd was not asked to remove it")
			}

			fault.repair(w)
			// The client connects again in its own time.
			for err = p.Release(t.Context()); errors.Is(err, platform.ErrGone) && t.Context().Err() == nil; {
				err = p.Release(t.Context())
			}
			if err != nil {
				t.Errorf("Release: %v", err)
			}
			for _, e := range b.left() {
				if err := direct.Remove(t.Context(), e); err != nil {
					t.Errorf("removing the %s %s: %v", e.Kind, e.ID, err)
				}
			}
			if prepared != 1 {
				t.Errorf("Prepare entered %d things, want the image", prepared)
			}
			nothingKept(t, direct, name)
			nothingKept(t, direct, other.Name)
		})
	}
}

// started is a container that was started and not taken hold of, and its program.
func started(t *testing.T, p *Platform, spec platform.Spec) (platform.Created, process.Identity) {
	t.Helper()
	c, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	pids, err := layout.At(platform.CgroupParent).Child(spec.Name).Processes()
	if err != nil || len(pids) == 0 {
		t.Fatalf("%s runs as %v (%v)", spec.Name, pids, err)
	}
	id, err := process.Identify(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	return c, id
}

// Once containerd has failed to answer, removals give it a short time, whether
// they look it up or wait for the report of an end, and end the programs themselves.
func TestStopOnAContainerdThatWasLost(t *testing.T) {
	direct := real(t)
	img := conformance.Image(t)
	w, b := newWire(t, direct.address), &book{}
	p := New(Options{Address: w.l.Addr().String(), StateDir: t.TempDir(), Ledger: b})
	p.requests.Patience, p.requests.Brief = time.Hour, time.Second // a removal that took the hour would fail the test
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	spec := platform.Spec{Name: "lost-" + engine.NewMark(), Image: img, Args: []string{"sleep", "3600"}}
	other := spec
	other.Name += "-other"
	unheld, first := started(t, p, spec)
	running, second := started(t, p, other)
	if _, err := running.Instance(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.freeze()
	p.requests.Lost.Store(true)
	for what, c := range map[string]platform.Created{"unheld": unheld, "held": running} {
		if err := c.Stop(t.Context()); !errors.Is(err, platform.ErrGone) {
			t.Errorf("%s: Stop: %v, want one that wraps ErrGone", what, err)
		}
	}
	if first.Alive() || second.Alive() {
		t.Error("a program goes on")
	}
	w.thaw()
	for _, c := range []platform.Created{unheld, running} {
		// The client connects again in its own time.
		err := c.Stop(t.Context())
		for errors.Is(err, platform.ErrGone) && t.Context().Err() == nil {
			err = c.Stop(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
	}
	if p.requests.Lost.Load() {
		t.Error("a containerd that answers is taken for lost")
	}
	if err := p.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if left := b.left(); len(left) > 0 {
		t.Errorf("in the ledger are still %v", left)
	}
}

// A stop whose time is over ends the program all the same.
func TestStopWhoseTimeIsOver(t *testing.T) {
	p, spec := prepared(t)
	c, id := started(t, p, spec)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Stop(over); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want one that wraps context.Canceled", err)
	}
	if id.Alive() {
		t.Error("the program goes on")
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	nothingKept(t, p, spec.Name)
}

// nothingKept asks containerd whether it knows the container still.
func nothingKept(t *testing.T, p *Platform, id string) {
	t.Helper()
	kept, err := p.keeps(t.Context(), id)
	if err != nil || len(kept) > 0 {
		t.Errorf("containerd keeps %v of %s (%v)", kept, id, err)
	}
}
