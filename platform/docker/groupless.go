package docker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tare/kernel/accounting"
	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/platform"
)

// A container without a control group of its own (a rootless engine's on cgroup
// version 1) is what lives in the process namespace of its first process. No
// account of it outlives its processes.

// everyProcess lists the ids of all processes.
func everyProcess() []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well formed
	var pids []int
	for _, dir := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// processNamespace names the process namespace that a process is in.
func processNamespace(pid int) (string, error) {
	return os.Readlink(procfs.Host.Process(pid).Path("ns/pid"))
}

// companions lists the processes of the namespace, zombies left out.
func companions(namespace string) []int {
	var pids []int
	for _, pid := range everyProcess() {
		if in, err := processNamespace(pid); err != nil || in != namespace {
			continue
		}
		if stat, err := procfs.Host.Process(pid).Stat(); err == nil && !stat.Zombie() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// lastSpent is what the first process and all that lived with it have used, read
// when it has ended and before its shim has reaped it: the kernel lets it wait
// for all others of its process namespace, so that their time is in its own.
func (i *instance) lastSpent() (platform.Usage, error) {
	cpu, err := spent([]int{i.pid})
	if now, gone := process.Identify(i.pid); err == nil && (gone != nil || now != i.process.Identity) {
		err = platform.ErrGone // what was read may have been another's
	}
	return platform.Usage{CPU: cpu}, err
}

// spent is the CPU time of the processes and of their children that ended and
// were waited for. Of threads that live it is known to the nanosecond, of all
// others in the hundredths of a second that the kernel gives.
func spent(pids []int) (time.Duration, error) {
	var total time.Duration
	counted := false
	for _, pid := range pids {
		line, err := os.ReadFile(procfs.Host.Process(pid).Path("stat"))
		if err != nil {
			if procfs.Gone(err) {
				continue // its parent, which is counted too, has its time by now
			}
			return 0, err
		}
		p, err := accounting.ParseProcess(line)
		if err != nil {
			return 0, err
		}
		total, counted = total+max(p.Own, running(pid))+p.Reaped, true
	}
	if !counted {
		return 0, platform.ErrGone
	}
	return total, nil
}

// holdGroupless is hold for such a container: its shim says that the process is
// its first.
func (i *instance) holdGroupless(handle *process.Handle) error {
	namespace, err := processNamespace(i.pid)
	if err == nil && keptBy(i.pid, i.id) {
		i.process, i.namespace = handle, namespace
		return nil
	}
	over := !alive(handle.Identity)
	handle.Close()
	if over {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("process %d, which the engine named, is none of its shim's; the engine is in a process namespace that is not this one", i.pid)
	}
	return err
}

// running is the CPU time of the threads that a process has now; see
// Documentation/scheduler/sched-stats.rst. Where the kernel keeps no such
// account it is 0.
func running(pid int) time.Duration {
	files, _ := filepath.Glob(procfs.Host.Process(pid).Path("task/[0-9]*/schedstat")) // the pattern is well formed
	var total time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		onCPU, _, _ := strings.Cut(string(text), " ")
		if n, err := strconv.ParseInt(onCPU, 10, 64); err == nil && n > 0 {
			total += time.Duration(n)
		}
	}
	return total
}

// grouplessUsage sums what the container's processes have used.
func (i *instance) grouplessUsage() (platform.Usage, error) {
	// A process that ends while the others are read may be missed, or counted by
	// its parent once more: the sum is of about this moment.
	var cpu time.Duration
	err := platform.ErrGone // a namespace's number is another's, once it is gone
	if alive(i.process.Identity) {
		cpu, err = spent(companions(i.namespace))
	}
	if errors.Is(err, platform.ErrGone) {
		return platform.Usage{}, fmt.Errorf("what %s in container %s has used went with its processes, as it had no control group: %w", i.spec.Args[0], i.name, err)
	}
	return platform.Usage{CPU: cpu}, err
}
