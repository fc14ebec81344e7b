// Package container finds the containers that run on this host, whoever started
// them, and describes each as something that a probe can watch.
//
// It asks the engines that answer (Docker's and podman's API, containerd and CRI-O, the
// names that Kubernetes leaves in their labels), and finds in the cgroup
// trees what no engine owns. It changes nothing and starts nothing.
package container

import "time"

// Engine is whose a container is.
type Engine string

// The engines. CRIO is named in notes alone: what it runs is Kubernetes'. Cgroup is a control
// group with processes that no engine that answers owns; Process is a process named by its id.
const (
	Docker     Engine = "docker"
	Podman     Engine = "podman"
	Containerd Engine = "containerd"
	Kubernetes Engine = "kubernetes"
	CRIO       Engine = "crio"
	Cgroup     Engine = "cgroup"
	Process    Engine = "process"
)

// Container is a running container.
type Container struct {
	Engine Engine `json:"engine"`
	ID     string `json:"id"`    // the engine's; the cgroup's path, the process' id
	Name   string `json:"name"`  // by which its user knows it; never empty
	Image  string `json:"image"` // as its user wrote it; empty where there is none
	// ImageID is the image's digest, by which containers of one image are recognised;
	// empty where it is unknown.
	ImageID string            `json:"image_id,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// PID is the host's id of its first process.
	PID int `json:"pid"`
	// Cgroup is the directory, in whichever hierarchy serves, below which all its
	// processes are: "/sys/fs/cgroup/memory/docker/3f2a...". Empty for a Process.
	Cgroup string `json:"cgroup,omitempty"`
	// Groups are the directories of its own group in version 2 and in the hierarchy with the
	// memory controller, where it has one there; engines need not give both one path.
	Groups []string `json:"-"`
	// Unprivileged means that its name, image and labels are such as an ordinary user may
	// have chosen, and prove nothing: a user's engine reported it, or a directory above its
	// group is not root's alone, so that a user may make groups there by any name.
	Unprivileged bool `json:"unprivileged,omitempty"`
	// Told is true where the engine reported it that its user gave it to. What its control group shows,
	// and containerd of what Docker runs, has most often an id for a name, and not its labels.
	Told bool `json:"-"`

	// Kept is what the engine does for it while it runs, as far as the engine describes that.
	Kept Kept `json:"-"`

	inner []string // directories, below Cgroup, of others that an engine reported
}

// Argument is the container as a command line names it.
func (c Container) Argument() string {
	if c.Engine == Process {
		return "pid:" + c.ID
	}
	return c.Name
}

// Kept is what an engine does for a container while it runs.
type Kept struct {
	// CheckEvery is the interval of its health check; 0 where there is none.
	CheckEvery time.Duration
	HasCPUs    bool // it was made with --cpus: a quota of another form is refused
	// HasSwapLimit tells that memory and swap together have a limit. It exceeds that of memory by Swap, in bytes.
	HasSwapLimit bool
	Swap         int64
	LogDriver    string // "json-file"
	// Log is the file to which the engine writes its output; empty where it writes none, or
	// the engine is a user's and may name any file.
	Log string
	// Addresses are its own in the networks of the engine.
	Addresses []string
}
