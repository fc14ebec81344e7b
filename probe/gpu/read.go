package gpu

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/kernel/file"
)

// The format, as docs/gpu-trace.md has it.
const (
	magic         = "TAREGPU"
	version       = 1
	headerBytes   = 4096
	chunkBytes    = 1 << 16
	chunkMagic    = 0x4b4e4843
	chunkHead     = 16
	recordHead    = 8
	lossesAt      = 80
	lostCallsAt   = 512
	lostCallsMost = 224
	// endedAtOnce is that nothing was collected at the end.
	endedAtOnce = 2
)

// What is read at most: the programs that are measured can write anything where their traces are, and what is read
// takes more memory than its bytes.
const (
	defaultRoom = 256 // MiB of a trace, where nothing else was asked for
	mostFull    = 4   // so many full traces may a directory's be together
	mostFiles   = 256
	mostLines   = 256 // complaints, and devices, of a trace: each is looked for among the others
)

// mostOf is how long a trace may be for which so many MiB were asked; 0 is the default.
func mostOf(room int) int64 { return headerBytes + int64(or(max(0, room), defaultRoom))<<20 }

// Suffix is what the names of the files end with.
const Suffix = ".gputrace"

const (
	recordCall = 1 + iota
	recordName
	recordWork
	recordJIT
	recordOverhead
	recordModule
	recordClock
	recordDevice
)

const clockIsCUPTI = 0x80

const (
	nameCall = 1 + iota
	nameFunction
	nameProgram
	nameArguments
	nameComplaint
	nameFact
	nameDevice
)

// sizes are the least bytes of each record.
var sizes = map[byte]int{
	recordCall:     48,
	recordName:     16,
	recordWork:     56,
	recordJIT:      48,
	recordOverhead: 32,
	recordModule:   48,
	recordClock:    32,
	recordDevice:   48,
}

var (
	methods  = map[uint32]Method{0: None, 1: CUPTI, 2: Interposition}
	memories = map[byte]Memory{
		1: Pageable,
		2: Pinned,
		3: DeviceMemory,
		4: Array,
		5: Managed,
		6: DeviceMemory,
		7: Managed,
	}
	directions = map[byte]Direction{
		1:  HostToDevice,
		2:  DeviceToHost,
		3:  HostToArray,
		4:  ArrayToHost,
		5:  ArrayToArray,
		6:  ArrayToDevice,
		7:  DeviceToArray,
		8:  DeviceToDevice,
		9:  HostToHost,
		10: PeerToPeer,
	}
	workKinds = map[byte]WorkKind{1: Kernel, 2: Copy, 3: Set, 4: Graph}
	jitKinds  = map[uint32]JITKind{1: CacheLoad, 2: CacheStore, 3: Compile}
	forms     = map[byte]Form{1: Cubin, 2: PTX, 3: Fat}
	// CUPTI's numbers of kinds of overhead.
	overheads = map[uint32]string{
		1: "driver compiler", 1 << 16: "cupti: flushing buffers", 2 << 16: "cupti: instrumentation", 3 << 16: "cupti: resources",
		4 << 16: "loading of modules by the runtime", 5 << 16: "lazy loading of a function", 6 << 16: "command buffer full",
		7 << 16: "cupti: request of a buffer", 8 << 16: "cupti: start for unified memory",
	}
)

// clock is a moment by CUPTI's clock and by the host's.
type clock struct{ other, mono int64 }

// reader is what is known while a trace is read: names come after what they name.
type reader struct {
	t         *Trace
	calls     map[uint32]string
	functions map[uint32]string
	devices   map[uint32]string
	clocks    []clock
	callIDs   []uint32 // of t.Calls
	workIDs   []uint32 // of t.Work
	converted struct{ calls, work, jit, overheads []bool }
	losses    map[uint32]LostCalls
}

// Read reads the trace of one process, as far as it is no longer than one may be for which
// nothing else was asked. A file that ends early, as that of a process
// that was killed may, is good as far as it goes; the error is that it is no trace, is
// of another version, or is damaged.
func Read(from io.Reader) (*Trace, error) {
	t, _, err := read(from, mostOf(0))
	return t, err
}

// read is Read of so many bytes at the most. It gives how many it took.
func read(from io.Reader, most int64) (t *Trace, took int64, err error) {
	// One more is read, that the trace is known to be cut.
	limited := &io.LimitedReader{R: from, N: most + 1}
	t, err = parse(bufio.NewReaderSize(limited, chunkBytes))
	return t, most + 1 - limited.N, err
}

