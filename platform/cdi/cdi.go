// Package cdi gives containers devices in the words of the Container Device Interface:
// a specification names devices, and what each takes of a container (nodes, mounts,
// variables, hooks), so that whatever starts the container need not know the vendor.
//
// [Parse] reads such specifications, the vendor's tool's among them; [NVIDIA] makes one
// where that tool is missing; [Edits.Apply] has a runtime's configuration carry them out.
// Nothing here touches a device or a container.
//
// Source: CNCF's Container Device Interface specification (SPEC.md), versions 0.3 to 0.8.
package cdi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Spec is a specification.
type Spec struct {
	Version string `json:"cdiVersion" yaml:"cdiVersion"` // "0.6.0"
	// Kind is the vendor's name and the class of devices: "nvidia.com/gpu".
	Kind        string            `json:"kind" yaml:"kind"`
	Annotations map[string]string `json:"annotations,omitempty" yaml:"annotations,omitempty"`
	Devices     []Device          `json:"devices" yaml:"devices"`
	// Edits are of every container that has one of the devices.
	Edits Edits `json:"containerEdits,omitzero" yaml:"containerEdits,omitempty"`
}

// Device is one that can be asked for.
type Device struct {
	Name        string            `json:"name" yaml:"name"` // "0", "all"
	Annotations map[string]string `json:"annotations,omitempty" yaml:"annotations,omitempty"`
	Edits       Edits             `json:"containerEdits" yaml:"containerEdits"`
}

// Edits are what a device takes of a container.
type Edits struct {
	Env       []string `json:"env,omitempty" yaml:"env,omitempty"` // KEY=value
	Nodes     []Node   `json:"deviceNodes,omitempty" yaml:"deviceNodes,omitempty"`
	Mounts    []Mount  `json:"mounts,omitempty" yaml:"mounts,omitempty"`
	Hooks     []Hook   `json:"hooks,omitempty" yaml:"hooks,omitempty"`
	ExtraGIDs []uint32 `json:"additionalGids,omitempty" yaml:"additionalGids,omitempty"` // from version 0.7
}

// Node is a device node. What is not said is as on the host.
type Node struct {
	Path        string       `json:"path" yaml:"path"`                             // in the container
	HostPath    string       `json:"hostPath,omitempty" yaml:"hostPath,omitempty"` // empty is the same
	Type        string       `json:"type,omitempty" yaml:"type,omitempty"`         // "c", "b", "u", "p"
	Major       int64        `json:"major,omitempty" yaml:"major,omitempty"`
	Minor       int64        `json:"minor,omitempty" yaml:"minor,omitempty"`
	FileMode    *fs.FileMode `json:"fileMode,omitempty" yaml:"fileMode,omitempty"`
	Permissions string       `json:"permissions,omitempty" yaml:"permissions,omitempty"` // "rwm": read, write, mknod; empty is all
	UID         *uint32      `json:"uid,omitempty" yaml:"uid,omitempty"`
	GID         *uint32      `json:"gid,omitempty" yaml:"gid,omitempty"`
}

// Mount is a mount.
type Mount struct {
	HostPath      string   `json:"hostPath" yaml:"hostPath"`
	ContainerPath string   `json:"containerPath" yaml:"containerPath"`
	Type          string   `json:"type,omitempty" yaml:"type,omitempty"`
	Options       []string `json:"options,omitempty" yaml:"options,omitempty"`
}

// Hook is a program that the runtime executes on the host.
type Hook struct {
	Name    string   `json:"hookName" yaml:"hookName"` // "createContainer"
	Path    string   `json:"path" yaml:"path"`
	Args    []string `json:"args,omitempty" yaml:"args,omitempty"` // the first is its own name
	Env     []string `json:"env,omitempty" yaml:"env,omitempty"`
	Timeout *int     `json:"timeout,omitempty" yaml:"timeout,omitempty"` // seconds
}

// versions are those whose fields are known here, and what they lack is not asked for.
var versions = []string{"0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0"}

