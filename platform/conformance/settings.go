package conformance

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/platform"
)

// Difference compares two instances' surroundings, those parts of what is in
// force that no platform and no setting may change; it is empty where they are
// equal. Two platforms' instances of one spec are compared by it too, but for
// what is theirs alone, such as an instance's own mark in the environment.
func Difference(want, got platform.InForce) string {
	return cmp.Diff(surroundings(want), surroundings(got))
}

func surroundings(f platform.InForce) platform.InForce {
	return platform.InForce{
		OpenFiles: f.OpenFiles, CoreSize: f.CoreSize, OOMScore: f.OOMScore,
		Env: f.Env, Stdin: f.Stdin, Stdout: f.Stdout,
	}
}

// testSettingsInForce sets each knob and reads back from the kernel.
func testSettingsInForce(t *testing.T, s suite) {
	allowed, err := process.Affinity()
	if err != nil {
		t.Fatal(err)
	}
	one := platform.FormatCPUList(allowed[len(allowed)-1:])
	first := platform.FormatCPUList(allowed[:1])
	type check func(t *testing.T, got, without platform.InForce)
	is := func(what string, field func(platform.InForce) any, want any) check {
		return func(t *testing.T, got, _ platform.InForce) {
			t.Helper()
			if field(got) != want {
				t.Errorf("%s is %v, want %v", what, field(got), want)
			}
		}
	}
	hostNetwork := "host"
	if s.has(HostNetworkApart) {
		hostNetwork = "own"
	}
	quota := func(f platform.InForce) any { return f.CPUQuota }
	all := s.set(t) // one image and one instance without a setting, for all
	force := func(st *stage, setting platform.Setting) platform.InForce {
		st.Helper()
		spec := st.spec("sleep", "3600")
		spec.Setting, spec.Data = setting, []string{"/data"}
		f, err := st.launch(spec).InForce()
		if err != nil {
			st.Fatal(err)
		}
		f.Env = nil // has the instance's own mark
		return f
	}
	memoryIs := func(want int64) check {
		return is("memory", func(f platform.InForce) any { return f.Memory }, want)
	}
	networkIs := func(want string) check {
		return is("network", func(f platform.InForce) any { return f.NetworkNS }, want)
	}
	layered := platform.Setting{Storage: platform.StorageLayer, Root: platform.RootOverlay}
	without := force(all, platform.Setting{})
	for _, test := range []struct {
		name    string
		setting platform.Setting
		checks  []check
	}{
		{"cpus fractional", platform.Setting{CPUs: 0.5}, []check{
			is("quota", quota, 50*time.Millisecond),
			is("period", func(f platform.InForce) any { return f.CPUPeriod }, 100*time.Millisecond),
		}},
		{"cpus whole", platform.Setting{CPUs: 1}, []check{func(t *testing.T, got, _ platform.InForce) {
			if got.CPUQuota != got.CPUPeriod && got.CPUSet != first {
				t.Errorf("neither a quota of one CPU (%v of %v) nor an affinity to one (%s)", got.CPUQuota, got.CPUPeriod, got.CPUSet)
			}
			if got.CPUQuota == 0 && got.CPUSet != first {
				t.Errorf("affinity to %s, want %s", got.CPUSet, first)
			}
		}}},
		{"cpu-period", platform.Setting{CPUs: 0.5, CPUPeriod: 20 * time.Millisecond}, []check{
			is("quota", quota, 10*time.Millisecond),
			is("period", func(f platform.InForce) any { return f.CPUPeriod }, 20*time.Millisecond),
		}},
		{"cpu-burst", platform.Setting{CPUs: 0.5, CPUBurst: 7 * time.Millisecond}, []check{
			is("quota", quota, 50*time.Millisecond),
			is("burst", func(f platform.InForce) any { return f.CPUBurst }, 7*time.Millisecond),
		}},
		{"cpu-shares", platform.Setting{CPUShares: 512}, []check{
			is("shares", func(f platform.InForce) any { return f.CPUShares }, s.expectedShares(t, 512)),
		}},
		{"cpuset-cpus", platform.Setting{CPUSet: one}, []check{is("CPUs", func(f platform.InForce) any { return f.CPUSet }, one)}},
		{"memory", platform.Setting{Memory: 96 << 20}, []check{memoryIs(96 << 20)}},
		{"storage=tmpfs", platform.Setting{Storage: platform.StorageTmpfs}, []check{func(t *testing.T, got, _ platform.InForce) {
			if !slices.Equal(got.DataFS, []string{"tmpfs"}) {
				t.Errorf("data lies on %v", got.DataFS)
			}
		}}},
		{"storage=bind", platform.Setting{Storage: platform.StorageBind, Root: platform.RootOverlay}, []check{notOverlay}},
		{"storage=volume", platform.Setting{Storage: platform.StorageVolume}, []check{notOverlay}},
		{"storage=layer root=overlay", layered, []check{func(t *testing.T, got, _ platform.InForce) {
			if got.RootFS != "overlay" || !slices.Equal(got.DataFS, []string{"overlay"}) {
				t.Errorf("root on %s, data on %v", got.RootFS, got.DataFS)
			}
		}}},
		{"root=dir", platform.Setting{Root: platform.RootDir}, []check{func(t *testing.T, got, _ platform.InForce) {
			if got.RootFS == "overlay" {
				t.Error("the root is an overlay")
			}
		}}},
		{"network=host", platform.Setting{Network: platform.NetworkHost}, []check{networkIs(hostNetwork)}},
		{"network=none", platform.Setting{Network: platform.NetworkNone}, []check{networkIs("own")}},
		{"network=bridge", platform.Setting{Network: platform.NetworkBridge}, []check{networkIs("own")}},
		{"seccomp=default", platform.Setting{Seccomp: "default"}, []check{is("seccomp", func(f platform.InForce) any { return f.Seccomp }, 2)}},
		{"seccomp=unconfined", platform.Setting{Seccomp: "unconfined"}, []check{is("seccomp", func(f platform.InForce) any { return f.Seccomp }, 0)}},
		{"aslr=off", platform.Setting{ASLR: "off"}, []check{is("address randomisation", func(f platform.InForce) any { return f.ASLR }, "off")}},
		{"aslr=on", platform.Setting{ASLR: "on"}, []check{is("address randomisation", func(f platform.InForce) any { return f.ASLR }, hostASLR(t))}},
		{"everything at once", platform.Setting{CPUs: 0.25, CPUShares: 256, CPUSet: one, Memory: 128 << 20}, []check{
			is("quota", quota, 25*time.Millisecond),
			is("shares", func(f platform.InForce) any { return f.CPUShares }, s.expectedShares(t, 256)),
			is("CPUs", func(f platform.InForce) any { return f.CPUSet }, one),
			is("memory", func(f platform.InForce) any { return f.Memory }, int64(128<<20)),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), bound)
			t.Cleanup(cancel)
			st := &stage{t, all.platform, all.book, all.image, ctx}
			st.skipUnsupported(test.setting)
			got := force(st, test.setting)
			for _, c := range test.checks {
				c(t, got, without)
			}
			if s.has(LimitsOfNode) {
				got.OOMScore = without.OOMScore
			}
			// The setting moved its own knob and none of the surroundings.
			if diff := Difference(without, got); diff != "" {
				t.Errorf("the setting changed the surroundings (-without +with):\n%s", diff)
			}
		})
	}
}

