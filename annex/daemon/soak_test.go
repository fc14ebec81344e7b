package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tare/annex/annextest"
	"tare/annex/control"
	"tare/kernel/cgroup"
)

// soaking is how long a soak test goes on; without it the test is skipped.
func soaking(t *testing.T) time.Duration {
	t.Helper()
	const variable = "TARE_SOAK"
	length, err := time.ParseDuration(os.Getenv(variable))
	if err != nil {
		t.Skipf("set %s to a time, such as 20m", variable)
	}
	return length
}

// A daemon that is killed at random moments changes no byte and leaves no setting.
func TestSoakKills(t *testing.T) {
	length := soaking(t)
	d := defend(t)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	kills := 0
	defer func() { t.Logf("kills: %d, each within 2 s; seed %d", kills, seed) }()
	for end := time.Now().Add(length); time.Now().Before(end); kills++ {
		// As often within a tenth of a time as after it, so that most of a round is not waiting.
		at := time.Duration(float64(2*time.Second) * math.Pow(10, -3*random.Float64()))
		ok := t.Run(strconv.Itoa(kills), func(t *testing.T) {
			p := start(t, d.path, d.socket)
			time.Sleep(at)
			p.end(syscall.SIGKILL)
			d.restored(t)
			d.whole(t)
		})
		if !ok {
			t.Fatalf("killed after %v, seed %d", at, seed)
		}
	}
}

// A daemon that sees containers come and go as fast as two runtimes make them holds no more
// afterwards than before.
func TestSoakChurn(t *testing.T) {
	length := soaking(t)
	box := annextest.Box(t, "daemon", 256<<20)
	place, _ := box.For("memory")
	dir := t.TempDir()
	path, socket := filepath.Join(dir, "annex.toml"), filepath.Join(dir, "annex.sock")
	text := strings.Replace(managing(dir, place.Path, ""), `mode = "manage"`, `mode = "observe"`, 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, path, socket)
	p.await(t, "observing", func(s control.Status) bool { return s.State == control.Observing })
	var made atomic.Int64
	churn := func(length time.Duration) {
		var all sync.WaitGroup
		for _, runtime := range []string{"runc", "crun"} {
			bundle, command := bundleOf(t, runtime, place.Path+"/"+runtime), reached(t, runtime)
			all.Go(func() {
				for end := time.Now().Add(length); time.Now().Before(end); {
					name := fmt.Sprintf("tare-soak-%s-%d-%d", runtime, os.Getpid(), made.Add(1))
					if out, err := exec.Command(command[0], slices.Concat(command[1:], []string{"run", "--bundle", bundle, name})...).CombinedOutput(); err != nil {
						t.Errorf("%s: %v: %s", runtime, err, out)
						return
					}
				}
			})
		}
		all.Wait()
		time.Sleep(5 * time.Second) // until the daemon has seen that the last ones are gone
	}
	churn(length / 4)
	before := holdings(t, p.Process.Pid)
	churn(length - length/4)
	after := holdings(t, p.Process.Pid)
	t.Logf("%d containers, %.1f a second; a daemon that held %+v holds %+v", made.Load(), float64(made.Load())/length.Seconds(), before, after)
	if after.descriptors > before.descriptors+8 || after.watches > before.watches+8 || after.threads > before.threads+8 || after.kilobytes > before.kilobytes*3/2 {
		t.Errorf("it held %+v and holds %+v", before, after)
	}
	s := p.await(t, "an answer", func(control.Status) bool { return true })
	if len(s.Contexts) > 0 {
		t.Errorf("it still manages %d containers", len(s.Contexts))
	}
	churned := p.goroutines()
	fresh := start(t, path, socket)
	fresh.await(t, "observing anew", func(s control.Status) bool { return s.State == control.Observing })
	if begun := fresh.goroutines(); begun == 0 || churned > begun+8 {
		t.Errorf("it had %d goroutines, and a fresh one has %d: %s", churned, begun, p.said)
	}
}

// goroutines ends a daemon, which then says where each of them is, and counts them.
func (p running) goroutines() int {
	p.end(syscall.SIGQUIT)
	return strings.Count("\n"+p.said.String(), "\ngoroutine ")
}

// holding is what a process holds of the host.
type holding struct{ descriptors, watches, threads, kilobytes int }

func holdings(t *testing.T, pid int) (h holding) {
	t.Helper()
	infos, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	h.descriptors = len(infos)
	for _, info := range infos {
		text, _ := os.ReadFile(info) // it may be closed meanwhile
		h.watches += bytes.Count(text, []byte("inotify wd:"))
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(string(status)) {
		if words := strings.Fields(row); len(words) > 1 {
			switch n, _ := strconv.Atoi(words[1]); words[0] {
			case "Threads:":
				h.threads = n
			case "VmRSS:":
				h.kilobytes = n
			}
		}
	}
	return h
}

// reached is how a runtime is called. crun before 1.9 refuses a host with both versions of
// control groups: version 2's are hidden from it.
func reached(t *testing.T, runtime string) []string {
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	unified, ok := layout.Unified()
	if runtime != "crun" || !ok || layout.Mode() == "v2" {
		return []string{runtime}
	}
	return []string{"unshare", "--mount", "sh", "-c", `umount "$0" && exec "$@"`, unified.Mount, runtime}
}

// bundleOf lays out a container whose program ends at once, in a control group.
func bundleOf(t *testing.T, runtime, group string) string {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Skip("needs a static busybox: apt-get install busybox-static")
	}
	dir := t.TempDir()
	for _, d := range []string{"bin", "dev", "proc", "sys"} {
		if err := os.MkdirAll(filepath.Join(dir, "rootfs", d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "rootfs/bin/true"), busybox, 0o755); err != nil {
		t.Fatal(err)
	}
	write := exec.Command(runtime, "spec")
	write.Dir = dir
	if out, err := write.CombinedOutput(); err != nil {
		t.Skipf("needs %s: %v: %s", runtime, err, out)
	}
	path := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	process, linux := spec["process"].(map[string]any), spec["linux"].(map[string]any)
	process["terminal"], process["args"], linux["cgroupsPath"] = false, []string{"/bin/true"}, group
	if text, err = json.Marshal(spec); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
