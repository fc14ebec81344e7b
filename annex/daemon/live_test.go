package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/annextest"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/guard"
	"tare/kernel/cgroup"
	"tare/kernel/swap/swaptest"
)

// This test binary is the guard process, the daemon, and a program that has memory, too.
const (
	configVariable = "TARE_DAEMON_TEST_CONFIG"
	socketVariable = "TARE_DAEMON_TEST_SOCKET" // with bytesVariable
	bytesVariable  = "TARE_DAEMON_TEST_BYTES"
	sweepVariable  = "TARE_DAEMON_TEST_SWEEP"
)

func TestMain(m *testing.M) {
	if code, ours := guard.Main(os.Args); ours {
		os.Exit(code)
	}
	act := func(do func(string) error, with string) {
		if err := do(with); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if path := os.Getenv(configVariable); path != "" {
		act(beDaemon, path)
	}
	if code, ours := annextest.Main(); ours {
		os.Exit(code)
	}
	if path := os.Getenv(socketVariable); path != "" {
		act(answer, path)
	}
	if os.Getenv(sweepVariable) != "" {
		act(beSweeper, "")
	}
	os.Exit(m.Run())
}

func beDaemon(path string) error {
	c, err := config.Load(path)
	if err != nil {
		return err
	}
	claims, warmUp = claimsOf(path), 500*time.Millisecond
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // a test that is killed leaves no daemon
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	h, err := Open(ctx, path, c, "test", func(string) {})
	if err != nil {
		return err
	}
	return h.Run(ctx)
}

// claimsOf is where daemons claim what they defend, by the configuration of one.
func claimsOf(path string) string { return filepath.Join(filepath.Dir(path), "claims") }

// running is a daemon that runs as one.
type running struct {
	*exec.Cmd
	client *control.Client
	said   *strings.Builder
}

func start(t *testing.T, path, socket string) running {
	t.Helper()
	p := running{Cmd: exec.Command("/proc/self/exe"), client: control.Dial(socket), said: &strings.Builder{}}
	p.Env = append(os.Environ(), configVariable+"="+path)
	p.Stderr = p.said
	if _, err := p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.end(syscall.SIGKILL); p.client.Close() })
	return p
}

// end ends it, and waits for that.
func (p running) end(s os.Signal) {
	_ = p.Process.Signal(s)
	_ = p.Wait()
}

