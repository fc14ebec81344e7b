package hint_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/annex/control"
	"tare/cli/annexd"
	"tare/kernel/cgroup"
)

// daemonVariable has this test binary be annexd, by the configuration that it names.
const daemonVariable = "TARE_HINT_TEST_CONFIG"

func beDaemon(path string) int { return annexd.Main([]string{"annexd", "--config", path}) }

const (
	// besideMemory is about half of what the programs want that share it.
	besideMemory = 52 << 20
	besideEach   = 4 // programs of each kind
	// besideSleep is for how long a program has slept at the least when it is woken: longer than
	// the library takes for sleep, and than the daemon for a mistake where what left is missed.
	besideSleep = 2500 * time.Millisecond
	// besidePause is from one answer to the next wake.
	besidePause = 300 * time.Millisecond
	// besideLearn is how many wakes go before those that count: some six of each program.
	besideLearn = 72
)

// What hints add where a daemon manages the containers, and where none does. Programs of all
// kinds share one group that holds half of them, and the one that wakes is drawn: when it
// does is not to be foretold, what it then touches is.
func BenchmarkWakeBesideDaemon(b *testing.B) {
	lib, plain, told := library(b), waking.path(b), toldOfWakes.path(b)
	onFile(b)
	kinds := []struct {
		name, path string
		env        []string
	}{
		{"none", plain, nil},
		{"preload", plain, preload(lib, "ANNEX_HINT=1", fmt.Sprintf("ANNEX_HINT_IDLE_MS=%d", besideSleep.Milliseconds()/3))},
		{"api", told, nil},
	}
	for _, managed := range []bool{false, true} {
		name := map[bool]string{false: "alone", true: "annexd"}[managed]
		b.Run(name, func(b *testing.B) {
			box := shared(b)
			var wakers []*waker
			for n := range besideEach * len(kinds) {
				k := kinds[n%len(kinds)]
				w := beginIn(b, box.Child(fmt.Sprintf("%s%d", k.name, n)), k.path, "mmap", k.env)
				w.fill(b)
				wakers = append(wakers, w)
			}
			if managed {
				manage(b, box)
			}
			draw := rand.New(rand.NewPCG(1, 1))
			// one wakes one of those that have slept for long enough.
			one := func() (kind int, a woken) {
				time.Sleep(besidePause)
				for {
					n := draw.IntN(len(wakers))
					if time.Since(wakers[n].since) >= besideSleep {
						return n % len(kinds), wakers[n].wake(b)
					}
					time.Sleep(50 * time.Millisecond)
				}
			}
			for range besideLearn {
				one()
			}
			answered, majors := make([][]time.Duration, len(kinds)), make([]int, len(kinds))
			for b.Loop() {
				kind, a := one()
				answered[kind] = append(answered[kind], a.answered)
				majors[kind] += a.majors
			}
			b.ReportMetric(0, "ns/op")
			for i, k := range kinds {
				if n := len(answered[i]); n > 0 {
					slices.Sort(answered[i])
					b.ReportMetric(float64(answered[i][n/2].Microseconds())/1000, k.name+"-ms")
					b.ReportMetric(float64(answered[i][n*9/10].Microseconds())/1000, k.name+"-p90-ms")
					b.ReportMetric(float64(majors[i])/float64(n), k.name+"-majors")
				}
			}
		})
	}
}

// shared is a group for several programs, which holds half of them.
func shared(b *testing.B) cgroup.Group {
	b.Helper()
	g := group(b, "box")
	if err := g.Create("memory"); err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() {
		if err := g.Remove(context.Background()); err != nil {
			b.Error(err)
		}
	})
	if err := g.LimitMemory(besideMemory); err != nil {
		b.Skip(err)
	}
	return g
}

// manage has a daemon manage every program of a group, until the end.
func manage(b *testing.B, box cgroup.Group) {
	b.Helper()
	place, ok := box.For("memory")
	if !ok {
		b.Skip("no hierarchy carries the memory controller")
	}
	dir := b.TempDir()
	path, socket := filepath.Join(dir, "annex.toml"), filepath.Join(dir, "annex.sock")
	text := fmt.Sprintf(`version = 1
mode = "manage"
[memory]
defend = %q
headroom = "4MiB"
high = "6MiB"
reserve = "1MiB"
[control]
socket = %q
[log]
file = ""
[state]
directory = %q
journal = %q
[[rule]]
class = "elastic"
cgroup = %q
`, place.Path, socket, filepath.Join(dir, "state"), filepath.Join(dir, "journal"), place.Path+"/*")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	var said strings.Builder
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), daemonVariable+"="+path), &said, &said
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	client := control.Dial(socket)
	b.Cleanup(func() {
		client.Close()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			b.Errorf("annexd: %v: %s", err, said.String())
		}
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		s, err := client.Status(b.Context())
		if err == nil && s.State == control.Managing {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("annexd does not manage within a minute: %v; it says: %s", err, said.String())
		}
	}
}
