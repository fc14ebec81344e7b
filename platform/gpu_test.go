package platform

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tare/kernel/nvidia"
)

// twoGPUs is a host with two devices, the second divided into two instances of one part.
func twoGPUs() *nvidia.Inventory {
	cap := func(minor int) nvidia.Node {
		return nvidia.Node{Path: "/dev/nvidia-caps/nvidia-cap" + string(rune('0'+minor)), Major: 237, Minor: minor, Mode: 0o444}
	}
	return &nvidia.Inventory{
		Version: "550.54.15", LibraryVersion: "550.54.15",
		GPUs: []nvidia.GPU{
			{Minor: 0, Model: "NVIDIA H200", Node: nvidia.Node{Path: "/dev/nvidia0", Major: 195, Minor: 0, Mode: 0o666}},
			{Minor: 1, Node: nvidia.Node{Path: "/dev/nvidia1", Major: 195, Minor: 1, Mode: 0o660, GID: 44}, Divided: true, Instances: []nvidia.Instance{
				{GPUInstance: 1, ComputeInstance: 0, Nodes: []nvidia.Node{cap(1), cap(2)}},
				{GPUInstance: 1, ComputeInstance: 1, Nodes: []nvidia.Node{cap(1), cap(3)}},
			}},
		},
		Control: []nvidia.Node{
			{Path: "/dev/nvidiactl", Major: 195, Minor: 255, Mode: 0o666}, {Path: "/dev/nvidia-uvm", Major: 510, Mode: 0o666},
		},
		Libraries: []nvidia.Library{{Name: "libcuda.so.1", Path: "/usr/lib64/libcuda.so.550.54.15"}},
	}
}

func nodes(e Edits) string {
	var all []string
	for _, d := range e.Devices {
		all = append(all, strings.TrimPrefix(d.Path, "/dev/"))
	}
	return strings.Join(all, " ")
}

// A program is given the control nodes whatever device it has, and the capabilities of
// a divided one each once.
func TestGPUEdits(t *testing.T) {
	for which, want := range map[string]string{
		"0":   "nvidiactl nvidia-uvm nvidia0",
		"0-1": "nvidiactl nvidia-uvm nvidia0 nvidia1 nvidia-caps/nvidia-cap1 nvidia-caps/nvidia-cap2 nvidia-caps/nvidia-cap3",
		"1":   "nvidiactl nvidia-uvm nvidia1 nvidia-caps/nvidia-cap1 nvidia-caps/nvidia-cap2 nvidia-caps/nvidia-cap3",
		"all": "nvidiactl nvidia-uvm nvidia0 nvidia1 nvidia-caps/nvidia-cap1 nvidia-caps/nvidia-cap2 nvidia-caps/nvidia-cap3",
	} {
		e, err := GPUEdits(which, twoGPUs())
		if err != nil {
			t.Fatal(err)
		}
		if got := nodes(e); got != want {
			t.Errorf("%s: %s, want %s", which, got, want)
		}
		// By the name that programs load it by: nothing has to make a link.
		if len(e.Mounts) != 1 || e.Mounts[0] != (Mount{Source: "/usr/lib64/libcuda.so.550.54.15", Target: DriverLibraries + "/libcuda.so.1", ReadOnly: true}) {
			t.Errorf("%s: mounts %+v", which, e.Mounts)
		}
		if !slices.Contains(e.Env, "LD_LIBRARY_PATH="+DriverLibraries) {
			t.Errorf("%s: environment %q", which, e.Env)
		}
	}
	e, err := GPUEdits("1", twoGPUs())
	if d := e.Devices[2]; err != nil || d != (DeviceNode{Path: "/dev/nvidia1", Major: 195, Minor: 1, Mode: 0o660, GID: 44}) {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestGPUEditsRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		which  string
		change func(*nvidia.Inventory)
		says   string
	}{
		"no such device":    {"3", func(*nvidia.Inventory) {}, "there are nvidia.com/gpu=0"},
		"one of two":        {"0,3", func(*nvidia.Inventory) {}, "there are nvidia.com/gpu=0"},
		"no driver":         {"all", func(v *nvidia.Inventory) { *v = nvidia.Inventory{} }, "no device of NVIDIA's on the PCI bus"},
		"no node":           {"1", func(v *nvidia.Inventory) { v.GPUs[1].Node = nvidia.Node{} }, "nvidia.com/gpu=1"},
		"nothing to divide": {"1", func(v *nvidia.Inventory) { v.GPUs[1].Instances = nil }, "no compute instance"},
	} {
		v := twoGPUs()
		c.change(v)
		_, err := GPUEdits(c.which, v)
		var missing *Missing
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v (%T), want what says %q", name, err, err, c.says)
		}
	}
}

// What is granted twice is granted once, and the spec's own variables win.
func TestGrant(t *testing.T) {
	s := Spec{Env: []string{"LD_LIBRARY_PATH=/mine"}, Edits: Edits{Env: []string{"LD_LIBRARY_PATH=/theirs", "MORE=1"}}}
	for range 2 {
		var err error
		if s, err = s.Grant(); err != nil {
			t.Fatal(err)
		}
	}
	env := environment(nil, s.Env, "/")
	if !slices.Contains(env, "LD_LIBRARY_PATH=/mine") || !slices.Contains(env, "MORE=1") || len(s.Env) != 3 {
		t.Errorf("environment %q of %q", env, s.Env)
	}
	if err := s.RefuseEdits("x", "a test's"); err == nil {
		t.Error("what it has is not refused")
	}
	if err := (Spec{}).RefuseEdits("x", "a test's"); err != nil {
		t.Error(err)
	}
}

func TestGPUNode(t *testing.T) {
	for name, want := range map[string]bool{"/dev/nvidia0": true, "/dev/nvidia12": true, "/dev/nvidiactl": false, "/dev/nvidia-uvm": false, "/dev/nvidia": false, "/dev/null": false} {
		if got := GPUNode(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
