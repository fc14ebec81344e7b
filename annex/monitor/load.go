package monitor

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"tare/kernel/cgroup"
	"tare/probe/bpf"
	"tare/probe/pagetable"
)

// attached are the programs that see events, in the order in which they begin to.
var attached = []string{
	objectProgProcessFork,
	objectProgProcessExec,
	objectProgProcessExit,
	objectProgProcessJoin,
	objectProgFaultUser,
	objectProgFaultKernel,
	objectProgOnSwitch,
	objectProgOnWakeup,
	objectProgOnNew,
	objectProgOnMigrate,
}

var needs = bpf.Needs{Probe: "stream of faults and activity", Linux: "6.1", Types: []bpf.Type{
	{Name: "btf_trace_page_fault_user", Mend: "an x86-64 kernel with CONFIG_TRACEPOINTS"},
	{Name: "maple_range_64", Mend: "Linux 6.1 or later"},
}}

// load gives the kernel the programs.
func load(o Options, layout cgroup.Layout) (*ebpf.Collection, error) {
	kernel, err := needs.Check()
	if err != nil {
		return nil, err
	}
	memory, err := memorySubsystem(kernel, layout)
	if err != nil {
		return nil, err
	}
	base, levels, err := pagetable.DirectMap()
	if err != nil {
		return nil, err
	}
	frames, err := pagetable.PhysicalMask()
	if err != nil {
		return nil, err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count the CPUs: %w", err)
	}
	spec, err := loadObject()
	if err != nil {
		return nil, fmt.Errorf("read the BPF programs: %w", err)
	}
	spec.Maps[objectMapWaits].MaxEntries = uint32(cpus)
	spec.Maps[objectMapEvents].MaxEntries = uint32(o.Ring)
	spec.Maps[objectMapRoots].MaxEntries = uint32(o.Containers)
	spec.Maps[objectMapContexts].MaxEntries = uint32(o.Containers)
	for name, value := range map[string]any{
		objectVarMemorySubsystem: memory,
		objectVarDormancy:        uint64(o.Dormancy),
		objectVarMurmur:          uint64(o.Murmur),
		objectVarNewPages:        o.NewPages,
		objectVarCasts:           bpf.Casts(kernel),
		objectVarDirectMap:       base,
		objectVarLevels:          uint32(levels),
		objectVarFrameBits:       frames,
		objectVarPossible:        uint32(cpus),
		// A quarter: the rest is for what comes until the reader has woken.
		objectVarFull: uint64(o.Ring / 4),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s of the BPF programs: %w", name, err)
		}
	}
	return needs.Load(spec)
}

// memorySubsystem is the kernel's number of version 1's memory controller, by which a
// task's group is found; -1 where version 1 has none.
func memorySubsystem(kernel *btf.Spec, layout cgroup.Layout) (int32, error) {
	if h, ok := layout.For("memory"); !ok || h.Version != 1 {
		return -1, nil
	}
	return bpf.Subsystem(kernel, "memory")
}
