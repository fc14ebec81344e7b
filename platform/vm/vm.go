// Package vm has virtual machines as platforms: "vm:tcg/bare" is bare metal in a
// machine, "vm:kvm/oci:runc" a container in one. What runs in the machine is not written
// again: a machine boots with tare's agent in it (package guest), and the platform is
// the agent's own, reached through a stream (package agent). What this package has is
// the machines ([Pool]): how they are sized, started, kept, paused, pinned and removed.
// QEMU runs them, by either of two engines: KVM and TCG.
//
// # What a setting means
//
// Without a size in the path the setting sizes the machine: cpus=N gives it the next
// whole number of CPUs, cpuset-cpus=LIST as many as the list has, each one's thread kept
// on one of the list; both, where the list is longer, N roaming over the list; memory is the
// machine's where the inner platform has no such limit, and else the inner platform's, beside a
// reserve for the guest's kernel. With a size in the path (vm:kvm+cpus=4+memory=2g/oci) the
// machine is that, and the setting is the inner platform's alone.
//
// # Life of a machine
//
// It is booted when a program is first launched that needs one of its size, kept from
// then on, and paused as long as no program is in it, so that it costs others nothing
// but memory. It ends when the last platform that prepared an image is released, when
// the pool is closed, or when another machine needs its memory. A machine that ends by
// itself, or by somebody else's hand, is cleared away at once, and what ran in it
// reports [platform.ErrGone].
//
// The package measures nothing of programs. See QEMU's "Invocation" and "QMP
// reference".
package vm
