package bursts

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"tare/kernel/cgroup"
	"tare/kernel/clock"
	"tare/kernel/perfevent"
	"tare/kernel/process"
	"tare/probe/bpf"
)

const (
	defaultGroups      = 512
	defaultExplainFrom = 20 * time.Microsecond

	// mostHistograms bounds what histograms of each CPU by itself take: some 48 MiB.
	// Where there would be more, all CPUs add to one, which costs them a little more.
	mostHistograms = 1 << 12
	// stackRoom is for how many stacks there is room, and for how many ways of leaving
	// a CPU: 8 MiB.
	stackRoom = 1 << 14
	// entriesAtOnce is how many entries of a map are read at once.
	entriesAtOnce = 1 << 12
)

// Recording adds up until it is stopped. It may be read as often as wanted.
type Recording struct {
	collection *ebpf.Collection
	whole      *cgroup.Hierarchy // whose groups are distinguished; nil with targets
	names      []string
	began      time.Duration
	timing     io.Closer        // of the programs; nil where they are not timed
	lanes      int              // histograms a target
	ticks      *perfevent.Ticks // nil where nothing is sampled

	mu    sync.Mutex
	links bpf.Links
	last  *Reading // once stopped
}

// Start begins to add up for each target, or, where there is none, for each
// control group of the host by itself. A process that is in two targets counts
// for the one that names its id, or else for the one whose group is nearest
// above it. The error is a [*tare/probe.Missing] where this host lacks what it
// needs.
func Start(targets []Target, o Options) (_ *Recording, err error) {
	defer bpf.Share()()
	kernel, err := needs.CheckKernel()
	if err != nil {
		return nil, err
	}
	places, err := bpf.NewHierarchies(kernel)
	if err != nil {
		return nil, err
	}
	r := &Recording{}
	roots, followed := map[bpf.Group]int32{}, map[int32]int32{}
	room := len(targets)
	if len(targets) == 0 {
		room = cmp.Or(o.Groups, defaultGroups)
		if r.whole, err = whole(places.Layout, o.Controller); err != nil {
			return nil, err
		}
		if _, err := places.Use(r.whole); err != nil {
			return nil, err
		}
	}
	for i, t := range targets {
		if err := t.locate(int32(i), places, roots, followed); err != nil {
			return nil, err
		}
		r.names = append(r.names, t.Name)
	}
	if len(followed) > 0 {
		if err := needs.CheckPIDs(); err != nil {
			return nil, err
		}
	}
	processes, err := bpf.Identify(followed)
	if err != nil {
		return nil, err
	}
	hasState, err := needs.SwitchHasState(kernel)
	if err != nil {
		return nil, err
	}
	programs := []string{objectProgOnExec, objectProgOnWakeup, objectProgOnWakeupNew, objectProgOnSwitch}
	if len(followed) > 0 {
		programs = append(programs, objectProgOnFork, objectProgOnExit)
	}
	if o.Interrupts {
		programs = append(interruptPrograms, programs...)
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count the CPUs: %w", err)
	}
	var subsystems [bpf.MostHierarchies]int32
	copy(subsystems[:], places.Subsystems)
	loaded := programs
	if o.Hertz > 0 {
		loaded = append(slices.Clone(programs), objectProgOnSample)
	}
	r.lanes = 1
	if room*cpus <= mostHistograms {
		r.lanes = cpus
	}
	r.collection, err = load(loaded, func(spec *ebpf.CollectionSpec) error {
		for _, name := range []string{objectMapCountsOf, objectMapAppeared} {
			spec.Maps[name].MaxEntries = uint32(room)
		}
		spec.Maps[objectMapHistogramOf].MaxEntries = uint32(room * r.lanes)
		if o.Stacks || o.Hertz > 0 {
			spec.Maps[objectMapStacks].MaxEntries = stackRoom
			spec.Maps[objectMapAbsences].MaxEntries = stackRoom
			spec.Maps[objectMapSamples].MaxEntries = stackRoom
		}
		spec.Maps[objectMapLines].MaxEntries = uint32(cpus)
		spec.Maps[objectMapRoots].MaxEntries = uint32(max(1, len(roots)))
		return errors.Join(
			spec.Variables[objectVarHierarchies].Set(uint32(len(places.Subsystems))),
			spec.Variables[objectVarSubsystem].Set(subsystems),
			spec.Variables[objectVarByPid].Set(len(followed) > 0),
			spec.Variables[objectVarEveryGroup].Set(r.whole != nil),
			spec.Variables[objectVarTargets].Set(uint32(room)),
			spec.Variables[objectVarSwitchHasState].Set(hasState),
			spec.Variables[objectVarBlaming].Set(o.ExplainFrom >= 0),
			spec.Variables[objectVarBlamedFrom].Set(uint64(cmp.Or(max(0, o.ExplainFrom), defaultExplainFrom))),
			spec.Variables[objectVarLanes].Set(uint32(r.lanes)),
			spec.Variables[objectVarKeepStacks].Set(o.Stacks),
		)
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.collection.Close()
		}
	}()
	for d, target := range roots {
		if err := r.collection.Maps[objectMapRoots].Put(d, target); err != nil {
			return nil, fmt.Errorf("inform the BPF programs of a control group: %w", err)
		}
	}
	for pid, target := range followed {
		if err := r.collection.Maps[objectMapFollowed].Put(pid, target); err != nil {
			return nil, fmt.Errorf("inform the BPF programs of process %d: %w", pid, err)
		}
	}
	if o.Weigh {
		// A kernel that cannot leaves the weight unknown.
		if r.timing, err = ebpf.EnableStats(runTime); err != nil {
			r.timing = nil
		}
	}
	defer func() {
		if err != nil {
			r.untime()
		}
	}()
	if r.links, err = needs.Attach(r.collection, programs); err != nil {
		return nil, err
	}
	if err := bpf.ForgetEnded(r.collection.Maps[objectMapFollowed], processes); err != nil {
		return nil, errors.Join(err, r.links.Close())
	}
	if o.Hertz > 0 {
		if err := r.sample(o.Hertz); err != nil {
			return nil, errors.Join(err, r.links.Close())
		}
	}
	r.began = clock.Monotonic()
	if err := r.collection.Variables[objectVarBegan].Set(uint64(r.began)); err != nil {
		return nil, errors.Join(fmt.Errorf("inform the BPF programs when to begin: %w", err), r.links.Close(), r.unsample())
	}
	// A CPU that one thread has to itself may see no switch at all. Where a CPU
	// may not be visited, its first switch shows who had it.
	var all []int
	for cpu := range cpus {
		all = append(all, cpu)
	}
	_ = process.VisitCPUs(all)
	return r, nil
}

