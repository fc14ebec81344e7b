package sched

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

	"tare/probe"
)

const probeName = "tracing of the scheduler"

// kernelBTF is where the kernel describes its own types.
const kernelBTF = "/sys/kernel/btf/vmlinux"

// hostPIDs is the host's own pid namespace, whose number the kernel fixes
// (PROC_PID_INIT_INO).
const hostPIDs = "pid:[4026531836]"

// attachment is loaded programs, attached, and their maps.
type attachment struct {
	collection *ebpf.Collection
	links      []link.Link
}

// attach loads the programs named, with what they need, and attaches them in
// their order. set is called before with what is to be loaded.
func attach(programs []string, set func(*ebpf.CollectionSpec) error) (_ *attachment, err error) {
	if _, err := os.Stat(kernelBTF); err != nil {
		return nil, &probe.Missing{Probe: probeName, What: "the kernel does not describe its types (" + err.Error() + ")", Mend: "a kernel with CONFIG_DEBUG_INFO_BTF"}
	}
	if namespace, err := os.Readlink("/proc/self/ns/pid"); err == nil && namespace != hostPIDs {
		return nil, &probe.Missing{Probe: probeName, What: "this is a pid namespace, and the kernel's events tell the host's process ids", Mend: "run tare in the host's (docker run --pid host)"}
	}
	spec, err := loadObject()
	if err != nil {
		return nil, fmt.Errorf("read the BPF programs: %w", err)
	}
	prune(spec, programs)
	if err := set(spec); err != nil {
		return nil, err
	}
	// Needed before Linux 5.11 alone, where BPF counts as locked memory. Whether it
	// is allowed shows when the programs are loaded.
	_ = rlimit.RemoveMemlock()
	collection, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, refusal("load", err)
	}
	a := &attachment{collection: collection}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	for _, name := range programs {
		l, err := link.AttachTracing(link.TracingOptions{Program: collection.Programs[name]})
		if err != nil {
			return nil, refusal("attach "+name, err)
		}
		a.links = append(a.links, l)
	}
	return a, nil
}

// prune leaves in a specification the programs named and the maps they use.
func prune(spec *ebpf.CollectionSpec, programs []string) {
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

// refusal says why the kernel does not take the programs. The library's own
// words end in a guess at the limit on locked memory, which has not bounded BPF
// since Linux 5.11.
func refusal(doing string, err error) error {
	var verifier *ebpf.VerifierError
	switch {
	// Not os.ErrPermission: the verifier says EACCES for what it finds wrong.
	case errors.Is(err, syscall.EPERM):
		return &probe.Missing{Probe: probeName, What: "the kernel refuses to " + doing + " BPF programs", Mend: "run as root, or with CAP_BPF and CAP_PERFMON; under lockdown=confidentiality nothing helps"}
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, btf.ErrNotFound):
		return &probe.Missing{Probe: probeName, What: fmt.Sprintf("the kernel cannot %s the BPF programs (%s)", doing, unguessed(err)), Mend: "Linux 5.11 or later, with CONFIG_DEBUG_INFO_BTF"}
	case errors.As(err, &verifier):
		return fmt.Errorf("%s the BPF programs: the kernel's verifier: %w", doing, err)
	}
	return fmt.Errorf("%s the BPF programs: %s", doing, unguessed(err))
}

func unguessed(err error) string {
	text, _, _ := strings.Cut(err.Error(), " (MEMLOCK")
	return text
}

// switchHasState tells whether sched_switch hands over the state of the one
// switched out, as it does since Linux 5.18.
func switchHasState() (bool, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return false, fmt.Errorf("read %s: %w", kernelBTF, err)
	}
	var def *btf.Typedef
	if err := spec.TypeByName("btf_trace_sched_switch", &def); err != nil {
		return false, &probe.Missing{Probe: probeName, What: "the kernel has no tracepoint sched_switch", Mend: "a kernel with CONFIG_TRACEPOINTS"}
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

// lost counts events that the programs could not report: those that found no
// room, and those of a program that came upon itself on the same CPU.
func (a *attachment) lost() (uint64, error) {
	var n uint64
	if v := a.collection.Variables[objectVarLost]; v != nil {
		if err := v.Get(&n); err != nil {
			return 0, fmt.Errorf("read the count of lost events: %w", err)
		}
	}
	for name, p := range a.collection.Programs {
		stats, err := p.Stats()
		if err != nil {
			return 0, fmt.Errorf("read the statistics of %s: %w", name, err)
		}
		n += stats.RecursionMisses
	}
	return n, nil
}

// detach ends the programs' observing, the last that was attached first: each
// may take milliseconds, and what one sees is explained by those before it.
// Their maps can still be read.
func (a *attachment) detach() error {
	var all []error
	for _, l := range slices.Backward(a.links) {
		all = append(all, l.Close())
	}
	a.links = nil
	return errors.Join(all...)
}

func (a *attachment) close() error {
	err := a.detach()
	a.collection.Close()
	return err
}
