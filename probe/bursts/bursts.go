// Package bursts records how control groups use the CPUs: how long their threads
// run until they block, how long they wait for a CPU and behind whom, how long
// they are blocked, how often they are woken, switched away and moved.
//
// It adds up in the kernel, in counters and histograms of fixed size, so that
// what it weighs grows with the switches alone and not with their reader (the
// benchmark in the tests measures it). Figures come from the tracepoints
// sched_switch, sched_wakeup and sched_wakeup_new through BPF programs
// (bpf/bursts.c), which are gone with the process that loaded them, however it
// ends.
//
//   - A burst is the time that a thread has a CPU between two blockings. Being
//     preempted does not end it, and is counted.
//   - A wait is the time from being woken, or preempted, until a CPU is had.
//   - A blocking is the time from leaving a CPU of one's own accord until being woken.
//
// Where asked, it also records by which stacks threads leave their CPU, counts the
// interrupts that come while they have it, and samples where in the kernel they are.
//
// It is no record of events ([tare/probe/sched] is), and reads no symbols. Time
// that the kernel spends in interrupts counts to whom they interrupt, and time
// that a hypervisor takes shows as the guest's own.
package bursts

import (
	"time"
)

//go:generate ../../kernel/bpf/generate.sh bpf/bursts.c -mcpu=v3

// Target is what is observed as one: all processes of a control group and of
// those below it, or processes with what they start from now on.
type Target struct {
	Name string
	// Cgroup is a group's directory, in any hierarchy. It may be empty where PIDs are given.
	Cgroup string
	// PIDs are processes by the host's ids. They go before any group.
	PIDs []int
}

// Options say how to record. The zero value is ready for use.
type Options struct {
	// Controller names the hierarchy whose groups are distinguished where no targets
	// are given: "memory". Empty is version 2, where it has controllers, or else
	// the first of memory, cpu and pids that there is.
	Controller string
	// Groups is the room for them; 0 is 512.
	Groups int
	// ExplainFrom is the shortest wait of which is recorded behind whom it was: an
	// idle CPU takes a few microseconds to wake. 0 is 20 us; below 0 nothing of it is
	// known, which weighs less.
	ExplainFrom time.Duration
	// Interrupts has interrupts counted that come while a target has the CPU, and
	// wakings by interrupts distinguished from those by threads.
	Interrupts bool
	// Stacks has the time off the CPU divided by the stacks by which threads left it.
	Stacks bool
	// Hertz has the targets' threads sampled so often a second and CPU, by kernel
	// stack; 0 is not at all.
	Hertz int
	// Weigh has the kernel time the programs, those of others too, which costs some
	// tens of nanoseconds each time that one runs.
	Weigh bool
}

// Weight is what the programs themselves took of the CPUs. It is nothing where it
// was not asked for, or the kernel does not say (before Linux 5.8).
type Weight struct {
	Time time.Duration
	Runs uint64
}

// Counts are what happened on one CPU, or on all.
type Counts struct {
	CPUTime time.Duration
	Bursts  uint64 // that ended
	Wakeups uint64
	// Voluntary switches are those of a thread that blocked or ended; the
	// others are preemptions, and yields.
	Voluntary, Involuntary uint64
	// Migrations are arrivals on, or wakings towards, another CPU than the last.
	Migrations uint64

	// The following are counted where [Options.Interrupts] asks for it.

	// Hard and Soft interrupts came while a thread of the target had the CPU: those of
	// devices (not the CPU's own timer, nor those by which CPUs call each other), and
	// what the kernel puts off to after them.
	Hard, Soft uint64
	// InterruptWakeups are the wakings from within an interrupt of either kind, or by
	// a timer that expired; and InterruptElsewhere those of them after which the thread
	// went on on another CPU than it had last.
	InterruptWakeups, InterruptElsewhere uint64
	// OtherElsewhere are the wakings by threads after which it did.
	OtherElsewhere uint64

	// Delays is the sum, over the bursts that ended, of the length times what was waited within,
	// in ns^2: see [Group.Delay].
	Delays float64
}

func (c Counts) plus(o Counts) Counts {
	return Counts{
		c.CPUTime + o.CPUTime,
		c.Bursts + o.Bursts,
		c.Wakeups + o.Wakeups,
		c.Voluntary + o.Voluntary,
		c.Involuntary + o.Involuntary,
		c.Migrations + o.Migrations,
		c.Hard + o.Hard,
		c.Soft + o.Soft,
		c.InterruptWakeups + o.InterruptWakeups,
		c.InterruptElsewhere + o.InterruptElsewhere,
		c.OtherElsewhere + o.OtherElsewhere,
		c.Delays + o.Delays,
	}
}

func (c Counts) minus(o Counts) Counts {
	return Counts{
		c.CPUTime - o.CPUTime,
		c.Bursts - o.Bursts,
		c.Wakeups - o.Wakeups,
		c.Voluntary - o.Voluntary,
		c.Involuntary - o.Involuntary,
		c.Migrations - o.Migrations,
		c.Hard - o.Hard,
		c.Soft - o.Soft,
		c.InterruptWakeups - o.InterruptWakeups,
		c.InterruptElsewhere - o.InterruptElsewhere,
		c.OtherElsewhere - o.OtherElsewhere,
		c.Delays - o.Delays,
	}
}

