package gpu

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Summary is what the processes of one program came to. docs/gpu.md says of each
// figure what it is and where it comes from.
type Summary struct {
	Processes int
	Methods   []Method // each once
	// Span is from the first process' beginning to the last thing that was recorded.
	Span    time.Duration
	Kernels Kernels
	Graphs  Distribution // launches of graphs, by events
	Devices []DeviceTime
	API     API
	JIT     JITTime
	Copies  []Copies
	Sets    Distribution
	// Overheads are what CUPTI attributes to no call, by kind.
	Overheads map[string]Distribution
	Lost      Lost
	// Complaints are all processes', each once.
	Complaints []string
}

// Distribution is how long things of a kind took.
type Distribution struct {
	Count int
	Sum   time.Duration
	// Order statistics: the least value that so many percent do not exceed. 0 of none.
	P50, P99, Max time.Duration
	values        []time.Duration // ascending
}

// Histogram is the same for estimators that merge what several trials took: nanoseconds from
// 1 to an hour, with three significant digits.
func (d Distribution) Histogram() *hdrhistogram.Histogram {
	h := hdrhistogram.New(1, int64(time.Hour), 3)
	for _, v := range d.values {
		_ = h.RecordValue(min(max(int64(v), 1), int64(time.Hour))) // in its range
	}
	return h
}

func distributionOf(values []time.Duration) Distribution {
	slices.Sort(values)
	d := Distribution{Count: len(values), values: values}
	if len(values) == 0 {
		return d
	}
	for _, v := range values {
		d.Sum += v
	}
	rank := func(percent int) time.Duration { return values[(len(values)*percent+99)/100-1] }
	d.P50, d.P99, d.Max = rank(50), rank(99), values[len(values)-1]
	return d
}

// Kernels is the time of kernels.
type Kernels struct {
	// Launches are those that succeeded, and Timed those whose time is known. Launches
	// into a graph are among the former.
	Launches, Timed int
	// Time is of those that were timed: its Sum counts kernels that ran beside each other
	// each.
	Time Distribution
	// Busy is the time in which at least one ran, of each device, added up.
	Busy   time.Duration
	ByName []KernelTime // the longest in all first
}

// KernelTime is that of one kernel.
type KernelTime struct {
	Name string // empty where it is not known
	Time Distribution
}

// DeviceTime is the time in which one device did something.
type DeviceTime struct {
	Device Device // its ordinal alone where the driver reported nothing; -1: not known
	// In which at least one kernel, or graph, ran; at least one copy or set; at least one
	// of any. What is known by the call alone is not in them.
	Kernels, Copies, Any time.Duration
}

// API is the time of calls.
type API struct {
	// Time is of the calls that are no part of others, of all threads added up: the Sum is
	// what S1 calls API time.
	Time  Distribution
	Calls []CallTime // the longest in all first; of all calls, also within others
}

// CallTime is that of one function.
type CallTime struct {
	Name string
	// Time is of all its calls, Outer of those that are no part of others.
	Time   Distribution
	Outer  time.Duration
	Failed int
	Bytes  int64 // that they were about, added up
	// Lost are calls that found no room in the trace, which are in no other figure.
	Lost LostCalls
}

// JITTime is what compilation took.
type JITTime struct {
	// Known: CUPTI was asked for its records, and Compile, CacheLoad and CacheStore are
	// those. Without, what follows is all there is.
	Known                          bool
	Compile, CacheLoad, CacheStore Distribution
	// Loads are the calls that load modules, and Compiling those of them whose image has
	// PTX and no cubin for the device. By CUPTI there are no images: Compiling is empty.
	Loads, Compiling Distribution
	// Links are calls of the linker (cuLink...), in which PTX is compiled too.
	Links Distribution
	// Firsts are the first launches of each kernel. With lazy loading the driver compiles
	// in them.
	Firsts Distribution
	// Lazy: a process loaded kernels lazily.
	Lazy bool
}

// Copies is the time of copies of one kind.
type Copies struct {
	Direction Direction
	// Memory is the host's; of copies without the host it is the device's.
	Memory Memory
	Async  bool
	Timing Timing
	Bytes  int64
	Time   Distribution
}

// Rate is bytes a second; 0 where no time is known.
func (c Copies) Rate() float64 {
	if c.Time.Sum <= 0 {
		return 0
	}
	return float64(c.Bytes) / c.Time.Sum.Seconds()
}

