package pagetable

import (
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
)

// What bpf/walk.c fixes.
const (
	walkTables  = 512
	walkRecords = 4096
	recordSize  = 24

	outcomeDone       = 0
	outcomeNoTask     = 1
	outcomeNoMemory   = 2
	outcomeOther      = 3
	outcomeUnreadable = 4
)

// request is what the programs are asked, and answer.
type request struct {
	PID      int32
	Levels   uint32
	Base     uint64
	Limit    uint64
	Physical uint64
	End      uint64
	MM       uint64
	Next     uint64

	PGD                    uint64
	Outcome                uint32
	Records                uint32
	PTEs, PMDs, PUDs, P4Ds uint64
	Strays                 uint64
}

// record is one stretch of addresses with entries.
type record struct {
	Address uint64
	Entry   uint64
	Level   uint32
	Slot    uint32
}

// find asks for a process' address space. The outcome is in the request.
func (w *walker) find(pid int) error {
	w.request = request{PID: int32(pid)}
	return w.run(w.objects.Find)
}

// walk takes the next records of the process in the request.
func (w *walker) walk() error { return w.run(w.objects.Walk) }

func (w *walker) run(p *ebpf.Program) error {
	status, err := p.Run(&ebpf.RunOptions{Context: &w.request, ContextOut: &w.request})
	if err != nil {
		return fmt.Errorf("run the BPF program %s: %w", p, err)
	}
	if status != 0 {
		return fmt.Errorf("the BPF program %s ended with %d", p, int32(status))
	}
	return nil
}

// found are the records of the last walk.
func (w *walker) found() []record {
	n := min(int(w.request.Records), walkRecords)
	return unsafe.Slice((*record)(unsafe.Pointer(unsafe.SliceData(w.records.Bytes()))), walkRecords)[:n]
}

// table is the copy of a last-level table.
func (w *walker) table(slot uint32) *[tableEntries]uint64 {
	return (*[tableEntries]uint64)(w.tables.Words()[slot%walkTables*tableEntries:])
}
