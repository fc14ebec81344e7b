package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/annex/control"
	"tare/kernel/cgroup"
)

// While no file can be opened nothing is concluded from what cannot be read: no container is given up, and
// what is protected stays so. Once files can be opened annexd goes on.
func TestNoFilesLeft(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("waits for a minute: set TARE_TEST_ALL=1")
	}
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip("needs prlimit: apt-get install util-linux")
	}
	d := defend(t)
	p := start(t, d.path, d.socket)
	before := p.await(t, "something in swap", func(s control.Status) bool {
		return s.State == control.Managing && extended(s) > 4<<20
	})
	protection := contents(t, []string{d.protection})
	mayOpen := func(files string) {
		t.Helper()
		limit := exec.Command("prlimit", "--pid", strconv.Itoa(p.Process.Pid), "--nofile="+files+":")
		if out, err := limit.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	logged := func(what string) bool {
		text, err := os.ReadFile(filepath.Join(d.dir, "decisions.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), what)
	}
	mayOpen("0")
	d.whole(t) // whose pages others make room for
	awaits(t, time.Minute, "a look at the containers that fails", func() bool {
		return logged(`"why":"finding containers"`) && logged(syscall.EMFILE.Error())
	})
	d.whole(t)
	if is := contents(t, []string{d.protection}); is != protection {
		t.Errorf("%s is %s, and was %s", d.protection, is, protection)
	}
	mayOpen("1024")
	s := p.await(t, "another eviction", func(s control.Status) bool {
		d.whole(t)
		return s.State == control.Managing && s.Moved.EvictedBytes > before.Moved.EvictedBytes+4<<20
	})
	if len(s.Contexts) != len(before.Contexts) || logged(`"what":"drop"`) {
		t.Errorf("of %d containers %d are known still", len(before.Contexts), len(s.Contexts))
	}
	p.ends(t)
	d.restored(t)
	d.whole(t)
}

// Where no thread can be made no guard process starts in the place of one that has ended: that is said, until
// one does. Should the Go runtime need a thread meanwhile, which ends annexd, the next start puts all back.
func TestNoThreadsLeft(t *testing.T) {
	d := defend(t)
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	hierarchy, has := layout.For("pids")
	if !has || hierarchy.Version == 2 {
		t.Skip("needs the pids controller of version 1, whose groups are not those of memory")
	}
	threads := madeGroup(t, hierarchy, fmt.Sprintf("/tare-daemon-test-%d-threads", os.Getpid()))
	mayMake := func(most string) {
		t.Helper()
		if err := os.WriteFile(threads.Places[0].File("pids.max"), []byte(most), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, d.path, d.socket)
	if err := threads.Add(p.Process.Pid); err != nil {
		t.Fatal(err)
	}
	unprotected := contents(t, []string{d.protection})
	p.await(t, "managing", func(s control.Status) bool {
		return s.State == control.Managing && contents(t, []string{d.protection}) != unprotected
	})
	mayMake("1")
	pids, err := threads.Processes()
	if err != nil || len(pids) != 2 {
		t.Fatalf("processes %v, %v: want the daemon and its guard", pids, err)
	}
	for _, pid := range pids {
		if pid == p.Process.Pid {
			continue
		}
		guard, err := os.FindProcess(pid)
		if err == nil {
			err = guard.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	go func() { _ = p.Wait(); close(ended) }()
	isSaid, hasEnded := false, false
	awaits(t, time.Minute, "that there is no guard, or the end", func() bool {
		select {
		case <-ended:
			hasEnded = true
			return true
		default:
		}
		s, err := p.client.Status(t.Context())
		isSaid = err == nil && warns("the guard process has ended")(s)
		return isSaid
	})
	mayMake("max")
	if hasEnded {
		t.Logf("annexd has ended: %s", strings.SplitN(p.said.String(), "\n", 2)[0])
		p = start(t, d.path, d.socket)
		p.await(t, "managing", func(s control.Status) bool { return s.State == control.Managing })
		p.ends(t)
		d.restored(t)
		return
	}
	p.await(t, "another guard", func(s control.Status) bool { return !warns("the guard process has ended")(s) })
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ended
	if !p.ProcessState.Success() {
		t.Errorf("it ends with %v, and says: %s", p.ProcessState, p.said)
	}
	d.restored(t)
	d.whole(t)
}
