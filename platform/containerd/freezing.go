package containerd

import (
	"context"
	"time"

	"tare/platform"
)

var (
	_ platform.Freezer   = (*Platform)(nil)
	_ platform.Freezing  = (*instance)(nil)
	_ platform.Attending = (*instance)(nil)
)

// Freezes implements [platform.Freezer].
func (p *Platform) Freezes(_ context.Context, s platform.Setting) error {
	r, err := runtimeOf(s.Runtime)
	if err != nil {
		return err
	}
	if err := r.freezes(); err != nil {
		return err
	}
	return platform.CheckFreezer()
}

func (r runtime) freezes() error { return platform.CheckRuntimeFreezes(Name, r.String()) }

// Freeze implements [platform.Freezing].
func (i *instance) Freeze(ctx context.Context) error {
	if err := i.l.runtime.freezes(); err != nil {
		return err
	}
	return i.Program.Freeze(ctx, i.group)
}

// Thaw implements [platform.Freezing].
func (i *instance) Thaw(ctx context.Context) error {
	if err := i.l.runtime.freezes(); err != nil {
		return err
	}
	return i.Program.Thaw(ctx, i.group)
}

// Attendants implements [platform.Attending]: containerd and the container's shim.
// containerd serves all containers, those of others too.
func (i *instance) Attendants() (time.Duration, error) {
	return i.Attend(func() ([]int, error) { return i.l.p.Serving(context.Background(), i.Container) })
}
