package advise

import (
	"fmt"
	"maps"
	"slices"
)

// Setting is what a recommendation sets, in the forms of those who run containers. A form is empty where
// it has no such setting; all are empty where the program itself is to change.
type Setting struct {
	Docker     string // flags of docker run
	Compose    string // lines of a service
	Kubernetes string // a line of a pod's specification, or of its container's
	Systemd    string // a property of a unit
}

var forms = map[string]func(Setting) string{
	"docker":     func(s Setting) string { return s.Docker },
	"compose":    func(s Setting) string { return s.Compose },
	"kubernetes": func(s Setting) string { return s.Kubernetes },
	"systemd":    func(s Setting) string { return s.Systemd },
}

// Forms are those in which settings are written, by the name of who reads them.
func Forms() []string { return slices.Sorted(maps.Keys(forms)) }

// The settings that studies recommend. CPUs, names and paths are examples: what a recommendation says
// to do tells how to choose them.
var (
	CPUShares = Setting{
		"--cpu-shares 1024", "cpu_shares: 1024", "resources: {requests: {cpu: \"1\"}}", "CPUWeight=100",
	}
	OwnCPUs = Setting{
		"--cpuset-cpus 0", "cpuset: \"0\"",
		"resources: {limits: {cpu: \"1\", memory: 1Gi}} # exclusive where the node's cpuManagerPolicy is static", "AllowedCPUs=0",
	}
	HostNetwork = Setting{
		Docker: "--network host", Compose: "network_mode: host", Kubernetes: "hostNetwork: true",
	}
	DataVolume = Setting{
		"--volume data:/data", "volumes: [\"data:/data\"]", "volumeMounts: [{name: data, mountPath: /data}]", "",
	}
	NoSwapping = Setting{
		Docker: "--memory-swappiness 0", Compose: "mem_swappiness: 0", Systemd: "MemoryLow=1G # above what it uses",
	}
)

// CPUQuota is a quota of CPU time in each period, both in microseconds. Kubernetes and systemd know thousandths of a
// CPU alone: it is rounded up.
func CPUQuota(quota, period int64) Setting {
	thousandths := (quota*1000 + period - 1) / period
	return Setting{
		Docker:     fmt.Sprintf("--cpu-period %d --cpu-quota %d", period, quota),
		Compose:    fmt.Sprintf("cpu_period: %d\ncpu_quota: %d", period, quota),
		Kubernetes: fmt.Sprintf("resources: {limits: {cpu: %dm}} # the node's cpuCFSQuotaPeriod: %dus", thousandths, period),
		Systemd:    fmt.Sprintf("CPUQuota=%v%% CPUQuotaPeriodSec=%dus", float64(thousandths)/10, period),
	}
}