// Who had a CPU while others waited, where it is none of the groups: numbers
// below those of groups.
const (
	Others  = -1 // processes that are in no target
	Kernel  = -2 // threads of the kernel
	Nobody  = -3 // the CPU was idle: it was waking up, or on its way into the thread
	Unknown = -4 // the wait began further back than is remembered, or elsewhere
	Quota   = -5 // the group's quota was used up when the wait began or while it went on, whoever had the CPU
)

// Behind is how long a group's threads waited for a CPU while another had it.
type Behind struct {
	Group int // the index of the group that had the CPU (its own, too), or one of the above
	Time  time.Duration
	Waits uint64
}

// Group is what is known of one target.
type Group struct {
	Name string
	// Cgroup is the group's path in its hierarchy, where groups were distinguished; it
	// is empty where the group was gone when it was looked up.
	Cgroup string

	Counts           // on all CPUs
	PerCPU  []Counts // by the CPU's number
	Burst   Histogram
	Wait    Histogram
	Blocked Histogram
	// Run is of the times on a CPU until it was left for whatever reason.
	Run Histogram
	// Unfinished are the bursts that go on, as long as they are by now: a thread
	// that never blocks has no other. Waiting are the waits that go on.
	Unfinished, Waiting []time.Duration
	Behind              []Behind // the longest first

	Absences []Absence // the longest first; with [Options.Stacks]
	Samples  []Sample  // the most frequent first; with [Options.Hertz]
}

// Delay is how long a burst waited for a CPU until it ended, on average over the time on a
// CPU: a thread that works counts for what it works, and one that hardly runs for next to
// nothing. Bursts that go on are not in it, and it is 0 where stacks are kept.
func (g *Group) Delay() time.Duration {
	if sum := g.Burst.Sum(); sum > 0 {
		return time.Duration(g.Delays / float64(sum))
	}
	return 0
}

// AllBursts are the bursts that ended and those that go on.
func (g *Group) AllBursts() *Histogram {
	all := g.Burst
	for _, d := range g.Unfinished {
		all.Add(d)
	}
	return &all
}

// AllWaits are the waits that ended and those that go on.
func (g *Group) AllWaits() *Histogram {
	all := g.Wait
	for _, d := range g.Waiting {
		all.Add(d)
	}
	return &all
}

// Reading is what has been added up between two moments of CLOCK_MONOTONIC.
type Reading struct {
	Began, Ended time.Duration
	Groups       []Group
	// Lost counts events that found no room, and those of a program that came
	// upon itself on the same CPU; Unplaced groups for which there was no room,
	// which are among the others.
	Lost, Unplaced uint64
	// Unstacked counts absences and samples whose stack found no room; their time and
	// number are kept.
	Unstacked uint64
	// Precise says that samples were taken even where the kernel lets no interrupt
	// in, as in the scheduler: see [tare/kernel/perfevent.Ticks].
	Precise bool
	Weight  Weight
}

// Span is how long the reading covers.
func (r *Reading) Span() time.Duration { return r.Ended - r.Began }

// Since is what this reading has more than an earlier one of the same
// recording. What goes on at its end is whole, however early it began.
func (r *Reading) Since(earlier *Reading) *Reading {
	d := &Reading{
		Began:     earlier.Ended,
		Ended:     r.Ended,
		Lost:      r.Lost - earlier.Lost,
		Unplaced:  r.Unplaced - earlier.Unplaced,
		Unstacked: r.Unstacked - earlier.Unstacked,
		Precise:   r.Precise,
	}
	d.Weight = Weight{r.Weight.Time - earlier.Weight.Time, r.Weight.Runs - earlier.Weight.Runs}
	for i, g := range r.Groups {
		if i < len(earlier.Groups) {
			g = g.since(&earlier.Groups[i])
		}
		d.Groups = append(d.Groups, g)
	}
	return d
}

func (g Group) since(o *Group) Group {
	g.Counts = g.Counts.minus(o.Counts)
	perCPU := make([]Counts, len(g.PerCPU))
	for i := range perCPU {
		perCPU[i] = g.PerCPU[i].minus(o.PerCPU[i])
	}
	g.PerCPU = perCPU
	g.Burst.subtract(&o.Burst)
	g.Wait.subtract(&o.Wait)
	g.Blocked.subtract(&o.Blocked)
	g.Run.subtract(&o.Run)
	before := map[int]Behind{}
	for _, b := range o.Behind {
		before[b.Group] = b
	}
	var behind []Behind
	for _, b := range g.Behind {
		was := before[b.Group]
		b.Time -= was.Time
		b.Waits -= was.Waits
		if b.Waits > 0 || b.Time > 0 {
			behind = append(behind, b)
		}
	}
	longestFirst(behind)
	g.Behind = behind
	g.Absences = absencesSince(g.Absences, o.Absences)
	g.Samples = samplesSince(g.Samples, o.Samples)
	return g
}
