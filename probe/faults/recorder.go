package faults

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"tare/kernel/clock"
	"tare/kernel/process"
	"tare/probe/bpf"
	"tare/probe/pagetable"
)

// Options of a recording. The zero value is a good one.
type Options struct {
	// Ring is the room for records that wait for the reader, bytes a CPU; 16 MiB by default, a
	// quarter of a million records, half a second of the fastest a CPU can fault;
	// less on a host of many CPUs.
	Ring int
	// Keep is how many records are kept at most, 65 bytes each: of faults, and of the
	// mappings that they refer to. By default it is 16 million, which is 1.1 GB; what a
	// recording does not need it does not take. Faults beyond are counted by type all
	// the same, and counted as Dropped. Executions and ends of threads are kept besides, at most 4
	// million, of 80 bytes; those beyond are LostEvents. [Recording.Duplicates] takes 110 to
	// 180 bytes more, while it runs, for each different page of a file that was faulted on.
	Keep int
	// Below is a directory of a mounted hierarchy: every control group directly
	// below it becomes a target of its own as it first takes a fault, named by its
	// directory's name. For containers that are yet to start.
	Below string
	// Appearing is how many targets may appear below Below; 256 by default. The
	// kernel keeps 8 KiB a CPU for each. Those beyond are not watched, and counted
	// as Unplaced.
	Appearing int

	// calls has the programs read the kernel's memory by calls, as they have to before
	// Linux 6.2. For tests.
	calls bool
}

const (
	defaultRecords   = 1 << 18
	allRings         = 1 << 28 // bytes, of all CPUs
	leastRecords     = 1 << 12
	defaultKeep      = 1 << 24
	mostEvents       = 1 << 22
	defaultAppearing = 256
	// maxTargets is what a record has bits for.
	maxTargets = 1 << 15
)

// programs in the order in which they are attached: a process is followed before
// its faults are seen.
var programs = []string{
	objectProgFollowFork,
	objectProgProcessExec,
	objectProgProcessExit,
	objectProgFaultUser,
	objectProgFaultKernel,
}

// Recorder records faults until its Stop.
type Recorder struct {
	given      []Target
	below      string
	collection *ebpf.Collection
	links      bpf.Links
	rings      *rings
	counts     *ebpf.Memory
	raw        int // targets that the programs have room for
	cpus       int
	from       time.Duration

	events     *ringbuf.Reader
	happened   happened
	eventsDone chan struct{}
	eventsErr  error

	stopping chan struct{}
	read     chan struct{} // closed when the reader has ended
	readErr  error         // the reader's, until then

	mu      sync.Mutex // guards the maps against Stop
	stopped bool
}

