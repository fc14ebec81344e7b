package probe

import (
	"path"
	"strings"
)

// Component is a part of what runs while containers start.
type Component string

// The components.
const (
	Engine      Component = "dockerd"        // and podman's service, and what dockerd runs of itself
	Containerd  Component = "containerd"     // the daemon
	Shim        Component = "shim"           // containerd-shim, conmon: one a container
	Runtime     Component = "runtime"        // runc, crun, runsc, and their init until it executes the program
	Network     Component = "network tools"  // iptables, ip, docker-proxy, CNI plugins
	Client      Component = "client"         // tare itself, and the command lines of engines
	Application Component = "application"    // the program in the container
	Kernel      Component = "kernel threads" // kworker, ksoftirqd, rcu
	Idle        Component = "idle"           // the idle task
	Other       Component = "other"          // of the host, and none of ours
)

// Process is what is known of a process, as it was at one moment: a process
// that executes another program becomes another Process.
type Process struct {
	PID    int // thread group; 0 is the idle task
	Parent int // its parent's
	// Comm is the name of its first thread, at most 15 bytes.
	Comm string
	// Args is the command line, possibly cut; empty where it is not known, and
	// for kernel threads.
	Args []string
	// Exe is the file that it executes, as the kernel names it: "/usr/sbin/runc",
	// "/memfd:runc_cloned:/proc/self/exe (deleted)".
	Exe string
	// KernelThread: it has no memory of its own.
	KernelThread bool
	// Contained: it is in a container that is of the experiment.
	Contained bool
}

// runtimes are the OCI runtimes whose commands are recognised by name.
var runtimes = []string{"runc", "crun", "runsc", "youki", "kata-runtime"}

var networkTools = []string{"iptables", "ip6tables", "xtables-nft-multi", "xtables-legacy-multi", "iptables-restore", "ip6tables-restore", "ip", "nft", "modprobe", "docker-proxy", "rootlesskit-docker-proxy", "slirp4netns", "bridge", "host-local", "portmap", "firewall", "loopback"}

// ComponentOf gives which component a process is. self is the caller's own
// process id: tare, with what it starts that is nothing else, is the client.
//
// A process is recognised by the file that it executes, not by where it came from:
// what a runtime's child becomes is the program's business. The exception is
// "/proc/self/exe", by which programs run themselves again: dockerd does for
// its network hook, runc for its init. There the first argument decides.
func ComponentOf(p Process, self int) Component {
	switch {
	case p.PID == 0:
		return Idle
	case p.KernelThread:
		return Kernel
	case p.PID == self:
		return Client
	}
	first := ""
	if len(p.Args) > 0 {
		first = path.Base(p.Args[0])
	}
	exe := path.Base(strings.TrimSuffix(p.Exe, " (deleted)"))
	for _, name := range []string{exe, first, p.Comm} {
		switch {
		case name == "":
		case name == "dockerd" || name == "rootlesskit" || name == "podman" || name == "libnetwork-setkey",
			name == "docker-init-setup" || strings.HasPrefix(name, "docker-untar"),
			strings.HasPrefix(name, "docker-tar") || strings.HasPrefix(name, "docker-applyLayer"):
			return Engine
		case strings.HasPrefix(name, "containerd-shim") || name == "conmon":
			return Shim
		case name == "containerd":
			return Containerd
		case oneOf(name, networkTools):
			return Network
		case isRuntime(name):
			return Runtime
		case name == "tare" || name == "tare-enter" || name == "docker" || name == "ctr" || name == "nerdctl":
			return Client
		}
	}
	if strings.Contains(p.Exe, "runc_cloned") {
		return Runtime
	}
	if p.Contained {
		return Application
	}
	return Other
}

// isRuntime: runc's init calls itself runc:[1:CHILD] and the like.
func isRuntime(name string) bool {
	name, _, _ = strings.Cut(name, ":")
	return oneOf(name, runtimes)
}

func oneOf(name string, of []string) bool {
	for _, n := range of {
		if n == name {
			return true
		}
	}
	return false
}
