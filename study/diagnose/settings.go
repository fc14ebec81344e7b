package diagnose

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"tare/container"
	"tare/kernel/cgroup"
)

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=-]+$`)

func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// quotaCommand sets a bandwidth in the way of whoever runs the container.
func quotaCommand(c container.Container, b cgroup.Bandwidth) string {
	cpus := b.Quota.Seconds() / b.Period.Seconds()
	switch c.Engine {
	case container.Docker, container.Podman:
		if b.Burst > 0 {
			// The engines' command lines have no burst.
			return writeBurst(c, b)
		}
		return fmt.Sprintf("%s update --cpu-period %d --cpu-quota %d %s",
			c.Engine, b.Period.Microseconds(), b.Quota.Microseconds(), quoted(c.Name))
	case container.Kubernetes:
		return fmt.Sprintf("resources: {limits: {cpu: %dm}}", int64(cpus*1000+0.5))
	}
	if unit := unitOf(c); unit != "" && b.Burst == 0 {
		return fmt.Sprintf("systemctl set-property %s CPUQuota=%.0f%% CPUQuotaPeriodSec=%s", unit, cpus*100, b.Period)
	}
	if b.Burst > 0 {
		return writeBurst(c, b)
	}
	return fmt.Sprintf("echo %d %d > %s/cpu.max", b.Quota.Microseconds(), b.Period.Microseconds(), c.Cgroup)
}

func writeBurst(c container.Container, b cgroup.Bandwidth) string {
	dir := c.Cgroup
	for _, g := range c.Groups {
		if strings.HasPrefix(g, "/sys/fs/cgroup/cpu") {
			dir = g
		}
	}
	return fmt.Sprintf("echo %d > %s/cpu.max.burst", b.Burst.Microseconds(), dir)
}

func noQuotaCommand(c container.Container) string {
	switch c.Engine {
	case container.Docker, container.Podman:
		return fmt.Sprintf("%s update --cpu-quota -1 %s", c.Engine, quoted(c.Name))
	case container.Kubernetes:
		return "resources: {limits: {cpu: null}}, with requests.cpu as its share"
	}
	if unit := unitOf(c); unit != "" {
		return "systemctl set-property " + unit + " CPUQuota="
	}
	return fmt.Sprintf("echo max > %s/cpu.max", c.Cgroup)
}

func memoryCommand(c container.Container, limit int64) string {
	switch c.Engine {
	case container.Docker, container.Podman:
		return fmt.Sprintf("%s update --memory %d %s", c.Engine, limit, quoted(c.Name))
	case container.Kubernetes:
		return fmt.Sprintf("resources: {limits: {memory: %dMi}}", limit/mebibyte)
	}
	if unit := unitOf(c); unit != "" {
		return fmt.Sprintf("systemctl set-property %s MemoryMax=%d", unit, limit)
	}
	return fmt.Sprintf("echo %d > %s/memory.max", limit, c.Cgroup)
}

// unitOf is the unit of systemd that a control group is; empty where it is none.
func unitOf(c container.Container) string {
	name := path.Base(c.Cgroup)
	if c.Engine != container.Cgroup || !strings.HasSuffix(name, ".service") && !strings.HasSuffix(name, ".scope") {
		return ""
	}
	return name
}

func bytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.3g GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.3g MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.3g KiB", float64(n)/(1<<10))
}