// runTime is BPF_STATS_RUN_TIME of include/uapi/linux/bpf.h.
const runTime = 0

func (r *Recording) untime() {
	if r.timing != nil {
		_ = r.timing.Close() // a descriptor that was only held
		r.timing = nil
	}
}

func (t Target) locate(
	number int32,
	places *bpf.Hierarchies,
	roots map[bpf.Group]int32,
	followed map[int32]int32,
) error {
	if t.Cgroup == "" && len(t.PIDs) == 0 {
		return fmt.Errorf("target %q names neither a control group nor processes", t.Name)
	}
	for _, pid := range t.PIDs {
		if pid <= 0 {
			return fmt.Errorf("target %q: %d is no process id", t.Name, pid)
		}
		if _, taken := followed[int32(pid)]; !taken {
			followed[int32(pid)] = number
		}
	}
	if t.Cgroup == "" {
		return nil
	}
	d, err := places.Locate(t.Cgroup)
	if err != nil {
		return fmt.Errorf("target %q: %w", t.Name, err)
	}
	if _, taken := roots[d]; !taken {
		roots[d] = number
	}
	return nil
}

// Read gives what has been added up so far. Counts that move while they are
// read are each of a moment between the call's begin and end.
func (r *Recording) Read() (*Reading, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil {
		return r.last, nil
	}
	reading, err := r.read()
	if err != nil {
		return nil, fmt.Errorf("read what the BPF programs added up: %w", err)
	}
	return reading, nil
}

func (r *Recording) read() (*Reading, error) {
	reading := &Reading{Began: r.began}
	ids, err := r.appeared(reading)
	if err != nil {
		return nil, err
	}
	n := len(r.names)
	if r.whole != nil {
		n = len(ids)
	}
	reading.Groups = make([]Group, n)
	reading.Ended = clock.Monotonic()
	for i := range reading.Groups {
		if err := r.readGroup(i, &reading.Groups[i]); err != nil {
			return nil, err
		}
	}
	if err := r.readThreads(reading); err != nil {
		return nil, err
	}
	if err := r.readBehinds(reading); err != nil {
		return nil, err
	}
	if err := r.readStacks(reading); err != nil {
		return nil, err
	}
	r.name(reading, ids)
	return reading, nil
}