// Shares are the parts of kernels and of calls in both together, as S1 states them
// (S1.13): the sum of all kernels' times and that of all calls', which overlap in time.
// Both are 0 where nothing is known. Where a sample of the launches was timed, the others
// are taken to be as long as those in the mean.
func (s *Summary) Shares() (kernels, api float64) {
	k, a := s.KernelTime().Seconds(), s.API.Time.Sum.Seconds()
	if k+a == 0 {
		return 0, 0
	}
	return k / (k + a), a / (k + a)
}

// KernelTime is the sum of all kernels' times and those of graphs; where not every
// launch was timed, extended to all in proportion.
func (s *Summary) KernelTime() time.Duration {
	k := s.Kernels
	if k.Timed == 0 {
		return s.Graphs.Sum
	}
	// Of kernels that CUPTI times there may be more than were launched: a graph's.
	factor := max(1, float64(k.Launches)/float64(k.Timed))
	if s.Graphs.Count > 0 || s.Lost.Capture > 0 {
		factor = 1 // what went into graphs is in theirs
	}
	return time.Duration(factor*float64(k.Time.Sum)) + s.Graphs.Sum
}

// Call gives the time of one function; false where it was not called.
func (s *Summary) Call(name string) (CallTime, bool) {
	i := slices.IndexFunc(s.API.Calls, func(c CallTime) bool { return c.Name == name })
	if i < 0 {
		return CallTime{}, false
	}
	return s.API.Calls[i], true
}

// launches are the functions that launch one kernel each. Of the driver's and the
// runtime's calls of one launch the outer one counts.
var launches = []string{
	"cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuLaunch", "cuLaunchGrid", "cuLaunchGridAsync",
	"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel", "cudaLaunch",
}

// loads are the functions that load modules.
var loads = []string{
	"cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary", "cuLibraryLoadData", "cuLibraryLoadFromFile",
	"cudaLibraryLoadData", "cudaLibraryLoadFromFile",
}

// Summarize makes figures of the traces of a program's processes. Of none all are empty.
func Summarize(traces ...*Trace) *Summary {
	s := &Summary{Overheads: map[string]Distribution{}}
	var g gathered
	var first, last time.Duration
	for i, t := range traces {
		s.Processes++
		if !slices.Contains(s.Methods, t.Method) {
			s.Methods = append(s.Methods, t.Method)
		}
		for _, c := range t.Complaints {
			if !slices.Contains(s.Complaints, c) {
				s.Complaints = append(s.Complaints, c)
			}
		}
		if t.Cut {
			s.Complaints = append(s.Complaints, t.Title()+": its trace is cut, so that some is missing")
		}
		s.Lost.add(t.Lost)
		if i == 0 || t.Began < first {
			first = t.Began
		}
		last = max(last, g.trace(s, t))
	}
	if last > first {
		s.Span = last - first
	}
	g.into(s)
	return s
}

func (l *Lost) add(o Lost) {
	l.Calls += o.Calls
	l.CallsTime += o.CallsTime
	l.Work += o.Work
	l.WorkTime += o.WorkTime
	l.Other += o.Other
	l.Sampled += o.Sampled
	l.Full += o.Full
	l.Capture += o.Capture
	l.Failed += o.Failed
	l.Unfinished += o.Unfinished
	l.Dropped += o.Dropped
	l.Unknown += o.Unknown
	l.Versions += o.Versions
	for name, n := range o.ByName {
		if l.ByName == nil {
			l.ByName = map[string]LostCalls{}
		}
		sum := l.ByName[name]
		l.ByName[name] = LostCalls{sum.Count + n.Count, sum.Time + n.Time}
	}
}

// interval is from one moment to another.
type interval struct{ from, to time.Duration }

// copyKind is what distinguishes copies.
type copyKind struct {
	direction Direction
	memory    Memory
	async     bool
	timing    Timing
}

// gathered is what the traces hold, by what is asked of it.
type gathered struct {
	kernels, graphs, sets, outer               []time.Duration
	compile, load, store                       []time.Duration
	loads, compiling, links, firsts            []time.Duration
	byKernel                                   map[string][]time.Duration
	byCall                                     map[string][]time.Duration
	calls                                      map[string]*CallTime
	copies                                     map[copyKind]*Copies
	copyTimes                                  map[copyKind][]time.Duration
	overheads                                  map[string][]time.Duration
	kernelBusy, copyBusy, anyBusy, kernelAlone map[string][]interval
	devices                                    map[string]Device
}

