package sched

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// The layout of bpf/sched.c, little-endian on every machine that the object is
// for.
const (
	headSize = 64
	nameSize = 64
	pathSize = 256
	argsSize = 1024 // at most
	execSize = headSize + nameSize + pathSize

	flagFirstKernel  = 1 << 0
	flagSecondKernel = 1 << 1
	flagLastThread   = 1 << 2
	flagNewborn      = 1 << 3
	contextShift     = 4
)

// Malformed is the error for bytes that are no event.
type Malformed struct{ Why string }

func (m *Malformed) Error() string { return "malformed scheduler event: " + m.Why }

// decode reads one record of the ring.
func decode(b []byte) (Event, error) {
	if len(b) < headSize {
		return Event{}, &Malformed{fmt.Sprintf("%d bytes, want at least %d", len(b), headSize)}
	}
	le := binary.LittleEndian
	id := func(at int) int { return int(int32(le.Uint32(b[at:]))) }
	flags, value := b[9], le.Uint32(b[28:])
	e := Event{
		Time:   time.Duration(le.Uint64(b)),
		Kind:   Kind(b[8]),
		CPU:    int(le.Uint16(b[10:])),
		Thread: Thread{PID: id(12), TID: id(16), Comm: text(b[32:48]), Kernel: flags&flagFirstKernel != 0},
	}
	other := Thread{PID: id(20), TID: id(24), Comm: text(b[48:64]), Kernel: flags&flagSecondKernel != 0}
	rest := b[headSize:]
	var err error
	switch e.Kind {
	case Fork:
		e.Other = other
	case Exit:
		e.LastThread = flags&flagLastThread != 0
	case Switch:
		e.Other, e.State = other, value
		e.Stack, err = frames(rest)
	case Wake:
		e.Other, e.Newborn = other, flags&flagNewborn != 0
		e.Context = Context(flags>>contextShift) & (Interrupt | Softirq | Timer)
		e.Stack, err = frames(rest)
	case Exec:
		if len(b) < execSize {
			return Event{}, &Malformed{fmt.Sprintf("an exec of %d bytes, want at least %d", len(b), execSize)}
		}
		e.FormerTID = int(int32(value))
		e.Name = text(rest[:nameSize])
		e.Path = text(rest[nameSize : nameSize+pathSize])
		e.Args, e.ArgsCut = arguments(rest[nameSize+pathSize:])
	default:
		return Event{}, &Malformed{fmt.Sprintf("of kind %d", e.Kind)}
	}
	return e, err
}

// text is what stands before the first NUL.
func text(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
}

// arguments splits what the kernel keeps of a command line: each is followed by
// a NUL, an empty one too.
func arguments(b []byte) (args []string, cut bool) {
	if len(b) == 0 {
		return nil, false
	}
	cut = b[len(b)-1] != 0 || len(b) == argsSize
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), cut
}

// frames reads a stack. One that could not be taken is empty; one that is
// shorter than its room ends in zeros.
func frames(b []byte) ([]uint64, error) {
	if len(b)%8 != 0 {
		return nil, &Malformed{fmt.Sprintf("a stack of %d bytes", len(b))}
	}
	var stack []uint64
	for ; len(b) > 0; b = b[8:] {
		if address := binary.LittleEndian.Uint64(b); address != 0 {
			stack = append(stack, address)
		}
	}
	return stack, nil
}