func parse(in *bufio.Reader) (*Trace, error) {
	head := make([]byte, headerBytes)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, fmt.Errorf("no trace of a GPU: its head is cut: %w", err)
	}
	if string(head[:len(magic)]) != magic {
		return nil, errors.New("no trace of a GPU: it begins with other bytes")
	}
	if head[len(magic)] != version {
		return nil, fmt.Errorf("a trace of a GPU of version %d, and only %d is known: read it with the tare that made it", head[len(magic)], version)
	}
	r := &reader{
		t:         &Trace{},
		calls:     map[uint32]string{},
		functions: map[uint32]string{},
		devices:   map[uint32]string{},
		losses:    map[uint32]LostCalls{},
	}
	chunks, err := r.head(head)
	if err != nil {
		return nil, err
	}
	chunk := make([]byte, chunkBytes)
	for n := uint64(0); ; n++ {
		got, err := io.ReadFull(in, chunk)
		if errors.Is(err, io.EOF) {
			r.t.Cut = n < chunks
			break
		}
		cut := errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !cut {
			return nil, err
		}
		if err := r.chunk(chunk[:got]); err != nil {
			return nil, fmt.Errorf("a damaged trace of a GPU: chunk %d: %w", n, err)
		}
		if cut {
			r.t.Cut = true
			break
		}
	}
	r.finish()
	return r.t, nil
}

// head takes the file's, and gives how many chunks it says there are.
func (r *reader) head(b []byte) (chunks uint64, err error) {
	le := binary.LittleEndian
	if le.Uint32(b[8:]) != headerBytes || le.Uint32(b[12:]) != chunkBytes {
		return 0, fmt.Errorf("a damaged trace of a GPU: a head of %d bytes and chunks of %d, and %d and %d are known", le.Uint32(b[8:]), le.Uint32(b[12:]), headerBytes, chunkBytes)
	}
	t := r.t
	t.PID, t.Parent = int(le.Uint32(b[16:])), int(le.Uint32(b[20:]))
	t.Began = nanoseconds(le.Uint64(b[24:]))
	t.RealTime = time.Unix(0, int64(min(le.Uint64(b[32:]), 1<<63-1))).UTC()
	chunks = min(le.Uint64(b[48:]), le.Uint64(b[40:]))
	ended := le.Uint32(b[56:])
	if ended != 0 {
		t.Ended = nanoseconds(le.Uint64(b[64:]))
	}
	var ok bool
	if t.Method, ok = methods[le.Uint32(b[60:])]; !ok {
		return 0, fmt.Errorf("a damaged trace of a GPU: there is no method %d", le.Uint32(b[60:]))
	}
	t.Sample = int(le.Uint32(b[72:]))
	if ended == endedAtOnce && t.Method == CUPTI {
		t.Complaints = append(t.Complaints, "the process ended by _exit: what CUPTI had not handed over is missing, of a second at the most")
	}
	loss := func(i int) int64 { return int64(min(le.Uint64(b[lossesAt+8*i:]), 1<<62)) }
	t.Lost = Lost{
		Calls:      loss(0),
		CallsTime:  time.Duration(loss(1)),
		Work:       loss(2),
		WorkTime:   time.Duration(loss(3)),
		Other:      loss(4),
		Sampled:    loss(5),
		Full:       loss(6),
		Capture:    loss(7),
		Failed:     loss(8),
		Unfinished: loss(9),
		Dropped:    loss(10),
		Unknown:    loss(11),
		Versions:   loss(12),
	}
	for id := range uint32(lostCallsMost) {
		at := b[lostCallsAt+16*id:]
		if n := le.Uint64(at); n > 0 {
			r.losses[id] = LostCalls{Count: int64(min(n, 1<<62)), Time: nanoseconds(le.Uint64(at[8:]))}
		}
	}
	return chunks, nil
}

// nanoseconds keeps within what a duration can hold.
func nanoseconds(n uint64) time.Duration { return time.Duration(min(n, 1<<62)) }

