package faults

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// The layout of bpf/faults.c, little-endian on every machine that the object is
// for.
const (
	recordSize = 64
	headSize   = 64
	eventSize  = 64
	partSize   = 128
	nameParts  = 16

	isMapping = 0xffff // in place of facts
)

// Malformed is the error for bytes that are no record.
type Malformed struct{ Why string }

func (m *Malformed) Error() string { return "malformed page-fault record: " + m.Why }

// raw is a fault's record before its mapping is looked up.
type raw struct {
	fault          Fault
	facts          facts
	mapping, code  uint32 // so many records back
	majors, minors uint32
}

// mappingRecord reports whether the record is one of a mapping, not of a fault.
func mappingRecord(b []byte) bool { return binary.LittleEndian.Uint16(b[44:]) == isMapping }

// decodeFault reads a fault's record, of recordSize bytes.
func decodeFault(b []byte) raw {
	le := binary.LittleEndian
	f := facts(le.Uint16(b[44:]))
	return raw{
		fault: Fault{
			At:      time.Duration(le.Uint64(b)),
			Address: le.Uint64(b[8:]),
			IP:      le.Uint64(b[16:]),
			Entry:   le.Uint64(b[24:]),
			PID:     int32(le.Uint32(b[32:])),
			Thread:  int32(le.Uint32(b[36:])),
			Target:  int32(le.Uint16(b[46:])),
			State:   f.state(),
			Level:   f.level(),
			Type:    f.typ(),
			Kernel:  f&factKernel != 0,
			Write:   f&factWrite != 0,
			Execute: f&factFetch != 0,
		},
		facts:   f,
		mapping: le.Uint32(b[40:]),
		majors:  le.Uint32(b[48:]),
		minors:  le.Uint32(b[52:]),
		code:    le.Uint32(b[56:]),
	}
}

// decodeMapping reads a mapping's record as it is at an address.
func decodeMapping(b []byte, address uint64) Mapping {
	le := binary.LittleEndian
	m := Mapping{
		Start:     le.Uint64(b),
		End:       le.Uint64(b[8:]),
		Flags:     le.Uint64(b[16:]),
		Inode:     le.Uint64(b[32:]),
		Device:    statDevice(le.Uint32(b[40:])),
		Anonymous: le.Uint16(b[46:]) != 0,
	}
	if !m.Anonymous && address >= m.Start {
		m.Page = le.Uint64(b[24:]) + (address-m.Start)/pageSize
	}
	return m
}

// statDevice turns the kernel's own number of a device into what stat gives.
func statDevice(device uint32) uint64 {
	major, minor := uint64(device>>20), uint64(device&0xfffff)
	return minor&0xff | major&0xfff<<8 | minor&^0xff<<12
}

// event is a process that executed a program, or a thread that ended.
type event struct {
	at             time.Duration
	kind           uint32
	pid, tid       int32
	target         int32
	last           bool
	comm           string
	majors, minors uint64
}

const (
	eventExec = 1
	eventExit = 2
)

func decodeEvent(b []byte) (event, error) {
	if len(b) < eventSize {
		return event{}, &Malformed{fmt.Sprintf("an event of %d bytes, want %d", len(b), eventSize)}
	}
	le := binary.LittleEndian
	e := event{
		at:     time.Duration(le.Uint64(b)),
		majors: le.Uint64(b[8:]),
		minors: le.Uint64(b[16:]),
		pid:    int32(le.Uint32(b[24:])),
		tid:    int32(le.Uint32(b[28:])),
		kind:   le.Uint32(b[32:]),
		target: int32(le.Uint32(b[36:])),
		last:   le.Uint32(b[40:]) != 0,
		comm:   text(b[48:64]),
	}
	if e.kind != eventExec && e.kind != eventExit {
		return event{}, &Malformed{fmt.Sprintf("an event of kind %d", e.kind)}
	}
	return e, nil
}

// decodePath puts a file's path together, of which the last part comes first. It
// starts where its file system does.
func decodePath(b []byte) string {
	var parts []string
	for ; len(b) >= partSize && len(parts) < nameParts; b = b[partSize:] {
		part := text(b[:partSize])
		if part == "" || part == "/" {
			break
		}
		parts = append(parts, part)
	}
	var path strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		path.WriteByte('/')
		path.WriteString(parts[i])
	}
	return path.String()
}

// text is what stands before the first NUL.
func text(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
}
