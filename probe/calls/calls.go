// Package calls counts the system calls of processes in short windows, and keeps some of the
// names that they look up.
//
// While a program is attached to the entry of system calls, every call on the host takes the
// kernel's slow path: some tens of nanoseconds more. So it is attached only while a window is
// open, and whoever watches opens few. Figures are of processes that lived when a window
// was opened; those that begin within are not counted.
package calls

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"

	"tare/kernel/callnumber"
	"tare/kernel/clock"
	"tare/probe/bpf"
)

//go:generate ../../kernel/bpf/generate.sh bpf/calls.c -mcpu=v3

// Counts are calls of a target.
type Counts struct {
	Calls   uint64
	Lookups uint64 // calls that look up a file by its name, opens among them
	Opens   uint64
}

func (c Counts) plus(o Counts) Counts {
	return Counts{c.Calls + o.Calls, c.Lookups + o.Lookups, c.Opens + o.Opens}
}

// Name is a file's that a call looked up: relative to the process' working directory, or to
// a directory that it has open where Directory is at least 0.
type Name struct {
	PID       int
	Directory int
	Text      string
}

// Seen is what a target did in the windows so far.
type Seen struct {
	Counts
	Span  time.Duration // that the windows were open
	Names []Name
}

const (
	// namesEach is how many names of a target one window keeps, and stride that one of so many
	// lookups has its name kept, on each CPU.
	namesEach = 16
	stride    = 7
	nameRoom  = 256
	calls     = 512 // CALLS of calls.c
)

var needs = bpf.Needs{Probe: "counting of system calls", Linux: "5.5"}

// Counter counts while its windows are open.
type Counter struct {
	collection *ebpf.Collection
	names      *ebpf.Memory // the program's, mapped: a system call for each name would cost more than all else
	kept       []byte       // a copy of them
	seen       []Seen
}

// Open loads the program for a number of targets. The error is a [*tare/probe.Missing] where the
// host lacks what it needs.
func Open(targets int) (*Counter, error) {
	if _, err := needs.Check(); err != nil {
		return nil, err
	}
	spec, err := loadObject()
	if err != nil {
		return nil, fmt.Errorf("read the BPF programs: %w", err)
	}
	var does [calls]uint8
	for number, what := range callnumber.Lookups() {
		does[number] = what
	}
	spec.Maps[objectMapCountsOf].MaxEntries = uint32(targets)
	spec.Maps[objectMapNamesOf].MaxEntries = uint32(targets * namesEach)
	spec.Maps[objectMapNamesOf].Flags |= uint32(features.BPF_F_MMAPABLE)
	err = errors.Join(
		spec.Variables[objectVarDoes].Set(does),
		spec.Variables[objectVarNames].Set(uint32(namesEach)),
		spec.Variables[objectVarStride].Set(uint32(stride)),
	)
	if err != nil {
		return nil, err
	}
	c := &Counter{seen: make([]Seen, targets), kept: make([]byte, targets*namesEach*nameSize)}
	if c.collection, err = needs.Load(spec); err != nil {
		return nil, err
	}
	if c.names, err = c.collection.Maps[objectMapNamesOf].Memory(); err != nil {
		c.collection.Close()
		return nil, fmt.Errorf("map the names looked up: %w", err)
	}
	return c, nil
}

// Close unloads the program.
func (c *Counter) Close() { c.collection.Close() }

// Seen is what each target did in all windows.
func (c *Counter) Seen() []Seen { return c.seen }

// Watch opens a window for a time, or until ctx ends. list gives the processes of each target. It is called twice:
// the id of one that ended after the first time, before its end was noticed here, may be another's.
func (c *Counter) Watch(ctx context.Context, list func() [][]int, d time.Duration) (err error) {
	if err := c.follow(list()); err != nil {
		return err
	}
	links, err := needs.Attach(c.collection, []string{objectProgOnEnter, objectProgOnExit})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, links.Close()) }()
	if err := c.keep(list()); err != nil {
		return err
	}
	counting := c.collection.Variables[objectVarCounting]
	began := clock.Monotonic()
	if err := counting.Set(true); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := counting.Set(false); err != nil {
		return err
	}
	return c.read(clock.Monotonic() - began)
}

// keep has no process counted but these.
func (c *Counter) keep(processes [][]int) error {
	followed := c.collection.Maps[objectMapFollowed]
	var pid int32
	var target uint32
	var gone []int32
	all := followed.Iterate()
	for all.Next(&pid, &target) {
		if int(target) >= len(processes) || !slices.Contains(processes[target], int(pid)) {
			gone = append(gone, pid)
		}
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("list the followed processes: %w", err)
	}
	for _, pid := range gone {
		if err := followed.Delete(pid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) { // it ends meanwhile
			return fmt.Errorf("forget process %d: %w", pid, err)
		}
	}
	return nil
}

// follow has the processes of the targets counted, and clears what the window before left.
func (c *Counter) follow(processes [][]int) error {
	if err := c.keep(nil); err != nil {
		return err
	}
	followed := c.collection.Maps[objectMapFollowed]
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	clear(c.kept)
	if _, err := c.names.WriteAt(c.kept, 0); err != nil {
		return fmt.Errorf("forget the names looked up: %w", err)
	}
	none := make([]Counts, cpus)
	for target, pids := range processes {
		if err := c.collection.Maps[objectMapCountsOf].Put(uint32(target), none); err != nil {
			return err
		}
		for _, pid := range pids {
			err := followed.Put(int32(pid), uint32(target))
			if errors.Is(err, syscall.E2BIG) { // more processes than there is room: the others are not counted
				break
			}
			if err != nil {
				return fmt.Errorf("follow process %d: %w", pid, err)
			}
		}
	}
	return nil
}

// nameSize is what a name takes as calls.c keeps it: the process, the directory and the text.
const nameSize = 4 + 4 + nameRoom

// name gives the n-th name that was kept; false where there is none.
func (c *Counter) name(n int) (Name, bool) {
	at := c.kept[n*nameSize:][:nameSize]
	text, _, _ := bytes.Cut(at[8:], []byte{0})
	pid, directory := int32(binary.NativeEndian.Uint32(at)), int32(binary.NativeEndian.Uint32(at[4:]))
	return Name{int(pid), int(directory), string(text)}, pid != 0 && len(text) > 0
}

func (c *Counter) read(span time.Duration) error {
	if _, err := c.names.ReadAt(c.kept, 0); err != nil {
		return fmt.Errorf("read the names looked up: %w", err)
	}
	for i := range c.seen {
		s := &c.seen[i]
		var each []Counts
		if err := c.collection.Maps[objectMapCountsOf].Lookup(uint32(i), &each); err != nil {
			return fmt.Errorf("read the counts of calls: %w", err)
		}
		for _, of := range each {
			s.Counts = s.Counts.plus(of)
		}
		s.Span += span
		for n := range namesEach {
			if name, ok := c.name(i*namesEach + n); ok {
				s.Names = append(s.Names, name)
			}
		}
	}
	return nil
}

// PerSecond is a rate of calls, and half of its interval of 95 % where each came by itself.
func (s Seen) PerSecond(n uint64) (rate, half float64) {
	if s.Span <= 0 {
		return 0, 0
	}
	return float64(n) / s.Span.Seconds(), 1.96 * math.Sqrt(float64(n)) / s.Span.Seconds()
}
