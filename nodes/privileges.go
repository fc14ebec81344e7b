package nodes

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// Privilege is something that a pod is given beyond the defaults, and the reason.
type Privilege struct{ Name, Why string }

// Measuring needs root on the node: bare metal is a condition of nearly every study, and programs there
// run beside the node's own. So the container that measures enters the host's mount and control group
// namespaces and leaves its own control group. What follows is what it needs to do that, and what the
// studies' platforms and probes need there. It is less than a privileged container has.
var (
	// Shared are the host's namespaces that the pod has.
	Shared = []Privilege{
		{"hostPID", "the host's first process, whose namespaces are entered; processes and the ends of programs on all platforms"},
		{"hostNetwork", "bare metal has the host's network; bridges and the ways to containers begin there"},
	}
	// Capabilities are those of the container that measures.
	Capabilities = []Privilege{
		{"SYS_ADMIN", "mounts, namespaces, control groups, BPF programs, perf events, swap"},
		{"SYS_PTRACE", "the namespaces of the first process; memory maps and page tables of programs of other users"},
		{"SYS_CHROOT", "entering a mount namespace; the root directory of programs on bare metal"},
		{"NET_ADMIN", "bridges, links and addresses of containers"},
		{"SYS_NICE", "affinities of other users' programs, and advice on their memory (process_madvise)"},
		{"IPC_LOCK", "memory that stays: rings of perf events, buffers of probes"},
		{"SYSLOG", "addresses in /proc/kallsyms, by which profiles name the kernel's functions"},
		{"KILL", "ending programs of other users"},
		{"CHOWN", "owners of files in the root file system of an image"},
		{"FOWNER", "modes of files of other users in an image"},
		{"DAC_OVERRIDE", "files in an image that their modes close to root"},
		{"MKNOD", "device files of a root file system"},
		{"SETUID", "programs that run as the user of their image"},
		{"SETGID", "the same of their groups"},
		{"SETPCAP", "taking capabilities from programs, as every runtime does"},
		{"SETFCAP", "a container has it by default: a runtime cannot give what it lacks itself"},
		{"FSETID", "the same"},
		{"NET_RAW", "the same"},
		{"NET_BIND_SERVICE", "the same; servers at ports below 1024"},
		{"AUDIT_WRITE", "the same"},
	}
	// Unconfined are the filters that the container that measures goes without.
	Unconfined = []Privilege{
		{"seccomp", "the default filter refuses mount, setns, bpf and perf_event_open to some runtimes' containers"},
		{"AppArmor", "the default profile refuses mounts and the namespaces of other processes"},
	}
	// Withheld are what a privileged container has besides, and why measuring goes without.
	Withheld = []Privilege{
		{"SYS_RESOURCE", "programs keep the pod's oom_score_adj on every platform: where memory runs out, they go before the node's own pods"},
		{"SYS_MODULE", "a node's modules are its owner's: zram and zswap are used where they are loaded"},
		{"SYS_RAWIO, SYS_BOOT, SYS_TIME", "nothing uses them"},
		{"a service account's token", "the pod never calls the API server"},
	}
)

// Diagnosing needs less: it makes nothing on the node, and reads no more than counters, the scheduler's events and
// stacks. Its pod has a network and a control group of its own, no directory of the node and no container that keeps
// results. It has hostPID and is [Unconfined] as well.
var Diagnosing = []Privilege{
	{"SYS_ADMIN", "entering the namespaces of the first process; BPF programs, perf events"},
	{"SYS_PTRACE", "the namespaces of the first process; page tables and memory of programs of other users"},
	{"SYS_CHROOT", "entering a mount namespace"},
	{"SYSLOG", "addresses in /proc/kallsyms, by which stacks name the kernel's functions"},
	{"DAC_READ_SEARCH", "files that their owner alone may read: descriptors and page tables in /proc, files in layers"},
}

// StateDir is the state directory of pods on a node. It is not that of a tare which is run there by
// hand: what is acknowledged is removed, and who follows a study may do so on one of its nodes.
const StateDir = "/var/lib/tare/nodes"

// measuring is the security context of the container that measures, or diagnoses.
func measuring(capabilities []Privilege) *corev1ac.SecurityContextApplyConfiguration {
	var added []corev1.Capability
	for _, c := range capabilities {
		added = append(added, corev1.Capability(c.Name))
	}
	return corev1ac.SecurityContext().
		WithRunAsUser(0).
		WithReadOnlyRootFilesystem(true).
		WithCapabilities(corev1ac.Capabilities().WithDrop("ALL").WithAdd(added...)).
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeUnconfined)).
		WithAppArmorProfile(corev1ac.AppArmorProfile().WithType(corev1.AppArmorProfileTypeUnconfined))
}

// keeping is that of the container that keeps the results, into which exec goes: no capability, and one
// directory, the store's. That is root's.
func keeping() *corev1ac.SecurityContextApplyConfiguration {
	return corev1ac.SecurityContext().
		WithRunAsUser(0).
		WithAllowPrivilegeEscalation(false).
		WithReadOnlyRootFilesystem(true).
		WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")).
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
}
