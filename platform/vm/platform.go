package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"tare/image"
	"tare/platform"
	"tare/platform/held"
	"tare/platform/linked"
)

// Platform is an inner platform in virtual machines. It implements [platform.Creator] and
// [platform.Boxing],
// and its instances [platform.Apart] and [platform.Watching].
type Platform struct {
	name Name
	pool *Pool
}

var (
	_ platform.Creator = (*Platform)(nil)
	_ platform.Freezer = (*Platform)(nil)
)

// New gives the platform of that path. Where the path names no engine, one is chosen
// ([Pool.Resolve]), and is part of the platform's name.
func New(n Name, pool *Pool) *Platform {
	return &Platform{pool.Resolve(context.Background(), n), pool}
}

// Remover is a platform that removes what a pool has entered in the ledger, for whoever
// cleans up after a crash: no engine is chosen for it.
func Remover(pool *Pool) *Platform {
	return &Platform{Name{Engine: TCG, Inner: "bare"}, pool}
}

// Name implements [platform.Platform].
func (p *Platform) Name() string { return p.name.String() }

// NotRepresentative says why figures from here do not stand for virtual machines as
// people run them; empty where they do.
func (p *Platform) NotRepresentative() string { return p.name.Engine.emulated() }

// Boots tells of the machines of this platform's engine that have booted.
func (p *Platform) Boots() []Boot {
	mine := "vm:" + string(p.name.Engine) + "+"
	return slices.DeleteFunc(p.pool.Boots(), func(b Boot) bool { return !strings.HasPrefix(b.Machine, mine) })
}

// Check implements [platform.Platform]. For KVM, the first time on a host, it boots a
// machine; what machines boot from is made, which fetches packages the first time.
func (p *Platform) Check(ctx context.Context) error {
	if err := p.present(); err != nil {
		return err
	}
	if _, err := p.pool.bootFiles(ctx); err != nil {
		return missing(err)
	}
	if p.name.Engine == KVM {
		return p.pool.tryKVM(ctx)
	}
	return nil
}

// Look is what can be said before Check, without making or booting anything. Of KVM that
// is what came of the last trial.
func (p *Platform) Look() error {
	if err := p.present(); err != nil || p.name.Engine != KVM {
		return err
	}
	return p.pool.recalled()
}

// present reports what the host lacks of what machines of the engine need.
func (p *Platform) present() error {
	if os.Geteuid() != 0 {
		return &platform.Missing{What: p.Name() + " needs root, to make disks, control groups and network devices", Mend: "sudo tare ..."}
	}
	if err := p.name.Engine.check(); err != nil {
		return err
	}
	if _, err := parentGroup(); err != nil {
		return &platform.Missing{What: p.Name() + " needs cgroups: " + err.Error()}
	}
	return nil
}

// missing makes an image's lack the platform's.
func missing(err error) error {
	if lack := new(image.Missing); errors.As(err, &lack) {
		return &platform.Missing{What: lack.What, Mend: lack.Mend}
	}
	return err
}

// Version implements [platform.Platform]: "QEMU 7.2.22 tcg, Linux 6.1.0-56-cloud-amd64,
// runc 1.1.5". What is in the machine is known once one has booted.
func (p *Platform) Version(ctx context.Context) string {
	parts := []string{p.name.Engine.version(ctx)}
	p.pool.making.Lock()
	files := p.pool.files
	p.pool.making.Unlock()
	if files != nil && files.Release != "" {
		parts = append(parts, "Linux "+files.Release)
	}
	if inside := p.pool.versionInside(p.name); inside != "" {
		parts = append(parts, inside)
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// Supports implements [platform.Platform].
func (p *Platform) Supports(s platform.Setting) error {
	_, err := p.plan(s)
	return err
}

func (p *Platform) plan(s platform.Setting) (plan, error) {
	h, err := p.pool.host()
	if err != nil {
		return plan{}, err
	}
	return p.name.plan(s, h)
}

// Reaches implements [platform.Reaching]: whoever is on a network is reached, by the
// machine's address or through its agent.
func (p *Platform) Reaches(s platform.Setting) error {
	if s.Network == platform.NetworkNone {
		return &platform.Unsupported{Platform: p.Name(), Key: "network=none", Reason: "a namespace with loopback alone is reached by nobody"}
	}
	return nil
}

// Freezes implements [platform.Freezer].
func (p *Platform) Freezes(context.Context, platform.Setting) error {
	return &platform.Unsupported{Platform: p.Name(), Key: "freezing", Reason: "the program's processes are another kernel's, out of reach of this one's freezer"}
}

// Prepare makes a disk of the image, once for all machines.
func (p *Platform) Prepare(ctx context.Context, img image.Image) error {
	if info, err := os.Stat(img.Root); err != nil || !info.IsDir() {
		return fmt.Errorf("image %s: its root file system %q is not there: make the image again", img.Name, img.Root)
	}
	return missing(p.pool.want(ctx, p, img))
}

// Release implements [platform.Platform]: the last platform's ends the machines.
func (p *Platform) Release(ctx context.Context) error { return p.pool.unwant(ctx, p) }

// Launch implements [platform.Platform].
func (p *Platform) Launch(ctx context.Context, spec platform.Spec) (platform.Instance, error) {
	return held.Launch(ctx, p, spec)
}

// Create implements [platform.Creator]: the machine runs, and the program is laid out in
// it.
func (p *Platform) Create(ctx context.Context, spec platform.Spec) (_ platform.Created, err error) {
	if len(spec.Args) == 0 {
		return nil, errors.New("no program was named")
	}
	l, plan, err := p.place(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.release(ctx)
		}
	}()
	inside, ok := l.client.Platform(p.name.Inner).(platform.Creator)
	if !ok {
		if err := l.client.Platform(p.name.Inner).Check(ctx); err != nil {
			return nil, l.ended(err)
		}
		return nil, fmt.Errorf("%s in the machine creates nothing", p.name.Inner)
	}
	if err := l.prepare(ctx, inside, spec.Image); err != nil {
		return nil, p.said(err)
	}
	p.pool.noteVersion(ctx, p.name, inside)
	spec.Setting = plan.inner
	c, err := inside.Create(ctx, spec)
	if err != nil {
		return nil, p.said(l.ended(err))
	}
	r := &resting{inside: c, lease: l, plan: plan, spec: spec}
	return held.NewCreated(held.Steps{ID: c.ID(), Start: r.start, Hold: r.hold, Clear: r.clear}), nil
}

// said has a refusal of the inner platform's be this one's.
func (p *Platform) said(err error) error {
	if refused := new(platform.Unsupported); errors.As(err, &refused) && refused.Platform == p.name.Inner {
		refused.Platform = p.Name()
	}
	return err
}

// Remove removes what an entry of the ledger names.
func (p *Platform) Remove(ctx context.Context, e platform.Entry) error {
	switch e.Kind {
	case held.Directory:
		parent, err := machinesIn(p.pool.options.StateDir)
		if err != nil {
			return err
		}
		return removeDirectory(parent, e.ID)
	case held.Cgroup:
		return held.RemoveCgroup(ctx, e)
	case held.Process:
		return held.RemoveProcess(ctx, e)
	case held.Link:
		return linked.RemoveLink(ctx, e)
	}
	return fmt.Errorf("%s enters no %s in the ledger, and knows no way to remove %q", p.Name(), e.Kind, e.ID)
}