// deviceKey distinguishes devices across processes, whose ordinals may differ.
func deviceKey(d Device) string {
	if d.UUID != "" {
		return d.UUID
	}
	return "ordinal " + strconv.Itoa(d.Ordinal)
}

// trace takes one in, and gives the last moment that it knows of.
func (g *gathered) trace(s *Summary, t *Trace) time.Duration {
	if g.calls == nil {
		g.byKernel, g.byCall, g.calls = map[string][]time.Duration{}, map[string][]time.Duration{},
			map[string]*CallTime{}
		g.copies, g.copyTimes, g.overheads = map[copyKind]*Copies{}, map[copyKind][]time.Duration{},
			map[string][]time.Duration{}
		g.kernelBusy, g.copyBusy, g.anyBusy = map[string][]interval{}, map[string][]interval{}, map[string][]interval{}
		g.kernelAlone, g.devices = map[string][]interval{}, map[string]Device{}
	}
	last := max(t.Began, t.Ended)
	loading := map[int]time.Duration{} // until when each thread loads a module
	for _, c := range t.Calls {
		end := c.Start + c.Took
		last = max(last, end)
		g.call(s, c)
		// What loads is often within another call, and the driver's within the runtime's counts once.
		if slices.Contains(loads, c.Name) && c.Start >= loading[c.Thread] {
			g.loads = append(g.loads, c.Took)
			loading[c.Thread] = end
		}
		if strings.HasPrefix(c.Name, "cuLink") {
			g.links = append(g.links, c.Took)
		}
	}
	for _, w := range t.Work {
		last = max(last, w.Start+w.Took)
		g.work(s, t, w)
	}
	for _, j := range t.JIT {
		switch j.Kind {
		case Compile:
			g.compile = append(g.compile, j.Took)
		case CacheLoad:
			g.load = append(g.load, j.Took)
		case CacheStore:
			g.store = append(g.store, j.Took)
		}
	}
	for _, o := range t.Overheads {
		g.overheads[o.Kind] = append(g.overheads[o.Kind], o.Took)
	}
	for _, m := range t.Modules {
		if m.Compiles != nil && *m.Compiles && m.Status == 0 {
			g.compiling = append(g.compiling, m.Took)
		}
	}
	for name, lost := range t.Lost.ByName {
		c := g.callTime(name)
		c.Lost.Count += lost.Count
		c.Lost.Time += lost.Time
	}
	s.JIT.Known = s.JIT.Known || t.Method == CUPTI && !slices.ContainsFunc(t.Complaints, func(c string) bool {
		return strings.HasPrefix(c, "CUPTI does not record compilation")
	})
	s.JIT.Lazy = s.JIT.Lazy || t.Loading == "lazy"
	return last
}

func (g *gathered) callTime(name string) *CallTime {
	c := g.calls[name]
	if c == nil {
		c = &CallTime{Name: name}
		g.calls[name] = c
	}
	return c
}

func (g *gathered) call(s *Summary, c Call) {
	sum := g.callTime(c.Name)
	g.byCall[c.Name] = append(g.byCall[c.Name], c.Took)
	if c.Status != 0 {
		sum.Failed++
	}
	if c.Bytes > 0 {
		sum.Bytes += c.Bytes
	}
	if !c.Outer {
		return
	}
	sum.Outer += c.Took
	g.outer = append(g.outer, c.Took)
	if c.Status == 0 && slices.Contains(launches, c.Name) {
		s.Kernels.Launches++
		if c.First {
			g.firsts = append(g.firsts, c.Took)
		}
	}
}

