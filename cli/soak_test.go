package cli

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// soakVariable holds how long each soak test goes on. The tests run where it is set.
const soakVariable = "TARE_SOAK"

func soaking(t *testing.T) time.Duration {
	t.Helper()
	length, err := time.ParseDuration(os.Getenv(soakVariable))
	if err != nil {
		t.Skipf("set %s to a time, such as 20m", soakVariable)
	}
	return length
}

// Runs that are killed at random moments leave nothing that clean does not remove.
func TestSoakKills(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	length := soaking(t)
	home := t.TempDir()
	root := version(t, filepath.Join(t.TempDir(), "root"), 1000)
	run := func(platform string) []string {
		return []string{"weigh", "--rootfs", root, "--blocks", "2", "--yes", "--platform", "bare," + platform, "--", "/bin/count"}
	}
	platforms := usable(t, "weigh", "empty")[1:]
	took := map[string]time.Duration{}
	for _, platform := range platforms {
		whole, out := start(t, home, run(platform)...)
		began := time.Now()
		if err := whole.Wait(); err != nil {
			t.Fatalf("the run on %s that is not killed: %v\n%s", platform, err, out)
		}
		took[platform] = time.Since(began)
	}
	left := leftBy(t, home)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	kills := 0
	defer func() { t.Logf("kills: %d, on %s; seed %d", kills, strings.Join(platforms, ", "), seed) }()
	for end := time.Now().Add(length); time.Now().Before(end); kills++ {
		platform := platforms[random.IntN(len(platforms))]
		at := time.Duration(random.Int64N(int64(took[platform])))
		cmd, _ := start(t, home, run(platform)...)
		time.Sleep(at)
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if code, _, stderr := tare(t, home, "clean"); code != exitSuccess {
			t.Errorf("%s, killed after %v: clean: code %d: %s", platform, at, code, stderr)
		}
		if things := left(); things != "" {
			t.Fatalf("%s, killed after %v, seed %d: clean left:\n%s", platform, at, seed, things)
		}
	}
}
