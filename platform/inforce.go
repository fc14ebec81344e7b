package platform

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/mount"
	"tare/kernel/procfs"
)

// ReadInForce asks the kernel what holds for a process. data are directories
// as the process sees them ([Spec.Data]). Limits are the tightest on the way
// from the process' cgroup to the root, so a limit that tare itself runs under
// shows too. Where the process has ended the error wraps [ErrGone].
func ReadInForce(pid int, data []string) (InForce, error) {
	force, err := readInForce(pid, data)
	if err != nil && (procfs.Gone(err) || ended(pid)) {
		return InForce{}, fmt.Errorf("process %d: %w (%w)", pid, ErrGone, err)
	}
	if err != nil {
		return InForce{}, fmt.Errorf("reading what is in force for process %d: %w", pid, err)
	}
	return force, nil
}

// ended reports whether the process is gone or is a zombie, whose files
// answer with nothing or with odd errors.
func ended(pid int) bool {
	stat, err := procfs.Host.Process(pid).Stat()
	return err != nil || stat.Zombie()
}

// execBound is how long a process may take from its start to having its
// program's arguments laid out: microseconds, but for a host out of memory.
const execBound = 5 * time.Second

func readInForce(pid int, data []string) (f InForce, err error) {
	process := procfs.Host.Process(pid)
	ctx, cancel := context.WithTimeout(context.Background(), execBound)
	defer cancel()
	if err := process.AwaitProgram(ctx); err != nil {
		return f, err
	}
	if err := readCgroups(pid, &f); err != nil {
		return f, err
	}
	status, err := process.Status()
	if err != nil {
		return f, err
	}
	f.CPUSet, f.Seccomp, f.Capability = status.CPUsAllowed, status.Seccomp, status.CapEff
	limits, err := process.Limits()
	if err != nil {
		return f, err
	}
	f.OpenFiles, f.CoreSize = limits[procfs.OpenFiles].Soft, limits[procfs.CoreSize].Soft
	if f.OOMScore, err = process.OOMScoreAdj(); err != nil {
		return f, err
	}
	if f.Env, err = process.Environ(); err != nil {
		return f, err
	}
	f.LSM = process.SecurityLabel()
	f.ASLR = process.ASLR()
	// A program may close its standard streams: then there is nothing to tell.
	f.Stdin, _ = process.Descriptor(0)
	f.Stdout, _ = process.Descriptor(1)
	if err := readNamespaces(process, &f); err != nil {
		return f, err
	}
	f.GPUs = seenGPUs(process.Path("root"))
	return f, readFileSystems(process, data, &f)
}

func readCgroups(pid int, f *InForce) error {
	layout, err := cgroup.Host()
	if err != nil {
		return err
	}
	group, members, err := layout.Of(pid)
	if err != nil {
		return err
	}
	for _, m := range members {
		f.Cgroups = append(f.Cgroups, m.String())
	}
	bandwidth, err := group.Bandwidth()
	if err != nil {
		return err
	}
	f.CPUQuota, f.CPUPeriod, f.CPUBurst = bandwidth.Quota, bandwidth.Period, bandwidth.Burst
	if f.CPUShares, err = group.Shares(); err != nil {
		return err
	}
	f.Memory, err = group.MemoryLimit()
	return err
}

// seenGPUs lists the nodes of GPUs below a root. A process that has ended has none.
func seenGPUs(root string) []string {
	entries, err := os.ReadDir(filepath.Join(root, "dev"))
	if err != nil {
		return nil
	}
	var seen []string
	for _, e := range entries {
		if node := "/dev/" + e.Name(); GPUNode(node) {
			seen = append(seen, node)
		}
	}
	return seen
}

func readNamespaces(process procfs.Process, f *InForce) error {
	host, err := procfs.Host.Process(os.Getpid()).Namespaces()
	if err != nil {
		return err
	}
	own, err := process.Namespaces()
	if err != nil {
		return err
	}
	for kind, id := range own {
		if host[kind] != id {
			f.Namespaces = append(f.Namespaces, kind)
		}
	}
	slices.Sort(f.Namespaces)
	f.NetworkNS = "host"
	if slices.Contains(f.Namespaces, "net") {
		f.NetworkNS = "own"
	}
	return nil
}

func readFileSystems(process procfs.Process, data []string, f *InForce) error {
	mounts, err := process.Mounts()
	if err != nil {
		return err
	}
	types := make(map[int]string, len(mounts))
	for _, m := range mounts {
		types[m.ID] = m.FSType
	}
	behind := func(dir string) (string, error) {
		id, err := mount.IDUnder(process.Path("root"), dir)
		if err != nil {
			return "", err
		}
		fsType, ok := types[id]
		if !ok {
			// A root that is no mount point itself lies on a mount that the
			// process cannot see, and that its mountinfo leaves out.
			return "", errors.New(dir + " lies on mount " + strconv.Itoa(id) + ", which is not in the process' mountinfo")
		}
		return fsType, nil
	}
	if f.RootFS, err = behind("/"); err != nil {
		return err
	}
	for _, dir := range data {
		fsType, err := behind(dir)
		if err != nil {
			return err
		}
		f.DataFS = append(f.DataFS, fsType)
	}
	return nil
}

// OwnGroup is the cgroup that a process is in, in every hierarchy. It is to be
// asked for while the process lives; the group's counters outlive it.
func OwnGroup(pid int) (cgroup.Group, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return cgroup.Group{}, err
	}
	group, _, err := layout.Of(pid)
	if err != nil && procfs.Gone(err) {
		return cgroup.Group{}, fmt.Errorf("process %d: %w", pid, ErrGone)
	}
	return group, err
}

// FirstFirst puts the first process before the others, where it is among them.
func FirstFirst(pids []int, first int) []int {
	if at := slices.Index(pids, first); at > 0 {
		return slices.Insert(slices.Delete(pids, at, at+1), 0, first)
	}
	return pids
}

// ReadUsage reads what the processes of a cgroup have used, all of it since
// the group was made.
func ReadUsage(group cgroup.Group) (Usage, error) {
	if !group.Exists() {
		return Usage{}, fmt.Errorf("cgroup %s: %w", group, ErrGone)
	}
	use, err := group.Use()
	if err != nil {
		return Usage{}, fmt.Errorf("reading what cgroup %s has used: %w", group, err)
	}
	return Usage{
		CPU:           use.CPU,
		ThrottledTime: use.ThrottledTime,
		Throttled:     use.Throttled,
		Periods:       use.Periods,
		MemoryPeak:    use.MemoryPeak,
	}, nil
}

// OOMKilled reports whether the kernel has killed a process of the cgroup for
// its memory limit.
func OOMKilled(group cgroup.Group) (bool, error) {
	use, err := group.Use()
	return use.OOMKills > 0, err
}
