package density

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/image"
	kernelfile "tare/kernel/file"
	"tare/lab"
	"tare/lab/labtest"
	"tare/platform"
	"tare/platform/bare"
	"tare/platform/box"
	"tare/study/kit"
	"tare/workload"
)

func TestMain(m *testing.M) {
	bare.Reexec()
	os.Exit(m.Run())
}

// liveDirectory is where the live test keeps what it makes: on a disk, where a directory
// for temporary files may be in memory, and the same for every run, so that the next one
// removes by its ledger what a killed one left.
const liveDirectory = "/var/tmp/tare-test-density"

// housed is a bench with real images.
type housed struct {
	*labtest.Bench
	img image.Image
}

func (h housed) Image() image.Image                           { return h.img }
func (h housed) ImageOf(workload.Source) (image.Image, error) { return h.img, nil }

// A small box on this host: redis beside more and more of itself, until it asks for more
// memory than there is. Pages leave it for swap of its own, and nothing is left after.
func TestLiveSweep(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := exec.LookPath("crun"); err != nil {
		t.Skip("needs crun on PATH")
	}
	dir := liveDirectory
	if err := kernelfile.Private(dir); err != nil {
		t.Fatal(err)
	}
	left, err := lab.Clean(t.Context(), lab.LedgerDir(dir), lab.Remover(dir), false)
	if err != nil || len(left.Failed) > 0 {
		t.Fatalf("what an earlier run has left: %+v, %v", left.Failed, err)
	}
	ledger, err := lab.OpenLedger(lab.LedgerDir(dir), "live-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if open := ledger.Open(); len(open) > 0 {
			t.Errorf("still listed: %+v", open)
		}
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
		if !t.Failed() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		}
	})
	on, err := lab.Platforms(dir, ledger)("oci:crun")
	if err != nil {
		t.Fatal(err)
	}
	if err := on.Check(t.Context()); err != nil {
		t.Skip(err)
	}
	boxes := box.New(box.Options{StateDir: dir, Ledger: ledger})
	o := Default()
	redis, err := workload.Lookup("redis")
	if err != nil {
		t.Fatal(err)
	}
	o.Critical, o.Noises = workload.Subject{Workload: redis}, []workload.Subject{{Workload: redis}}
	o.Box, o.NeighbourMemory, o.Neighbours = 256<<20, 64<<20, []int{1, 2, 3, 4}
	o.Warm, o.Settle, o.Open, o.Closed, o.Think = time.Second, leastLoad, time.Second, time.Second, 10*time.Millisecond
	o.Platform, o.Plan.Blocks = "oci:crun", 1
	o.Host = Host{
		Host: kit.Host{
			CPUs: []int{0, 1}, Platform: func(string) (platform.Platform, error) { return on, nil },
			Check: func(platform.Platform) error { return nil },
		},
		CheckBox: func(s platform.BoxSpec) error { return boxes.Check(t.Context(), s) },
	}
	d, err := Design(o)
	if lacks := (*platform.Missing)(nil); errors.As(err, &lacks) {
		t.Skip(lacks)
	}
	if err != nil {
		t.Fatal(err)
	}
	store, err := image.OpenStore(filepath.Join(os.TempDir(), "tare-test-images"), nil)
	if err != nil {
		t.Fatal(err)
	}
	img, err := store.Recipe(t.Context(), "redis")
	if err != nil {
		t.Skip(err) // no way to the packages
	}
	if err := on.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	c := d.Groups[0].Conditions[0]
	bench := housed{labtest.NewBench(on), img}
	bench.Of, bench.Boxes = c.Condition, boxes.Make
	if err := c.Procedure(t.Context(), bench); err != nil {
		t.Fatal(err)
	}
	f := &fixture{bench: bench.Bench}
	steps := f.steps(t)
	for _, s := range steps {
		t.Log(line(s), "swapped out", s.SwapOut, "of idle", s.Classes[platform.Idle].Swapped>>20, "MiB", s.Absent)
	}
	first, last := steps[0], steps[len(steps)-1]
	if len(steps) < 2 || last.Overcommit <= 1 && last.Stop == "" {
		t.Fatalf("the box was never short of memory: %+v", last)
	}
	if first.Overcommit >= 1 || first.Open.Requests == 0 || first.Closed.Requests == 0 || first.Idle.Requests == 0 {
		t.Errorf("the first step: %+v", first)
	}
	swapped := last.Classes[platform.Idle].Swapped + last.Classes[platform.Critical].Swapped
	if last.Overcommit > 1 && swapped == 0 {
		t.Errorf("more is asked for than there is, and nothing has left: %+v", last)
	}
	after, err := os.ReadFile("/proc/swaps")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(after), dir) { // the host's own, and others', may change
		t.Errorf("swap is left:\n%s", after)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "swap", "*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}
