// Package bpf loads BPF programs and attaches them to the kernel's events: what they need of a
// host, why the kernel refuses them, and how they find control groups. What a host lacks is a
// [*probe.Missing], with what mends it. It knows no probe: the objects and what they find are the
// probes' own.
//
// What the kernel says of its own types (BTF) shows what its version has: see the kernel's
// Documentation/bpf/btf.rst.
package bpf

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"tare/probe"
)

const (
	// kernelBTF is where the kernel describes its own types.
	kernelBTF = "/sys/kernel/btf/vmlinux"
	// hostPIDs is the host's own pid namespace, whose number the kernel fixes
	// (PROC_PID_INIT_INO).
	hostPIDs = "pid:[4026531836]"
)

// Needs is what the programs of a probe need of a host.
type Needs struct {
	Probe string // what is missing where a host lacks something
	Linux string // the first version that has all that they need: "6.1"
	Types []Type
}

// Type is one of the kernel's without which programs cannot work, and what mends it.
type Type struct{ Name, Mend string }

// Missing is what a host lacks of them.
func (n Needs) Missing(what, mend string) error {
	return &probe.Missing{Probe: n.Probe, What: what, Mend: mend}
}

// Check says what this host lacks before anything is loaded; otherwise it gives the kernel's types. It is
// for programs that name processes.
func (n Needs) Check() (*btf.Spec, error) {
	kernel, err := n.CheckKernel()
	if err != nil {
		return nil, err
	}
	return kernel, n.CheckPIDs()
}

// CheckPIDs says whether processes have the same ids here as in the kernel.
func (n Needs) CheckPIDs() error {
	if namespace, err := os.Readlink("/proc/self/ns/pid"); err == nil && namespace != hostPIDs {
		return n.Missing("this is a pid namespace, and the kernel names processes by the host's ids", "run in the host's (docker run --pid host)")
	}
	return nil
}

// CheckKernel is Check for programs that name control groups alone.
func (n Needs) CheckKernel() (*btf.Spec, error) {
	if _, err := os.Stat(kernelBTF); err != nil {
		return nil, n.Missing("the kernel does not describe its types ("+err.Error()+")", "a kernel with CONFIG_DEBUG_INFO_BTF")
	}
	kernel, err := kernelTypes().Kernel()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kernelBTF, err)
	}
	for _, t := range n.Types {
		if types, err := kernel.AnyTypesByName(t.Name); err != nil || len(types) == 0 {
			return nil, n.Missing("the kernel has no "+t.Name, t.Mend)
		}
	}
	return kernel, nil
}

// Load gives the kernel the programs of a specification.
func (n Needs) Load(spec *ebpf.CollectionSpec) (*ebpf.Collection, error) {
	unlockMemory()
	collection, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: kernelTypes()})
	if err != nil {
		return nil, n.Refusal("load", err)
	}
	return collection, nil
}

// LoadInto does so, and gives them to the fields of a struct of generated code.
func (n Needs) LoadInto(objects any, spec *ebpf.CollectionSpec) error {
	unlockMemory()
	if err := spec.LoadAndAssign(objects, &ebpf.CollectionOptions{Cache: kernelTypes()}); err != nil {
		return n.Refusal("load", err)
	}
	return nil
}

// unlockMemory is needed before Linux 5.11 alone, where BPF counts as locked memory. Whether it is
// allowed shows when programs are loaded.
func unlockMemory() { _ = rlimit.RemoveMemlock() }

// Keep leaves in a specification the programs named and the maps they use.
func Keep(spec *ebpf.CollectionSpec, programs []string) {
	kept, maps := map[string]*ebpf.ProgramSpec{}, map[string]*ebpf.MapSpec{}
	for _, name := range programs {
		kept[name] = spec.Programs[name]
		for _, ins := range spec.Programs[name].Instructions {
			if m, ok := spec.Maps[ins.Reference()]; ok && ins.IsLoadFromMap() {
				maps[ins.Reference()] = m
			}
		}
	}
	spec.Programs, spec.Maps = kept, maps
	for name, v := range spec.Variables {
		if maps[v.SectionName] == nil {
			delete(spec.Variables, name)
		}
	}
}

