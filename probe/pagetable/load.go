package pagetable

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/cilium/ebpf"

	"tare/kernel/memory"
	"tare/probe/bpf"
)

//go:generate ../../kernel/bpf/generate.sh bpf/walk.c

var needs = bpf.Needs{Probe: "walk of the page tables", Linux: "6.1"}

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
		return nil, needs.Missing("only x86-64's page tables are read, and this is "+runtime.GOARCH, "the census by pagemap shows the same")
	}
	kernel, err := needs.Check()
	if err != nil {
		return nil, err
	}
	spec, err := loadObject()
	if err != nil {
		return nil, fmt.Errorf("read the BPF programs: %w", err)
	}
	w := &walker{finds: bpf.Offers(kernel, "bpf_task_from_pid")} // since Linux 6.2
	if err := spec.Variables[objectVarFinds].Set(w.finds); err != nil {
		return nil, fmt.Errorf("set %s of the BPF programs: %w", objectVarFinds, err)
	}
	if err := needs.LoadInto(&w.objects, spec); err != nil {
		// An older verifier may know less of what is right.
		if verifier := new(ebpf.VerifierError); errors.As(err, &verifier) {
			return nil, needs.Missing(err.Error(), "Linux 6.1 or later")
		}
		return nil, err
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

func (w *walker) close() error {
	var all []error
	for _, m := range []*memory.Mapping{w.tables, w.records} {
		if m != nil {
			all = append(all, m.Close())
		}
	}
	return errors.Join(append(all, w.objects.Close())...)
}
