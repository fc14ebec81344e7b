package perfevent

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Format is how the records of one [Sampler] are laid out. The zero Format has
// no fields.
type Format struct {
	SampleType uint64 // PERF_SAMPLE_ bits
}

// What records are, and marks in their headers, that package unix does not name.
const (
	recordLostSamples = 13
	recordCgroup      = 19

	miscCommExec    = 1 << 13
	miscMmapBuildID = 1 << 14
)

// Markers among the addresses of a call chain: from here on they are of that
// side. All lie within the last page of the address space.
const (
	contextKernel = ^uint64(128) + 1
	contextUser   = ^uint64(512) + 1
	contextMax    = ^uint64(4095) + 1
)

const headerSize = 8 // struct perf_event_header: u32 type, u16 misc, u16 size

// Malformed says that bytes are no record.
type Malformed struct {
	Type uint32 // PERF_RECORD_
	Why  string
}

func (m *Malformed) Error() string {
	return fmt.Sprintf("perf record of type %d: %s", m.Type, m.Why)
}

// Decode decodes the first record of b and says how many bytes it has. A record
// of a kind that this package does not know is nil. An error with a size of 0
// means that nothing behind can be found either. What is decoded holds no
// reference to b.
func (f Format) Decode(b []byte) (r Record, size int, err error) {
	if len(b) < headerSize {
		return nil, 0, &Malformed{0, "shorter than a header"}
	}
	kind, misc := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint16(b[4:])
	size = int(binary.NativeEndian.Uint16(b[6:]))
	if size < headerSize || size > len(b) {
		return nil, 0, &Malformed{kind, fmt.Sprintf("it is said to have %d of %d bytes", size, len(b))}
	}
	d := &decoder{b: b[headerSize:size]}
	if kind == unix.PERF_RECORD_SAMPLE {
		r = f.sample(d)
	} else {
		id := f.trailer(d)
		r = body(kind, misc, id, d)
	}
	if d.short {
		return nil, size, &Malformed{kind, fmt.Sprintf("%d bytes do not hold its fields", size)}
	}
	return r, size, nil
}

func body(kind uint32, misc uint16, id ID, d *decoder) Record {
	switch kind {
	case unix.PERF_RECORD_MMAP2:
		return mapping(misc, id, d)
	case unix.PERF_RECORD_COMM:
		id.PID, id.TID = d.pid(), d.pid()
		return &Comm{ID: id, Name: d.text(), Exec: misc&miscCommExec != 0}
	case unix.PERF_RECORD_FORK, unix.PERF_RECORD_EXIT:
		t := &Task{ID: id, Exit: kind == unix.PERF_RECORD_EXIT}
		// Written as pid, ppid, tid, ptid.
		t.PID, t.Parent = d.pid(), d.pid()
		t.TID, t.ParentTID = d.pid(), d.pid()
		t.Time = d.time()
		return t
	case unix.PERF_RECORD_LOST:
		d.u64() // the event's id
		return &Lost{ID: id, Count: d.u64()}
	case recordLostSamples:
		return &Lost{ID: id, Count: d.u64()}
	case unix.PERF_RECORD_THROTTLE, unix.PERF_RECORD_UNTHROTTLE:
		id.Time = d.time()
		return &Throttle{ID: id, Ends: kind == unix.PERF_RECORD_UNTHROTTLE}
	case recordCgroup:
		return &Cgroup{ID: id, Cgroup: d.u64(), Path: d.text()}
	}
	return nil
}

func mapping(misc uint16, id ID, d *decoder) *Mapping {
	m := &Mapping{ID: id}
	m.PID, m.TID = d.pid(), d.pid()
	m.Address, m.Length, m.Offset = d.u64(), d.u64(), d.u64()
	// Device and inode, or in their place the build id with its length before.
	file := d.bytes(24)
	d.u64() // protection and flags
	m.File = d.text()
	if misc&miscMmapBuildID != 0 && len(file) == 24 && file[0] > 0 && file[0] <= 20 {
		m.BuildID = bytes.Clone(file[4 : 4+file[0]])
	}
	return m
}

// sample reads the fields in the order of perf_output_sample.
func (f Format) sample(d *decoder) *Sample {
	s := &Sample{}
	has := func(bit uint64) bool { return f.SampleType&bit != 0 }
	if has(unix.PERF_SAMPLE_IP) {
		s.IP = d.u64()
	}
	if has(unix.PERF_SAMPLE_TID) {
		s.PID, s.TID = d.pid(), d.pid()
	}
	if has(unix.PERF_SAMPLE_TIME) {
		s.Time = d.time()
	}
	if has(unix.PERF_SAMPLE_CPU) {
		s.CPU = d.pid()
		d.u32() // reserved
	}
	if has(unix.PERF_SAMPLE_PERIOD) {
		s.Period = d.time()
	}
	if has(unix.PERF_SAMPLE_CALLCHAIN) {
		s.Kernel, s.User = d.chain()
	}
	if has(unix.PERF_SAMPLE_CGROUP) {
		s.Cgroup = d.u64()
	}
	return s
}

// trailer takes the identity off a record's end, which is there since
// sample_id_all is asked for.
func (f Format) trailer(d *decoder) ID {
	size := 0
	for _, bit := range []uint64{unix.PERF_SAMPLE_TID, unix.PERF_SAMPLE_TIME, unix.PERF_SAMPLE_CPU} {
		if f.SampleType&bit != 0 {
			size += 8
		}
	}
	if len(d.b) < size {
		d.short = true
		return ID{}
	}
	t := &decoder{b: d.b[len(d.b)-size:]}
	d.b = d.b[:len(d.b)-size]
	var id ID
	if f.SampleType&unix.PERF_SAMPLE_TID != 0 {
		id.PID, id.TID = t.pid(), t.pid()
	}
	if f.SampleType&unix.PERF_SAMPLE_TIME != 0 {
		id.Time = t.time()
	}
	if f.SampleType&unix.PERF_SAMPLE_CPU != 0 {
		id.CPU = t.pid()
	}
	return id
}

// decoder takes fields off bytes. After the first that is not there it is
// short, and gives zeros.
type decoder struct {
	b     []byte
	short bool
}

func (d *decoder) bytes(n int) []byte {
	if d.short || len(d.b) < n {
		d.short = true
		return nil
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) u64() uint64 {
	if b := d.bytes(8); b != nil {
		return binary.NativeEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if b := d.bytes(4); b != nil {
		return binary.NativeEndian.Uint32(b)
	}
	return 0
}

// pid is signed: a task outside of our pid namespace is -1.
func (d *decoder) pid() int { return int(int32(d.u32())) }

func (d *decoder) time() time.Duration { return time.Duration(d.u64()) }

// text ends at the first zero byte; the kernel pads to eight.
func (d *decoder) text() string {
	s, _, _ := bytes.Cut(d.b, []byte{0})
	d.b = nil
	return string(s)
}

// chain parts a call chain into its sides. Addresses before the first marker,
// and of sides that are neither (a guest's, a hypervisor's), are left out.
func (d *decoder) chain() (kernel, user []uint64) {
	n := d.u64()
	if n > uint64(len(d.b)/8) {
		d.short = true
		return nil, nil
	}
	var side *[]uint64
	for range n {
		switch address := d.u64(); {
		case address == contextKernel:
			side = &kernel
		case address == contextUser:
			side = &user
		case address >= contextMax:
			side = nil
		case side != nil:
			*side = append(*side, address)
		}
	}
	return kernel, user
}
