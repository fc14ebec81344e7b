package monitor

import (
	"encoding/binary"
	"fmt"
	"time"

	"tare/annex"
)

// What is told, as bpf/monitor.c has it.
const (
	kindFault = 1 + iota
	kindWoke
	kindForked
	kindExecuted
	kindEnded
	kindJoined
)

const (
	flagWritten = 1
	flagNew     = 2
)

// recordSize is that of struct record.
const recordSize = 40

// tick is a clock tick of /proc, in nanoseconds: USER_HZ is 100 on x86.
const tick = uint64(time.Second / 100)

// record is one thing that the programs tell.
type record struct {
	at     annex.Moment
	value  uint64
	space  annex.Space
	number uint32
	kind   uint32
	flags  uint32
}

func decode(b []byte) (record, error) {
	if len(b) < recordSize {
		return record{}, fmt.Errorf("a record of %d bytes, want %d", len(b), recordSize)
	}
	word := binary.LittleEndian.Uint64
	half := binary.LittleEndian.Uint32
	r := record{
		at: annex.Moment(word(b)), value: word(b[8:]),
		// The kernel rounds down too, where it tells a process' start.
		space:  annex.Space{PID: int32(half(b[24:])), Started: word(b[16:]) / tick},
		number: half(b[28:]), kind: half(b[32:]), flags: half(b[36:]),
	}
	if r.kind < kindFault || r.kind > kindJoined {
		return record{}, fmt.Errorf("a record of kind %d", r.kind)
	}
	return r, nil
}

// add takes a record of a container into batches, but for that it woke.
func (b *batches) add(id annex.ID, r record) {
	switch r.kind {
	case kindFault:
		b.fault(annex.Fault{
			ID: id, Space: r.space, Page: annex.Page(r.value), At: r.at,
			Write: r.flags&flagWritten != 0, Swapped: r.flags&flagNew == 0,
		})
	case kindForked, kindExecuted, kindEnded, kindJoined:
		b.process(Process{ID: id, Space: r.space, What: Step(r.kind - kindForked), At: r.at})
	}
}
