package diagnose

import (
	"fmt"
	"path"
	"strings"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/report"
	"tare/terminal"
)

// quotaCommand sets a bandwidth in the way of whoever runs the container.
func quotaCommand(f *Facts, b cgroup.Bandwidth) string {
	c, unit := f.Container, unitOf(f.Container)
	// Rounded up, where whoever runs it knows no smaller part.
	thousandths := (1000*b.Quota + b.Period - 1) / b.Period
	switch {
	case b.Burst > 0: // the engines and systemd have no burst
		if f.CPU.Version == 1 {
			return write(f.CPU, "cpu.cfs_burst_us", b.Burst.Microseconds())
		}
		return write(f.CPU, "cpu.max.burst", b.Burst.Microseconds())
	case isEngine(c) && c.Kept.HasCPUs: // the engine refuses a quota beside --cpus
		return fmt.Sprintf("%s update --cpus %v %s", c.Engine, float64(thousandths)/1000, terminal.Shell(c.Name))
	case isEngine(c):
		return fmt.Sprintf("%s update --cpu-period %d --cpu-quota %d %s",
			c.Engine, b.Period.Microseconds(), b.Quota.Microseconds(), terminal.Shell(c.Name))
	case c.Engine == container.Kubernetes:
		return fmt.Sprintf("resources: {limits: {cpu: %dm}}", thousandths)
	case unit != "":
		return fmt.Sprintf("systemctl set-property %s CPUQuota=%v%% CPUQuotaPeriodSec=%s",
			terminal.Shell(unit), float64(thousandths)/10, b.Period)
	case f.CPU.Version == 1:
		return write(f.CPU, "cpu.cfs_quota_us", b.Quota.Microseconds())
	}
	return write(f.CPU, "cpu.max", b.Quota.Microseconds(), b.Period.Microseconds())
}

// write writes numbers to a file of a group.
func write(p cgroup.Place, file string, values ...any) string {
	return fmt.Sprintf("echo %s > %s", strings.TrimSuffix(fmt.Sprintln(values...), "\n"), terminal.Shell(p.File(file)))
}

func isEngine(c container.Container) bool {
	return c.Engine == container.Docker || c.Engine == container.Podman
}

func noQuotaCommand(f *Facts) string {
	c, unit := f.Container, unitOf(f.Container)
	switch {
	case isEngine(c) && c.Kept.HasCPUs:
		return "make it anew without --cpus"
	case isEngine(c):
		return fmt.Sprintf("%s update --cpu-quota -1 %s", c.Engine, terminal.Shell(c.Name))
	case c.Engine == container.Kubernetes:
		return "resources: {limits: {cpu: null}} # requests.cpu is its share"
	case unit != "":
		return "systemctl set-property " + terminal.Shell(unit) + " CPUQuota="
	case f.CPU.Version == 1:
		return write(f.CPU, "cpu.cfs_quota_us", -1)
	}
	return write(f.CPU, "cpu.max", "max")
}

// pinCommand keeps a container on some CPUs: a list such as "0,3".
func pinCommand(f *Facts, count int, list string) string {
	c, unit := f.Container, unitOf(f.Container)
	switch {
	case isEngine(c):
		return fmt.Sprintf("%s update --cpuset-cpus %s %s", c.Engine, list, terminal.Shell(c.Name))
	case c.Engine == container.Kubernetes:
		return fmt.Sprintf("resources: {limits: {cpu: %d}, requests: {cpu: %d}} # exclusive where the node's cpuManagerPolicy is static", count, count)
	case unit != "":
		return fmt.Sprintf("systemctl set-property %s AllowedCPUs=%s", terminal.Shell(unit), list)
	case f.CPU.Version == 2:
		return write(f.CPU, "cpuset.cpus", list)
	}
	return ""
}

func memoryCommand(f *Facts, limit int64) string {
	c, unit := f.Container, unitOf(f.Container)
	switch {
	case isEngine(c) && c.Kept.HasSwapLimit: // the engine refuses a limit above that of both
		return fmt.Sprintf("%s update --memory %d --memory-swap %d %s", c.Engine, limit, limit+c.Kept.Swap, terminal.Shell(c.Name))
	case isEngine(c):
		return fmt.Sprintf("%s update --memory %d %s", c.Engine, limit, terminal.Shell(c.Name))
	case c.Engine == container.Kubernetes:
		return fmt.Sprintf("resources: {limits: {memory: %dMi}}", limit/mebibyte)
	case unit != "":
		return fmt.Sprintf("systemctl set-property %s MemoryMax=%d", terminal.Shell(unit), limit)
	case f.Memory.Version == 1:
		return write(f.Memory, "memory.limit_in_bytes", limit)
	}
	return write(f.Memory, "memory.max", limit)
}

// unitOf is the unit of systemd that a control group is; empty where it is none.
func unitOf(c container.Container) string {
	name := path.Base(c.Cgroup)
	// A user who names a group is not to give systemctl a flag.
	if c.Engine != container.Cgroup || name[0] == '-' || !strings.HasSuffix(name, ".service") && !strings.HasSuffix(name, ".scope") {
		return ""
	}
	return name
}

func bytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%s GiB", report.Rounded(float64(n)/(1<<30), 3))
	case n >= 1<<20:
		return fmt.Sprintf("%s MiB", report.Rounded(float64(n)/(1<<20), 3))
	}
	return fmt.Sprintf("%s KiB", report.Rounded(float64(n)/(1<<10), 3))
}
