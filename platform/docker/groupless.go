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

// namespaceAccount is the account of a process namespace, whose first process is
// followed. It implements [engine.Account].
type namespaceAccount struct {
	first     process.Identity
	namespace string
	program   string // for messages
}

// Processes implements [engine.Account].
func (n namespaceAccount) Processes() ([]int, error) { return companions(n.namespace), nil }

// Usage implements [engine.Account]. A process that ends while the others are
// read may be missed, or counted by its parent once more: the sum is of about
// this moment.
func (n namespaceAccount) Usage() (platform.Usage, error) {
	var cpu time.Duration
	err := platform.ErrGone // a namespace's number is another's, once it is gone
	if n.first.Alive() {
		cpu, err = spent(companions(n.namespace))
	}
	if errors.Is(err, platform.ErrGone) {
		return platform.Usage{}, fmt.Errorf("what %s has used went with its processes, as it had no control group: %w", n.program, err)
	}
	return platform.Usage{CPU: cpu}, err
}

// LastUsage implements [engine.Account]. It is read before the shim has reaped
// the first process: the kernel lets it wait for all others of its process
// namespace, so that their time is in its own.
func (n namespaceAccount) LastUsage() (platform.Usage, bool, error) {
	cpu, err := spent([]int{n.first.PID})
	if now, gone := process.Identify(n.first.PID); err == nil && (gone != nil || now != n.first) {
		err = platform.ErrGone // what was read may have been another's
	}
	return platform.Usage{CPU: cpu}, false, err
}

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
	namespace, err := processNamespace(i.PID)
	if err == nil && keptBy(i.p.user(), i.PID, i.id) {
		i.Process, i.Account = handle, namespaceAccount{handle.Identity, namespace, i.Spec.Args[0] + " in container " + i.Container}
		return nil
	}
	over := !handle.Alive()
	handle.Close()
	if over {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("process %d, which the engine named, is none of its shim's; the engine is in a process namespace that is not this one", i.PID)
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
