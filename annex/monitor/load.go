package monitor

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"tare/kernel/cgroup"
	"tare/probe"
	"tare/probe/pagetable"
)

const probeName = "stream of faults and activity"

const (
	// kernelBTF is where the kernel describes its own types.
	kernelBTF = "/sys/kernel/btf/vmlinux"
	// hostPIDs is the host's own pid namespace, whose number the kernel fixes
	// (PROC_PID_INIT_INO).
	hostPIDs = "pid:[4026531836]"
)

// attached are the programs that see events, in the order in which they begin to.
var attached = []string{
	objectProgProcessFork, objectProgProcessExec, objectProgProcessExit, objectProgProcessJoin,
	objectProgFaultUser, objectProgFaultKernel, objectProgOnSwitch, objectProgOnWakeup, objectProgOnNew, objectProgOnMigrate,
}

// needed are the kernel's types without which the programs cannot work, and
// what mends it.
var needed = []struct{ name, mend string }{
	{"btf_trace_page_fault_user", "an x86-64 kernel with CONFIG_TRACEPOINTS"},
	{"maple_range_64", "Linux 6.1 or later"},
}

// check says what this host lacks before anything is loaded.
func check() (*btf.Spec, error) {
	if _, err := os.Stat(kernelBTF); err != nil {
		return nil, &probe.Missing{Probe: probeName, What: "the kernel does not describe its types (" + err.Error() + ")", Mend: "a kernel with CONFIG_DEBUG_INFO_BTF"}
	}
	if namespace, err := os.Readlink("/proc/self/ns/pid"); err == nil && namespace != hostPIDs {
		return nil, &probe.Missing{Probe: probeName, What: "this is a pid namespace, and the kernel's events tell the host's process ids", Mend: "run in the host's (docker run --pid host)"}
	}
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kernelBTF, err)
	}
	for _, n := range needed {
		if types, err := kernel.AnyTypesByName(n.name); err != nil || len(types) == 0 {
			return nil, &probe.Missing{Probe: probeName, What: "the kernel has no " + n.name, Mend: n.mend}
		}
	}
	return kernel, nil
}

// casts tells whether programs may declare a pointer one to a type of the kernel's, which
// makes its reads single instructions: since Linux 6.2.
func casts(kernel *btf.Spec) bool {
	var f *btf.Func
	return kernel.TypeByName("bpf_rdonly_cast", &f) == nil
}

// load gives the kernel the programs.
func load(o Options, layout cgroup.Layout) (*ebpf.Collection, error) {
	kernel, err := check()
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
		objectVarCasts:           casts(kernel),
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
	// Needed before Linux 5.11 alone, where BPF counts as locked memory. Whether it
	// is allowed shows when the programs are loaded.
	_ = rlimit.RemoveMemlock()
	collection, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, refusal("load", err)
	}
	return collection, nil
}

// memorySubsystem is the kernel's number of version 1's memory controller, by which a
// task's group is found; -1 where version 1 has none.
func memorySubsystem(kernel *btf.Spec, layout cgroup.Layout) (int32, error) {
	if h, ok := layout.For("memory"); !ok || h.Version != 1 {
		return -1, nil
	}
	var ids *btf.Enum
	if err := kernel.TypeByName("cgroup_subsys_id", &ids); err != nil {
		return 0, fmt.Errorf("find the controllers in %s: %w", kernelBTF, err)
	}
	for _, v := range ids.Values {
		if v.Name == "memory_cgrp_id" {
			return int32(v.Value), nil
		}
	}
	return 0, fmt.Errorf("%s names no memory controller, though one is mounted", kernelBTF)
}

// attach lets the programs of a collection see events.
func attach(collection *ebpf.Collection) (links []link.Link, err error) {
	for _, name := range attached {
		l, err := link.AttachTracing(link.TracingOptions{Program: collection.Programs[name]})
		if err != nil {
			return nil, errors.Join(refusal("attach "+name, err), detach(links))
		}
		links = append(links, l)
	}
	return links, nil
}

func detach(links []link.Link) error {
	var all []error
	for _, l := range slices.Backward(links) {
		all = append(all, l.Close())
	}
	return errors.Join(all...)
}

// refusal says why the kernel does not take the programs. The library's own
// words end in a guess at the limit on locked memory, which has not bounded BPF
// since Linux 5.11.
func refusal(doing string, err error) error {
	text, _, _ := strings.Cut(err.Error(), " (MEMLOCK")
	var verifier *ebpf.VerifierError
	switch {
	// Not os.ErrPermission: the verifier says EACCES for what it finds wrong.
	case errors.Is(err, syscall.EPERM):
		return &probe.Missing{Probe: probeName, What: "the kernel refuses to " + doing + " BPF programs", Mend: "run as root, or with CAP_BPF and CAP_PERFMON; under lockdown=confidentiality nothing helps"}
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, btf.ErrNotFound):
		return &probe.Missing{Probe: probeName, What: fmt.Sprintf("the kernel cannot %s the BPF programs (%s)", doing, text), Mend: "Linux 6.1 or later, with CONFIG_DEBUG_INFO_BTF"}
	case errors.As(err, &verifier):
		return fmt.Errorf("%s the BPF programs: the kernel's verifier: %w", doing, err)
	}
	return fmt.Errorf("%s the BPF programs: %s", doing, text)
}
