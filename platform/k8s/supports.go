package k8s

import (
	"math"
	"strconv"
	"time"

	"tare/kernel/procfs"
	"tare/platform"
)

// Supports implements [platform.Platform].
func (p *Platform) Supports(s platform.Setting) error {
	const manager = "the kubelet's CPU manager gives CPUs: with cpuManagerPolicy static, a pod whose cpus is a whole number and that has a memory limit"
	switch {
	case s.CPUs != 0 && s.CPUs < 0.01:
		return unsupported("cpus="+strconv.FormatFloat(s.CPUs, 'g', -1, 64), "the kubelet's least quota is 1 ms in 100 ms: want 0.01 or more")
	case s.CPUPeriod != 0 && s.CPUPeriod != 100*time.Millisecond:
		return unsupported("cpu-period", "pods have the kubelet's, 100 ms")
	case s.CPUBurst != 0:
		return unsupported("cpu-burst", "pods have no key for it")
	case s.CPUSet != "":
		return unsupported("cpuset-cpus", manager)
	case s.CPUs != 0 && s.CPUShares != 0 && requestOf(s.CPUShares) > thousandths(s.CPUs):
		return unsupported("cpu-shares="+strconv.Itoa(s.CPUShares), "a request may not exceed its limit: 1024 shares are one CPU, and cpus is the limit")
	case s.Storage == platform.StorageVolume || s.Storage == platform.StorageTmpfs:
		return unsupported("storage="+string(s.Storage), "an emptyDir starts without what the image has there; bind is a hostPath volume")
	case s.Network == platform.NetworkNone:
		return unsupported("network=none", "each pod has the node's network or the pods'")
	case s.Network == platform.NetworkProxy:
		return unsupported("network=bridge:proxy", "pods have no userland proxy; bridge:nat is a hostPort, and bridge the pods' network (CNI)")
	case s.Root == platform.RootDir:
		return unsupported("root=dir", "the root is a snapshot, which containerd provides as an overlay")
	case s.LSM == "default":
		return unsupported("lsm=default", "the profile is the node's")
	case s.ASLR == "off" && procfs.Host.ASLR() != "off":
		return unsupported("aslr=off", "the program is a child of containerd's shim, which has no such knob; for the whole host: sysctl kernel.randomize_va_space=0; the platforms oci have it")
	case s.LogDriver != "":
		return unsupported("log-driver", "the kubelet decides how logs are kept")
	case s.Runtime != "":
		return unsupported("runtime="+s.Runtime, "it would be a RuntimeClass of the API server; pods have the node's default")
	case s.GPU != "" && s.GPU != platform.NoGPU:
		return unsupported("gpu="+s.GPU, "device plugins give devices; static pods are not known to work with them")
	}
	return nil
}

func unsupported(key, reason string) error {
	return &platform.Unsupported{Platform: Name, Key: key, Reason: reason}
}

// thousandths are those of a CPU, rounded up as Kubernetes does with smaller parts.
func thousandths(cpus float64) int64 { return int64(math.Ceil(cpus*1000 - 1e-9)) }

// requestOf is the request, in thousandths of a CPU, for which the kubelet sets the shares, or one
// more: it cuts milliCPU x 1024 / 1000 to a whole number (MilliCPUToShares, helpers_linux.go).
func requestOf(shares int) int64 { return (int64(shares)*1000 + 1023) / 1024 }
