package diagnose

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tare/kernel/procfs"
)

// mostTasks bounds how many threads of a container are read.
const mostTasks = 1024

// threadTimes are the CPU times of the threads of a container with a quota, by their id; nil without.
func threadTimes(f *Facts) map[string]time.Duration {
	if f.Bandwidth.Quota == 0 {
		return nil
	}
	pids, err := f.Container.Processes()
	if err != nil {
		return nil
	}
	times := map[string]time.Duration{}
	for _, pid := range pids {
		dir := procfs.Host.Process(pid).Path("task")
		tasks, err := os.ReadDir(dir)
		if err != nil {
			continue // it has ended
		}
		for _, task := range tasks {
			text, err := os.ReadFile(filepath.Join(dir, task.Name(), "schedstat"))
			ran, _, _ := strings.Cut(string(text), " ")
			n, notNumber := strconv.ParseInt(ran, 10, 64)
			if err != nil || notNumber != nil {
				continue
			}
			if times[task.Name()] = time.Duration(n); len(times) == mostTasks {
				return times
			}
		}
	}
	return times
}

// workers is how many threads would share the CPU time of some if all had the same: the square of the
// sum, over the sum of squares. A runtime's own threads, which hardly run, count for nothing.
func workers(before, after map[string]time.Duration) float64 {
	var sum, squares float64
	for id, t := range after {
		if ran := (t - before[id]).Seconds(); ran > 0 {
			sum += ran
			squares += ran * ran
		}
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / squares
}
