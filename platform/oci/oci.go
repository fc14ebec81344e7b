// Package oci runs programs in containers by an OCI runtime alone, without a
// daemon: runc, crun, or any other on PATH, driven through containerd/go-runc.
//
// The container is what an engine would make of the same image: the same
// namespaces, capabilities, system call filter, masked paths and mounts (those
// of the Docker engine, see package ocispec), so that what is weighed against an
// engine is the engine. The root file system, the cgroup and the network are
// made here, before the runtime starts; the runtime's own part is one command,
// or two ([Verbs]), and ends when the program has begun. The program is then
// this program's child.
package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"tare/image"
	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/platform"
	"tare/platform/held"
	"tare/platform/rootfs"
)

// Options are where a platform keeps its things.
type Options struct {
	// StateDir is tare's directory on this host: instances live in trials/
	// below it, what runtimes note in oci/.
	StateDir string
	// Ledger may be nil in tests.
	Ledger platform.Ledger
}

// The kind of ledger entry for what the runtime itself keeps of a container.
const container = "container" // ID: its id, which is the instance's name

type oci struct {
	runtime string // "runc"
	options Options

	probing sync.Mutex
	probed  bool
	// hidden are mount points that the runtime must not see, or it refuses to work.
	hidden []string
}

var (
	_ platform.Creator = (*oci)(nil)
	_ platform.Freezer = (*oci)(nil)
)

// New gives the platform "oci:RUNTIME" for a runtime on PATH.
func New(runtime string, o Options) platform.Platform { return &oci{runtime: runtime, options: o} }

func (p *oci) Name() string { return "oci:" + p.runtime }

// Version is the runtime's own word, "runc 1.1.5+ds1", and what it is given
// beside that where this makes it another: "runsc 0.0 --platform=ptrace ...".
func (p *oci) Version(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, p.runtime, "--version").Output()
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(out), "\n")
	version := strings.Replace(strings.TrimSpace(first), " version ", " ", 1)
	if p.sandboxed() {
		version += " " + strings.Join(sandboxFlags, " ")
	}
	return version
}

func (p *oci) Check(context.Context) error {
	if os.Geteuid() != 0 {
		return &platform.Missing{What: p.Name() + " needs root, to make namespaces, mounts and cgroups", Mend: "sudo tare ..."}
	}
	if _, err := exec.LookPath(p.runtime); err != nil {
		return &platform.Missing{What: "no OCI runtime " + p.runtime + " on PATH", Mend: "apt-get install " + filepath.Base(p.runtime)}
	}
	if most, err := process.OpenFilesMax(); err == nil && most < platform.Surroundings.OpenFiles {
		return &platform.Missing{
			What: fmt.Sprintf("%s gives every program %d open files, and this shell may have %d", p.Name(), platform.Surroundings.OpenFiles, most),
			Mend: fmt.Sprintf("ulimit -Hn %d", platform.Surroundings.OpenFiles),
		}
	}
	layout, err := cgroup.Host()
	if err != nil {
		return &platform.Missing{What: p.Name() + " needs cgroups: " + err.Error()}
	}
	if c := layout.Lacks("cpu", "cpuset", "memory"); c != "" {
		return &platform.Missing{What: "no cgroup hierarchy carries the " + c + " controller", Mend: "boot without cgroup_disable=" + c}
	}
	// A module may be loaded only when it is asked for.
	if b, err := os.ReadFile("/proc/filesystems"); err == nil && !slices.Contains(strings.Fields(string(b)), "overlay") {
		if modules, err := filepath.Glob("/lib/modules/*/kernel/fs/overlayfs/overlay.ko*"); err != nil || len(modules) == 0 {
			return &platform.Missing{What: "this kernel has no overlay file system", Mend: "modprobe overlay"}
		}
	}
	return nil
}

func (p *oci) Supports(s platform.Setting) error {
	if err := s.RefuseService(p.Name()); err != nil {
		return err
	}
	refuse := func(key, reason string) error {
		return &platform.Unsupported{Platform: p.Name(), Key: key, Reason: reason}
	}
	switch {
	case s.Storage == platform.StorageVolume:
		return refuse("storage=volume", "volumes are an engine's; bind is the same here")
	case s.Network == platform.NetworkProxy:
		return refuse("network=bridge:proxy", "the proxy is an engine's")
	case s.Network == platform.NetworkNAT:
		return refuse("network=bridge:nat", "published ports are an engine's; bridge is reached at the container's own address")
	case s.LSM == "default":
		return refuse("lsm=default", "profiles are an engine's; a runtime applies none by itself")
	case s.LogDriver != "":
		return refuse("log-driver", "there is no engine to write logs")
	case s.Runtime != "":
		return refuse("runtime", "the platform's name says it: oci:"+s.Runtime)
	}
	if p.sandboxed() {
		if err := p.supportsSandboxed(s); err != nil {
			return err
		}
	}
	if s.CPUBurst != 0 {
		if layout, err := cgroup.Host(); err == nil && !layout.HasBurst() {
			return refuse("cpu-burst", "this kernel saves up no quota: Linux 5.14 or newer does")
		}
	}
	return p.supportsCPUs(s)
}

