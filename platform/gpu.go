package platform

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"tare/kernel/nvidia"
	"tare/platform/cdi"
)

// Edits are what a program is given of the host besides its root: in the words of the
// Container Device Interface, the container edits of a specification. Every platform
// gives the same ones, bare metal too.
type Edits struct {
	Env     []string // KEY=VALUE
	Devices []DeviceNode
	Mounts  []Mount
}

// show reports whether an absolute path leads into what the edits mount, so that the
// image's own files say nothing of it.
func (e Edits) show(name string) bool {
	name = path.Clean(name)
	for _, m := range e.Mounts {
		if target := path.Clean(m.Target); name == target || strings.HasPrefix(name, target+"/") {
			return true
		}
	}
	return false
}

// DeviceNode is a character device of the host, which the program sees at the same path.
type DeviceNode struct {
	Path         string // below /dev: "/dev/nvidia0"
	Major, Minor int
	Mode         fs.FileMode // permissions
	UID, GID     int
}

// Mount is a file or directory of the host, shown inside. Where a file is shown, bare
// metal shows nothing else in its directory.
type Mount struct {
	Source, Target string // both from a root
	ReadOnly       bool
	Directory      bool // what it is
}

// DriverLibraries is where a program that was given a GPU finds the driver's libraries.
const DriverLibraries = cdi.LibraryDir

// NoGPU is the setting of a program that is given none, as nothing is.
const NoGPU = "none"

// AllGPUs is that of a program that is given all of the host's.
const AllGPUs = "all"

// Grant gives the spec with what its setting grants of the host's devices among its
// edits, and with their variables below its own in the environment. Platforms call it
// first thing; what was granted already stays as it is. The error is a *[Missing] where
// the host lacks what the setting names.
func (s Spec) Grant() (Spec, error) {
	if s.granted {
		return s, nil
	}
	if s.Setting.GPU != "" && s.Setting.GPU != NoGPU {
		inventory, err := nvidia.Host{}.Read()
		if err != nil {
			return s, fmt.Errorf("gpu=%s: %w", s.Setting.GPU, err)
		}
		gpu, err := GPUEdits(s.Setting.GPU, inventory)
		if err != nil {
			return s, err
		}
		s.Edits = Edits{
			Env:     slices.Concat(gpu.Env, s.Edits.Env),
			Devices: slices.Concat(gpu.Devices, s.Edits.Devices),
			Mounts:  slices.Concat(gpu.Mounts, s.Edits.Mounts),
		}
	}
	s.Env = slices.Concat(s.Edits.Env, s.Env)
	s.granted = true
	return s, nil
}

// RefuseEdits is the error of a platform that gives a program nothing of the host's; nil
// where the spec has nothing to give. It is an *[Unsupported].
func (s Spec) RefuseEdits(name, reason string) error {
	if e := s.Edits; len(e.Env)+len(e.Devices)+len(e.Mounts) > 0 {
		return &Unsupported{Platform: name, Key: "devices and mounts of the host", Reason: reason}
	}
	return nil
}

// GPUEdits are those of a setting's gpu on a host that has what the inventory says, by the
// specification that package cdi makes of it: nodes, and the driver's libraries, each by
// the name that programs load it by, in a directory of their own. So no hook has to run in
// the container that makes links, or the linker's cache anew.
func GPUEdits(which string, has *nvidia.Inventory) (Edits, error) {
	missing := func(err error) (Edits, error) {
		return Edits{}, &Missing{What: "gpu=" + which + ": " + err.Error()}
	}
	spec, err := cdi.NVIDIA(has)
	if err != nil {
		return missing(err)
	}
	names, err := gpuNames(which, has)
	if err != nil {
		return missing(err)
	}
	edits, err := cdi.Resolve([]*cdi.Spec{spec}, names...)
	if err != nil {
		return missing(err)
	}
	return editsOf(edits)
}

// gpuNames are the specification's names of a setting's devices. One that is divided is
// given with all its parts.
func gpuNames(which string, has *nvidia.Inventory) ([]string, error) {
	if which == AllGPUs {
		return []string{cdi.Kind + "=all"}, nil
	}
	numbers, err := ParseCPUList(which) // the same form
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range numbers {
		name := cdi.Kind + "=" + strconv.Itoa(n)
		i := slices.IndexFunc(has.GPUs, func(g nvidia.GPU) bool { return g.Minor == n })
		if i < 0 || !has.GPUs[i].Divided {
			names = append(names, name)
			continue
		}
		for part := range has.GPUs[i].Instances {
			names = append(names, name+":"+strconv.Itoa(part))
		}
	}
	if len(names) == 0 {
		return nil, errors.New("it is divided (MIG), and has no compute instance: nvidia-smi mig -cgi ... -C makes one")
	}
	return names, nil
}

// editsOf takes what every platform can give of a specification's edits.
func editsOf(from cdi.Edits) (Edits, error) {
	e := Edits{Env: from.Env}
	if len(from.Hooks) > 0 {
		return e, fmt.Errorf("a specification of devices has hooks (%s), which bare metal does not run: take one without", from.Hooks[0].Path)
	}
	for _, n := range from.Nodes {
		d := DeviceNode{Path: n.Path, Major: int(n.Major), Minor: int(n.Minor)}
		if n.FileMode != nil {
			d.Mode = n.FileMode.Perm()
		}
		if n.UID != nil {
			d.UID = int(*n.UID)
		}
		if n.GID != nil {
			d.GID = int(*n.GID)
		}
		e.Devices = append(e.Devices, d)
	}
	for _, m := range from.Mounts {
		e.Mounts = append(
			e.Mounts,
			Mount{Source: m.HostPath, Target: m.ContainerPath, ReadOnly: slices.Contains(m.Options, "ro")},
		)
	}
	return e, nil
}

// GPUNode tells whether a path is the node of a GPU, and not of the driver's control.
func GPUNode(name string) bool {
	digits, ok := strings.CutPrefix(name, "/dev/nvidia")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}
