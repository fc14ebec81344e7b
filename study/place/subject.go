package place

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/kernel/host"
	"tare/kernel/procfs"
	"tare/platform"
)

// Subject is a container that is watched.
type Subject struct {
	Container container.Container
	// Group is its own control group, in the hierarchies where it has one that it
	// shares with nobody.
	Group cgroup.Group
	// CPUs are those that it may use, Above those that it could be given: what the
	// group above it may use.
	CPUs, Above []int
	Bandwidth   cgroup.Bandwidth
	Shares      int
	// Bound says why its CPUs cannot be changed; empty where they can.
	Bound string

	Evidence  Evidence
	Behaviour Behaviour
	Why       string
	// Behind is the part of its waiting time that was behind each other subject,
	// by its place among them, and behind what is none of them (bursts.Others and below).
	Behind map[int]float64
	// Throttling is what its quota did while it was watched.
	Throttling throttles
}

// machine is what of the host bears on where containers run.
type machine struct {
	layout cgroup.Layout
	online []int
	cores  map[int][]int // the CPUs of a CPU's core
}

func readMachine() (*machine, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return nil, err
	}
	m := &machine{layout: layout, cores: map[int][]int{}}
	topology := host.ReadTopology("/")
	if m.online, err = platform.ParseCPUList(topology.Online); err != nil {
		return nil, fmt.Errorf("the CPUs that are online: %w", err)
	}
	if len(m.online) == 0 {
		return nil, errors.New("the list of online CPUs cannot be read: mount sysfs at /sys")
	}
	for cpu, list := range topology.Siblings {
		if m.cores[cpu], err = platform.ParseCPUList(list); err != nil {
			return nil, fmt.Errorf("the core of CPU %d: %w", cpu, err)
		}
	}
	return m, nil
}

// describe reads what is in force for a container.
func (m *machine) describe(c container.Container) (*Subject, error) {
	s := &Subject{Container: c}
	in, _, err := m.layout.Of(c.PID)
	if err != nil {
		if procfs.Gone(err) {
			return nil, &container.Ended{Name: c.Name}
		}
		return nil, fmt.Errorf("control groups of %s: %w", c.Name, err)
	}
	s.Group = c.OwnGroup(in, m.layout)
	if s.CPUs, err = m.cpus(in); err != nil {
		return nil, fmt.Errorf("CPUs of %s: %w", c.Name, err)
	}
	s.Above = s.CPUs
	place, ok := s.Group.For("cpuset")
	switch {
	case c.Engine == container.Process:
		s.Bound = "it is a process and not a control group of its own"
	case !ok:
		s.Bound = "it has no cpuset of its own"
	default:
		if s.CPUs, err = m.cpus(s.Group); err != nil {
			return nil, fmt.Errorf("CPUs of %s: %w", c.Name, err)
		}
		above := cgroup.Group{Places: []cgroup.Place{{Hierarchy: place.Hierarchy, Path: path.Dir(place.Path)}}}
		if s.Above, err = m.cpus(above); err != nil {
			return nil, fmt.Errorf("CPUs of the group above %s: %w", c.Name, err)
		}
		if s.Bound, err = affinity(c, s.CPUs); err != nil {
			return nil, err
		}
	}
	if s.Bandwidth, err = s.Group.Bandwidth(); err != nil {
		return nil, fmt.Errorf("CPU quota of %s: %w", c.Name, err)
	}
	if s.Shares, err = s.Group.Shares(); err != nil {
		return nil, fmt.Errorf("CPU shares of %s: %w", c.Name, err)
	}
	return s, nil
}

func (m *machine) cpus(g cgroup.Group) ([]int, error) {
	list, err := g.CPUs()
	if err != nil {
		return nil, err
	}
	if list == "" {
		return m.online, nil
	}
	return platform.ParseCPUList(list)
}

// affinity says which thread has asked for other CPUs than its container has:
// kernels before 6.2 forget that where the container's are changed.
func affinity(c container.Container, cpus []int) (string, error) {
	pids, err := c.Processes()
	if err != nil {
		return "", err
	}
	for _, pid := range pids {
		bound, err := boundThread(pid, cpus)
		if err != nil {
			return "", fmt.Errorf("process %d of %s: %w", pid, c.Name, err)
		}
		if bound != "" {
			return bound, nil
		}
	}
	return "", nil
}

// boundThread looks at each thread of a process: each has CPUs of its own. Those
// that end meanwhile are passed over.
func boundThread(pid int, cpus []int) (string, error) {
	threads, err := os.ReadDir(procfs.Host.Process(pid).Path("task"))
	if procfs.Gone(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		if err != nil {
			return "", fmt.Errorf("its threads: %w", err)
		}
		// The kernel shows a thread by its own id too, though it does not list it there.
		status, err := procfs.Host.Process(tid).Status()
		if procfs.Gone(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		allowed, err := platform.ParseCPUList(status.CPUsAllowed)
		if err != nil {
			return "", fmt.Errorf("thread %d: %w", tid, err)
		}
		if slices.Equal(allowed, cpus) {
			continue
		}
		who := fmt.Sprintf("process %d", pid)
		if tid != pid {
			who = fmt.Sprintf("thread %d, of process %d,", tid, pid)
		}
		return fmt.Sprintf("its %s has bound itself to CPUs %s (sched_setaffinity)", who, platform.FormatCPUList(allowed)), nil
	}
	return "", nil
}

// describeAll reads what is in force for each container. A note names each that has ended.
func (m *machine) describeAll(
	ctx context.Context,
	containers []container.Container,
) (subjects []*Subject, notes []string, err error) {
	for _, c := range containers {
		if err := ctx.Err(); err != nil {
			return nil, nil, context.Cause(ctx)
		}
		s, err := m.describe(c)
		var ended *container.Ended
		if errors.As(err, &ended) {
			notes = append(notes, c.Name+" has ended and is left out")
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		subjects = append(subjects, s)
	}
	return subjects, notes, nil
}
