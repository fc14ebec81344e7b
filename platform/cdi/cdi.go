// Package cdi gives containers devices in the words of the Container Device Interface:
// a specification names devices, and what each takes of a container (nodes, mounts,
// variables, hooks), so that whatever starts the container need not know the vendor.
//
// [NVIDIA] makes one of a host's devices, and [Resolve] finds what devices take. Nothing here
// touches a device or a container.
//
// Source: CNCF's Container Device Interface specification (SPEC.md), versions 0.3 to 0.8.
package cdi

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Spec is a specification.
type Spec struct {
	Version string `json:"cdiVersion"` // "0.6.0"
	// Kind is the vendor's name and the class of devices: "nvidia.com/gpu".
	Kind        string            `json:"kind"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Devices     []Device          `json:"devices"`
	// Edits are of every container that has one of the devices.
	Edits Edits `json:"containerEdits,omitzero"`
}

// Device is one that can be asked for.
type Device struct {
	Name        string            `json:"name"` // "0", "all"
	Annotations map[string]string `json:"annotations,omitempty"`
	Edits       Edits             `json:"containerEdits"`
}

// Edits are what a device takes of a container.
type Edits struct {
	Env       []string `json:"env,omitempty"` // KEY=value
	Nodes     []Node   `json:"deviceNodes,omitempty"`
	Mounts    []Mount  `json:"mounts,omitempty"`
	Hooks     []Hook   `json:"hooks,omitempty"`
	ExtraGIDs []uint32 `json:"additionalGids,omitempty"` // from version 0.7
}

// Node is a device node. What is not said is as on the host.
type Node struct {
	Path        string       `json:"path"`               // in the container
	HostPath    string       `json:"hostPath,omitempty"` // empty is the same
	Type        string       `json:"type,omitempty"`     // "c", "b", "u", "p"
	Major       int64        `json:"major,omitempty"`
	Minor       int64        `json:"minor,omitempty"`
	FileMode    *fs.FileMode `json:"fileMode,omitempty"`
	Permissions string       `json:"permissions,omitempty"` // "rwm": read, write, mknod; empty is all
	UID         *uint32      `json:"uid,omitempty"`
	GID         *uint32      `json:"gid,omitempty"`
}

// Mount is a mount.
type Mount struct {
	HostPath      string   `json:"hostPath"`
	ContainerPath string   `json:"containerPath"`
	Type          string   `json:"type,omitempty"`
	Options       []string `json:"options,omitempty"`
}

// Hook is a program that the runtime executes on the host.
type Hook struct {
	Name    string   `json:"hookName"` // "createContainer"
	Path    string   `json:"path"`
	Args    []string `json:"args,omitempty"` // the first is its own name
	Env     []string `json:"env,omitempty"`
	Timeout *int     `json:"timeout,omitempty"` // seconds
}

// Resolve gives what devices take of a container together, by their qualified names
// ("nvidia.com/gpu=0"). What all devices of a specification take is in it once.
func Resolve(specs []*Spec, names ...string) (Edits, error) {
	var all Edits
	taken := map[*Spec]bool{}
	for _, name := range names {
		kind, device, ok := strings.Cut(name, "=")
		if !ok {
			return Edits{}, fmt.Errorf("device %q: write vendor/class=name, as nvidia.com/gpu=0", name)
		}
		var from *Spec
		var found Device
		var known []string
		for _, s := range specs {
			if s.Kind != kind {
				continue
			}
			for _, d := range s.Devices {
				if d.Name == device {
					from, found = s, d
				}
				known = append(known, s.Kind+"="+d.Name)
			}
		}
		if from == nil {
			if len(known) == 0 {
				return Edits{}, fmt.Errorf("device %q: no specification has devices of kind %s", name, kind)
			}
			return Edits{}, fmt.Errorf("device %q: there are %s", name, strings.Join(known, ", "))
		}
		if !taken[from] {
			taken[from] = true
			all = all.and(from.Edits)
		}
		all = all.and(found.Edits)
	}
	return all, nil
}

// and joins edits; the same node or mount, which devices may share, is there once.
func (e Edits) and(o Edits) Edits {
	e.Env = slices.Concat(e.Env, o.Env)
	e.Nodes, e.Mounts = slices.Clone(e.Nodes), slices.Clone(e.Mounts)
	for _, n := range o.Nodes {
		if !slices.ContainsFunc(e.Nodes, func(m Node) bool { return m.Path == n.Path }) {
			e.Nodes = append(e.Nodes, n)
		}
	}
	for _, m := range o.Mounts {
		if !slices.ContainsFunc(e.Mounts, func(n Mount) bool { return n.ContainerPath == m.ContainerPath }) {
			e.Mounts = append(e.Mounts, m)
		}
	}
	e.Hooks = slices.Concat(e.Hooks, o.Hooks)
	e.ExtraGIDs = slices.Concat(e.ExtraGIDs, o.ExtraGIDs)
	return e
}