// await waits until the status is such, and gives it.
func (p running) await(t *testing.T, what string, such func(control.Status) bool) control.Status {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		s, err := p.client.Status(t.Context())
		if err == nil && such(s) {
			return s
		}
		select {
		case <-deadline:
			t.Fatalf("not within two minutes: %s: %v, %+v; it says: %s", what, err, s, p.said)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func extended(s control.Status) (bytes int64) {
	for _, c := range s.Contexts {
		bytes += c.ExtendedBytes
	}
	return bytes
}

// managing is the configuration of a daemon that keeps all it has in dir and defends a box:
// the group critical in it, and every other one elastic. more is said below [protect].
func managing(dir, box, more string) string {
	return fmt.Sprintf(`version = 1
mode = "manage"
[memory]
defend = %q
headroom = "32MiB"
high = "40MiB"
reserve = "4MiB"
[protect]
%s
[control]
socket = %q
[log]
file = %q
[state]
directory = %q
journal = %q
[[rule]]
class = "critical"
cgroup = %q
[[rule]]
class = "elastic"
cgroup = %q
`, box, more, filepath.Join(dir, "annex.sock"), filepath.Join(dir, "decisions.jsonl"), filepath.Join(dir, "state"), filepath.Join(dir, "journal"), box+"/critical", box+"/*")
}

// The daemon is killed in each of its states, on the real kernel: no program finds a byte
// changed, no group keeps a limit or a protection that it did not have, and the next daemon
// finds what had left.
func TestKilled(t *testing.T) {
	d := defend(t)
	dir, path, socket, text, protection := d.dir, d.path, d.socket, d.text, d.protection
	unprotected := contents(t, []string{protection})
	for _, c := range []struct {
		state string
		reach func(*testing.T, running)
	}{
		{"starting", func(t *testing.T, p running) { p.await(t, "an answer", func(control.Status) bool { return true }) }},
		{"evicting", func(t *testing.T, p running) {
			p.await(t, "an eviction", func(s control.Status) bool { return s.Moved.EvictedBytes > 0 })
		}},
		{"managing", func(t *testing.T, p running) {
			s := p.await(t, "headroom", func(s control.Status) bool { return s.Memory.FreeBytes > s.Memory.HeadroomBytes })
			if contents(t, []string{protection}) == unprotected {
				t.Errorf("%s is %s, as without a daemon", protection, unprotected)
			}
			for _, c := range s.Contexts {
				if critical := c.Name == d.box+"/critical"; critical != (c.Class == annex.Critical) || critical && c.Moved.EvictedBytes != 0 {
					t.Errorf("%s is %s, and %d bytes of it left", c.Name, c.Class, c.Moved.EvictedBytes)
				}
			}
		}},
		{"draining", func(t *testing.T, p running) {
			p.await(t, "something in swap", func(s control.Status) bool { return s.State == control.Managing && extended(s) > 0 })
			if err := p.client.Drain(t.Context(), 1<<20); err != nil {
				t.Fatal(err)
			}
		}},
		{"bringing back", func(t *testing.T, p running) {
			p.await(t, "room for it", func(s control.Status) bool { return extended(s) > 0 && s.Memory.FreeBytes > s.Memory.HeadroomBytes })
			if err := p.client.Drain(t.Context(), 8<<20); err != nil {
				t.Fatal(err)
			}
			brought := func(s control.Status) int64 { return s.Moved.FetchedBytes + s.Moved.MappedBytes }
			before := brought(p.await(t, "draining", func(s control.Status) bool { return s.State == control.Draining }))
			p.await(t, "more brought, and more to come", func(s control.Status) bool {
				return s.State == control.Draining && brought(s) > before && extended(s) > 0
			})
		}},
		{"drained", func(t *testing.T, p running) {
			p.await(t, "managing", func(s control.Status) bool { return s.State == control.Managing })
			if err := p.client.Drain(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			p.await(t, "the end of the drain", func(s control.Status) bool { return s.State == control.Drained })
		}},
		{"ending", func(t *testing.T, p running) {
			p.await(t, "an eviction", func(s control.Status) bool { return s.Moved.EvictedBytes > 0 })
			if err := p.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); contents(t, []string{protection}) != unprotected; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the end puts nothing back")
				}
			}
		}},
		{"observing", func(t *testing.T, p running) {
			p.await(t, "managing", func(s control.Status) bool { return s.State == control.Managing })
			observing := strings.Replace(text, `mode = "manage"`, `mode = "observe"`, 1)
			if err := os.WriteFile(path, []byte(observing), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := p.client.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.await(t, "observing", func(s control.Status) bool { return s.State == control.Observing })
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"off", func(t *testing.T, p running) {
			p.await(t, "managing", func(s control.Status) bool { return s.State == control.Managing })
			if err := p.client.Off(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.state, func(t *testing.T) {
			p := start(t, path, socket)
			c.reach(t, p)
			p.end(syscall.SIGKILL)
			d.restored(t)
			d.whole(t)
		})
	}
	// The next one adopts, is not joined by another, and ends in order.
	p := start(t, path, socket)
	p.await(t, "something in swap", func(s control.Status) bool { return s.State == control.Managing && extended(s) > 0 })
	second := start(t, path, socket)
	if err := second.Wait(); err == nil || !strings.Contains(second.said.String(), "another annexd") {
		t.Errorf("a second daemon: %v, it says: %s", err, second.said)
	}
	// Nor by one with other directories; one that observes is in nobody's way.
	for _, mode := range []string{"manage", "observe"} {
		other := strings.NewReplacer(dir, filepath.Join(dir, mode), `mode = "manage"`, fmt.Sprintf("mode = %q", mode)).Replace(text)
		path, socket := filepath.Join(dir, mode+".toml"), filepath.Join(dir, mode, "annex.sock")
		if err := os.WriteFile(path, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		third := start(t, path, socket)
		if mode == "observe" {
			third.await(t, "observing", func(s control.Status) bool { return s.State == control.Observing })
			// A reload refuses to begin to manage what swap cannot hold, as a start does.
			more := strings.NewReplacer(`mode = "observe"`, `mode = "manage"`, `high = "40MiB"`, `high = "1TiB"`).Replace(other)
			if err := os.WriteFile(path, []byte(more), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := third.client.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "swap does not hold") {
				t.Errorf("a reload to manage more than swap holds: %v", err)
			}
			third.end(syscall.SIGTERM)
			continue
		}
		late := time.AfterFunc(time.Minute, func() { _ = third.Process.Kill() })
		if err := third.Wait(); err == nil || !strings.Contains(third.said.String(), "another annexd defends the memory of "+d.box) {
			t.Errorf("with directories of its own: %v, it says: %s", err, third.said)
		}
		late.Stop()
	}
	p.end(syscall.SIGTERM)
	if _, err := os.Lstat(claimsOf(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its claim is left: %v", err)
	}
	if contents(t, d.knobs) != d.before {
		t.Errorf("%s hold %s, want %s", d.knobs, contents(t, d.knobs), d.before)
	}
	d.whole(t)
}

// defended is a box whose memory does not hold its programs, and the configuration of a
// daemon that manages it: one program is critical, three are elastic.
type defended struct {
	group                   cgroup.Group
	box                     string // its path
	dir, path, socket, text string // the configuration is text, at path
	asks                    []func() string
	knobs                   []string // settings of groups that a daemon changes
	before                  string   // what they hold without one
	protection              string   // the one that protects the critical program
}

func defend(t *testing.T) *defended {
	t.Helper()
	return defendOn(t, func() { swaptest.File(t, "daemon", 160<<20) })
}

// defendOn makes one whose swap is made by a function.
func defendOn(t *testing.T, makeSwap func()) *defended {
	t.Helper()
	box := annextest.Box(t, "daemon", 88<<20)
	makeSwap()
	place, _ := box.For("memory")
	d := &defended{group: box, box: place.Path, dir: t.TempDir()}
	settings, protection := []string{"memory.limit_in_bytes", "memory.swappiness"}, "memory.swappiness"
	if place.Version == 2 {
		settings, protection = []string{"memory.high", "memory.low"}, "memory.low"
	}
	for _, name := range []string{"critical", "program0", "program1", "program2"} {
		g := box.Child(name)
		if err := g.Create("memory"); err != nil {
			t.Fatal(err)
		}
		size := 20 << 20
		if name == "critical" {
			size = 8 << 20
		}
		d.asks = append(d.asks, annextest.Hold(t, g, size).Check)
		place, _ := g.For("memory")
		for _, name := range settings {
			d.knobs = append(d.knobs, place.File(name))
		}
		if name == "critical" {
			d.protection = place.File(protection)
		}
	}
	d.before = contents(t, d.knobs)
	d.path, d.socket = filepath.Join(d.dir, "annex.toml"), filepath.Join(d.dir, "annex.sock")
	d.text = managing(d.dir, d.box, "")
	if err := os.WriteFile(d.path, []byte(d.text), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

// whole checks every byte of the programs.
func (d *defended) whole(t *testing.T) {
	t.Helper()
	for n, ask := range d.asks {
		if answer := ask(); answer != "whole" {
			t.Errorf("program %d: %s", n, answer)
		}
	}
}

// restored waits until the guard process has put limits and protection back, which it does
// as soon as the daemon is gone.
func (d *defended) restored(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for contents(t, d.knobs) != d.before {
		if time.Now().After(deadline) {
			t.Fatalf("%s hold %s, want %s", d.knobs, contents(t, d.knobs), d.before)
		}
		time.Sleep(time.Millisecond)
	}
}

// The kernel itself tells of pressure on a critical container: its own limit is half of what
// it goes through again and again. Eviction, under way until then, stops for as long.
func TestCriticalPressureStopsEviction(t *testing.T) {
	box := annextest.Box(t, "daemon", 88<<20)
	if _, ok := box.Unified(); !ok {
		t.Skip("there is no hierarchy of version 2, which alone tells of pressure")
	}
	swaptest.File(t, "daemon", 256<<20)
	place, _ := box.For("memory")
	asks := map[string]func() string{}
	critical := box.Child("critical")
	for _, name := range []string{"critical", "program0", "program1", "program2"} {
		g := box.Child(name)
		if err := g.Create("memory"); err != nil {
			t.Fatal(err)
		}
		asks[name] = annextest.Hold(t, g, 20<<20).Check
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "annex.toml")
	// The kernel swaps a critical container only where it is not kept from it.
	if err := os.WriteFile(path, []byte(managing(dir, place.Path, "critical = false")), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, path, filepath.Join(dir, "annex.sock"))

	// The programs take turns, so that without a brake something leaves all the time.
	again := func(pause time.Duration, names ...string) (stop func()) {
		done, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for n := 0; ; n++ {
				if answer := asks[names[n%len(names)]](); answer != "whole" {
					t.Errorf("%s: %s", names[n%len(names)], answer)
					return
				}
				select {
				case <-done:
					return
				case <-time.After(pause):
				}
			}
		}()
		stop = sync.OnceFunc(func() { close(done); <-ended })
		t.Cleanup(stop) // before the programs are ended
		return stop
	}
	turns := again(300*time.Millisecond, "program0", "program1", "program2")
	evicts := func(what string, than int64) control.Status {
		return p.await(t, what, func(s control.Status) bool {
			return s.State == control.Managing && !s.Brake.On && s.Moved.EvictedBytes > than+8<<20
		})
	}
	before := evicts("an eviction", 0)
	before = evicts("another eviction", before.Moved.EvictedBytes)

	if err := critical.LimitMemory(10 << 20); err != nil {
		t.Fatal(err)
	}
	waits := again(0, "critical")
	stopped := p.await(t, "the brake", func(s control.Status) bool { return s.Brake.On })
	if !strings.Contains(stopped.Brake.Why, "critical containers wait for memory") || stopped.Brake.Stops <= before.Brake.Stops {
		t.Errorf("the brake is on since %+v, and was %+v", stopped.Brake, before.Brake)
	}
	// What was under way ends, and is told; once nothing has left from one look to the next, nothing
	// does for as long as the brake stays on.
	looks, still, episode, left := 0, false, int64(-1), int64(0)
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		s, err := p.client.Status(t.Context())
		switch {
		case err != nil:
			t.Fatal(err)
		case !s.Brake.On:
		case s.Brake.Stops != episode:
			episode, left, still = s.Brake.Stops, s.Moved.EvictedBytes, false
		case s.Moved.EvictedBytes == left:
			still = true
			looks++
		case still:
			t.Fatalf("%d bytes left while the brake was on: %+v", s.Moved.EvictedBytes-left, s.Brake)
		default:
			left = s.Moved.EvictedBytes
		}
	}
	if looks < 5 {
		t.Errorf("in five seconds of pressure the brake was on for %d looks in which nothing left", looks)
	}

	waits()
	if err := critical.LimitMemory(cgroup.NoBound); err != nil {
		t.Fatal(err)
	}
	last := evicts("an eviction when the pressure is over", left)
	turns()
	p.end(syscall.SIGTERM)
	if worst := last.Brake.WorstStopSeconds; worst != nil {
		t.Logf("%d stops, the longest until no eviction was under way %.3f s", last.Brake.Stops, *worst)
	}
	for name, ask := range asks {
		if answer := ask(); answer != "whole" {
			t.Errorf("%s: %s", name, answer)
		}
	}
}

func contents(t *testing.T, files []string) string {
	t.Helper()
	var all []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimSpace(string(b)))
	}
	return strings.Join(all, " ")
}
