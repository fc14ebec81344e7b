package containerd

import (
	"context"
	"fmt"
	"time"

	"tare/kernel/accounting"
	"tare/kernel/process"
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

// Freeze implements [platform.Freezing]. containerd is not asked and does not know of it.
func (i *instance) Freeze(ctx context.Context) error {
	if err := i.freezes(); err != nil {
		return err
	}
	if err := platform.FreezeGroup(ctx, i.group); err != nil {
		return fmt.Errorf("freeze container %s: %w", i.l.spec.Name, err)
	}
	return nil
}

// Thaw implements [platform.Freezing].
func (i *instance) Thaw(ctx context.Context) error {
	if err := i.freezes(); err != nil {
		return err
	}
	return i.group.Thaw(ctx)
}

// freezes refuses where nothing of the container can be frozen.
func (i *instance) freezes() error {
	if err := i.l.runtime.freezes(); err != nil {
		return err
	}
	if i.process == nil || !alive(i.process.Identity) {
		return i.ended()
	}
	return nil
}

// Attendants implements [platform.Attending]: containerd and the container's shim. They are
// looked for once. containerd serves all containers, those of others too.
func (i *instance) Attendants() (time.Duration, error) {
	i.attending.Lock()
	defer i.attending.Unlock()
	if i.attendants == nil {
		daemon, err := i.l.p.daemon(context.Background())
		if err != nil {
			return 0, err
		}
		all, err := accounting.Take("/proc")
		if err != nil {
			return 0, err
		}
		pids := append(shims(all, func(id string) bool { return id == i.l.spec.Name }), daemon)
		if i.attendants, err = process.NewMeter(pids); err != nil {
			return 0, fmt.Errorf("find the processes that serve container %s: %w", i.l.spec.Name, err)
		}
	}
	return i.attendants.Read()
}
