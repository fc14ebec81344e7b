package host

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadTopology(t *testing.T) {
	root := t.TempDir()
	layOut(t, root, map[string]string{
		"online":                                "0-2\n",
		"cpu0/topology/thread_siblings_list":    "0,2\n",
		"cpu2/topology/thread_siblings_list":    "0,2\n",
		"cpu1/topology/thread_siblings_list":    "1\n",
		"cpufreq/topology/thread_siblings_list": "7\n",
	})
	want := Topology{Online: "0-2", Siblings: map[int]string{0: "0,2", 1: "1", 2: "0,2"}}
	if diff := cmp.Diff(want, ReadTopology(root)); diff != "" {
		t.Error(diff)
	}
	if none := ReadTopology(t.TempDir()); none.Online != "" || len(none.Siblings) != 0 {
		t.Errorf("a machine that says nothing has %+v", none)
	}
}

// Two CPUs share a cache of the third level, and another has one of its own.
func TestLastLevelCaches(t *testing.T) {
	root := t.TempDir()
	files := map[string]string{}
	for cpu, shared := range []string{"0-1", "0-1", "2"} {
		for index, cache := range []struct{ level, size, shared string }{
			{"1", "32K", fmt.Sprint(cpu)}, {"2", "4096K", fmt.Sprint(cpu)}, {"3", "16384K", shared},
		} {
			dir := fmt.Sprintf("cpu%d/cache/index%d/", cpu, index)
			files[dir+"level"], files[dir+"size"], files[dir+"shared_cpu_list"] = cache.level+"\n", cache.size+"\n", cache.shared+"\n"
		}
	}
	layOut(t, root, files)
	if got, want := LastLevelCaches(root), int64(32<<20); got != want {
		t.Errorf("the caches have %d bytes, want %d", got, want)
	}
	if got := LastLevelCaches(t.TempDir()); got != 0 {
		t.Errorf("a machine that says nothing has caches of %d bytes", got)
	}
}

// layOut writes files of the CPUs' directory.
func layOut(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(root, "sys/devices/system/cpu", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
