package platform

import "context"

// Copying is a Platform that can say how a container of its engine was made, so that a copy of
// it can be launched. The container itself is only looked at.
type Copying interface {
	Platform
	// Original describes a container that runs, by the engine's id. The error is an
	// *[Uncopied] where it has ended, or its image is gone.
	Original(ctx context.Context, id string) (Original, error)
}

// Original is how a running container was made, as far as a copy can be made the same. What
// its control group limits is not here: see [tare/kernel/cgroup.Group.Own].
type Original struct {
	Image     string // the engine's id of it
	ImageName string // as its user wrote it
	Args, Env []string
	Dir, User string
	// Unrecorded are the variables of Env that are not the image's: they may be secrets.
	Unrecorded []string
	Ports      []int // TCP, published ones first
	Mounts     []OriginalMount
	Setting    Setting  // of limits, only those that are not read from its control group
	Lacks      []string // what a copy does not have, each a clause
}

// OriginalMount is what a container has at one place besides its image.
type OriginalMount struct {
	Kind     string // "bind", "volume", "tmpfs"
	Name     string // of a volume
	Source   string // on the host; empty where it is none of the host's directories
	Target   string
	ReadOnly bool
}

// Uncopied says why a container cannot be copied.
type Uncopied struct{ Name, Reason string }

func (u *Uncopied) Error() string { return u.Name + " cannot be copied: " + u.Reason }