// Links are programs that see events.
type Links []link.Link

// Attach lets programs see events, in the order given.
func (n Needs) Attach(c *ebpf.Collection, programs []string) (links Links, err error) {
	for _, name := range programs {
		l, err := link.AttachTracing(link.TracingOptions{Program: c.Programs[name]})
		if err != nil {
			return nil, errors.Join(n.Refusal("attach "+name, err), links.Close())
		}
		links = append(links, l)
	}
	return links, nil
}

// Close ends what they see, the last that was attached first: each may take milliseconds, and what
// one sees is explained by those before it. Their maps can still be read.
func (l Links) Close() error {
	var all []error
	for _, one := range slices.Backward(l) {
		all = append(all, one.Close())
	}
	return errors.Join(all...)
}

// Refusal says why the kernel does not take the programs. The library's own words end in a guess at
// the limit on locked memory, which has not bounded BPF since Linux 5.11.
func (n Needs) Refusal(doing string, err error) error {
	text, _, _ := strings.Cut(err.Error(), " (MEMLOCK")
	var verifier *ebpf.VerifierError
	switch {
	// Not os.ErrPermission: the verifier says EACCES for what it finds wrong.
	case errors.Is(err, syscall.EPERM):
		return n.Missing("the kernel refuses to "+doing+" BPF programs", "run as root, or with CAP_BPF and CAP_PERFMON; under lockdown=confidentiality nothing helps")
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, btf.ErrNotFound):
		return n.Missing(fmt.Sprintf("the kernel cannot %s the BPF programs (%s)", doing, text), "Linux "+n.Linux+" or later, with CONFIG_DEBUG_INFO_BTF")
	// A verifier calls what came after it invalid, and has no other word for that.
	case errors.As(err, &verifier) && n.tooOld():
		return n.Missing(fmt.Sprintf("the kernel is too old to %s the BPF programs (%s)", doing, text), "Linux "+n.Linux+" or later")
	case errors.As(err, &verifier):
		return fmt.Errorf("%s the BPF programs: the kernel's verifier: %w", doing, err)
	}
	return fmt.Errorf("%s the BPF programs: %s", doing, text)
}

// tooOld reports whether the kernel comes before the first version that has all that programs need.
// It explains a refusal and never makes one: distributions give older kernels newer abilities.
func (n Needs) tooOld() bool {
	var major, minor uint32
	if _, err := fmt.Sscanf(n.Linux, "%d.%d", &major, &minor); err != nil {
		return false
	}
	version, err := features.LinuxVersionCode()
	return err == nil && version < major<<16|minor<<8
}

// Offers reports whether the kernel offers programs a function of its own.
func Offers(kernel *btf.Spec, function string) bool {
	var f *btf.Func
	return kernel.TypeByName(function, &f) == nil
}

// Casts reports whether programs may declare a pointer one to a type of the kernel's, which makes
// them several times faster: since Linux 6.2.
func Casts(kernel *btf.Spec) bool { return Offers(kernel, "bpf_rdonly_cast") }

// SwitchHasState reports whether sched_switch hands over the state of the one switched out, as it
// does since Linux 5.18.
func (n Needs) SwitchHasState(kernel *btf.Spec) (bool, error) {
	var def *btf.Typedef
	if err := kernel.TypeByName("btf_trace_sched_switch", &def); err != nil {
		return false, n.Missing("the kernel has no tracepoint sched_switch", "a kernel with CONFIG_TRACEPOINTS")
	}
	pointer, ok := def.Type.(*btf.Pointer)
	if !ok {
		return false, fmt.Errorf("%s: btf_trace_sched_switch is %v, want a pointer", kernelBTF, def.Type)
	}
	proto, ok := pointer.Target.(*btf.FuncProto)
	if !ok {
		return false, fmt.Errorf("%s: btf_trace_sched_switch points at %v, want a function", kernelBTF, pointer.Target)
	}
	// The first is the tracepoint's own.
	return len(proto.Params) > 4, nil
}