// appeared reads the ids of groups that were met, and what was lost.
func (r *Recording) appeared(reading *Reading) ([]uint64, error) {
	var met uint32
	for name, into := range map[string]any{objectVarLost: &reading.Lost, objectVarUnstacked: &reading.Unstacked,
		objectVarUnplaced: &reading.Unplaced, objectVarAppearedCount: &met} {
		if err := r.collection.Variables[name].Get(into); err != nil {
			return nil, err
		}
	}
	for name, p := range r.collection.Programs {
		stats, err := p.Stats()
		if err != nil {
			return nil, fmt.Errorf("statistics of %s: %w", name, err)
		}
		reading.Lost += stats.RecursionMisses
		reading.Weight.Time += stats.Runtime
		reading.Weight.Runs += stats.RunCount
	}
	if r.whole == nil {
		return nil, nil
	}
	appeared := r.collection.Maps[objectMapAppeared]
	ids := make([]uint64, min(met, appeared.MaxEntries()))
	for i := range ids {
		if err := appeared.Lookup(uint32(i), &ids[i]); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func (r *Recording) readGroup(i int, g *Group) error {
	var perCPU []kernelCounts
	if err := r.collection.Maps[objectMapCountsOf].Lookup(uint32(i), &perCPU); err != nil {
		return err
	}
	for _, c := range perCPU {
		counts := c.counts()
		g.PerCPU = append(g.PerCPU, counts)
		g.Counts = g.Counts.plus(counts)
	}
	var h kernelHistograms
	for lane := range r.lanes {
		if err := r.collection.Maps[objectMapHistogramOf].Lookup(uint32(i*r.lanes+lane), &h); err != nil {
			return err
		}
		for into, from := range map[*Histogram]*kernelHistogram{&g.Burst: &h.Burst, &g.Wait: &h.Wait,
			&g.Blocked: &h.Blocked, &g.Run: &h.Run} {
			more := from.histogram()
			into.Merge(&more)
		}
	}
	return nil
}

// lastSwitches gives, for each CPU, when whoever has it came to it.
func (r *Recording) lastSwitches() ([]uint64, error) {
	lines := r.collection.Maps[objectMapLines]
	since := make([]uint64, lines.MaxEntries())
	var line kernelLine
	for cpu := range since {
		if err := lines.Lookup(uint32(cpu), &line); err != nil {
			return nil, err
		}
		since[cpu] = line.Began
	}
	return since, nil
}

// readThreads adds what goes on.
func (r *Recording) readThreads(reading *Reading) error {
	// Who has a CPU is asked first: one that came to it before is gone from it, seen to leave
	// or not.
	since, err := r.lastSwitches()
	if err != nil {
		return err
	}
	err = r.threads(func(t *kernelThread) {
		if t.Target < 0 || int(t.Target) >= len(reading.Groups) {
			return
		}
		g := &reading.Groups[t.Target]
		now := max(0, reading.Ended-time.Duration(t.Since))
		burst := time.Duration(t.Burst)
		switch t.Mode {
		case running:
			if int(t.CPU) >= len(since) || t.Since < since[t.CPU] {
				return
			}
			since[t.CPU] = t.Since + 1 // whoever comes to it now came after that
			burst += now
			g.CPUTime += now
			if int(t.CPU) < len(g.PerCPU) {
				g.PerCPU[t.CPU].CPUTime += now
			}
		case queued:
			g.Waiting = append(g.Waiting, now)
		}
		if burst > 0 {
			g.Unfinished = append(g.Unfinished, burst)
		}
	})
	if err != nil {
		return err
	}
	for i := range reading.Groups {
		slices.Sort(reading.Groups[i].Unfinished)
		slices.Sort(reading.Groups[i].Waiting)
	}
	return nil
}

// threads gives all that have a place, or are in the table.
func (r *Recording) threads(each func(*kernelThread)) error {
	err := entries(r.collection.Maps[objectMapPlaces], func(_ uint32, t *kernelThread) {
		if t.TID != 0 {
			each(t)
		}
	})
	if err != nil {
		return err
	}
	return entries(r.collection.Maps[objectMapThreads], func(_ int32, t *kernelThread) { each(t) })
}

// entries gives all that a map holds, some thousand with each system call. One that comes or goes meanwhile
// may be missing.
func entries[K, V any](of *ebpf.Map, each func(K, *V)) error {
	keys, values := make([]K, entriesAtOnce), make([]V, entriesAtOnce)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := of.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			each(keys[i], &values[i])
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *Recording) readBehinds(reading *Reading) error {
	err := entries(r.collection.Maps[objectMapBehinds], func(pair kernelPair, b *kernelBehind) {
		if int(pair.Waiter) < len(reading.Groups) && int(pair.Holder) < len(reading.Groups) {
			g := &reading.Groups[pair.Waiter]
			g.Behind = append(g.Behind, Behind{int(pair.Holder), time.Duration(b.Nanoseconds), b.Waits})
		}
	})
	if err != nil {
		return err
	}
	for i := range reading.Groups {
		longestFirst(reading.Groups[i].Behind)
	}
	return nil
}

func longestFirst(all []Behind) {
	slices.SortFunc(
		all,
		func(a, b Behind) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Group, b.Group)) },
	)
}

func (r *Recording) name(reading *Reading, ids []uint64) {
	for i, name := range r.names {
		reading.Groups[i].Name = name
	}
	if r.whole == nil {
		return
	}
	known := paths(r.whole)
	for i, id := range ids {
		g := &reading.Groups[i]
		if g.Cgroup = known[id]; g.Cgroup == "" {
			g.Name = "gone group " + strconv.FormatUint(id, 10)
			continue
		}
		g.Name = path.Base(g.Cgroup)
	}
}

// Stop ends the recording and gives all that was added up, after which nothing
// of it is left in the kernel. It may be called again.
func (r *Recording) Stop() (*Reading, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil {
		return r.last, nil
	}
	// Read first: what goes on would look longer with each moment after.
	reading, err := r.read()
	err = errors.Join(err, r.links.Close(), r.unsample())
	r.links = nil
	r.untime()
	r.collection.Close()
	if err != nil {
		r.last = &Reading{Began: r.began, Ended: clock.Monotonic()}
		return nil, fmt.Errorf("stop adding up CPU bursts: %w", err)
	}
	r.last = reading
	return reading, nil
}
