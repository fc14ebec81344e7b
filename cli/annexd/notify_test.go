package annexd

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/annex/annextest"
	"tare/annex/guard"
	"tare/cli/command"
	"tare/kernel/cgroup"
)

// listens is a socket as systemd's, and what comes to it.
func listens(t *testing.T, name string) (heard <-chan string) {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	all := make(chan string, 100)
	go func() {
		defer close(all)
		text := make([]byte, 4096)
		for {
			n, err := c.Read(text)
			if err != nil {
				return
			}
			all <- string(text[:n])
		}
	}()
	return all
}

// await waits for a state with these words.
func await(t *testing.T, heard <-chan string, words ...string) {
	t.Helper()
	var all []string
	for end := time.After(30 * time.Second); ; {
		select {
		case text := <-heard:
			all = append(all, text)
			missing := false
			for _, w := range words {
				missing = missing || !strings.Contains(text, w)
			}
			if !missing {
				return
			}
		case <-end:
			t.Fatalf("not told within 30 s: %q; heard %q", words, all)
		}
	}
}

func TestNotifies(t *testing.T) {
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
	}{{"3000000", "", 3 * time.Second}, {"3000000", "7", 3 * time.Second}, {"3000000", "8", 0}, {"", "", 0}, {"0", "7", 0}, {"-1", "", 0}, {"x", "", 0}} {
		n := notifies(func(key string) string { return map[string]string{"WATCHDOG_USEC": c.usec, "WATCHDOG_PID": c.pid}[key] }, 7)
		if n.watchdog != c.want || n.socket != "" {
			t.Errorf("%q for process %q: %+v, want %v", c.usec, c.pid, n, c.want)
		}
		n.tell(ready) // nobody hears it
	}
}

// One that does not answer is not told of as alive.
func TestWatchdog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "s")
	heard := listens(t, name)
	n := notifier{socket: name, watchdog: 30 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		n.attend(ctx, func(context.Context) error { return nil })
	}()
	await(t, heard, alive)
	cancel()
	<-answered
	n.socket = filepath.Join(t.TempDir(), "other")
	silent := listens(t, n.socket)
	ctx, cancel = context.WithCancel(t.Context())
	asked := make(chan struct{}, 100)
	go n.attend(ctx, func(ctx context.Context) error { asked <- struct{}{}; return context.DeadlineExceeded })
	<-asked
	<-asked // the first did not lead to a state
	cancel()
	select {
	case text := <-silent:
		t.Errorf("one that hangs is told of as %q", text)
	default:
	}
}

// A group that is to be defended may be made after the daemon's start. systemd hears all the while how it stands.
func TestDefendedGroupIsAwaited(t *testing.T) {
	g := annextest.Box(t, "annexd", 64<<20)
	place, _ := g.For("memory")
	late := place
	late.Path += "/late"
	dir := t.TempDir()
	heard := listens(t, dir+"/notify")
	path := write(t, fmt.Sprintf("[memory]\ndefend = %q\nheadroom = \"8MiB\"\n[control]\nsocket = \"%[2]s/annex.sock\"\n[log]\nfile = \"\"\n[state]\ndirectory = \"%[2]s/lib\"\njournal = \"%[2]s/run/journal\"\n", late.Path, dir))
	daemon := exec.Command("/proc/self/exe", "--config", path)
	daemon.Env = append(os.Environ(), annexdVariable+"=1", "NOTIFY_SOCKET="+dir+"/notify", "WATCHDOG_USEC=1000000")
	var said strings.Builder
	daemon.Stderr = &said
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	})
	await(t, heard, ready, "waiting for what is to be defended", late.Path)
	await(t, heard, alive)
	if err := (cgroup.Group{Places: []cgroup.Place{late}}).Create("memory"); err != nil {
		t.Fatal(err)
	}
	await(t, heard, "STATUS=observes "+late.Path)
	await(t, heard, alive)
	if err := daemon.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await(t, heard, "RELOADING=1", "MONOTONIC_USEC=")
	await(t, heard, ready)
	if err := os.WriteFile(path, []byte("mode = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await(t, heard, "STATUS=the configuration in force stays", "mode")
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await(t, heard, stopping)
	if err := daemon.Wait(); err != nil {
		t.Errorf("it ends with %v: %s", err, said.String())
	}
}

// While it waits it ends when it is told to.
func TestAwaitingEnds(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("annexd starts as root alone")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	heard := listens(t, dir+"/notify")
	t.Setenv("NOTIFY_SOCKET", dir+"/notify")
	path := write(t, fmt.Sprintf("memory.defend = \"/there-is-no-such-group\"\n[state]\ndirectory = \"%[1]s/lib\"\njournal = \"%[1]s/run/journal\"\n", dir))
	ended := make(chan int, 1)
	var out, errOut strings.Builder
	go func() { ended <- run(ctx, []string{"annexd", "--config", path}, &out, &errOut) }()
	await(t, heard, ready, "/there-is-no-such-group")
	cancel()
	if code := <-ended; code != command.Success || strings.Count(errOut.String(), "\n") != 1 {
		t.Errorf("code %d, says %q", code, errOut.String())
	}
}

// What a daemon left changed that was killed together with its guard is put back.
func TestRecover(t *testing.T) {
	place, _ := annextest.Box(t, "annexd", 64<<20).For("memory")
	file, value := place.File("memory.swappiness"), "0"
	if place.Version == 2 {
		file, value = place.File("memory.low"), "4194304"
	}
	before := holding(t, file)
	dir := t.TempDir()
	g, err := guard.Start(t.Context(), guard.Options{Journal: dir + "/kept"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = g.Close() })
	if err := g.Keep(t.Context(), file, value); err != nil || holding(t, file) != value {
		t.Fatalf("%s is %s, %v", file, holding(t, file), err)
	}
	// As it was left, to one who does not know that its daemon lives.
	journal, err := os.ReadFile(dir + "/kept")
	if err == nil {
		err = os.WriteFile(dir+"/journal", journal, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, fmt.Sprintf("[state]\ndirectory = \"%[1]s/lib\"\njournal = \"%[1]s/journal\"\n", dir))
	for range 2 { // the second finds nothing to do
		if code, _, stderr := annexd(t, "--recover", "--config", path); code != command.Success || holding(t, file) != before {
			t.Errorf("code %d, says %q; %s is %s and was %s", code, stderr, file, holding(t, file), before)
		}
	}
	if code, _, stderr := annexd(t, "--recover", "--check"); code != command.Usage || !strings.Contains(stderr, "--recover") {
		t.Errorf("with --check: code %d, says %q", code, stderr)
	}
}

func holding(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
