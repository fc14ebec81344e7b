package cdi

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Stat tells the numbers, permissions and owner of a device node of the host's, for
// nodes of which a specification says none.
type Stat func(path string) (Node, error)

// Apply has a runtime's configuration carry the edits out: nodes with the rules that
// allow them, mounts, variables, hooks, groups. Of variables the edits' count, but of
// LD_LIBRARY_PATH, whose directories come before those that are there. A nil stat is for
// edits that say all of their nodes.
func (e Edits) Apply(config *specs.Spec, stat Stat) error {
	if config.Process == nil || config.Linux == nil {
		return fmt.Errorf("a configuration without a process, or not of Linux, takes no devices")
	}
	if config.Linux.Resources == nil {
		config.Linux.Resources = &specs.LinuxResources{}
	}
	for _, n := range e.Nodes {
		if err := n.apply(config, stat); err != nil {
			return err
		}
	}
	for _, m := range e.Mounts {
		config.Mounts = slices.DeleteFunc(config.Mounts, func(o specs.Mount) bool { return path.Clean(o.Destination) == path.Clean(m.ContainerPath) })
		options := m.Options
		if len(options) == 0 {
			options = []string{"rbind"}
		}
		config.Mounts = append(config.Mounts, specs.Mount{Destination: m.ContainerPath, Source: m.HostPath, Type: cmp.Or(m.Type, "bind"), Options: options})
	}
	if len(e.Mounts) > 0 {
		// What lies within another mount is mounted after it.
		depth := func(m specs.Mount) int { return strings.Count(path.Clean(m.Destination), "/") }
		slices.SortStableFunc(config.Mounts, func(a, b specs.Mount) int { return cmp.Compare(depth(a), depth(b)) })
	}
	for _, kv := range e.Env {
		config.Process.Env = setVariable(config.Process.Env, kv)
	}
	config.Process.User.AdditionalGids = union(config.Process.User.AdditionalGids, e.ExtraGIDs)
	for _, h := range e.Hooks {
		h.apply(config)
	}
	return nil
}

func (n Node) apply(config *specs.Spec, stat Stat) error {
	kind, major, minor, mode, uid, gid := n.Type, n.Major, n.Minor, n.FileMode, n.UID, n.GID
	if kind == "" || major == 0 && minor == 0 && kind != "p" {
		if stat == nil {
			return fmt.Errorf("device node %s: its numbers are not in the specification, and nobody can be asked", n.Path)
		}
		host, err := stat(cmp.Or(n.HostPath, n.Path))
		if err != nil {
			return fmt.Errorf("device node %s: %w", n.Path, err)
		}
		kind, major, minor = host.Type, host.Major, host.Minor
		if mode == nil {
			mode = host.FileMode
		}
		if uid == nil {
			uid = host.UID
		}
		if gid == nil {
			gid = host.GID
		}
	}
	device := specs.LinuxDevice{Path: n.Path, Type: kind, Major: major, Minor: minor, UID: uid, GID: gid}
	if mode != nil {
		perm := *mode & fs.ModePerm
		device.FileMode = &perm
	}
	config.Linux.Devices = slices.DeleteFunc(config.Linux.Devices, func(d specs.LinuxDevice) bool { return d.Path == n.Path })
	config.Linux.Devices = append(config.Linux.Devices, device)
	if kind == "b" || kind == "c" {
		config.Linux.Resources.Devices = append(config.Linux.Resources.Devices, specs.LinuxDeviceCgroup{
			Allow: true, Type: kind, Major: &major, Minor: &minor, Access: cmp.Or(n.Permissions, "rwm"),
		})
	}
	return nil
}

// searchPath is the variable of which what is there is kept.
const searchPath = "LD_LIBRARY_PATH"

func setVariable(env []string, kv string) []string {
	key, value, _ := strings.Cut(kv, "=")
	for i, old := range env {
		was, ok := strings.CutPrefix(old, key+"=")
		if !ok {
			continue
		}
		if key == searchPath && was != "" {
			dirs := strings.Split(was, ":")
			dirs = slices.DeleteFunc(dirs, func(d string) bool { return d == value })
			value = strings.Join(append([]string{value}, dirs...), ":")
		}
		env = slices.Clone(env)
		env[i] = key + "=" + value
		return env
	}
	return append(slices.Clone(env), kv)
}

func union(a, b []uint32) []uint32 {
	for _, v := range b {
		if !slices.Contains(a, v) && v != 0 {
			a = append(a, v)
		}
	}
	return a
}

func (h Hook) apply(config *specs.Spec) {
	if config.Hooks == nil {
		config.Hooks = &specs.Hooks{}
	}
	hook := specs.Hook{Path: h.Path, Args: h.Args, Env: h.Env, Timeout: h.Timeout}
	hooks := config.Hooks
	switch h.Name {
	case "prestart":
		//lint:ignore SA1019 specifications of others still name it
		hooks.Prestart = append(hooks.Prestart, hook)
	case "createRuntime":
		hooks.CreateRuntime = append(hooks.CreateRuntime, hook)
	case "createContainer":
		hooks.CreateContainer = append(hooks.CreateContainer, hook)
	case "startContainer":
		hooks.StartContainer = append(hooks.StartContainer, hook)
	case "poststart":
		hooks.Poststart = append(hooks.Poststart, hook)
	case "poststop":
		hooks.Poststop = append(hooks.Poststop, hook)
	}
}
