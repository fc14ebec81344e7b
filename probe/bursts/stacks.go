package bursts

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"tare/kernel/perfevent"
	"tare/probe"
)

// interruptPrograms record what a CPU is in the midst of. Those that record the end come
// first: a handler whose end is not seen would seem to go on until the next one's.
var interruptPrograms = []string{
	objectProgOnIrqHandlerExit, objectProgOnSoftirqExit, objectProgOnHrtimerExpireExit,
	objectProgOnIrqHandlerEntry, objectProgOnSoftirqEntry, objectProgOnHrtimerExpireEntry,
	objectProgOnWaking,
}

// Absence is the time that threads of one process were off the CPU, having left it by
// one way, until they had one again. It counts when it ends.
type Absence struct {
	PID     int
	Memory  uint64 // differs between the programs that a process executes one after the other
	Comm    string // of one of its threads
	Waiting bool   // it was preempted: it wanted the CPU
	// Kernel and User are addresses, the innermost first; empty where the stack could
	// not be kept or read. User stacks follow frame pointers.
	Kernel, User []uint64
	Time         time.Duration
	Count        uint64
}

// Sample counts how often a target's threads were found in one place of the kernel.
type Sample struct {
	Kernel []uint64 // the innermost first; empty in the program's own code
	Count  uint64
}

// sample has the CPUs' clocks, or counters, run the program that samples.
func (r *Recording) sample(hertz int) (err error) {
	r.ticks, err = perfevent.OpenTicks(hertz)
	if refused := (*perfevent.Refused)(nil); errors.As(err, &refused) {
		return &probe.Missing{Probe: "sampling of the kernel", What: refused.What, Mend: refused.Mend}
	}
	if err != nil {
		return fmt.Errorf("sample: %w", err)
	}
	for _, fd := range r.ticks.Descriptors() {
		l, err := link.AttachRawLink(
			link.RawLinkOptions{
				Target:  fd,
				Program: r.collection.Programs[objectProgOnSample],
				Attach:  ebpf.AttachPerfEvent,
			},
		)
		if err != nil {
			return errors.Join(needs.Refusal("attach "+objectProgOnSample, err), r.unsample())
		}
		r.links = append(r.links, l)
	}
	return r.ticks.Start()
}

func (r *Recording) unsample() error {
	if r.ticks == nil {
		return nil
	}
	return r.ticks.Close()
}

func (r *Recording) readStacks(reading *Reading) error {
	kept := map[int32][]uint64{noStack: nil}
	if err := r.readAbsences(reading, kept); err != nil {
		return fmt.Errorf("read the table of absences: %w", err)
	}
	if r.ticks != nil {
		reading.Precise = r.ticks.Precise()
	}
	if err := r.readSamples(reading, kept); err != nil {
		return fmt.Errorf("read the table of samples: %w", err)
	}
	return nil
}

func (r *Recording) readAbsences(reading *Reading, kept map[int32][]uint64) error {
	var way kernelWay
	var a kernelAbsence
	all := r.collection.Maps[objectMapAbsences].Iterate()
	for all.Next(&way, &a) {
		if way.Target < 0 || int(way.Target) >= len(reading.Groups) {
			continue
		}
		kernel, err := r.stack(way.KernelStack, kept)
		if err != nil {
			return err
		}
		user, err := r.stack(way.UserStack, kept)
		if err != nil {
			return err
		}
		comm, _, _ := bytes.Cut(a.Comm[:], []byte{0})
		g := &reading.Groups[way.Target]
		g.Absences = append(g.Absences, Absence{
			PID: int(way.TGID), Memory: way.Memory, Comm: string(comm), Waiting: way.Waiting != 0,
			Kernel: kernel, User: user, Time: time.Duration(a.Nanoseconds), Count: a.Count,
		})
	}
	if err := all.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return err
	}
	for i := range reading.Groups {
		longestAbsencesFirst(reading.Groups[i].Absences)
	}
	return nil
}

func (r *Recording) readSamples(reading *Reading, kept map[int32][]uint64) error {
	var failed error
	err := entries(r.collection.Maps[objectMapSamples], func(found kernelFound, count *uint64) {
		if found.Target < 0 || int(found.Target) >= len(reading.Groups) || failed != nil {
			return
		}
		kernel, err := r.stack(found.KernelStack, kept)
		if failed = err; err != nil {
			return
		}
		g := &reading.Groups[found.Target]
		g.Samples = append(g.Samples, Sample{kernel, *count})
	})
	if err = cmp.Or(err, failed); err != nil {
		return err
	}
	for i := range reading.Groups {
		mostFrequentFirst(reading.Groups[i].Samples)
	}
	return nil
}

// stack reads one that was kept.
func (r *Recording) stack(id int32, kept map[int32][]uint64) ([]uint64, error) {
	if stack, ok := kept[id]; ok {
		return stack, nil
	}
	var frames [frameRoom]uint64
	if err := r.collection.Maps[objectMapStacks].Lookup(uint32(id), &frames); err != nil {
		return nil, fmt.Errorf("stack %d: %w", id, err)
	}
	stack := slices.DeleteFunc(frames[:], func(address uint64) bool { return address == 0 })
	kept[id] = stack
	return stack, nil
}

func longestAbsencesFirst(all []Absence) {
	slices.SortFunc(all, func(a, b Absence) int {
		return cmp.Or(
			cmp.Compare(b.Time, a.Time),
			cmp.Compare(a.PID, b.PID),
			slices.Compare(a.Kernel, b.Kernel),
			slices.Compare(a.User, b.User),
		)
	})
}

func mostFrequentFirst(all []Sample) {
	slices.SortFunc(all, func(a, b Sample) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), slices.Compare(a.Kernel, b.Kernel))
	})
}

// same distinguishes absences of one way from others.
func (a *Absence) same(b *Absence) bool {
	return a.PID == b.PID && a.Memory == b.Memory && a.Waiting == b.Waiting && slices.Equal(a.Kernel, b.Kernel) &&
		slices.Equal(a.User, b.User)
}

func absencesSince(now, before []Absence) []Absence {
	var more []Absence
	for _, a := range now {
		if i := slices.IndexFunc(before, func(b Absence) bool { return a.same(&b) }); i >= 0 {
			a.Time -= before[i].Time
			a.Count -= before[i].Count
		}
		if a.Count > 0 {
			more = append(more, a)
		}
	}
	longestAbsencesFirst(more)
	return more
}

func samplesSince(now, before []Sample) []Sample {
	var more []Sample
	for _, s := range now {
		if i := slices.IndexFunc(before, func(b Sample) bool { return slices.Equal(s.Kernel, b.Kernel) }); i >= 0 {
			s.Count -= before[i].Count
		}
		if s.Count > 0 {
			more = append(more, s)
		}
	}
	mostFrequentFirst(more)
	return more
}

// Program is what a process executes, or executed.
type Program struct {
	PID    int
	Memory uint64
}

// Programs are those of which absences have been added up so far: whoever wants to
// name the addresses asks while they live.
func (r *Recording) Programs() ([]Program, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil {
		return nil, nil
	}
	met := map[Program]bool{}
	var programs []Program
	var way kernelWay
	var a kernelAbsence
	all := r.collection.Maps[objectMapAbsences].Iterate()
	for all.Next(&way, &a) {
		p := Program{int(way.TGID), way.Memory}
		if way.Memory != 0 && !met[p] {
			met[p] = true
			programs = append(programs, p)
		}
	}
	if err := all.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return nil, fmt.Errorf("list the programs met: %w", err)
	}
	return programs, nil
}
