package sched

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// encode is the inverse of decode, for events as the programs make them.
func encode(e Event) []byte {
	le := binary.LittleEndian
	b := make([]byte, headSize)
	le.PutUint64(b, uint64(e.Time))
	b[8] = byte(e.Kind)
	flag := func(is bool, bit byte) {
		if is {
			b[9] |= bit
		}
	}
	flag(e.Thread.Kernel, flagFirstKernel)
	flag(e.Other.Kernel, flagSecondKernel)
	flag(e.LastThread, flagLastThread)
	flag(e.Newborn, flagNewborn)
	b[9] |= byte(e.Context) << contextShift
	le.PutUint16(b[10:], uint16(e.CPU))
	for i, id := range []int{e.Thread.PID, e.Thread.TID, e.Other.PID, e.Other.TID} {
		le.PutUint32(b[12+4*i:], uint32(id))
	}
	copy(b[32:48], e.Thread.Comm)
	copy(b[48:64], e.Other.Comm)
	switch e.Kind {
	case Switch:
		le.PutUint32(b[28:], e.State)
	case Exec:
		le.PutUint32(b[28:], uint32(e.FormerTID))
		b = append(b, make([]byte, nameSize+pathSize)...)
		copy(b[headSize:headSize+nameSize], e.Name)
		copy(b[headSize+nameSize:], e.Path)
		for i, arg := range e.Args {
			b = append(b, arg...)
			if i < len(e.Args)-1 || !e.ArgsCut {
				b = append(b, 0)
			}
		}
	}
	for _, address := range e.Stack {
		b = le.AppendUint64(b, address)
	}
	return b
}

var examples = []Event{
	{Time: 5, CPU: 3, Kind: Fork, Thread: Thread{PID: 10, TID: 11, Comm: "dockerd"}, Other: Thread{PID: 12, TID: 12, Comm: "dockerd"}},
	{Time: 6, Kind: Exec, Thread: Thread{PID: 12, TID: 12, Comm: "runc"}, FormerTID: 14, Path: "/proc/self/exe", Name: "runc", Args: []string{"runc", "", "init"}},
	{Time: 6, Kind: Exec, Thread: Thread{PID: 12, TID: 12}, FormerTID: 12, Path: "/a", Name: "a", Args: []string{"a", "long"}, ArgsCut: true},
	{Time: 6, Kind: Exec, Thread: Thread{PID: 12, TID: 12}, FormerTID: 12, Path: "/a", Name: "a"},
	{Time: 7, Kind: Exit, Thread: Thread{PID: 12, TID: 12, Comm: "sixteen bytes in"[:15]}, LastThread: true},
	{Time: 8, Kind: Switch, Thread: Thread{PID: 2, TID: 9, Comm: "kworker/0:1", Kernel: true}, Other: Thread{Comm: "swapper/0", Kernel: true}, State: 2, Stack: []uint64{1 << 63, 2}},
	{Time: 9, Kind: Wake, Thread: Thread{Comm: "swapper/0", Kernel: true}, Other: Thread{PID: 4, TID: 5}, Context: Interrupt | Timer, Stack: []uint64{3}},
	{Time: 10, Kind: Wake, Thread: Thread{PID: 1, TID: 1}, Other: Thread{PID: 4, TID: 5}, Newborn: true},
}

func TestDecode(t *testing.T) {
	for _, want := range examples {
		got, err := decode(encode(want))
		if err != nil {
			t.Errorf("%+v: %v", want, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("decoded (-want +got):\n%s", diff)
		}
	}
}

func TestDecodeRefusesWhatIsNoEvent(t *testing.T) {
	exec := encode(examples[1])
	for what, b := range map[string][]byte{
		"nothing":        nil,
		"a cut head":     exec[:headSize-1],
		"a cut exec":     exec[:execSize-1],
		"a cut stack":    encode(examples[5])[:headSize+9],
		"no known kind":  make([]byte, headSize),
		"an unborn kind": append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 200}, make([]byte, headSize)...),
	} {
		var malformed *Malformed
		if _, err := decode(b); !errors.As(err, &malformed) {
			t.Errorf("%s: %v, want a *Malformed", what, err)
		}
	}
}

func TestArgumentsThatFillTheirRoomAreCut(t *testing.T) {
	e := Event{Time: time.Second, Kind: Exec, Thread: Thread{PID: 1, TID: 1}, FormerTID: 1, Args: []string{string(bytes.Repeat([]byte{'x'}, argsSize-1))}}
	got, err := decode(encode(e))
	if err != nil || !got.ArgsCut || !slices.Equal(got.Args, e.Args) {
		t.Errorf("arguments of just %d bytes: cut is %t, %v; that there are no more is not known", argsSize, got.ArgsCut, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, e := range examples {
		f.Add(encode(e))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decode(b)
		if err != nil {
			return
		}
		// What was understood can be said again, and is then the same.
		again, err := decode(encode(e))
		if err != nil {
			t.Fatalf("%+v encoded is refused: %v", e, err)
		}
		if e.Kind == Exec && len(e.Args) == 0 && e.ArgsCut {
			t.Fatal("no arguments, and cut")
		}
		if diff := cmp.Diff(e, again); diff != "" && !(e.Kind == Exec && e.ArgsCut) {
			t.Errorf("(-first +second):\n%s", diff)
		}
	})
}
