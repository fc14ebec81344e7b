package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadTopology(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"online":                                "0-2\n",
		"cpu0/topology/thread_siblings_list":    "0,2\n",
		"cpu2/topology/thread_siblings_list":    "0,2\n",
		"cpu1/topology/thread_siblings_list":    "1\n",
		"cpufreq/topology/thread_siblings_list": "7\n",
	} {
		file := filepath.Join(root, "sys/devices/system/cpu", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := Topology{Online: "0-2", Siblings: map[int]string{0: "0,2", 1: "1", 2: "0,2"}}
	if diff := cmp.Diff(want, ReadTopology(root)); diff != "" {
		t.Error(diff)
	}
	if none := ReadTopology(t.TempDir()); none.Online != "" || len(none.Siblings) != 0 {
		t.Errorf("a machine that says nothing has %+v", none)
	}
}
