package bursts

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

const probeName = "accounting of CPU bursts"

// kernelBTF is where the kernel describes its own types.
const kernelBTF = "/sys/kernel/btf/vmlinux"

// hostPIDs is the host's own pid namespace, whose number the kernel fixes
// (PROC_PID_INIT_INO).
const hostPIDs = "pid:[4026531836]"

// lacks says what this host lacks before anything is loaded, if anything.
func lacks() error {
	if _, err := os.Stat(kernelBTF); err != nil {
		return &probe.Missing{Probe: probeName, What: "the kernel does not describe its types (" + err.Error() + ")", Mend: "a kernel with CONFIG_DEBUG_INFO_BTF"}
	}
	if namespace, err := os.Readlink("/proc/self/ns/pid"); err == nil && namespace != hostPIDs {
		return &probe.Missing{Probe: probeName, What: "this is a pid namespace, and the kernel's events tell the host's process ids", Mend: "run tare in the host's (docker run --pid host)"}
	}
	return nil
}

// load loads the programs named, with what set makes of their maps and
// variables.
func load(programs []string, set func(*ebpf.CollectionSpec) error) (*ebpf.Collection, error) {
	spec, err := loadObject()
	if err != nil {
		return nil, fmt.Errorf("read the BPF programs: %w", err)
	}
	for name := range spec.Programs {
		if !slices.Contains(programs, name) {
			delete(spec.Programs, name)
		}
	}
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
	return collection, nil
}

// attach attaches the programs in their order.
func attach(collection *ebpf.Collection, programs []string) (links []link.Link, err error) {
	for _, name := range programs {
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
func switchHasState(kernel *btf.Spec) (bool, error) {
	var def *btf.Typedef
	if err := kernel.TypeByName("btf_trace_sched_switch", &def); err != nil {
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