func (r *reader) chunk(b []byte) error {
	le := binary.LittleEndian
	if len(b) < chunkHead {
		return nil // cut
	}
	switch le.Uint32(b) {
	case chunkMagic:
	case 0: // claimed, and nothing was written
		return nil
	default:
		return errors.New("it begins with other bytes")
	}
	used := le.Uint64(b[8:])
	if used < chunkHead || used > chunkBytes {
		return fmt.Errorf("%d of its %d bytes are said to be used", used, chunkBytes)
	}
	b = b[chunkHead:min(int(used), len(b))]
	for at := 0; len(b) >= recordHead; {
		size := int(le.Uint16(b[2:]))
		least, known := sizes[b[0]]
		switch {
		case !known:
			return fmt.Errorf("at byte %d is a record of kind %d, which there is not", at+chunkHead, b[0])
		case size < least || size%8 != 0:
			return fmt.Errorf("at byte %d is a record of kind %d with %d bytes", at+chunkHead, b[0], size)
		case size > len(b):
			if r.t.Cut = true; used < chunkBytes && len(b)+at+chunkHead >= int(used) {
				return fmt.Errorf("at byte %d is a record with %d bytes, which is more than there are", at+chunkHead, size)
			}
			return nil
		}
		if err := r.record(b[:size]); err != nil {
			return fmt.Errorf("at byte %d: %w", at+chunkHead, err)
		}
		b, at = b[size:], at+size
	}
	return nil
}

func (r *reader) record(b []byte) error {
	le := binary.LittleEndian
	t, flags, id := r.t, b[1], le.Uint32(b[4:])
	start, took := nanoseconds(le.Uint64(b[8:])), time.Duration(0)
	if len(b) >= 24 {
		took = nanoseconds(le.Uint64(b[16:]))
	}
	byCUPTI := flags&clockIsCUPTI != 0
	switch b[0] {
	case recordCall:
		c := Call{
			Start: start, Took: took, Bytes: -1, Correlation: le.Uint32(b[32:]), Status: int(int32(le.Uint32(b[36:]))),
			Thread: int(le.Uint32(b[40:])), First: flags&2 != 0, Outer: true,
		}
		if flags&1 != 0 {
			c.Bytes = int64(nanoseconds(le.Uint64(b[24:])))
		}
		t.Calls = append(t.Calls, c)
		r.callIDs = append(r.callIDs, id)
		r.converted.calls = append(r.converted.calls, byCUPTI)
	case recordName:
		length := int(le.Uint32(b[12:]))
		if length > len(b)-16 {
			return fmt.Errorf("a name of %d bytes in a record of %d", length, len(b))
		}
		r.name(le.Uint32(b[8:]), id, string(b[16:16+length]))
	case recordWork:
		kind, ok := workKinds[b[48]]
		if !ok {
			return fmt.Errorf("there is no work of kind %d", b[48])
		}
		w := Work{
			Kind:        kind,
			Start:       start,
			Took:        took,
			Bytes:       int64(nanoseconds(le.Uint64(b[24:]))),
			Correlation: le.Uint32(b[32:]),
			Device:      int(int32(le.Uint32(b[36:]))),
			Context:     int(le.Uint32(b[40:])),
			Stream:      int(le.Uint32(b[44:])),
			Direction:   or(directions[b[49]], UnknownDirection),
			From:        or(memories[b[50]], UnknownMemory),
			To:          or(memories[b[51]], UnknownMemory),
			Thread:      int(le.Uint32(b[52:])),
			Async:       flags&4 != 0,
		}
		switch {
		case byCUPTI:
			w.Timing = ByCUPTI
		case flags&2 != 0:
			w.Timing = ByCall
		default:
			w.Timing = ByEvents
		}
		t.Work = append(t.Work, w)
		r.workIDs = append(r.workIDs, id)
		r.converted.work = append(r.converted.work, byCUPTI)
	case recordJIT:
		kind, ok := jitKinds[id]
		if !ok {
			t.Lost.Unknown++
			return nil
		}
		t.JIT = append(t.JIT, JIT{
			Kind: kind, Start: start, Took: took, CacheBytes: int64(nanoseconds(le.Uint64(b[24:]))),
			Correlation: le.Uint32(b[32:]), Device: int(int32(le.Uint32(b[36:]))),
		})
		r.converted.jit = append(r.converted.jit, byCUPTI)
	case recordOverhead:
		kind, ok := overheads[id]
		if !ok {
			kind = "cupti: kind " + strconv.Itoa(int(id))
		}
		t.Overheads = append(
			t.Overheads,
			Overhead{Kind: kind, Start: start, Took: took, Thread: int(le.Uint32(b[24:]))},
		)
		r.converted.overheads = append(r.converted.overheads, byCUPTI)
	case recordModule:
		m := Module{
			Form: or(forms[b[32]], UnknownForm), Start: start, Took: took, Bytes: int64(nanoseconds(le.Uint64(b[24:]))),
			Cubins: int(le.Uint16(b[34:])), PTX: int(le.Uint16(b[36:])), Arch: int(le.Uint16(b[38:])),
			Thread: int(le.Uint32(b[40:])), Status: int(int32(le.Uint32(b[44:]))),
		}
		if b[33] == 1 || b[33] == 2 {
			compiles := b[33] == 2
			m.Compiles = &compiles
		}
		t.Modules = append(t.Modules, m)
	case recordClock:
		if byCUPTI {
			before, after := int64(took), int64(nanoseconds(le.Uint64(b[24:])))
			r.clocks = append(r.clocks, clock{int64(start), before + (after-before)/2})
		}
	case recordDevice:
		if len(t.Devices) == mostLines {
			return nil
		}
		u := b[24:40]
		t.Devices = append(t.Devices, Device{
			Ordinal:         int(id),
			Major:           int(le.Uint32(b[8:])),
			Minor:           int(le.Uint32(b[12:])),
			Multiprocessors: int(le.Uint32(b[16:])),
			ComputeMode:     int(le.Uint32(b[20:])),
			UUID:            uuid(u),
			Memory:          int64(nanoseconds(le.Uint64(b[40:]))),
		})
	}
	return nil
}