func (g *gathered) work(s *Summary, t *Trace, w Work) {
	device, known := t.Device(w.Device)
	if !known {
		device = Device{Ordinal: w.Device}
	}
	key := deviceKey(device)
	span := interval{w.Start, w.Start + w.Took}
	if w.Timing != ByCall {
		g.devices[key] = device
		g.anyBusy[key] = append(g.anyBusy[key], span)
	}
	switch w.Kind {
	case Kernel:
		s.Kernels.Timed++
		g.kernels = append(g.kernels, w.Took)
		g.byKernel[w.Name] = append(g.byKernel[w.Name], w.Took)
		g.kernelAlone[key] = append(g.kernelAlone[key], span)
		g.kernelBusy[key] = append(g.kernelBusy[key], span)
	case Graph:
		g.graphs = append(g.graphs, w.Took)
		g.kernelBusy[key] = append(g.kernelBusy[key], span)
	case Set:
		g.sets = append(g.sets, w.Took)
		if w.Timing != ByCall {
			g.copyBusy[key] = append(g.copyBusy[key], span)
		}
	case Copy:
		kind := copyKind{w.Direction, memoryOf(w), w.Async, w.Timing}
		c := g.copies[kind]
		if c == nil {
			c = &Copies{Direction: kind.direction, Memory: kind.memory, Async: kind.async, Timing: kind.timing}
			g.copies[kind] = c
		}
		c.Bytes += w.Bytes
		g.copyTimes[kind] = append(g.copyTimes[kind], w.Took)
		if w.Timing != ByCall {
			g.copyBusy[key] = append(g.copyBusy[key], span)
		}
	}
}

// memoryOf is the host's memory of a copy, else where it comes from.
func memoryOf(w Work) Memory {
	for _, m := range []Memory{w.From, w.To} {
		if m == Pageable || m == Pinned {
			return m
		}
	}
	return w.From
}

// into makes the figures.
func (g *gathered) into(s *Summary) {
	s.Kernels.Time = distributionOf(g.kernels)
	for name, values := range g.byKernel {
		s.Kernels.ByName = append(s.Kernels.ByName, KernelTime{name, distributionOf(values)})
	}
	slices.SortFunc(s.Kernels.ByName, func(a, b KernelTime) int {
		return cmp.Or(cmp.Compare(b.Time.Sum, a.Time.Sum), cmp.Compare(a.Name, b.Name))
	})
	s.Graphs, s.Sets = distributionOf(g.graphs), distributionOf(g.sets)
	for _, key := range slices.Sorted(maps.Keys(g.devices)) {
		s.Devices = append(s.Devices, DeviceTime{
			Device:  g.devices[key],
			Kernels: union(g.kernelBusy[key]),
			Copies:  union(g.copyBusy[key]),
			Any:     union(g.anyBusy[key]),
		})
		s.Kernels.Busy += union(g.kernelAlone[key])
	}
	slices.SortStableFunc(
		s.Devices,
		func(a, b DeviceTime) int { return cmp.Compare(a.Device.Ordinal, b.Device.Ordinal) },
	)

	s.API.Time = distributionOf(g.outer)
	for name, c := range g.calls {
		c.Time = distributionOf(g.byCall[name])
		s.API.Calls = append(s.API.Calls, *c)
	}
	slices.SortFunc(s.API.Calls, func(a, b CallTime) int {
		return cmp.Or(cmp.Compare(b.Time.Sum, a.Time.Sum), cmp.Compare(a.Name, b.Name))
	})
	s.JIT.Compile, s.JIT.CacheLoad, s.JIT.CacheStore = distributionOf(g.compile), distributionOf(g.load),
		distributionOf(g.store)
	s.JIT.Loads, s.JIT.Compiling = distributionOf(g.loads), distributionOf(g.compiling)
	s.JIT.Links, s.JIT.Firsts = distributionOf(g.links), distributionOf(g.firsts)
	for kind, c := range g.copies {
		c.Time = distributionOf(g.copyTimes[kind])
		s.Copies = append(s.Copies, *c)
	}
	slices.SortFunc(s.Copies, func(a, b Copies) int {
		async := func(c Copies) int {
			if c.Async {
				return 1
			}
			return 0
		}
		return cmp.Or(
			cmp.Compare(a.Direction, b.Direction),
			cmp.Compare(a.Memory, b.Memory),
			cmp.Compare(async(a), async(b)),
			cmp.Compare(a.Timing, b.Timing),
		)
	})
	for kind, values := range g.overheads {
		s.Overheads[kind] = distributionOf(values)
	}
}

// union is the time that at least one of the intervals covers.
func union(all []interval) time.Duration {
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	var sum, until time.Duration
	for i, v := range all {
		from := v.from
		if i > 0 {
			from = max(from, until)
		}
		if v.to > from {
			sum += v.to - from
			until = v.to
		}
		until = max(until, v.to)
	}
	return sum
}
