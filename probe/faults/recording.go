package faults

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"tare/kernel/procfs"
)

// Count is how many faults one target took, by type. It is exact where the
// recording's types are known, whatever records were lost.
type Count struct {
	User, Kernel [Types]uint64
}

// Of is the faults of one type, the kernel's among them.
func (c Count) Of(t Type) uint64 { return c.User[t] + c.Kernel[t] }

// Total is all of them.
func (c Count) Total() (n uint64) {
	for t := range Types {
		n += c.Of(t)
	}
	return n
}

// Add adds another's.
func (c *Count) Add(d Count) {
	for t := range Types {
		c.User[t] += d.User[t]
		c.Kernel[t] += d.Kernel[t]
	}
}

// Served is what the kernel itself counted of the threads that were seen to
// fault: its minor and major faults, as getrusage reports them. It counts what it served, so
// no refused and hardly a spurious fault, and adds what it brought in for itself by
// walking the tables, which raises no exception.
type Served struct{ Minor, Major uint64 }

// Execution is a process of a target that executed a program. What a container's
// process faults before its last is the runtime's own.
type Execution struct {
	At      time.Duration
	PID     int32
	Target  int32
	Command string // the kernel's name for the process, of 15 bytes at most
}

// File names a file as Mapping does.
type File struct{ Device, Inode uint64 }

// Known says what a back end can know.
type Known struct {
	Types   bool // the type of each fault, and what comes of it
	Kernel  bool // faults that the kernel took apart from the program's
	Records bool // each fault on its own
}

// Recording is what was recorded.
type Recording struct {
	Backend string // "page-fault tracepoints" or "perf events"
	Targets []Target
	// Counts is how many faults there were, by target.
	Counts []Count
	// Served is the kernel's own count, by target.
	Served   []Served
	Executed []Execution // in order of time
	From, To time.Duration
	Known    Known

	// Lost counts faults that are in Counts and of which there is no record, since
	// the reader was too slow; Dropped those beyond what was to be kept.
	Lost, Dropped uint64
	// Missed counts faults that are nowhere: taken while a program of ours ran.
	Missed uint64
	// Unsettled counts faults that are Untyped.
	Unsettled uint64
	// LostEvents counts executions and ends of threads that were not seen, or of which
	// there were more than are kept.
	LostEvents uint64
	// Unplaced counts control groups that appeared when there was no room for
	// another target: their faults are not in Counts.
	Unplaced uint64

	recorded uint64
	given    int // how many of Targets did not appear
	streams  []*stream
	of       []int32 // the target of each number that the programs used
	files    map[File]string
}

// Path is where a file lies in its file system, as far as it is known: "/usr/lib/libc.so.6";
// below overlayfs within the layer's own. Of a deep path the first parts are missing.
func (r *Recording) Path(f File) string { return r.files[f] }

// Records is how many faults [Recording.All] gives.
func (r *Recording) Records() uint64 { return r.recorded }

// All gives every fault of which there is a record, in order of time.
func (r *Recording) All() iter.Seq[Fault] {
	return func(yield func(Fault) bool) {
		for at := range r.merged() {
			if !yield(at.raw.fault) {
				return
			}
		}
	}
}

// located is a record and where it stands.
type located struct {
	raw    raw
	stream *stream
	index  int
}