var (
	vendorShape = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)
	classShape  = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)
	nameShape   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$`)
	hookNames   = []string{"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
)

// Parse reads a specification in JSON or YAML, which JSON is. The error says in one line
// what is wrong with it.
func Parse(text []byte) (*Spec, error) {
	var s Spec
	if err := yaml.Unmarshal(text, &s); err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("no specification of devices: %s", line)
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return &s, nil
}

// JSON is the specification as a file has it.
func (s *Spec) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(s, "", "  ")
	return append(text, '\n'), err
}

// Validate tells what is wrong with it; nil is nothing.
func (s *Spec) Validate() error {
	if !slices.Contains(versions, s.Version) {
		return fmt.Errorf("a specification of devices of version %q: known are %s to %s", s.Version, versions[0], versions[len(versions)-1])
	}
	vendor, class, ok := strings.Cut(s.Kind, "/")
	if !ok || !vendorShape.MatchString(vendor) || !classShape.MatchString(class) {
		return fmt.Errorf("a specification of devices of kind %q: it has to be vendor/class, as nvidia.com/gpu", s.Kind)
	}
	if len(s.Devices) == 0 {
		return fmt.Errorf("a specification of %s without devices", s.Kind)
	}
	seen := map[string]bool{}
	for _, d := range s.Devices {
		switch {
		case !nameShape.MatchString(d.Name):
			return fmt.Errorf("%s: a device is called %q: letters, digits and _ - . : are allowed", s.Kind, d.Name)
		case seen[d.Name]:
			return fmt.Errorf("%s: two devices are called %s", s.Kind, d.Name)
		case d.Edits.empty():
			return fmt.Errorf("%s=%s takes nothing of a container", s.Kind, d.Name)
		}
		seen[d.Name] = true
		if err := d.Edits.validate(); err != nil {
			return fmt.Errorf("%s=%s: %w", s.Kind, d.Name, err)
		}
	}
	if err := s.Edits.validate(); err != nil {
		return fmt.Errorf("%s: %w", s.Kind, err)
	}
	return nil
}

func (e Edits) empty() bool {
	return len(e.Env)+len(e.Nodes)+len(e.Mounts)+len(e.Hooks)+len(e.ExtraGIDs) == 0
}

func (e Edits) validate() error {
	for _, kv := range e.Env {
		if key, _, ok := strings.Cut(kv, "="); !ok || key == "" {
			return fmt.Errorf("variable %q is not KEY=value", kv)
		}
	}
	for _, n := range e.Nodes {
		switch {
		case !filepath.IsAbs(n.Path):
			return fmt.Errorf("the path of device node %q is not absolute", n.Path)
		case n.HostPath != "" && !filepath.IsAbs(n.HostPath):
			return fmt.Errorf("the host's path of device node %s, %q, is not absolute", n.Path, n.HostPath)
		case !slices.Contains([]string{"", "b", "c", "u", "p"}, n.Type):
			return fmt.Errorf("device node %s is of type %q: b, c, u and p are known", n.Path, n.Type)
		case strings.Trim(n.Permissions, "rwm") != "":
			return fmt.Errorf("device node %s has permissions %q: r, w and m are known", n.Path, n.Permissions)
		}
	}
	for _, m := range e.Mounts {
		if m.HostPath == "" || !filepath.IsAbs(m.ContainerPath) {
			return fmt.Errorf("a mount of %q on %q: both paths are needed, the latter absolute", m.HostPath, m.ContainerPath)
		}
	}
	for _, h := range e.Hooks {
		switch {
		case !slices.Contains(hookNames, h.Name):
			return fmt.Errorf("hook %q: known are %s", h.Name, strings.Join(hookNames, ", "))
		case !filepath.IsAbs(h.Path):
			return fmt.Errorf("the path of hook %s, %q, is not absolute", h.Name, h.Path)
		}
	}
	return nil
}

// Dirs are where specifications lie on a host; of two of a device that in a later one
// counts.
var Dirs = []string{"/etc/cdi", "/var/run/cdi"}

// Find reads the specifications in directories. One that is not there is passed over, and one
// that cannot be read does not keep the others from being: the error has a line for each.
func Find(dirs ...string) ([]*Spec, error) {
	var all []*Spec
	var wrong []error
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); e.IsDir() || ext != ".json" && ext != ".yaml" {
				continue
			}
			path := filepath.Join(dir, e.Name())
			text, err := os.ReadFile(path)
			if err == nil {
				var s *Spec
				if s, err = Parse(text); err == nil {
					all = append(all, s)
					continue
				}
			}
			wrong = append(wrong, fmt.Errorf("%s: %w", path, err))
		}
	}
	return all, errors.Join(wrong...)
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
