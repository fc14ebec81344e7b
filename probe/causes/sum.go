package causes

import (
	"cmp"
	"slices"
	"strings"
)

// Add takes another reading in, of the same program under the same condition: what
// is counted adds up, of CPUs the most stand, and what is absent from either is absent.
func (r *Reading) Add(o Reading) {
	r.Span += o.Span
	r.CPUTime += o.CPUTime
	r.CPUs = max(r.CPUs, o.CPUs)
	r.Used = max(r.Used, o.Used)
	for into, from := range map[*Distribution]Distribution{&r.Burst: o.Burst, &r.Run: o.Run, &r.Wait: o.Wait,
		&r.Blocked: o.Blocked} {
		into.Add(from)
	}
	r.Wakeups += o.Wakeups
	r.Voluntary += o.Voluntary
	r.Involuntary += o.Involuntary
	r.Migrations += o.Migrations
	r.Interrupts.add(o.Interrupts)
	r.Throttling.Periods += o.Throttling.Periods
	r.Throttling.Throttled += o.Throttling.Throttled
	r.Throttling.Time += o.Throttling.Time
	r.Throttling.Stale += o.Throttling.Stale
	r.Accounting.add(o.Accounting)
	r.Off = merged(slices.Concat(r.Off, o.Off))
	for _, a := range o.Absent {
		if !slices.ContainsFunc(r.Absent, func(b Absence) bool { return a.Part == b.Part }) {
			r.Absent = append(r.Absent, a)
		}
	}
	r.Lost += o.Lost
	r.Weight += o.Weight
}

// Lacks says why a part is absent; false where it is there.
func (r *Reading) Lacks(part string) (reason string, absent bool) {
	for _, a := range r.Absent {
		if a.Part == part {
			return a.Reason, true
		}
	}
	return "", false
}

func (i *Interrupts) add(o Interrupts) {
	i.Hard += o.Hard
	i.Soft += o.Soft
	i.Wakeups += o.Wakeups
	i.Elsewhere += o.Elsewhere
	i.Other += o.Other
	i.OtherElsewhere += o.OtherElsewhere
}

func (a *Accounting) add(o Accounting) {
	a.Samples += o.Samples
	a.Scheduler += o.Scheduler
	a.Within += o.Within
	samples := map[string]int{}
	for _, f := range slices.Concat(a.Functions, o.Functions) {
		samples[f.Name] += f.Samples
	}
	a.Functions = ranked(samples)
}

// ranked are functions by their samples, the most frequent first.
func ranked(samples map[string]int) []Function {
	var all []Function
	for name, n := range samples {
		all = append(all, Function{name, n})
	}
	slices.SortFunc(all, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// mostStacks bounds what a reading holds: what goes beyond is one stack by itself,
// so that times still add up.
const mostStacks = 1000

// others is the frame of what goes beyond.
const others = "[other stacks]"

// merged takes equal stacks together, the longest time first.
func merged(stacks []Stack) []Stack {
	at := map[string]int{}
	var all []Stack
	for _, s := range stacks {
		key := s.Program + "\x00" + strings.Join(s.Frames, "\x00")
		if s.Waiting {
			key += "\x00\x00"
		}
		i, ok := at[key]
		if !ok {
			at[key] = len(all)
			all = append(all, s)
			continue
		}
		all[i].Time += s.Time
		all[i].Count += s.Count
	}
	slices.SortFunc(all, func(a, b Stack) int {
		return cmp.Or(
			cmp.Compare(b.Time, a.Time),
			cmp.Compare(a.Program, b.Program),
			slices.Compare(a.Frames, b.Frames),
		)
	})
	if len(all) <= mostStacks {
		return all
	}
	rest := Stack{Program: others, Frames: []string{others}}
	for _, s := range all[mostStacks-1:] {
		rest.Time += s.Time
		rest.Count += s.Count
	}
	return append(all[:mostStacks-1], rest)
}
