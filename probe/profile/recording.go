package profile

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"tare/kernel/kallsyms"
	"tare/kernel/perfevent"
	"tare/probe"
	"tare/probe/breakdown"
)

// Recording is what was recorded, with names.
type Recording struct {
	Hertz int
	CPUs  int
	// Begin and End are the bounds, in CLOCK_MONOTONIC.
	Begin, End time.Duration
	Samples    []Sample // in order of time, without the idle task's
	// Idle is the number of samples of the idle task: a CPU had nothing to do,
	// or only interrupts.
	Idle      int
	Lost      uint64 // records that found no room: samples, or what says whose they are
	Throttled int    // times that the kernel withheld samples for a while
	// Cautions are what must be known before the samples are believed, each a
	// sentence: kernel names hidden, files not found, records lost.
	Cautions []string

	idle []time.Duration // when the idle samples were taken
}

// Sample is one tick of a CPU's clock that found something running.
type Sample struct {
	Time     time.Duration // of CLOCK_MONOTONIC
	CPU      int
	PID, TID int
	// Process is as it was then: an exec or a new name makes another. Samples of
	// one process share it; it is not to be changed.
	Process *probe.Process
	// Kernel and User are function names, innermost first, as in
	// [breakdown.Stack]. Samples share them; they are not to be changed.
	Kernel, User []string
	Weight       time.Duration // what the sample stands for
}

// Elapsed is how long was recorded.
func (r *Recording) Elapsed() time.Duration { return r.End - r.Begin }

// Busy is the share of the CPUs' time in which something ran.
func (r *Recording) Busy() float64 {
	if all := len(r.Samples) + r.Idle; all > 0 {
		return float64(len(r.Samples)) / float64(all)
	}
	return 0
}

// Between is the part of the recording from one moment on to before another.
// Lost, Throttled and Cautions stay the whole's.
func (r *Recording) Between(from, to time.Duration) *Recording {
	part := *r
	part.Begin, part.End = max(from, r.Begin), min(to, r.End)
	first := sort.Search(len(r.Samples), func(i int) bool { return r.Samples[i].Time >= from })
	behind := sort.Search(len(r.Samples), func(i int) bool { return r.Samples[i].Time >= to })
	part.Samples = r.Samples[first:max(first, behind)]
	first, _ = slices.BinarySearch(r.idle, from)
	behind, _ = slices.BinarySearch(r.idle, to)
	part.idle = r.idle[first:max(first, behind)]
	part.Idle = len(part.idle)
	return &part
}

// Stacks are the samples for a breakdown, equal ones taken together, weighted
// by seconds on a CPU.
func (r *Recording) Stacks() []breakdown.Stack {
	type same struct {
		process      *probe.Process
		kernel, user *string // samples of equal chains share them
		nk, nu       int
	}
	index := map[same]int{}
	var stacks []breakdown.Stack
	for i := range r.Samples {
		s := &r.Samples[i]
		k := same{process: s.Process, nk: len(s.Kernel), nu: len(s.User)}
		if k.nk > 0 {
			k.kernel = &s.Kernel[0]
		}
		if k.nu > 0 {
			k.user = &s.User[0]
		}
		at, ok := index[k]
		if !ok {
			at = len(stacks)
			index[k] = at
			stacks = append(stacks, breakdown.Stack{Process: *s.Process, Kernel: s.Kernel, User: s.User})
		}
		stacks[at].Weight += s.Weight.Seconds()
	}
	return stacks
}

// recording replays what was recorded.
func (r *Recorder) recording(end time.Duration) (*Recording, error) {
	result := &Recording{Hertz: r.options.Hertz, CPUs: r.sampler.CPUs(), Begin: r.begin, End: end}
	format := r.sampler.Format()
	places, malformed := order(format, r.raw)
	p := &replay{
		options: r.options, tasks: r.before.tasks, cgroups: r.before.cgroups, files: newFiles(r.options.Roots),
		kernel: kernelNames(r.kernel), stacks: map[string]*chain{}, result: result,
	}
	records := func(yield func(perfevent.Record) bool) {
		for _, at := range places {
			if record, _, _ := format.Decode(r.raw[at.chunk][at.offset:]); record != nil && !yield(record) {
				return
			}
		}
	}
	p.survey(records)
	for record := range records {
		p.record(record)
	}
	if lost, known := r.sampler.Lost(); known {
		result.Lost = max(result.Lost, lost)
	}
	result.Cautions = r.cautions(p, malformed)
	return result, nil
}

// mostNames bounds how many files a caution lists.
const mostNames = 8

func (r *Recorder) cautions(p *replay, malformed int) []string {
	var c []string
	if r.noNames != nil {
		c = append(c, "functions of the kernel have no names: "+r.noNames.Error())
	}
	if n := p.result.Lost; n > 0 {
		c = append(c, fmt.Sprintf("%d records were lost: the machine left the recorder no time", n))
	}
	if n := p.result.Throttled; n > 0 {
		c = append(c, fmt.Sprintf("the kernel withheld samples %d times: sysctl kernel.perf_cpu_time_max_percent bounds what sampling may cost", n))
	}
	if malformed > 0 {
		c = append(c, fmt.Sprintf("%d records could not be read", malformed))
	}
	if r.end != 0 {
		c = append(c, fmt.Sprintf("the recording ends after %v, when it held %d MiB", (r.end-r.begin).Round(time.Second), r.held>>20))
	}
	if len(p.files.missing) > 0 {
		names := make([]string, 0, len(p.files.missing))
		for name := range p.files.missing {
			names = append(names, name)
		}
		sort.Strings(names)
		text := strings.Join(names[:min(len(names), mostNames)], ", ")
		if more := len(names) - mostNames; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		c = append(c, "functions have no names in files that were not found: "+text)
	}
	return c
}

// unnamedKernel is code of the kernel without a name: compiled seccomp filters,
// or everything, where names are hidden.
const unnamedKernel = "[kernel]"

// kernelNames looks each address up once.
func kernelNames(table *kallsyms.Table) func(uint64) string {
	known := map[uint64]string{}
	return func(address uint64) string {
		name, ok := known[address]
		if ok {
			return name
		}
		name = unnamedKernel
		if table != nil {
			if s, _, found := table.Lookup(address); found {
				name = s.Name
			}
		}
		known[address] = name
		return name
	}
}
