package vm

import (
	"fmt"
	"math"
	"slices"

	"tare/kernel/host"
	"tare/kernel/process"
	"tare/platform"
	"tare/platform/bare"
	"tare/platform/oci"
)

// shape is what distinguishes one machine from another: equal ones are used for one
// another.
type shape struct {
	engine Engine
	cpus   int
	memory int64  // bytes, whole mebibytes
	cpu    string // model; empty is the host's
}

func (s shape) String() string {
	return Name{Engine: s.engine, CPUs: s.cpus, Memory: s.memory, CPU: s.cpu}.machine()
}

// What machines have beside what programs are granted.
const (
	// reserve is for the guest's kernel and agent beside a limit that the inner platform
	// keeps: measured at 140 MiB in use after boot, page cache apart.
	reserve = 384 << 20
	// ordinaryMost bounds the memory of a machine of which no size is asked. It is taken
	// from the host only as the guest touches it.
	ordinaryMost = 2 << 30
)

// plan is what a setting comes to on one path.
type plan struct {
	shape   shape
	pin     []int // the host's CPU of each virtual one; where there are more, those that all roam over; nil is anywhere
	inner   platform.Setting
	granted int64 // memory that the machine itself is the limit of; 0 where it is not
}

// machineHost is what a plan needs to know of the host.
type machineHost struct {
	cpus   []int
	memory int64
}

func thisHost() (machineHost, error) {
	cpus, err := process.Affinity()
	if err != nil {
		return machineHost{}, err
	}
	return machineHost{cpus, host.Read("/").Memory}, nil
}

// ordinary is the memory of a machine of which no size is asked.
func (h machineHost) ordinary() int64 {
	return max(leastMemory, min(h.memory/4, ordinaryMost)&^(1<<20-1))
}

// plan translates a setting. The error is a *platform.Unsupported.
func (n Name) plan(s platform.Setting, h machineHost) (plan, error) {
	refuse := func(key, reason string) (plan, error) {
		return plan{}, &platform.Unsupported{Platform: n.String(), Key: key, Reason: reason}
	}
	p := plan{shape: shape{engine: n.Engine, cpus: n.CPUs, memory: n.Memory, cpu: n.CPU}, inner: s}
	if err := n.supportsInside(s); err != nil {
		return plan{}, err
	}
	if n.sized() {
		return n.planSized(p, h)
	}
	p.shape.cpus = len(h.cpus)
	if s.CPUs > float64(len(h.cpus)) {
		return refuse(fmt.Sprintf("cpus=%g", s.CPUs), fmt.Sprintf("this host has %d, and a machine with more is asked for in the path: vm:%s+cpus=%.0f/%s", len(h.cpus), n.Engine, math.Ceil(s.CPUs), n.Inner))
	}
	if s.CPUs > 0 {
		p.shape.cpus = int(math.Ceil(s.CPUs))
	}
	if s.CPUSet != "" {
		list, err := platform.ParseCPUList(s.CPUSet)
		if err != nil {
			return plan{}, err
		}
		for _, c := range list {
			if !slices.Contains(h.cpus, c) {
				return refuse("cpuset-cpus="+s.CPUSet, "this host lets tare run on CPUs "+platform.FormatCPUList(h.cpus))
			}
		}
		p.pin = list
		if n := int(math.Ceil(s.CPUs)); n > 0 && n < len(list) {
			// More than the machine has: it roams over them.
			p.shape.cpus, p.inner.CPUSet = n, ""
		} else {
			// Inside, the list names the machine's own CPUs, which are all of them.
			p.shape.cpus, p.inner.CPUSet = len(list), allOf(len(list))
		}
	}
	p.shape.memory = h.ordinary()
	switch {
	case s.Memory == 0:
	case n.limitsMemory():
		p.shape.memory = roundUp(s.Memory + reserve)
	case s.Memory < leastMemory:
		return refuse("memory="+size(s.Memory&^(1<<20-1)), "the machine's own kernel and agent need "+size(leastMemory))
	default:
		p.shape.memory, p.granted, p.inner.Memory = s.Memory&^(1<<20-1), s.Memory&^(1<<20-1), 0
	}
	return p, n.fits(p.shape, h)
}

