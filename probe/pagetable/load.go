package pagetable

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/rlimit"

	"tare/kernel/memory"
	"tare/probe"
)

//go:generate ../../kernel/bpf/generate.sh bpf/walk.c

const probeName = "walk of the page tables"

const (
	// kernelBTF is where the kernel describes its own types.
	kernelBTF = "/sys/kernel/btf/vmlinux"
	// hostPIDs is the host's own pid namespace, whose number the kernel fixes
	// (PROC_PID_INIT_INO).
	hostPIDs = "pid:[4026531836]"
)

// walker is the loaded programs, and the memory in which they leave what they
// find.
type walker struct {
	objects objectObjects
	finds   bool            // any process; or else its own alone
	tables  *memory.Mapping // of 512 words each
	records *memory.Mapping
	request request
}

// newWalker loads the programs. Its error is a [*probe.Missing] where this
// host lacks what they need.
func newWalker() (_ *walker, err error) {
	if runtime.GOARCH != "amd64" {
		return nil, &probe.Missing{Probe: probeName, What: "only x86-64's page tables are read, and this is " + runtime.GOARCH, Mend: "the census by pagemap tells the same"}
	}
	if _, err := os.Stat(kernelBTF); err != nil {
		return nil, &probe.Missing{Probe: probeName, What: "the kernel does not describe its types (" + err.Error() + ")", Mend: "a kernel with CONFIG_DEBUG_INFO_BTF"}
	}
	if namespace, err := os.Readlink("/proc/self/ns/pid"); err == nil && namespace != hostPIDs {
		return nil, &probe.Missing{Probe: probeName, What: "this is a pid namespace, and processes are found by the host's ids", Mend: "run tare in the host's (docker run --pid host)"}
	}
	spec, err := loadObject()
	if err != nil {
		return nil, fmt.Errorf("read the BPF programs: %w", err)
	}
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kernelBTF, err)
	}
	w := &walker{finds: findsProcesses(kernel)}
	if err := spec.Variables[objectVarFinds].Set(w.finds); err != nil {
		return nil, fmt.Errorf("set %s of the BPF programs: %w", objectVarFinds, err)
	}
	// Needed before Linux 5.11 alone; whether it is allowed shows below.
	_ = rlimit.RemoveMemlock()
	if err := spec.LoadAndAssign(&w.objects, nil); err != nil {
		return nil, refusal(err)
	}
	defer func() {
		if err != nil {
			_ = w.close()
		}
	}()
	if w.tables, err = memory.MapShared(w.objects.Tables.FD(), walkTables*PageSize); err != nil {
		return nil, err
	}
	if w.records, err = memory.MapShared(w.objects.Records.FD(), walkRecords*recordSize); err != nil {
		return nil, err
	}
	return w, nil
}

// findsProcesses tells whether programs may find processes by their ids: since Linux 6.2.
func findsProcesses(kernel *btf.Spec) bool {
	var f *btf.Func
	return kernel.TypeByName("bpf_task_from_pid", &f) == nil
}

// refusal says why the kernel does not take the programs. The library's own
// words end in a guess at the limit on locked memory.
func refusal(err error) error {
	text, _, _ := strings.Cut(err.Error(), " (MEMLOCK")
	var verifier *ebpf.VerifierError
	switch {
	// Not os.ErrPermission: the verifier says EACCES for what it finds wrong.
	case errors.Is(err, syscall.EPERM):
		return &probe.Missing{Probe: probeName, What: "the kernel refuses to load BPF programs", Mend: "run as root, or with CAP_BPF and CAP_PERFMON; under lockdown=confidentiality nothing helps"}
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, btf.ErrNotFound):
		return &probe.Missing{Probe: probeName, What: "the kernel cannot load the BPF programs (" + text + ")", Mend: "Linux 6.1 or later, with CONFIG_DEBUG_INFO_BTF"}
	case errors.As(err, &verifier):
		// An older verifier may know less of what is right.
		return &probe.Missing{Probe: probeName, What: fmt.Sprintf("the kernel's verifier refuses the BPF programs (%s)", text), Mend: "Linux 6.1 or later"}
	}
	return fmt.Errorf("load the BPF programs: %s", text)
}

func (w *walker) close() error {
	var all []error
	for _, m := range []*memory.Mapping{w.tables, w.records} {
		if m != nil {
			all = append(all, m.Close())
		}
	}
	return errors.Join(append(all, w.objects.Close())...)
}
