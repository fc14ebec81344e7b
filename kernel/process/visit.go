package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// VisitCPUs runs for a moment on each of the CPUs, on a thread of its own, so
// that whatever has a CPU to itself leaves it once: an observer of the
// scheduler's switches then knows who that is. It stops at the first CPU that
// the thread may not have (a cpuset, a CPU that is offline).
func VisitCPUs(cpus []int) error {
	return OnFreshThread(func() error {
		for _, cpu := range cpus {
			var only unix.CPUSet
			only.Set(cpu)
			if err := unix.SchedSetaffinity(0, &only); err != nil {
				return fmt.Errorf("run on CPU %d: %w", cpu, err)
			}
		}
		return nil
	})
}
