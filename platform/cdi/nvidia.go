package cdi

import (
	"path"
	"strconv"

	"tare/kernel/nvidia"
)

// Kind is that of NVIDIA's devices, as NVIDIA's own tool has it.
const Kind = "nvidia.com/gpu"

// LibraryDir is where a container finds the driver's libraries, which images of CUDA's have in
// LD_LIBRARY_PATH.
const LibraryDir = "/usr/local/nvidia/lib64"

// NVIDIA makes a specification of a host's devices, with the driver's libraries that
// CUDA programs load. Devices are called by the number of their node ("0"), by their UUID, and
// "all"; a part of a divided one by that number and its place among the parts ("1:0").
//
// It takes no hook, and so no program on the host: the libraries are mounted file by file
// under the names by which programs load them, into a directory of their own, and
// LD_LIBRARY_PATH leads there, where NVIDIA's tool makes links and a cache of the dynamic
// linker by hooks. Whoever carries the edits out keeps what the image has in that variable.
//
// The numbers of some nodes are given anew at each boot: it holds until then. The error
// is the inventory's [nvidia.Unfit] where no CUDA program could run.
func NVIDIA(v *nvidia.Inventory) (*Spec, error) {
	if err := v.Unfit(); err != nil {
		return nil, err
	}
	if v.WSL {
		return nil, &nvidia.Unfit{Cause: nvidia.NoNodes, What: "the devices are behind /dev/dxg, which is not described here", Mend: "give the container /dev/dxg and /usr/lib/wsl by hand"}
	}
	s := &Spec{Version: "0.6.0", Kind: Kind, Edits: shared(v)}
	var all Edits
	add := func(names []string, edits Edits) {
		for _, n := range names {
			if n != "" {
				s.Devices = append(s.Devices, Device{Name: n, Edits: edits})
			}
		}
		all = all.and(edits)
	}
	for _, g := range v.GPUs {
		if g.Node.Path == "" || g.Excluded {
			continue
		}
		number := strconv.Itoa(g.Minor)
		if !g.Divided {
			add([]string{number, g.UUID}, Edits{Nodes: []Node{node(g.Node)}})
			continue
		}
		for i, part := range g.Instances {
			edits := Edits{Nodes: []Node{node(g.Node)}}
			for _, n := range part.Nodes {
				if n.Major == 0 {
					return nil, &nvidia.Unfit{Cause: nvidia.NoNodes, What: n.Path + " is missing", Mend: "nvidia-modprobe -f /proc/driver/nvidia/capabilities/gpu" + number + "/mig/... makes it"}
				}
				edits.Nodes = append(edits.Nodes, node(n))
			}
			add([]string{number + ":" + strconv.Itoa(i)}, edits)
		}
	}
	add([]string{"all"}, all)
	return s, nil
}

// shared is what each container takes that has a device.
func shared(v *nvidia.Inventory) Edits {
	e := Edits{Env: []string{
		"NVIDIA_VISIBLE_DEVICES=void", // NVIDIA's own runtime, where it is the host's, adds nothing
		"LD_LIBRARY_PATH=" + LibraryDir,
	}}
	for _, n := range v.Control {
		e.Nodes = append(e.Nodes, node(n))
	}
	readOnly := []string{"ro", "nosuid", "nodev", "rbind", "rprivate"}
	for _, l := range v.Libraries {
		e.Mounts = append(
			e.Mounts,
			Mount{HostPath: l.Path, ContainerPath: path.Join(LibraryDir, l.Name), Options: readOnly},
		)
	}
	for _, f := range v.Firmware {
		// The driver reads it by this path, whatever the host has it at.
		to := path.Join("/lib/firmware/nvidia", path.Base(path.Dir(f)), path.Base(f))
		e.Mounts = append(e.Mounts, Mount{HostPath: f, ContainerPath: to, Options: readOnly})
	}
	for _, socket := range v.Sockets {
		e.Mounts = append(
			e.Mounts,
			Mount{
				HostPath:      socket,
				ContainerPath: socket,
				Options:       []string{"nosuid", "nodev", "rbind", "rprivate", "noexec"},
			},
		)
	}
	return e
}

// node keeps a node as it is on the host; programs read and write it, and make none.
func node(n nvidia.Node) Node {
	mode := n.Mode
	uid, gid := uint32(n.UID), uint32(n.GID)
	return Node{
		Path:        n.Path,
		Type:        "c",
		Major:       int64(n.Major),
		Minor:       int64(n.Minor),
		FileMode:    &mode,
		Permissions: "rw",
		UID:         &uid,
		GID:         &gid,
	}
}