// planSized is the plan of a path that says the machine's size.
func (n Name) planSized(p plan, h machineHost) (plan, error) {
	if p.shape.cpus == 0 {
		p.shape.cpus = len(h.cpus)
	}
	if p.shape.memory == 0 {
		p.shape.memory = h.ordinary()
		if p.inner.Memory > 0 {
			p.shape.memory = max(p.shape.memory, roundUp(p.inner.Memory+reserve))
		}
	}
	refuse := func(key, reason string) (plan, error) {
		return plan{}, &platform.Unsupported{Platform: n.String(), Key: key, Reason: reason}
	}
	s := p.inner
	if s.CPUs > float64(p.shape.cpus) {
		return refuse(fmt.Sprintf("cpus=%g", s.CPUs), fmt.Sprintf("the machine has %d", p.shape.cpus))
	}
	if s.CPUSet != "" {
		list, err := platform.ParseCPUList(s.CPUSet)
		if err != nil {
			return plan{}, err
		}
		if last := list[len(list)-1]; last >= p.shape.cpus {
			return refuse("cpuset-cpus="+s.CPUSet, "the machine has CPUs "+allOf(p.shape.cpus)+"; without a size in the path the list would be the host's")
		}
	}
	if s.Memory > 0 && !n.limitsMemory() {
		return refuse("memory", "the machine's is in the path, and "+n.Inner+" has no limit of its own")
	}
	if s.Memory > p.shape.memory {
		return refuse("memory="+size(s.Memory), "the machine has "+size(p.shape.memory))
	}
	return p, n.fits(p.shape, h)
}

// fits refuses a machine that the host's memory cannot hold.
func (n Name) fits(s shape, h machineHost) error {
	if most := memoryBudget(h.memory); s.memory > most {
		return &platform.Unsupported{Platform: n.String(), Key: "machine of " + size(s.memory),
			Reason: fmt.Sprintf("of this host's %s machines may take %s", size(h.memory), size(most))}
	}
	return nil
}

// memoryBudget is how much of a host's memory machines may take, all together.
func memoryBudget(memory int64) int64 { return (memory / 4 * 3) &^ (1<<20 - 1) }

// limitsMemory reports whether the inner platform has a limit of memory.
func (n Name) limitsMemory() bool { return n.Inner != bare.Bare }

// supportsInside asks the inner platform's own code about what does not depend on the
// machine, which need not be booted for it.
func (n Name) supportsInside(s platform.Setting) error {
	// These the machine decides: how many CPUs there are, and how new the kernel is.
	s.CPUSet = ""
	if s.CPUs == math.Trunc(s.CPUs) && s.CPUs > 0 {
		s.CPUs = 1
	}
	var inside platform.Platform
	switch n.Inner {
	case bare.Bare:
		inside, s.Memory = bare.New(bare.Options{}), 0
	case bare.Cgroup:
		inside, s.CPUBurst = bare.NewInCgroup(bare.Options{}), 0
	case "oci:runc":
		inside, s.CPUBurst = oci.New("runc", oci.Options{}), 0
	case "oci:crun":
		inside, s.CPUBurst = oci.New("crun", oci.Options{}), 0
	default:
		return &platform.Unsupported{Platform: n.String(), Key: n.Inner, Reason: "machines have no such platform"}
	}
	err := inside.Supports(s)
	if refused, ok := err.(*platform.Unsupported); ok {
		return &platform.Unsupported{Platform: n.String(), Key: refused.Key, Reason: refused.Reason}
	}
	return err
}

// allOf is the list of a machine's CPUs.
func allOf(cpus int) string {
	if cpus == 1 {
		return "0"
	}
	return fmt.Sprintf("0-%d", cpus-1)
}

// roundUp gives machines of nearly the same size the same size, so that one serves.
func roundUp(bytes int64) int64 { return (bytes + 64<<20 - 1) &^ (64<<20 - 1) }