func or[T comparable](v, otherwise T) T {
	var none T
	if v == none {
		return otherwise
	}
	return v
}

// uuid is as NVIDIA's tools write it; empty of zeros.
func uuid(b []byte) string {
	if !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) {
		return ""
	}
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

func (r *reader) name(space, id uint32, text string) {
	t := r.t
	switch space {
	case nameCall:
		r.calls[id] = text
	case nameFunction:
		r.functions[id] = text
	case nameProgram:
		t.Program = text
	case nameArguments:
		t.Arguments = strings.Split(strings.TrimRight(text, "\x00"), "\x00")
	case nameComplaint:
		if len(t.Complaints) < mostLines {
			t.Complaints = append(t.Complaints, text)
		}
	case nameDevice:
		r.devices[id] = text
	case nameFact:
		key, value, _ := strings.Cut(text, "=")
		switch key {
		case "driver":
			t.Driver, _ = strconv.Atoi(value)
		case "cupti":
			t.CUPTI, _ = strconv.Atoi(value)
		case "loading":
			t.Loading = value
		case "ptx-compiler":
			mapped := value == "mapped"
			t.Compiler = &mapped
		}
	}
}

// finish gives what was read its names and its moments.
func (r *reader) finish() {
	t := r.t
	for i := range t.Calls {
		t.Calls[i].Name = r.call(r.callIDs[i])
	}
	for i := range t.Work {
		t.Work[i].Name = r.functions[r.workIDs[i]]
	}
	for i, d := range t.Devices {
		t.Devices[i].Name = r.devices[uint32(d.Ordinal)]
	}
	for id, lost := range r.losses {
		if t.Lost.ByName == nil {
			t.Lost.ByName = map[string]LostCalls{}
		}
		name := r.call(id)
		sum := t.Lost.ByName[name]
		t.Lost.ByName[name] = LostCalls{sum.Count + lost.Count, sum.Time + lost.Time}
	}
	slices.SortFunc(r.clocks, func(a, b clock) int { return int(min(max(a.other-b.other, -1), 1)) })
	if len(r.clocks) == 0 && slices.Contains(slices.Concat(r.converted.calls, r.converted.work), true) {
		t.Complaints = append(t.Complaints, "the trace has no moment by CUPTI's clock and the host's: its moments are CUPTI's")
	}
	for i, convert := range r.converted.calls {
		if convert {
			t.Calls[i].Start = r.monotonic(t.Calls[i].Start)
		}
	}
	for i, convert := range r.converted.work {
		if convert {
			t.Work[i].Start = r.monotonic(t.Work[i].Start)
		}
	}
	for i, convert := range r.converted.jit {
		if convert {
			t.JIT[i].Start = r.monotonic(t.JIT[i].Start)
		}
	}
	for i, convert := range r.converted.overheads {
		if convert {
			t.Overheads[i].Start = r.monotonic(t.Overheads[i].Start)
		}
	}
	// Of two that begin together the longer is around the other.
	slices.SortStableFunc(t.Calls, func(a, b Call) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.Took, a.Took))
	})
	byStart(t.Work, func(w Work) time.Duration { return w.Start })
	byStart(t.JIT, func(j JIT) time.Duration { return j.Start })
	byStart(t.Overheads, func(o Overhead) time.Duration { return o.Start })
	byStart(t.Modules, func(m Module) time.Duration { return m.Start })
	nest(t.Calls)
}

