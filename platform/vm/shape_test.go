package vm

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tare/platform"
)

// A host of four CPUs and 8 GiB.
var fourCPUs = machineHost{cpus: []int{0, 1, 2, 3}, memory: 8 << 30}

func TestWhatASettingComesTo(t *testing.T) {
	for _, c := range []struct {
		name, setting string
		shape         string
		pin           []int
		inner         string
		granted       int64
	}{
		{"vm:tcg/bare", "", "vm:tcg+cpus=4+memory=2g", nil, "", 0},
		{"vm:tcg/oci", "cpus=2", "vm:tcg+cpus=2+memory=2g", nil, "cpus=2", 0},
		{"vm:tcg/oci", "cpus=1.5", "vm:tcg+cpus=2+memory=2g", nil, "cpus=1.5", 0},
		{"vm:tcg/bare", "cpus=2", "vm:tcg+cpus=2+memory=2g", nil, "cpus=2", 0},
		// The pinned machine is the vanilla one, held elsewhere.
		{"vm:kvm/oci", "cpuset-cpus=1,3", "vm:kvm+cpus=2+memory=2g", []int{1, 3}, "cpuset-cpus=0-1", 0},
		{"vm:kvm/bare", "cpuset-cpus=2", "vm:kvm+cpus=1+memory=2g", []int{2}, "cpuset-cpus=0", 0},
		// Both: as large as is asked for, roaming over more.
		{"vm:kvm/oci", "cpus=1.5,cpuset-cpus=1-3", "vm:kvm+cpus=2+memory=2g", []int{1, 2, 3}, "cpus=1.5", 0},
		{"vm:kvm/bare", "cpus=3,cpuset-cpus=1-3", "vm:kvm+cpus=3+memory=2g", []int{1, 2, 3}, "cpus=3,cpuset-cpus=0-2", 0},
		{"vm:tcg/bare", "cpus=1,cpuset-cpus=1-3", "vm:tcg+cpus=1+memory=2g", []int{1, 2, 3}, "cpus=1", 0},
		// Memory is the inner platform's limit where it has one, else the machine's size.
		{"vm:tcg/oci", "memory=1g", "vm:tcg+cpus=4+memory=1408m", nil, "memory=1g", 0},
		{"vm:tcg/bare", "memory=1g", "vm:tcg+cpus=4+memory=1g", nil, "", 1 << 30},
		// A size in the path is the machine's, and the setting the inner platform's.
		{"vm:kvm+cpus=4+memory=2g/oci", "cpus=1,memory=512m", "vm:kvm+cpus=4+memory=2g", nil, "cpus=1,memory=512m", 0},
		{"vm:kvm+cpus=3/oci", "cpuset-cpus=1-2", "vm:kvm+cpus=3+memory=2g", nil, "cpuset-cpus=1-2", 0},
		{"vm:kvm+cpus=8/bare", "", "vm:kvm+cpus=8+memory=2g", nil, "", 0},
		{"vm:kvm+cpu=qemu64/oci", "cpus=1", "vm:kvm+cpus=1+memory=2g+cpu=qemu64", nil, "cpus=1", 0},
		{"vm:tcg/oci", "network=bridge,storage=tmpfs,seccomp=unconfined", "vm:tcg+cpus=4+memory=2g", nil, "storage=tmpfs,network=bridge,seccomp=unconfined", 0},
	} {
		got, err := parse(t, c.name).plan(setting(t, c.setting), fourCPUs)
		if err != nil {
			t.Errorf("%s with %s: %v", c.name, c.setting, err)
			continue
		}
		if got.shape.String() != c.shape || !slices.Equal(got.pin, c.pin) || got.inner.String() != c.inner || got.granted != c.granted {
			t.Errorf("%s with %s: %s pinned to %v, inside %q, granted %d; want %s, %v, %q, %d",
				c.name, c.setting, got.shape, got.pin, got.inner, got.granted, c.shape, c.pin, c.inner, c.granted)
		}
	}
}

func TestSettingsThatMeanNothingInAMachine(t *testing.T) {
	for _, c := range []struct{ name, setting, key, says string }{
		{"vm:tcg/oci", "cpus=5", "cpus=5", "vm:tcg+cpus=5/oci:runc"},
		{"vm:tcg/oci", "cpuset-cpus=3-4", "cpuset-cpus=3-4", "CPUs 0-3"},
		{"vm:tcg/bare", "memory=64m", "memory=64m", "need 256m"},
		{"vm:tcg/oci", "memory=7g", "machine of", "machines may take 6g"},
		{"vm:tcg/bare", "cpus=0.5", "cpus", "whole CPUs"},
		{"vm:tcg/bare", "network=bridge", "network=bridge", "host's network"},
		{"vm:tcg/oci", "network=bridge:nat", "network=bridge:nat", "engine's"},
		{"vm:kvm+cpus=2/oci", "cpus=3", "cpus=3", "machine has 2"},
		{"vm:kvm+cpus=2/oci", "cpuset-cpus=2", "cpuset-cpus=2", "CPUs 0-1"},
		{"vm:kvm+memory=1g/oci", "memory=2g", "memory=2g", "machine has 1g"},
		{"vm:kvm+memory=1g/bare", "memory=512m", "memory", "in the path"},
		{"vm:kvm+memory=7g/bare", "", "machine of 7g", "machines may take 6g"},
	} {
		n := parse(t, c.name)
		_, err := n.plan(setting(t, c.setting), fourCPUs)
		var refused *platform.Unsupported
		if !errors.As(err, &refused) {
			t.Errorf("%s with %s: %v, want a *platform.Unsupported", c.name, c.setting, err)
			continue
		}
		if refused.Platform != n.String() || !strings.Contains(refused.Key, c.key) || !strings.Contains(refused.Reason, c.says) {
			t.Errorf("%s with %s: %v, want %q and %q", c.name, c.setting, err, c.key, c.says)
		}
	}
}

// setting reads "cpus=1,memory=1g"; a part without '=' goes on with a list of CPUs.
func setting(t *testing.T, text string) platform.Setting {
	t.Helper()
	var pairs []string
	for part := range strings.SplitSeq(text, ",") {
		if strings.Contains(part, "=") || len(pairs) == 0 {
			pairs = append(pairs, part)
		} else {
			pairs[len(pairs)-1] += "," + part
		}
	}
	var s platform.Setting
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			continue
		}
		if err := s.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	return s
}
