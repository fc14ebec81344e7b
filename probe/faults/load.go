package faults

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

const probeName = "recording of page faults"

// kernelBTF is where the kernel describes its own types.
const kernelBTF = "/sys/kernel/btf/vmlinux"

// hostPIDs is the host's own pid namespace, whose number the kernel fixes
// (PROC_PID_INIT_INO).
const hostPIDs = "pid:[4026531836]"

// needed are the kernel's types without which the programs cannot work, and
// what mends it.
var needed = []struct{ name, mend string }{
	{"btf_trace_page_fault_user", "an x86-64 kernel with CONFIG_TRACEPOINTS"},
	{"maple_range_64", "Linux 6.1 or later, which keeps mappings in a maple tree"},
}

// check says what this host lacks before anything is loaded.
func check() (*btf.Spec, error) {
	if _, err := os.Stat(kernelBTF); err != nil {
		return nil, &probe.Missing{Probe: probeName, What: "the kernel does not describe its types (" + err.Error() + ")", Mend: "a kernel with CONFIG_DEBUG_INFO_BTF"}
	}
	if namespace, err := os.Readlink("/proc/self/ns/pid"); err == nil && namespace != hostPIDs {
		return nil, &probe.Missing{Probe: probeName, What: "this is a pid namespace, and the kernel's events tell the host's process ids", Mend: "run tare in the host's (docker run --pid host)"}
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

// casts tells whether programs may declare a pointer one to a type of the
// kernel's, which makes them several times faster: since Linux 6.2.
func casts(kernel *btf.Spec) bool {
	var f *btf.Func
	return kernel.TypeByName("bpf_rdonly_cast", &f) == nil
}

// load gives the kernel the programs named, with what they need.
func load(programs []string, set func(*ebpf.CollectionSpec) error) (*ebpf.Collection, error) {
	spec, err := loadObject()
	if err != nil {
		return nil, fmt.Errorf("read the BPF programs: %w", err)
	}
	if err := set(spec); err != nil {
		return nil, err
	}
	prune(spec, programs)
	// Needed before Linux 5.11 alone, where BPF counts as locked memory. Whether it
	// is allowed shows when the programs are loaded.
	_ = rlimit.RemoveMemlock()
	collection, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, refusal("load", err)
	}
	return collection, nil
}

// attach lets the programs of a collection see events, in the order given.
func attach(collection *ebpf.Collection, programs []string) (links []link.Link, err error) {
	defer func() {
		if err != nil {
			detach(links)
		}
	}()
	for _, name := range programs {
		l, err := link.AttachTracing(link.TracingOptions{Program: collection.Programs[name]})
		if err != nil {
			return links, refusal("attach "+name, err)
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
		return &probe.Missing{Probe: probeName, What: fmt.Sprintf("the kernel cannot %s the BPF programs (%s)", doing, unguessed(err)), Mend: "Linux 6.1 or later, with CONFIG_DEBUG_INFO_BTF"}
	case errors.As(err, &verifier):
		return fmt.Errorf("%s the BPF programs: the kernel's verifier: %w", doing, err)
	}
	return fmt.Errorf("%s the BPF programs: %s", doing, unguessed(err))
}

func unguessed(err error) string {
	text, _, _ := strings.Cut(err.Error(), " (MEMLOCK")
	return text
}
