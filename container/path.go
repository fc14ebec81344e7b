package container

import (
	"path"
	"strings"
)

// Owner is what the path of a control group says of the container that it
// holds, or that it lies in.
type Owner struct {
	Engine Engine
	// ID is the engine's; where engines give none, the name.
	ID string
	// Name is what a path says of the name: the one that the group has, or as much
	// of the ID as engines show.
	Name string
	// Pod is the id of the Kubernetes pod, empty where there is none.
	Pod string
	// Path is the part of the path that ends in the container's own group. What is
	// below was made inside the container.
	Path string
}

const (
	idLength    = 64 // of the ids that engines draw, in hexadecimal digits
	shortLength = 12 // as much of one as they show
)

// ParsePath recognises the container that a control group belongs to, from the
// names that engines give groups, by systemd's driver (docker-ID.scope) and the
// plain one (/docker/ID). Of containers inside a container it gives the outermost, so
// that every process is one container's. It is false for groups that are none's:
// services, sessions, the root.
func ParsePath(name string) (Owner, bool) {
	if !strings.HasPrefix(name, "/") {
		return Owner{}, false
	}
	name = path.Clean(name)
	parts := strings.Split(name[1:], "/")
	var pod string
	for i, part := range parts {
		above := ""
		if i > 0 {
			above = parts[i-1]
		}
		if id := podOf(part); id != "" {
			pod = id
			if !strings.Contains(part, ":") {
				continue
			}
		}
		o, ok := recognise(above, part)
		if i == 1 && above == "tare" && !strings.HasSuffix(part, ".keeper") {
			o, ok = named(part), true // one of our own trials
		}
		if !ok {
			continue
		}
		if o.Path = "/" + strings.Join(parts[:i+1], "/"); pod != "" {
			o.Engine, o.Pod = Kubernetes, pod
		}
		switch {
		case o.Name == "":
			o.Name = short(o.ID)
		case o.Name[0] == '-', strings.Contains(o.Name, ":"):
			o.Name = o.Path // no flag of a command, and no other way to name one, as pid:1
		}
		return o, true
	}
	return Owner{}, false
}

// scopes are the prefixes with which systemd's driver marks an engine's
// containers; some of them the plain driver uses too.
var scopes = []struct {
	prefix string
	engine Engine
}{
	{"docker-", Docker},
	{"libpod-", Podman},
	{"libpod-payload-", Podman},
	{"cri-containerd-", Containerd},
	{"nerdctl-", Containerd},
	{crioGroup, Kubernetes},
}

// recognise finds a container's group by its name and that of the one above.
func recognise(above, name string) (Owner, bool) {
	bare := strings.TrimSuffix(name, ".scope")
	for _, s := range scopes {
		if id, ok := strings.CutPrefix(bare, s.prefix); ok && isID(id) {
			return Owner{Engine: s.engine, ID: id}, true
		}
	}
	// containerd with the plain driver, set to use systemd's names:
	// "kubepods-pod12.slice:cri-containerd:3f2a...".
	if f := strings.Split(name, ":"); len(f) == 3 && isID(f[2]) {
		engine := Containerd
		if f[1] == "docker" {
			engine = Docker
		}
		return Owner{Engine: engine, ID: f[2]}, true
	}
	if payload, ok := strings.CutPrefix(name, "lxc.payload."); ok && payload != "" {
		return named(payload), true
	}
	if machine, ok := strings.CutPrefix(name, "systemd-nspawn@"); ok && strings.HasSuffix(machine, ".service") && machine != ".service" {
		return named(strings.TrimSuffix(machine, ".service")), true
	}
	switch {
	case above == "docker" && isID(name):
		return Owner{Engine: Docker, ID: name}, true
	case above == "lxc", above == "lxc.payload":
		return named(name), true
	case isID(name):
		return Owner{Engine: Cgroup, ID: name}, true
	}
	return Owner{}, false
}

func named(name string) Owner { return Owner{Engine: Cgroup, ID: name, Name: name} }

// podOf reads the pod's id from its group: "pod1b2c..." below "kubepods", or
// "kubepods-burstable-pod1b2c....slice" with underscores, since systemd takes a dash
// for a level of its own.
func podOf(name string) string {
	name, _, _ = strings.Cut(name, ":")
	slice, systemd := strings.CutSuffix(name, ".slice")
	if systemd {
		if !strings.HasPrefix(slice, "kubepods-") && !strings.HasPrefix(slice, "kubelet-kubepods-") {
			return ""
		}
		slice = slice[strings.LastIndexByte(slice, '-')+1:]
	}
	id, ok := strings.CutPrefix(slice, "pod")
	if id = strings.ReplaceAll(id, "_", "-"); !ok || !isPod(id) {
		return ""
	}
	return id
}

// isPod accepts a UUID, and the digest that names pods of files.
func isPod(id string) bool {
	digits := strings.ReplaceAll(id, "-", "")
	return len(digits) == 32 && isHex(digits)
}

func isID(name string) bool { return len(name) == idLength && isHex(name) }

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s != ""
}

// short is as much of an id as engines show.
func short(id string) string {
	if isID(id) {
		return id[:shortLength]
	}
	return id
}
