package lab

import (
	"fmt"
	"strings"

	"tare/platform"
	"tare/platform/bare"
	"tare/platform/box"
	"tare/platform/containerd"
	"tare/platform/docker"
	"tare/platform/k8s"
	"tare/platform/oci"
	"tare/platform/vm"
)

// PlatformNames describes the platforms for help texts.
var PlatformNames = []struct{ Name, Doc string }{
	{"bare", "the image's root by chroot: no namespace, no limit but an affinity"},
	{"cgroup", "bare metal in a cgroup of its own"},
	{"oci:RUNTIME", "an OCI runtime on PATH without a daemon: oci:runc, oci:crun, oci:runsc; oci alone is oci:runc"},
	{"containerd", "containerd's own client, at CONTAINERD_ADDRESS or its usual sockets"},
	{"docker", "the Docker Engine API at DOCKER_HOST or its usual socket"},
	{"docker:rootless", "a rootless Docker engine, at DOCKER_ROOTLESS_HOST or the socket of the user who runs tare or sudo"},
	{"docker:swarm", "a service of one replica in the swarm of the engine at DOCKER_HOST, which is in one already"},
	{k8s.Name, "a pod for each program: static pods of this node's kubelet, whose runtime is containerd"},
	{"vm:ENGINE/PLATFORM", "bare, cgroup or oci in a virtual machine by kvm or tcg: vm:tcg/bare, vm:kvm+cpus=4+memory=2g/oci:crun; vm alone is vm:kvm where that boots a guest, else vm:tcg"},
}

// UnknownPlatform says that no platform has that name.
type UnknownPlatform struct{ Name string }

func (u *UnknownPlatform) Error() string {
	names := make([]string, len(PlatformNames))
	for i, p := range PlatformNames {
		names[i] = p.Name
	}
	return fmt.Sprintf("unknown platform %q: want one of %s", u.Name, strings.Join(names, ", "))
}

// CanonicalPlatform gives a platform's full name: "oci" is "oci:runc".
func CanonicalPlatform(name string) (string, error) {
	switch head, rest, hasRest := strings.Cut(name, ":"); {
	case vm.Is(name):
		path, err := vm.ParseName(name)
		if err != nil {
			return "", err
		}
		return path.String(), nil
	case head == "oci" && !hasRest:
		return "oci:runc", nil
	case head == "oci" && rest != "" && !strings.ContainsAny(rest, "/ \t"):
		return name, nil
	case name == docker.NameRootless || name == docker.NameSwarm:
		return name, nil
	case (head == "bare" || head == "cgroup" || head == "containerd" || head == "docker" || head == k8s.Name) && !hasRest:
		return name, nil
	}
	return "", &UnknownPlatform{name}
}

// Elsewhere says that a platform's programs run under another kernel, where what was
// asked for cannot look at them.
type Elsewhere struct{ Name string }

func (e *Elsewhere) Error() string {
	return fmt.Sprintf("platform %s: its programs are another kernel's, and here tare looks at their processes itself; take %s, or weigh it: tare weigh, tare platforms", e.Name, e.inner())
}

// inner is the platform in the machine.
func (e *Elsewhere) inner() string {
	_, inner, _ := strings.Cut(e.Name, "/")
	return inner
}

// OwnPlatform is CanonicalPlatform for whoever looks at a program's processes and
// control groups: those of a machine are not this kernel's. The error is then an
// *Elsewhere.
func OwnPlatform(name string) (string, error) {
	name, err := CanonicalPlatform(name)
	if err == nil && vm.Is(name) {
		return "", &Elsewhere{name}
	}
	return name, err
}

// Platforms resolves names to platforms, each made once.
func Platforms(stateDir string, ledger platform.Ledger) func(name string) (platform.Platform, error) {
	made := map[string]platform.Platform{}
	machines := vm.NewPool(vm.PoolOptions{StateDir: stateDir, Ledger: ledger})
	return func(name string) (platform.Platform, error) {
		switch name {
		case vm.Entered:
			return vm.Remover(machines), nil
		case box.Entered:
			return box.Remover(stateDir), nil
		}
		name, err := CanonicalPlatform(name)
		if err != nil {
			return nil, err
		}
		if p, ok := made[name]; ok {
			return p, nil
		}
		var p platform.Platform
		switch {
		case vm.Is(name):
			path, err := vm.ParseName(name)
			if err != nil {
				return nil, err
			}
			p = vm.New(path, machines)
		case name == "bare":
			p = bare.New(bare.Options{StateDir: stateDir, Ledger: ledger})
		case name == "cgroup":
			p = bare.NewInCgroup(bare.Options{StateDir: stateDir, Ledger: ledger})
		case name == "containerd":
			p = containerd.New(containerd.Options{StateDir: stateDir, Ledger: ledger})
		case name == k8s.Name:
			p = k8s.New(k8s.Options{StateDir: stateDir, Ledger: ledger})
		case name == docker.Name:
			p = docker.New(docker.Options{StateDir: stateDir, Ledger: ledger})
		case name == docker.NameRootless:
			p = docker.NewRootless(docker.Options{StateDir: stateDir, Ledger: ledger})
		case name == docker.NameSwarm:
			p = docker.NewSwarm(docker.Options{StateDir: stateDir, Ledger: ledger})
		default:
			p = oci.New(strings.TrimPrefix(name, "oci:"), oci.Options{StateDir: stateDir, Ledger: ledger})
		}
		made[name] = p
		return p, nil
	}
}