// Start records the faults of targets, and of those that appear. Its error is a
// [*probe.Missing] where this host lacks what it needs; [StartEvents] may do
// there.
func Start(targets []Target, o Options) (_ *Recorder, err error) {
	if len(targets) == 0 && o.Below == "" {
		return nil, errors.New("record page faults: nothing is named to be watched")
	}
	if most := maxTargets - o.appearing(); len(targets) > most {
		return nil, fmt.Errorf("record page faults: %d targets and %d that may appear, %d at most in all", len(targets), o.appearing(), maxTargets)
	}
	kernel, err := needs.Check()
	if err != nil {
		return nil, err
	}
	hierarchies, err := bpf.NewHierarchies(kernel)
	if err != nil {
		return nil, err
	}
	r := &Recorder{
		given: targets, below: o.Below, raw: len(targets) + o.appearing(),
		happened:   happened{most: mostEvents},
		eventsDone: make(chan struct{}), stopping: make(chan struct{}), read: make(chan struct{}),
	}
	if r.cpus, err = ebpf.PossibleCPU(); err != nil {
		return nil, fmt.Errorf("count the CPUs: %w", err)
	}
	// The counts are mapped, of which at most 4 GiB can be.
	if most := math.MaxUint32 / (r.cpus * factCount * 8); r.raw > most {
		return nil, fmt.Errorf("record page faults: %d targets, %d at most with %d CPUs", len(targets), most-r.raw+len(targets), r.cpus)
	}
	w := &watch{hierarchies: hierarchies}
	if err := w.locate(targets, o.Below); err != nil {
		return nil, err
	}
	base, levels, err := pagetable.DirectMap()
	if err != nil {
		return nil, err
	}
	frames, err := frameBits()
	if err != nil {
		return nil, err
	}
	slots := o.slots(r.cpus)
	r.collection, err = load(programs, func(spec *ebpf.CollectionSpec) error {
		spec.Maps[objectMapRing].MaxEntries = uint32(r.cpus) * slots
		spec.Maps[objectMapHeads].MaxEntries = uint32(r.cpus)
		spec.Maps[objectMapCounts].MaxEntries = uint32(r.cpus*r.raw) * factCount
		spec.Maps[objectMapRoots].MaxEntries = uint32(r.raw)
		spec.Maps[objectMapAppeared].MaxEntries = uint32(max(o.appearing(), 1))
		return errors.Join(w.set(spec),
			spec.Variables[objectVarSlots].Set(slots),
			spec.Variables[objectVarCasts].Set(bpf.Casts(kernel) && !o.calls),
			spec.Variables[objectVarTargets].Set(uint32(r.raw)),
			spec.Variables[objectVarGiven].Set(uint32(len(targets))),
			spec.Variables[objectVarDirectMap].Set(base),
			spec.Variables[objectVarLevels].Set(uint32(levels)),
			spec.Variables[objectVarFrameBits].Set(frames),
		)
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = r.links.Close()
			r.collection.Close()
		}
	}()
	if r.rings, err = newRings(r.collection, r.cpus, uint64(slots), o.keep()); err != nil {
		return nil, err
	}
	if r.counts, err = r.collection.Maps[objectMapCounts].Memory(); err != nil {
		return nil, fmt.Errorf("map the counts: %w", err)
	}
	if err := w.watch(r.collection); err != nil {
		return nil, err
	}
	if r.events, err = ringbuf.NewReader(r.collection.Maps[objectMapEvents]); err != nil {
		return nil, fmt.Errorf("read the ring of events: %w", err)
	}
	r.from = clock.Monotonic()
	r.links, err = needs.Attach(r.collection, programs)
	if err == nil {
		err = bpf.ForgetEnded(r.collection.Maps[objectMapFollowed], w.processes)
	}
	if err != nil {
		r.events.Close()
		return nil, err
	}
	go r.readEvents()
	go r.readRings()
	return r, nil
}

// slots is the room of one ring in records, a power of two.
func (o Options) slots(cpus int) uint32 {
	n := uint(o.Ring / recordSize)
	if o.Ring <= 0 {
		n = min(defaultRecords, uint(allRings/recordSize/cpus))
	}
	n = max(n, leastRecords)
	return 1 << (bits.Len(n) - 1)
}

func (o Options) keep() int {
	if o.Keep > 0 {
		return o.Keep
	}
	return defaultKeep
}

// appearing is how many targets there is to be room for that are not given.
func (o Options) appearing() int {
	switch {
	case o.Below == "":
		return 0
	case o.Appearing > 0:
		return o.Appearing
	}
	return defaultAppearing
}

// happened is what was reported of processes, as much of it as is kept.
type happened struct {
	events []event
	most   int
	beyond uint64 // events for which there was no place
}

// note keeps an event. The first are those that are kept: what a service's program
// executes as it starts says more than what its workers do an hour later.
func (h *happened) note(e event) {
	if len(h.events) >= h.most {
		h.beyond++
		return
	}
	h.events = append(h.events, e)
}

// readEvents takes what is reported of processes.
func (r *Recorder) readEvents() {
	defer close(r.eventsDone)
	var record ringbuf.Record
	for {
		err := r.events.ReadInto(&record)
		if errors.Is(err, ringbuf.ErrFlushed) || errors.Is(err, os.ErrClosed) {
			return
		}
		var e event
		if err == nil {
			e, err = decodeEvent(record.RawSample)
		}
		if err != nil {
			r.eventsErr = fmt.Errorf("read the ring of events: %w", err)
			return
		}
		r.happened.note(e)
	}
}

// How long the reader rests between two looks at the rings. Woken by the
// programs it would run far more often than it has to, on the CPUs that it
// watches. A CPU cannot fill a ring in the longest, nor an eighth of it in the
// shortest.
const (
	shortestRest = 2 * time.Millisecond
	longestRest  = 40 * time.Millisecond
)

// readRings has a thread of its own that goes before ordinary programs where that is
// allowed: on a host whose CPUs are all busy, and those are what is watched, it
// would have to wait while the rings fill.
func (r *Recorder) readRings() {
	defer close(r.read)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if restore, err := process.Punctual(); err == nil {
		defer func() { r.readErr = errors.Join(r.readErr, restore()) }()
	}
	for rest := shortestRest; ; {
		fullest, err := r.rings.drain()
		if err != nil {
			r.readErr = err
			return
		}
		switch {
		case fullest > 1./8:
			rest = max(rest/2, shortestRest)
		case fullest < 1./16:
			rest = min(rest*2, longestRest)
		}
		// This holds the thread: handed to the Go runtime it would wait for an ordinary one.
		if err := clock.SleepUntil(clock.Monotonic() + rest); err != nil {
			r.readErr = err
			return
		}
		select {
		case <-r.stopping:
			return
		default:
		}
	}
}

