// Package causes finds why a program took the time that it took: how long its
// threads ran until they blocked, waited for a CPU, or were blocked, by which
// stack; how often they were switched away and moved to another CPU, and how often
// it was an interrupt that had them go on elsewhere; how long their control group was
// throttled; and what the scheduler's own accounting of their CPU time took.
//
// It is the one summary that a study correlates with overhead (S2.9: The Art of
// CPU-Pinning, section IV). What is counted comes from tare/probe/bursts (the
// scheduler's tracepoints), the tracepoints of interrupts, the control group's own
// files and samples of the CPUs' clocks; each part that a kernel lacks is absent, with
// the reason, and takes no other with it. A Reading carries over as JSON, since
// whoever asks may sit outside the virtual machine in which it was taken.
//
// It knows no platform and judges nothing.
package causes

import "time"

// Target is what is watched: a control group with all below it, or processes and
// what they start.
type Target struct {
	// Cgroup is the group's directory, in any hierarchy; empty where the program has
	// none of its own.
	Cgroup string
	// PIDs are processes by the ids of the kernel that runs them.
	PIDs []int
}

// Options say what to watch. The zero value counts alone.
type Options struct {
	// Stacks has the time off the CPU divided by stack.
	Stacks bool `json:"stacks,omitempty"`
	// Accounting has the CPUs sampled, so that the share of the program's own time that
	// the scheduler's accounting took is known.
	Accounting bool `json:"accounting,omitempty"`
	// Weigh has the kernel time the probe itself.
	Weigh bool `json:"weigh,omitempty"`
}

// Reading is what was seen of a target between the beginning and the end.
type Reading struct {
	Span    time.Duration `json:"span_ns"`
	CPUTime time.Duration `json:"cpu_ns"`
	// CPUs is how many CPUs the kernel has on line, and Used on how many of them the
	// target ran.
	CPUs int `json:"cpus"`
	Used int `json:"used_cpus"`

	Burst Distribution `json:"burst"` // on a CPU, until it blocked; being preempted does not end it
	// Run is on a CPU, until it left it for whatever reason. Bcc's cpudist shows those that end by preemption.
	Run     Distribution `json:"run"`
	Wait    Distribution `json:"wait"`    // runnable, without a CPU
	Blocked Distribution `json:"blocked"` // of its own accord

	Wakeups     uint64 `json:"wakeups"`
	Voluntary   uint64 `json:"voluntary_switches"`
	Involuntary uint64 `json:"involuntary_switches"`
	Migrations  uint64 `json:"migrations"`

	Interrupts Interrupts `json:"interrupts"`
	Throttling Throttling `json:"throttling"`
	Accounting Accounting `json:"accounting"`

	// Off are the stacks by which threads left their CPU, the longest time first.
	Off []Stack `json:"off,omitempty"`

	// Absent names each part that could not be had, with the reason.
	Absent []Absence `json:"absent,omitempty"`
	// Lost counts events that found no room: 0 unless the probe was overrun.
	Lost uint64 `json:"lost"`
	// Weight is what the probe's programs themselves took of the CPUs, where asked.
	Weight time.Duration `json:"weight_ns,omitempty"`
}

// Distribution is a histogram of durations.
type Distribution struct {
	Count uint64        `json:"count"`
	Sum   time.Duration `json:"sum_ns"`
	// Steps are those that hold any, from the shortest.
	Steps []Step `json:"steps,omitempty"`
}

// Step counts what is at least Low and below High.
type Step struct {
	Low   time.Duration `json:"low_ns"`
	High  time.Duration `json:"high_ns"`
	Count uint64        `json:"count"`
}

// Interrupts are those that came while the target had the CPU, and what became of
// the target's threads that an interrupt woke. What a thread sends to a neighbour
// through the loopback or a veth it delivers itself, by a softirq: that counts as one.
type Interrupts struct {
	Hard uint64 `json:"hard"` // of devices; not the CPU's own timer, nor calls between CPUs
	Soft uint64 `json:"soft"` // what is put off to after them
	// Wakeups are the target's wakings from within an interrupt, or by a timer that
	// expired; Elsewhere those of them that resumed on another CPU than the thread had last.
	Wakeups   uint64 `json:"wakeups"`
	Elsewhere uint64 `json:"elsewhere"`
	// Other are wakings by other threads; OtherElsewhere as above.
	Other          uint64 `json:"other_wakeups"`
	OtherElsewhere uint64 `json:"other_elsewhere"`
}

// Throttling is what the control group's quota did (cpu.stat).
type Throttling struct {
	Periods   int64         `json:"periods"`
	Throttled int64         `json:"throttled"`
	Time      time.Duration `json:"throttled_ns"`
	// Stale is 0 where the group was still there at the end. Engines remove it with its
	// last process: what it had counted was then last read at most so long before it went.
	Stale time.Duration `json:"stale_ns,omitempty"`
}

// Accounting is the share of the target's own CPU time that was seen within the
// scheduler's accounting of it: samples, not a measured time.
//
// That code lets no interrupt in, so only a processor's counter finds it, by an
// interrupt that cannot be masked. Where there is none Within is 0 and the part is
// absent; Scheduler stands all the same, since a sample that was kept waiting falls on
// the scheduler's way out, and is a bound from above on what accounting takes of each
// switch and waking.
type Accounting struct {
	Samples   int `json:"samples"`   // of the target's threads
	Scheduler int `json:"scheduler"` // of those, in switches and wakings as a whole
	Within    int `json:"within"`    // of those, in the accounting's functions
	// Functions are those of the accounting that were seen, the most frequent first.
	Functions []Function `json:"functions,omitempty"`
}

// Function is one of the kernel's, with its samples.
type Function struct {
	Name    string `json:"name"`
	Samples int    `json:"samples"`
}

// Stack is a way by which threads left the CPU, the innermost frame first: the
// kernel's, and behind them the program's. User frames follow frame pointers, which Go
// keeps and most distributions' C code does not: there the innermost is right and its
// callers may be missing.
type Stack struct {
	Program string   `json:"program"`
	Frames  []string `json:"frames"`
	Waiting bool     `json:"waiting,omitempty"` // preempted: it wanted the CPU
	// Time is until they had a CPU again, the wait for one included (bcc's offcputime).
	Time  time.Duration `json:"time_ns"`
	Count uint64        `json:"count"`
}

// Absence is a part that could not be had.
type Absence struct {
	Part   string `json:"part"` // "interrupts", "accounting", "stacks", "throttling", "switches"
	Reason string `json:"reason"`
}
