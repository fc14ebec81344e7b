package lab

import (
	"strings"
	"testing"
	"time"

	"tare/platform"
)

func TestVerify(t *testing.T) {
	plain := platform.InForce{NetworkNS: "host", Seccomp: 2, CPUSet: "0-1"}
	with := func(edit func(*platform.InForce)) platform.InForce {
		f := plain
		edit(&f)
		return f
	}
	for _, c := range []struct {
		name  string
		asked platform.Setting
		got   platform.InForce
		says  string // "" where all is in force
	}{
		{"nothing asked, nothing there", platform.Setting{}, plain, ""},
		{"a quota as asked", platform.Setting{CPUs: 1.5}, with(func(f *platform.InForce) { f.CPUQuota, f.CPUPeriod = 150*time.Millisecond, 100*time.Millisecond }), ""},
		{"no quota", platform.Setting{CPUs: 1.5}, plain, "cpus"},
		{"a quota that nobody asked for", platform.Setting{}, with(func(f *platform.InForce) { f.CPUQuota, f.CPUPeriod = time.Second, time.Second }), "cpus"},
		{"memory rounded to pages", platform.Setting{Memory: 100<<20 + 100}, with(func(f *platform.InForce) { f.Memory = 100 << 20 }), ""},
		{"memory that nobody asked for", platform.Setting{}, with(func(f *platform.InForce) { f.Memory = 1 << 30 }), "memory"},
		{"a box's memory, asked for by nobody in it", platform.Setting{}, with(func(f *platform.InForce) {
			f.Memory, f.Cgroups = 1<<30, []string{"4:memory:/tare/box-1/idle/redis-1", "0::/tare/box-1/idle/redis-1"}
		}), ""},
		{"memory of its own that nobody asked for", platform.Setting{}, with(func(f *platform.InForce) {
			f.Memory, f.Cgroups = 1<<30, []string{"4:memory:/tare/redis-1", "0::/tare/redis-1"}
		}), "memory"},
		{"a box tighter than the limit asked for", platform.Setting{Memory: 2 << 30}, with(func(f *platform.InForce) {
			f.Memory, f.Cgroups = 1<<30, []string{"0::/tare/box-1/idle/redis-1"}
		}), ""},
		{"a box, and not the limit asked for", platform.Setting{Memory: 2 << 30}, with(func(f *platform.InForce) {
			f.Memory, f.Cgroups = 3<<30, []string{"0::/tare/box-1/idle/redis-1"}
		}), "memory"},
		{"another cpuset", platform.Setting{CPUSet: "0"}, plain, "cpuset-cpus"},
		{"addresses not drawn, as asked", platform.Setting{ASLR: "off"}, with(func(f *platform.InForce) { f.ASLR = "off" }), ""},
		{"addresses drawn where none were to be", platform.Setting{ASLR: "off"}, with(func(f *platform.InForce) { f.ASLR = "on" }), "aslr"},
		{"addresses not drawn where they were to be", platform.Setting{ASLR: "on"}, with(func(f *platform.InForce) { f.ASLR = "off" }), "aslr"},
		{"addresses by the host's default", platform.Setting{}, with(func(f *platform.InForce) { f.ASLR = "off" }), ""},
		{"an own network where the host's was asked for", platform.Setting{}, with(func(f *platform.InForce) { f.NetworkNS = "own" }), "network"},
		{"no filter where the default one was asked for", platform.Setting{}, with(func(f *platform.InForce) { f.Seccomp = 0 }), "seccomp"},
		{"a filter where none was asked for", platform.Setting{Seccomp: "unconfined"}, plain, "seccomp"},
		{"data on a disk", platform.Setting{Storage: platform.StorageTmpfs}, with(func(f *platform.InForce) { f.DataFS = []string{"ext4"} }), "storage"},
	} {
		wrong := strings.Join(verify("docker", c.asked, c.got), "; ")
		if c.says == "" && wrong != "" || !strings.Contains(wrong, c.says) {
			t.Errorf("%s: %q, want %q", c.name, wrong, c.says)
		}
	}
	unlimited := platform.InForce{NetworkNS: "host", CPUSet: "0-1"}
	for name, limited := range map[string]bool{"vm:tcg/bare": false, "vm:tcg/oci:runc": true} {
		if wrong := verify(name, platform.Setting{CPUs: 2}, unlimited); (len(wrong) > 0) != limited {
			t.Errorf("%s: %q; what runs inside the machine decides what a limit is", name, wrong)
		}
	}
	beside := with(func(f *platform.InForce) { f.Memory = 8 << 30 })
	if wrong := verify("k8s", platform.Setting{}, beside); len(wrong) > 0 {
		t.Errorf("a node's limit around all its pods is none that was asked for: %v", wrong)
	}
	if wrong := verify("k8s", platform.Setting{Memory: 1 << 30}, beside); len(wrong) == 0 {
		t.Error("a pod without the limit asked for is not noticed")
	}
	own := with(func(f *platform.InForce) { f.NetworkNS = "own" })
	if wrong := verify("docker:rootless", platform.Setting{}, own); len(wrong) > 0 {
		t.Errorf("a rootless engine's host network is its own: %v", wrong)
	}
	if wrong := verify("docker:rootless", platform.Setting{}, plain); len(wrong) == 0 {
		t.Error("a rootless engine's program on the host's network is not noticed")
	}
	if wrong := verify("bare", platform.Setting{}, platform.InForce{}); len(wrong) > 0 {
		t.Errorf("bare metal has neither namespace nor filter: %v", wrong)
	}
}
