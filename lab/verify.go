package lab

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tare/kernel/cgroup"
	"tare/platform"
	"tare/platform/docker"
	"tare/platform/k8s"
)

// verify compares what was asked with what the kernel has: a limit that is
// not really in force would be weighed as if it cost nothing. It gives one
// line for each difference.
func verify(platformName string, asked platform.Setting, got platform.InForce) []string {
	var wrong []string
	differ := func(key string, want, have any) {
		wrong = append(wrong, fmt.Sprintf("%s: %s: asked for %v, the kernel has %v", platformName, key, want, have))
	}
	// A machine passes the rest of its path on, and what is in force there is read there.
	inner := platformName
	if machine, rest, ok := strings.Cut(platformName, "/"); ok && machine != "" {
		inner = rest
	}
	bare := inner == "bare"
	if _, period, limited := asked.Quota(); limited && !bare {
		// The engine may scale the pair; the bandwidth is what counts.
		if got.CPUPeriod == 0 || math.Abs(float64(got.CPUQuota)/float64(got.CPUPeriod)-asked.CPUs) > 0.005*asked.CPUs {
			differ("cpus", asked.CPUs, share(got.CPUQuota, got.CPUPeriod))
		} else if asked.CPUPeriod != 0 && got.CPUPeriod != period {
			differ("cpu-period", period, got.CPUPeriod)
		}
	} else if !limited && got.CPUQuota != 0 {
		differ("cpus", "no limit", share(got.CPUQuota, got.CPUPeriod))
	}
	if asked.CPUBurst != 0 && got.CPUBurst != asked.CPUBurst {
		differ("cpu-burst", asked.CPUBurst, got.CPUBurst)
	}
	// Weights of cgroup v2 run from 1 to 10000 where shares run from 2 to
	// 262144, so a share read back from a weight is rounded.
	if asked.CPUShares != 0 &&
		math.Abs(float64(got.CPUShares-asked.CPUShares)) > math.Max(27, 0.02*float64(asked.CPUShares)) {
		differ("cpu-shares", asked.CPUShares, got.CPUShares)
	}
	if asked.CPUSet != "" && got.CPUSet != asked.CPUSet {
		differ("cpuset-cpus", asked.CPUSet, got.CPUSet)
	}
	// A box's limit is in force for who is in it, and nothing that the setting asked for:
	// it may be the tighter one, and the only one.
	inBox := boxed(got.Cgroups)
	if inner == k8s.Name {
		// So it is with the limit around all pods of a node: what it has for them.
		inBox = true
	}
	if asked.Memory == 0 && got.Memory != 0 && !inBox {
		differ("memory", "no limit", got.Memory)
	}
	// Page granularity.
	least := asked.Memory - 64<<10
	if inBox {
		least = 1
	}
	if asked.Memory != 0 && (got.Memory > asked.Memory || got.Memory < least) {
		differ("memory", asked.Memory, got.Memory)
	}
	switch given := asked.GPU != "" && asked.GPU != platform.NoGPU; {
	case given && len(got.GPUs) == 0:
		differ("gpu", asked.GPU, "none")
	case !given && len(got.GPUs) > 0:
		differ("gpu", "none", strings.Join(got.GPUs, ", "))
	}
	// Where the kernel's word could not be read there is nothing to compare.
	if asked.ASLR != "" && got.ASLR != "" && got.ASLR != asked.ASLR {
		differ("aslr", asked.ASLR, got.ASLR)
	}
	// gVisor's sandbox has namespaces and filters of its own, whatever it grants
	// the program within.
	if bare || inner == "oci:runsc" {
		return wrong
	}
	if inner != "cgroup" {
		want := "own"
		// A rootless engine's host network is the namespace that it lives in itself.
		if (asked.Network == "" || asked.Network == platform.NetworkHost) && platformName != docker.NameRootless {
			want = "host"
		}
		if got.NetworkNS != want {
			differ("network namespace", want, got.NetworkNS)
		}
	}
	if asked.Seccomp == "unconfined" && got.Seccomp != 0 {
		differ("seccomp", "off", got.Seccomp)
	}
	if (asked.Seccomp == "" || asked.Seccomp == "default") && inner != "cgroup" && got.Seccomp == 0 {
		differ("seccomp", "a filter", "none")
	}
	if asked.Storage == platform.StorageTmpfs {
		for _, fs := range got.DataFS {
			if fs != "tmpfs" {
				differ("storage", "tmpfs", fs)
			}
		}
	}
	return wrong
}

// boxed reports whether a program is in a box ([platform.Spec].Group), by the lines of its
// /proc/PID/cgroup: the others' groups lie in tare's own.
func boxed(lines []string) bool {
	members, err := cgroup.ParseMembership(strings.NewReader(strings.Join(lines, "\n")))
	return err == nil && slices.ContainsFunc(members, func(m cgroup.Membership) bool {
		below, ours := strings.CutPrefix(m.Path, platform.CgroupParent+"/")
		return ours && strings.Contains(below, "/")
	})
}

func share(quota, period time.Duration) string {
	if period == 0 || quota == 0 {
		return "no limit"
	}
	return fmt.Sprintf("%.3g CPUs", float64(quota)/float64(period))
}