// Snapshot is how many faults of each target there have been so far; targets
// that appeared come after those given. It costs no more than reading memory.
func (r *Recorder) Snapshot() ([]Target, []Count, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil, nil, errors.New("the recording of page faults has been stopped")
	}
	targets, of, err := r.targets()
	if err != nil {
		return nil, nil, err
	}
	counts, err := r.count(of, len(targets))
	return targets, counts, err
}

// targets lists the targets, and says for each number that the programs use which it
// is; -1 is none.
func (r *Recorder) targets() (targets []Target, of []int32, err error) {
	targets = append(targets, r.given...)
	for i := range r.given {
		of = append(of, int32(i))
	}
	var appeared uint32
	if err := r.collection.Variables[objectVarAppearedCount].Get(&appeared); err != nil {
		return nil, nil, fmt.Errorf("read how many targets appeared: %w", err)
	}
	for i := range min(appeared, uint32(r.raw-len(r.given))) {
		var name [128]byte
		if err := r.collection.Maps[objectMapAppeared].Lookup(i, &name); err != nil {
			return nil, nil, fmt.Errorf("read the name of a target that appeared: %w", err)
		}
		if name[0] == 0 {
			of = append(of, -1) // two CPUs met the same directory at once
			continue
		}
		of = append(of, int32(len(targets)))
		targets = append(targets, Target{Name: text(name[:]), Cgroup: filepath.Join(r.below, text(name[:]))})
	}
	return targets, of, nil
}

// Stop ends the recording, after which nothing of it is left in the kernel.
func (r *Recorder) Stop() (*Recording, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil, errors.New("the recording of page faults has been stopped already")
	}
	r.stopped = true
	err := r.links.Close()
	to := clock.Monotonic()
	close(r.stopping)
	<-r.read
	flush := r.events.Flush()
	if flush == nil {
		<-r.eventsDone
	}
	var recording *Recording
	if err = errors.Join(err, r.readErr, flush); err == nil {
		recording, err = r.recording(to)
	}
	err = errors.Join(err, r.events.Close())
	<-r.eventsDone
	r.collection.Close()
	if err = errors.Join(err, r.eventsErr); err != nil {
		return nil, fmt.Errorf("stop recording page faults: %w", err)
	}
	return recording, nil
}

func (r *Recorder) recording(to time.Duration) (*Recording, error) {
	if _, err := r.rings.drain(); err != nil {
		return nil, err
	}
	targets, of, err := r.targets()
	if err != nil {
		return nil, err
	}
	rec := &Recording{
		Backend: "page-fault tracepoints",
		Targets: targets, From: r.from, To: to,
		Known:   Known{Types: true, Kernel: true, Records: true},
		given:   len(r.given),
		streams: r.rings.streams,
		of:      of,
		files:   map[File]string{},
	}
	if rec.Counts, err = r.count(of, len(targets)); err != nil {
		return nil, err
	}
	if rec.Lost, err = r.rings.lost(); err != nil {
		return nil, err
	}
	// What a program misses while another of its kind runs on the same CPU.
	for _, name := range []string{objectProgFaultUser, objectProgFaultKernel} {
		stats, err := r.collection.Programs[name].Stats()
		if err != nil {
			return nil, fmt.Errorf("read the statistics of %s: %w", name, err)
		}
		rec.Missed += stats.RecursionMisses
	}
	for name, v := range map[string]*uint64{
		objectVarUnsettled: &rec.Unsettled, objectVarLostEvents: &rec.LostEvents, objectVarUnplaced: &rec.Unplaced,
	} {
		if err := r.collection.Variables[name].Get(v); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	var key struct {
		Inode     uint64
		Device, _ uint32
	}
	var name [nameParts * partSize]byte
	for all := r.collection.Maps[objectMapFiles].Iterate(); all.Next(&key, &name); {
		rec.files[File{statDevice(key.Device), key.Inode}] = decodePath(name[:])
	}
	rec.LostEvents += r.happened.beyond
	rec.settle(r.happened.events)
	// The rings' records are of mappings too: what was dropped is what is missing.
	for _, c := range rec.Counts {
		rec.Dropped += c.Total()
	}
	rec.Dropped -= min(rec.Dropped, rec.Lost+rec.recorded)
	return rec, nil
}
