package offcpu

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tare/probe/causes"
	"tare/probe/sched"
)

// obstacle is something on which threads were blocked.
type obstacle struct {
	cause sched.Cause
	// through is how they entered the kernel: a system call, or a page fault.
	through string
	time    time.Duration
	count   uint64
}

// work is no obstacle: a thread waits for something to do.
const work sched.Cause = "no work"

// idleCalls are the system calls by which servers wait for work. What a program polls may be
// another's answer, too: nothing here can show it.
var idleCalls = []string{
	"accept", "accept4", "epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6",
	"pause", "rt_sigsuspend", "rt_sigtimedwait", "nanosleep", "clock_nanosleep",
}

func order(o obstacle) int {
	if o.cause == work {
		return 1
	}
	return 0
}

// delays splits the blocked time into what delays work and what waits for it, by the shares
// of the stacks.
func delays(r *causes.Reading) (blocked, idle time.Duration) {
	all, sum := obstacles(r.Off)
	var waited time.Duration
	for _, o := range all {
		if o.cause == work {
			waited += o.time
		}
	}
	if sum > 0 {
		idle = time.Duration(waited.Seconds() / sum.Seconds() * float64(r.Blocked.Sum))
	}
	return r.Blocked.Sum - idle, idle
}

// obstacles group the stacks of blocked threads by what they were blocked on, the longest
// time first, and what waits for work last.
func obstacles(stacks []causes.Stack) (all []obstacle, sum time.Duration) {
	for _, s := range stacks {
		if s.Waiting {
			continue
		}
		sum += s.Time
		o := obstacle{cause: sched.CauseOf(s.Frames), through: entry(s.Frames)}
		if (o.cause == sched.IPC || o.cause == sched.Sleep || o.cause == sched.Other) &&
			slices.Contains(idleCalls, o.through) {
			o.cause = work
		}
		i := slices.IndexFunc(all, func(b obstacle) bool { return b.cause == o.cause && b.through == o.through })
		if i < 0 {
			i = len(all)
			all = append(all, o)
		}
		all[i].time += s.Time
		all[i].count += s.Count
	}
	slices.SortStableFunc(all, func(a, b obstacle) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(b.time, a.time), cmp.Compare(a.through, b.through))
	})
	return all, sum
}

// calls are how the kernel begins the names of its system calls, on x86-64 and arm64.
var calls = []string{"__x64_sys_", "__arm64_sys_", "__ia32_sys_", "__ia32_compat_sys_", "__se_sys_", "__do_sys_", "ksys_"}

// faults are the kernel's functions that handle page faults.
var faults = []string{"asm_exc_page_fault", "exc_page_fault", "do_user_addr_fault", "do_page_fault"}

// entry names how a thread entered the kernel; where its stack does not show that, it is
// the innermost function.
func entry(frames []string) string {
	for _, frame := range frames {
		for _, call := range calls {
			if name, ok := strings.CutPrefix(frame, call); ok {
				return name
			}
		}
		if slices.Contains(faults, frame) {
			return "a page fault"
		}
	}
	if len(frames) == 0 {
		return "unknown"
	}
	return frames[0]
}

// words name in a sentence what a thread is blocked on.
var words = map[sched.Cause]string{
	sched.RCU:    "on a grace period of the kernel (RCU)",
	sched.Memory: "on memory to be reclaimed or read back",
	sched.Child:  "on processes that it started",
	sched.Disk:   "on the disk",
	sched.Lock:   "on locks in the kernel",
	sched.Worker: "on the kernel's workers",
	sched.IPC:    "on other processes or its own threads (pipes, sockets, futexes, polls)",
	sched.Sleep:  "on a timer, asleep",
	sched.Other:  "on something that its stacks do not show",
}
