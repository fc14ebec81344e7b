// Package guest is the inside of a virtual machine: what it boots from, and tare as its
// first process.
//
// On the host, [Build] makes what a machine boots from (the distribution's kernel for
// virtual machines, an initial root, a read-only disk with this very program and the
// OCI runtimes), [ImageDisk] makes a disk of an image's root, by which images cross
// into machines quickly, and [ScratchDisk] one for what programs write. An [Order]
// tells the machine what it is to be.
//
// In the machine, [Main] is process 1: it loads modules, mounts file systems, goes
// over to a root that runtimes can leave by pivot_root, brings the network up, and
// starts this program once more as the agent (package agent), whose orphans it reaps.
// When the agent ends, the machine is powered off, with the reason on its console.
//
// It knows nothing of the engines that run machines (package vm does), and it is no
// general-purpose init: a machine lives as long as its agent.
package guest

// Program is the name under which this program is a machine's first process; the kernel
// is given it by rdinit=.
const Program = "/tare-guest"

// Serials of the disks that every machine has.
const (
	RootSerial    = "tare-root"
	ScratchSerial = "tare-scratch"
)

// StateDir is where the machine's agent keeps what programs write: on the scratch disk,
// or in memory where there is none.
const StateDir = "/var/lib/tare"