func notOverlay(t *testing.T, got, _ platform.InForce) {
	t.Helper()
	if len(got.DataFS) != 1 || got.DataFS[0] == "overlay" || got.DataFS[0] == "tmpfs" {
		t.Errorf("data lies on %v, want the host's file system", got.DataFS)
	}
}

// expectedShares is what shares read back as: on version 2 by way of a weight.
func (s suite) expectedShares(t *testing.T, shares int) int {
	t.Helper()
	if s.has(OtherKernel) {
		return cgroup.SharesOfWeight(cgroup.WeightOfShares(shares))
	}
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	if cpu, ok := layout.For("cpu"); ok && cpu.Version == 2 {
		return cgroup.SharesOfWeight(cgroup.WeightOfShares(shares))
	}
	return shares
}

// testSettingsRefused: what a platform does not support it refuses by name,
// before anything is made.
func testSettingsRefused(t *testing.T, s suite) {
	st := s.set(t)
	refused := 0
	for _, pair := range []platform.Pair{
		{Key: "cpus", Value: "0.5"}, {Key: "cpus", Value: "100000"}, {Key: "cpuset-cpus", Value: "60000"},
		{Key: "cpu-shares", Value: "512"}, {Key: "memory", Value: "64m"},
		{Key: "storage", Value: "bind"}, {Key: "storage", Value: "volume"}, {Key: "storage", Value: "tmpfs"},
		{Key: "network", Value: "none"}, {Key: "network", Value: "bridge"}, {Key: "network", Value: "bridge:proxy"}, {Key: "network", Value: "bridge:nat"},
		{Key: "network", Value: "bridge:clusterip"}, {Key: "network", Value: "bridge:nodeport"},
		{Key: "root", Value: "dir"}, {Key: "root", Value: "overlay"},
		{Key: "seccomp", Value: "default"}, {Key: "seccomp", Value: "unconfined"},
		{Key: "lsm", Value: "default"}, {Key: "lsm", Value: "unconfined"},
		{Key: "aslr", Value: "off"}, {Key: "log-driver", Value: "none"}, {Key: "runtime", Value: "no-such-runtime-at-all"},
		{Key: "gpu", Value: "0"},
	} {
		var setting platform.Setting
		if err := setting.Set(pair.Key, pair.Value); err != nil {
			t.Fatal(err)
		}
		err := st.platform.Supports(setting)
		if err == nil {
			continue
		}
		refused++
		var unsupported *platform.Unsupported
		if !errors.As(err, &unsupported) {
			t.Errorf("%s=%s: refused by a %T, want *platform.Unsupported: %v", pair.Key, pair.Value, err, err)
			continue
		}
		if unsupported.Platform != st.platform.Name() || unsupported.Reason == "" || unsupported.Key == "" {
			t.Errorf("%s=%s: the refusal does not say what and why: %+v", pair.Key, pair.Value, unsupported)
		}
		spec := st.spec("true")
		spec.Setting, spec.Data = setting, []string{"/data"}
		inst, err := st.platform.Launch(st.ctx, spec)
		if err == nil {
			st.stop(inst, spec.Name)
		}
		if !errors.As(err, &unsupported) {
			t.Errorf("%s=%s: Launch gives %v, want what Supports refused with", pair.Key, pair.Value, err)
		}
		st.noTraces(spec.Name)
	}
	if refused == 0 {
		t.Error("nothing is refused, not even a runtime that does not exist")
	}
}
