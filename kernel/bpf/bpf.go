// Package bpf is where the programs that run in the kernel's virtual machine have what they
// share: kernel.h, which each begins with; group.h, the structures by which a task's control
// groups are found; and memory.h, by which its page tables and mappings are read without a
// lock. generate.sh compiles each package's program, with the headers, into the object that is
// committed beside it.
//
// It has no Go but a test: that every committed object was made of the sources that are
// committed.
package bpf
