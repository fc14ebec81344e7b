// Package breakdown finds what time is spent on: it sorts weighted call stacks
// into groups by function (memory management, Go's collector, mounts, network
// set-up, ...), into components by process, and into kernel and user.
//
// It takes stacks from anyone: samples of where CPUs were (probe/profile), or
// blocked time (probe/sched), and does not know how they were taken. The groups
// are a table of rules in groups.go, each with its reason; the two groups of
// which S1.4 has the figures can be read off as such. What no rule knows is
// unassigned, and shown.
package breakdown

import "tare/probe"

// Stack is a call stack and how much of whatever is being counted was spent
// in it: seconds on a CPU, seconds blocked, samples.
type Stack struct {
	Process probe.Process
	// Kernel and User are function names, innermost first, as the kernel
	// and pprof give them: Kernel[0] is where the CPU was, User[0] is where the
	// program was when it entered the kernel. Kernel is empty where the CPU ran
	// user code. A function whose name is not known is "[FILE+0xOFFSET]", by the
	// file's base name and the place in it.
	Kernel, User []string
	Weight       float64
}

// InKernel is on which side the time was spent.
func (s *Stack) InKernel() bool { return len(s.Kernel) > 0 }