// call gives a function's name without its version.
func (r *reader) call(id uint32) string {
	name, ok := r.calls[id]
	if !ok {
		return "call " + strconv.Itoa(int(id))
	}
	return unversioned(name)
}

// unversioned cuts off what distinguishes versions of a function: "_v2", "_v3020", "_ptds", "_ptsz".
func unversioned(name string) string {
	for {
		at := strings.LastIndexByte(name, '_')
		if at <= 0 {
			return name
		}
		end := name[at+1:]
		digits, isVersion := strings.CutPrefix(end, "v")
		if _, err := strconv.ParseUint(digits, 10, 32); end != "ptsz" && end != "ptds" && (!isVersion || err != nil) {
			return name
		}
		name = name[:at]
	}
}

// monotonic converts a moment of CUPTI's: between two that are known by both clocks in
// proportion, before the first and after the last as far from it.
func (r *reader) monotonic(at time.Duration) time.Duration {
	if len(r.clocks) == 0 {
		return at
	}
	n, _ := slices.BinarySearchFunc(
		r.clocks,
		int64(at),
		func(c clock, at int64) int { return int(min(max(c.other-at, -1), 1)) },
	)
	switch {
	case n == 0:
		return time.Duration(r.clocks[0].mono + int64(at) - r.clocks[0].other)
	case n == len(r.clocks):
		last := r.clocks[n-1]
		return time.Duration(last.mono + int64(at) - last.other)
	}
	a, b := r.clocks[n-1], r.clocks[n]
	if b.other == a.other {
		return time.Duration(b.mono)
	}
	return time.Duration(a.mono + int64(float64(int64(at)-a.other)*float64(b.mono-a.mono)/float64(b.other-a.other)))
}

// nest marks calls within others of the same thread. They are in the order of their starts.
func nest(calls []Call) {
	outer := map[int]time.Duration{} // when it ends
	for i := range calls {
		c := &calls[i]
		o, ok := outer[c.Thread]
		if ok && c.Start < o && c.Start+c.Took <= o {
			c.Outer = false
			continue
		}
		outer[c.Thread] = c.Start + c.Took
	}
}

// ReadFile is [Read] of a file.
func ReadFile(path string) (*Trace, error) {
	t, _, err := readFile(path, mostOf(0))
	return t, err
}

func readFile(path string, most int64) (t *Trace, took int64, err error) {
	// Programs in containers write in its directory: neither a link nor a pipe there is opened.
	pinned, err := file.PinEntry(filepath.Dir(path), filepath.Base(path))
	if err != nil {
		return nil, 0, err
	}
	defer pinned.Close()
	f, err := pinned.Open()
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if t, took, err = read(f, most); err != nil {
		return nil, took, fmt.Errorf("%s: %w", path, err)
	}
	return t, took, nil
}

// ReadDir reads the traces of a directory, by when they began. For each was asked for so much room
// ([Probe.Room]). What is wrong with some does not keep the others from being read: the error joins a line
// for each. Where they are too many, or too long together, the last is cut and says so.
func ReadDir(dir string, room int) ([]*Trace, error) {
	names, isWhole, err := traces(dir)
	if err != nil {
		return nil, err
	}
	var all []*Trace
	var wrong []error
	left := mostFull * mostOf(room)
	for i, name := range names {
		if i == mostFiles || left < headerBytes {
			isWhole = false
			break
		}
		t, took, err := readFile(filepath.Join(dir, name), min(left, mostOf(room)))
		left -= took
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		all = append(all, t)
	}
	byStart(all, func(t *Trace) time.Duration { return t.Began })
	if !isWhole {
		why := fmt.Sprintf("more traces are in %s than are read: %d, and %d MiB of them", dir, mostFiles, mostFull*mostOf(room)>>20)
		if len(all) == 0 {
			return nil, errors.Join(append(wrong, errors.New(why))...)
		}
		last := all[len(all)-1]
		last.Cut, last.Complaints = true, append(last.Complaints, why)
	}
	return all, errors.Join(wrong...)
}

// traces are the names of a directory's, in order, as far as those are all that are looked at.
func traces(dir string) (names []string, isWhole bool, err error) {
	const most = 16 * mostFiles
	d, err := os.Open(dir)
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	entries, err := d.ReadDir(most + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	for _, e := range entries[:min(most, len(entries))] {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), Suffix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, len(entries) <= most, nil
}