// merged gives the records of all streams in order of time.
func (r *Recording) merged() iter.Seq[located] {
	return func(yield func(located) bool) {
		var heads []located
		for _, s := range r.streams {
			h := located{stream: s, index: -1}
			if h.next() {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			first := 0
			for i := range heads {
				if heads[i].raw.fault.At < heads[first].raw.fault.At {
					first = i
				}
			}
			at := heads[first]
			at.raw.fault.Target = r.target(at.raw.fault.Target)
			if !yield(at) {
				return
			}
			if !heads[first].next() {
				heads = slices.Delete(heads, first, first+1)
			}
		}
	}
}

// next goes on to the next fault of the stream.
func (l *located) next() bool {
	for l.index++; l.index < l.stream.n; l.index++ {
		var ok bool
		if l.raw, ok = l.stream.fault(l.index); ok {
			return true
		}
	}
	return false
}

func (r *Recording) target(number int32) int32 {
	if int(number) < len(r.of) {
		return r.of[number]
	}
	return -1
}

// thread is what is known of one while the records are gone through.
type thread struct {
	target int32
	last   located // its last fault
	// The kernel's counts before its first fault and at the latest moment.
	firstMinor, firstMajor uint32
	minor, major           uint32
}

// settle goes through the records once, and finds from a thread's counts at
// its next fault, or its end, what became of each.
func (r *Recording) settle(events []event) {
	r.Served = make([]Served, len(r.Targets))
	for _, s := range r.streams {
		s.notes = make([]note, s.n)
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	threads := map[int32]*thread{}
	until := func(at time.Duration) {
		for len(events) > 0 && events[0].at < at {
			r.happened(events[0], threads)
			events = events[1:]
		}
	}
	for l := range r.merged() {
		r.recorded++
		f := &l.raw.fault
		until(f.At)
		t := threads[f.Thread]
		if t == nil || t.target != f.Target {
			if t != nil {
				r.end(t)
			}
			t = &thread{target: f.Target, firstMinor: l.raw.minors, firstMajor: l.raw.majors}
			threads[f.Thread] = t
		} else {
			t.reach(l.raw.minors, l.raw.majors)
		}
		t.last, t.minor, t.major = l, l.raw.minors, l.raw.majors
	}
	until(math.MaxInt64)
	for tid, t := range threads {
		// It lives, or its end was not seen.
		stat, err := readThreadFaults(t.last.raw.fault.PID, tid)
		if err == nil {
			t.reach(uint32(stat.minor), uint32(stat.major))
		}
		r.end(t)
	}
}

func (r *Recording) happened(e event, threads map[int32]*thread) {
	target := r.target(e.target)
	if target < 0 {
		return
	}
	switch e.kind {
	case eventExec:
		r.Executed = append(r.Executed, Execution{At: e.at, PID: e.pid, Target: target, Command: e.comm})
	case eventExit:
		t := threads[e.tid]
		if t == nil {
			return
		}
		t.reach(uint32(e.minors), uint32(e.majors))
		r.end(t)
		delete(threads, e.tid)
	}
}

// reach notes what became of the thread's last fault, by the counts after it.
func (t *thread) reach(minor, major uint32) {
	s := t.last.stream
	minors, majors := minor-t.minor, major-t.major
	switch {
	case majors == 0:
		s.notes[t.last.index] = noteKnown
	case minors == 0:
		s.notes[t.last.index] = noteKnown | noteMajor
		// Else the kernel has brought in more pages than this one.
	}
	t.minor, t.major = minor, major
}

// end adds up what the kernel counted.
func (r *Recording) end(t *thread) {
	if t.target < 0 {
		return
	}
	r.Served[t.target].Minor += uint64(t.minor - t.firstMinor)
	r.Served[t.target].Major += uint64(t.major - t.firstMajor)
}

// count reads the programs' counts.
func (r *Recorder) count(of []int32, targets int) ([]Count, error) {
	counts := make([]Count, targets)
	b := make([]byte, factCount*8)
	for cpu := range r.cpus {
		for number, target := range of {
			if target < 0 {
				continue
			}
			if _, err := r.counts.ReadAt(b, int64(cpu*r.raw+number)*int64(len(b))); err != nil {
				return nil, fmt.Errorf("read the counts of faults: %w", err)
			}
			for f := range facts(factCount) {
				n := binary.LittleEndian.Uint64(b[f*8:])
				if f&factKernel != 0 {
					counts[target].Kernel[f.typ()] += n
				} else {
					counts[target].User[f.typ()] += n
				}
			}
		}
	}
	return counts, nil
}

// threadFaults is what the kernel has counted of a thread since it began.
type threadFaults struct{ minor, major uint64 }

func readThreadFaults(pid, tid int32) (threadFaults, error) {
	process := procfs.Host.Process(int(pid))
	return openThreadFaults(process.Path(fmt.Sprintf("task/%d/stat", tid)))
}
