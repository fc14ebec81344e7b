package sched

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/ringbuf"

	"tare/kernel/procfs"
)

const (
	// recordingRing is the room for events that the reader has not come to yet,
	// in bytes: a second of 200,000 events.
	recordingRing = 32 << 20
	// recordingLimit bounds what is kept, in bytes: some 400,000 events, where a
	// start has some ten thousand; in memory they take several times that. What
	// comes after is counted as lost.
	recordingLimit = 64 << 20
	// readAt is how full the ring is when its reader is woken: woken for each
	// event it would be half of what it sees.
	readAt = recordingRing / 8
)

// recordingPrograms are the programs of a recording. Those that record in which
// context a CPU is come first: a waking seen before them would be taken for a
// thread's. And of them those that record the end: a handler whose end is not
// seen would seem to go on until the next one, which may be long.
var recordingPrograms = []string{
	objectProgOnIrqHandlerExit, objectProgOnSoftirqExit, objectProgOnHrtimerExpireExit,
	objectProgOnIrqHandlerEntry, objectProgOnSoftirqEntry, objectProgOnHrtimerExpireEntry,
	objectProgProcessFork, objectProgProcessExec, objectProgProcessExit,
	objectProgOnWakeupNew, objectProgOnWaking, objectProgOnSwitch,
}

// Recorder takes down every switch and waking of the host. It slows what it
// observes (by microseconds a switch), so it is for one start at a time and not
// for figures that are compared.
type Recorder struct {
	attachment *attachment
	reader     *ringbuf.Reader
	began      time.Duration
	processes  *Processes

	read    chan struct{} // closed when the reader has ended
	readErr error
	raw     []byte // records, one after the other
	ends    []int  // where each ends
	dropped uint64 // for want of room in raw
}

// Recording is what happened between two moments, in the order of time.
type Recording struct {
	Began, Ended time.Duration
	Events       []Event
	// Lost counts events that are missing. A path through a gap is a guess.
	Lost      uint64
	Processes *Processes
}

// StartRecording attaches a recorder, until its Stop. Its error is a
// [*tare/probe.Missing] where this host lacks what it needs.
func StartRecording() (*Recorder, error) {
	a, err := attach(recordingPrograms, func(spec *ebpf.CollectionSpec, kernel *btf.Spec) error {
		spec.Maps[objectMapEvents].MaxEntries = recordingRing
		return errors.Join(
			spec.Variables[objectVarEveryThread].Set(true),
			setState(spec, kernel),
			spec.Variables[objectVarWakeReaderAt].Set(uint64(readAt)),
		)
	})
	if err != nil {
		return nil, err
	}
	reader, err := ringbuf.NewReader(a.collection.Maps[objectMapEvents])
	if err != nil {
		a.close()
		return nil, fmt.Errorf("read the ring of events: %w", err)
	}
	r := &Recorder{attachment: a, reader: reader, began: Now(), processes: newProcesses(), read: make(chan struct{})}
	if err := r.processes.meet(procfs.Host); err != nil {
		reader.Close()
		a.close()
		return nil, fmt.Errorf("list the processes that run: %w", err)
	}
	go r.loop()
	return r, nil
}

func (r *Recorder) loop() {
	defer close(r.read)
	r.readErr = drain(r.reader, func(b []byte) error {
		if len(r.raw)+len(b) > recordingLimit {
			r.dropped++
			return nil
		}
		r.raw = append(r.raw, b...)
		r.ends = append(r.ends, len(r.raw))
		return nil
	})
}

// Stop detaches the recorder, after which nothing of it is left in the kernel,
// and gives what it saw. It is called once, and when the program has been
// executed, for which a [Following] waits: a runtime may answer before.
func (r *Recorder) Stop() (*Recording, error) {
	ended := Now()
	err := r.attachment.detach()
	flush := r.reader.Flush()
	if flush == nil {
		<-r.read
	}
	lost, lostErr := r.attachment.lost()
	err = errors.Join(err, flush, lostErr, r.reader.Close(), r.attachment.close())
	<-r.read
	if err = errors.Join(err, r.readErr); err != nil {
		return nil, fmt.Errorf("stop recording: %w", err)
	}
	events, err := decodeAll(r.raw, r.ends)
	if err != nil {
		return nil, err
	}
	recording := newRecording(events, r.processes)
	recording.Began, recording.Ended, recording.Lost = r.began, ended, lost+r.dropped
	// Programs are attached and detached one by one: before and after, only some
	// of what happened was seen.
	recording.Events = slices.DeleteFunc(
		recording.Events,
		func(e Event) bool { return e.Time < r.began || e.Time > ended },
	)
	return recording, nil
}

func decodeAll(raw []byte, ends []int) ([]Event, error) {
	events := make([]Event, 0, len(ends))
	from := 0
	for _, end := range ends {
		e, err := decode(raw[from:end])
		if err != nil {
			return nil, err
		}
		events = append(events, e)
		from = end
	}
	return events, nil
}

// newRecording orders events by their time: a CPU may take a stamp, and another
// a later one, before the first comes to the ring.
func newRecording(events []Event, known *Processes) *Recording {
	for _, e := range events {
		known.observe(e)
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Time, b.Time) })
	return &Recording{Events: events, Processes: known}
}

// Marks finds a start in the recording, as a [Tracer] that followed it would
// have; false where its program was not executed.
func (r *Recording) Marks(id string, args []string) (Marks, bool) {
	f := newFollower(r.Processes)
	start := f.follow(id, args)
	for _, e := range r.Events {
		f.observe(e)
	}
	return start.Marks(), start.over()
}