// Freezes implements [platform.Freezer].
func (p *oci) Freezes(context.Context, platform.Setting) error {
	if err := platform.CheckRuntimeFreezes(p.Name(), p.runtime); err != nil {
		return err
	}
	return platform.CheckFreezer()
}

// supportsCPUs refuses a cpuset beyond the host's CPUs.
func (p *oci) supportsCPUs(s platform.Setting) error {
	if s.CPUSet == "" {
		return nil
	}
	wanted, err := platform.ParseCPUList(s.CPUSet)
	if err != nil {
		return err
	}
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil // the kernel itself will say
	}
	online, err := platform.ParseCPUList(string(b))
	if err != nil {
		return err
	}
	for _, c := range wanted {
		if !slices.Contains(online, c) {
			return &platform.Unsupported{Platform: p.Name(), Key: "cpuset-cpus=" + s.CPUSet,
				Reason: "this host has CPUs " + platform.FormatCPUList(online)}
		}
	}
	return nil
}

// Prepare has nothing to make of an image, whose root is used where it lies.
// It finds out, once, what the runtime needs on this host.
func (p *oci) Prepare(ctx context.Context, img image.Image) error {
	if info, err := os.Stat(img.Root); err != nil || !info.IsDir() {
		return fmt.Errorf("image %s: its root file system %q is not there: make the image again", img.Name, img.Root)
	}
	return p.probe(ctx)
}

// Release has nothing to remove.
func (p *oci) Release(context.Context) error { return nil }

// Launch implements [platform.Platform].
func (p *oci) Launch(ctx context.Context, spec platform.Spec) (platform.Instance, error) {
	return held.Launch(ctx, p, spec)
}

// Create lays out everything that the runtime finds when it is called: files,
// cgroup, network, the bundle's configuration, the program's streams, and a
// thread that sees of the host what the runtime can bear. The runtime itself
// is not called: what it does to a container at rest, by [Verbs], is the start.
func (p *oci) Create(ctx context.Context, spec platform.Spec) (_ platform.Created, err error) {
	if err := p.Supports(spec.Setting); err != nil {
		return nil, err
	}
	if spec, err = spec.Grant(); err != nil {
		return nil, err
	}
	if err := p.probe(ctx); err != nil {
		return nil, err
	}
	program, err := spec.Process()
	if err != nil {
		return nil, err
	}
	if n := spec.Setting.Network; n == "" || n == platform.NetworkHost {
		if err := spec.CheckPorts(); err != nil {
			return nil, err
		}
	}
	// The program outlives the runtime that starts it, and is waited for here.
	if err := process.Adopt(); err != nil {
		return nil, err
	}
	l := &launch{oci: p, spec: spec, program: program, things: held.New(p.options.Ledger)}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.clear(context.WithoutCancel(ctx)))
		}
	}()
	for _, step := range []func(context.Context) error{
		l.layFiles, l.makeGroup, l.makeNetwork, l.layBundle, l.readyRuntime,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return held.NewCreated(held.Steps{ID: spec.Name, Start: l.start, Hold: l.take, Clear: l.clear}), nil
}

// Remove removes what an entry of the ledger names.
func (p *oci) Remove(ctx context.Context, e platform.Entry) error {
	switch e.Kind {
	case held.Directory:
		trials, err := rootfs.Trials(p.options.StateDir)
		if err != nil {
			return err
		}
		return rootfs.Remove(trials, e.ID)
	case held.Cgroup:
		return held.RemoveCgroup(ctx, e)
	case held.Process:
		return held.RemoveProcess(ctx, e)
	case held.NetNS:
		return p.removeNamespace(e)
	case held.Link:
		return p.removeLink(ctx, e)
	case container:
		if err := p.probe(ctx); err != nil {
			return err
		}
		return p.delete(ctx, e.ID)
	}
	return fmt.Errorf("%s enters no %s in the ledger, and knows no way to remove %q", p.Name(), e.Kind, e.ID)
}
