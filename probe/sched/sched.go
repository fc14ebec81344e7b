// Package sched observes processes and the scheduler by tracepoints: which
// programs are started, by whom and when, and where the time of a container's
// start goes. It has three instruments, from the lightest to the heaviest:
//
//   - [Start] attaches to fork, exec and exit alone. A [Tracer] knows every
//     process that lived meanwhile as it was at any moment, and follows starts:
//     when the shim and the runtime of a container were executed, and when the
//     program in it, its first instruction.
//   - [StartOffCPU] adds up, in the kernel, for how long threads were off the
//     CPU, by kernel stack.
//   - [StartRecording] takes down every switch and every waking. From the
//     record of one start, [CriticalPath] finds which thread the start was
//     waiting for at each moment, and what that thread was doing, and [Phases]
//     divides the start.
//
// All times are of CLOCK_MONOTONIC, as [Now] reports it; process ids are those of
// the host. Figures come from the kernel's tracepoints sched_process_fork,
// sched_process_exec, sched_process_exit, sched_switch, sched_waking and
// sched_wakeup_new through BPF programs (bpf/sched.c), which are gone with the
// process that loaded them, however it ends.
//
// It is no profiler: what runs on a CPU between two switches is not its
// subject. It reads no symbols: kernel addresses are given as they are, and
// named by a function that the caller hands in.
package sched

import (
	"time"

	"tare/kernel/clock"
)

//go:generate ../../kernel/bpf/generate.sh bpf/sched.c

// Now is the moment on the clock that events are stamped with.
func Now() time.Duration { return clock.Monotonic() }
