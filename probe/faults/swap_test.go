package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// swap makes a swap file that is gone with the test.
func swap(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making swap needs root")
	}
	for _, tool := range []string{"mkswap", "swapon", "swapoff"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s: apt-get install util-linux mount", tool)
		}
	}
	file := filepath.Join(t.TempDir(), "swap")
	if err := os.WriteFile(file, make([]byte, 16<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkswap", file}, {"swapon", file}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v: %s", command, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("swapoff", file).CombinedOutput(); err != nil {
			t.Errorf("swapoff %s: %v: %s", file, err, out)
		}
	})
}

func TestSwap(t *testing.T) {
	swap(t)
	const n = 64
	m := begin(t, nil, "swap", strconv.Itoa(n))
	r := start(t, []Target{{Name: "maker", PIDs: []int{m.pid}}}, Options{})
	did := m.act()
	m.end()
	rec := stop(t, r)
	got := 0
	for f := range rec.All() {
		if !did.holds(f.Address) {
			continue
		}
		got++
		if f.Type != Swap || f.State != Swapped || f.Write || f.Entry == 0 {
			t.Errorf("a %s fault on entry %#x (state %d)", f.Type, f.Entry, f.State)
		}
		if _, ok := f.Frame(); ok {
			t.Error("a page in swap has a frame")
		}
	}
	// What is read ahead stays unmapped until it is touched.
	if got != n {
		t.Errorf("%d faults on %d pages in swap", got, n)
	}
}
