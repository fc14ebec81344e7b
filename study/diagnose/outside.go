package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"tare/container"
	"tare/kernel/accounting"
)

// mostOutside is the number of processes outside of containers that are named, and leastOutside the CPU time of one
// in each second from which it is.
const (
	mostOutside  = 2
	leastOutside = 0.05
)

// busyOutside names the processes that used most CPU time between two moments and are in none of the containers,
// with what their children used. The kernel's threads and tare itself are none of them.
func busyOutside(before, after accounting.Snapshot, containers []container.Container) (names []string) {
	const kernel = 2 // the parent of the kernel's threads
	inside := map[int]bool{os.Getpid(): true}
	for _, c := range containers {
		if pids, err := c.Processes(); err == nil {
			for _, pid := range pids {
				inside[pid] = true
			}
		}
	}
	used := map[int]time.Duration{}
	for pid, now := range after.Processes {
		was := before.Processes[pid]
		if was.Start != now.Start { // began meanwhile
			was = accounting.Process{}
		}
		if pid != kernel && now.Parent != kernel && !inside[pid] {
			used[pid] = now.Own - was.Own
		}
	}
	pids := slices.SortedFunc(maps.Keys(used), func(a, b int) int {
		return cmp.Or(cmp.Compare(used[b], used[a]), cmp.Compare(a, b))
	})
	for _, pid := range pids[:min(len(pids), mostOutside)] {
		if rate(used[pid], after.Taken.Sub(before.Taken)) >= leastOutside {
			names = append(names, fmt.Sprintf("%s (%d)", after.Processes[pid].Command, pid))
		}
	}
	return names
}
