// Package box makes the machine whose memory runs out, in small: a bound around several
// programs, a place for their pages to go to, and what is done for the critical ones
// among them.
//
// A box is a control group with a limit (platform.BoxGroup), or all of the kernel that
// it is made under (platform.BoxMachine). In it are a group of the critical programs and
// one of the idle ones, in every hierarchy, so that either's memory, pressure and CPU
// time are read apart; instances make their own groups in those, by platform.Spec.Group.
// It is made on the kernel that this program runs on: the agent in a virtual machine
// makes one there.
//
// It is no resource manager, and starts no programs. What a box of control groups is
// not: it has no reclaimer of its own. Whoever allocates at its limit reclaims there
// and then, the critical service too, where a machine has kswapd do most of that beside.
//
// # Whose memory compressed swap takes
//
// The pool of zram is charged to nobody, and that of zswap to nobody on version 1 of
// cgroups: a box with either would have more memory than one without. So the [keeper]
// follows the pool and takes its size from the box's limit; a reading tells both. On
// version 2 zswap's pool is charged to the groups whose pages are in it, and nothing is
// taken. (Documentation/admin-guide/blockdev/zram.rst, mm_stat; obj_cgroup_charge_zswap
// of mm/memcontrol.c.)
//
// # What it leaves
//
// Nothing: each thing is in the ledger before it exists, with the value that was found
// (held.Things); [Remove] undoes one entry of a killed program's, and a value only where
// it is still ours. Groups are made last, so that the programs in them are ended before
// their pages' place is taken away. A memory extension is begun after the groups are there
// and ended before them: what it has set is put back while there is something to put it
// back on.
package box

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sync"

	"tare/kernel/cgroup"
	"tare/kernel/swap"
	"tare/platform"
	"tare/platform/held"
)

// Entered is the name of the platform that removes what is entered in the ledger here.
const Entered = "box"

// Options are what boxes are made with.
type Options struct {
	// StateDir is tare's directory on this host; swap files lie in swap/ below it.
	StateDir string
	// Ledger lists what is made; nil lists it nowhere.
	Ledger platform.Ledger
	// Disruptive allows what reaches every program on the host: settings of the kernel
	// (page-cluster, zswap), and a box that is the whole host.
	Disruptive bool
	// Own says that the kernel is there for the boxes alone, as a virtual machine's is:
	// everything is allowed, and there is nobody to be put in danger.
	Own bool
	// Extender is the executable of [platform.ExtendAnnex]; empty is looked for
	// ([FindProgram]).
	Extender string
}

// Maker makes boxes. Its methods may be called from several goroutines.
type Maker struct {
	options Options
	ground  ground
}

// New gives a maker of boxes on this host. It touches nothing.
func New(o Options) *Maker { return &Maker{options: o} }

// Allow is New's Disruptive, for whoever learns of it later. It comes before Check.
func (m *Maker) Allow() { m.options.Disruptive = true }

// ground is the kernel below: its zero value is this host's.
type ground struct {
	swap swap.Host
	root string // holds proc; empty is "/"
}

func (g ground) proc(name string) string { return filepath.Join("/", g.root, "proc", name) }

// madeBox is a box that was made.
type madeBox struct {
	spec   platform.BoxSpec
	own    bool
	ground ground
	layout cgroup.Layout
	group  cgroup.Group
	ledger platform.Ledger
	things *held.Things
	area   area
	keeper *keeper
	kills  kills
	notes  []string
	// extension is nil where it has none.
	extension *extender

	ending sync.Mutex
}

var (
	_ platform.Box     = (*madeBox)(nil)
	_ platform.Watched = (*madeBox)(nil)
)

// Group implements [platform.Box].
func (b *madeBox) Group(c platform.Class) string { return path.Join(b.spec.Name, string(c)) }

// class is the control group of a class.
func (b *madeBox) class(c platform.Class) cgroup.Group { return b.group.Child(string(c)) }

// Remove implements [platform.Box]. It may be called again.
func (b *madeBox) Remove(ctx context.Context) error {
	b.ending.Lock()
	defer b.ending.Unlock()
	b.keeper.end()
	if err := b.things.Drop(ctx); err != nil {
		return fmt.Errorf("remove box %s: %w", b.spec.Name, err)
	}
	return nil
}

// Make makes a box. When it returns an error nothing is left, or the error says what is.
func (m *Maker) Make(ctx context.Context, spec platform.BoxSpec) (_ platform.Box, err error) {
	if err := m.Check(ctx, spec); err != nil {
		return nil, err
	}
	layout, err := cgroup.Host()
	if err != nil {
		return nil, err
	}
	b := &madeBox{
		spec: spec, own: m.options.Own, ground: m.ground, layout: layout,
		group:  layout.At(path.Join(platform.CgroupParent, spec.Name)),
		ledger: m.options.Ledger, things: held.New(m.options.Ledger),
	}
	if b.group.Exists() {
		return nil, fmt.Errorf("make box %s: there is a cgroup %s already: `tare clean` removes what a killed tare left", spec.Name, b.group)
	}
	defer func() {
		if err == nil {
			return
		}
		err = fmt.Errorf("make box %s: %w", spec.Name, err)
		if dropping := b.things.Drop(context.WithoutCancel(ctx)); dropping != nil {
			err = fmt.Errorf("%w; %w", err, dropping)
		}
	}()
	if err := b.takeSwap(ctx, filepath.Join(m.options.StateDir, swapDirectory)); err != nil {
		return nil, err
	}
	if err := b.takeCluster(ctx); err != nil {
		return nil, err
	}
	end := func(ctx context.Context) error { return held.EndGroup(ctx, b.group) }
	if err := b.things.Take(ctx, held.CgroupEntry(Entered, b.group), b.lay, end); err != nil {
		return nil, err
	}
	if err := b.takeExtension(ctx, m); err != nil {
		return nil, err
	}
	b.keeper = keep(b)
	return b, nil
}

// controllers are those that version 2 hands down to the classes: what instances bound,
// and what is read here.
func controllers(l cgroup.Layout) []string {
	var all []string
	for _, c := range []string{"cpu", "cpuset", "io", "memory", "pids"} {
		if _, ok := l.For(c); ok {
			all = append(all, c)
		}
	}
	return all
}

// lay makes the groups, with their bounds.
func (b *madeBox) lay() error {
	if err := b.group.Create(controllers(b.layout)...); err != nil {
		return err
	}
	if err := b.bind(); err != nil {
		return err
	}
	for _, c := range platform.Classes {
		if err := b.class(c).Create(controllers(b.layout)...); err != nil {
			return err
		}
	}
	return b.protect()
}

// bind sets the box's own limit: its memory, and no more swap than there is of its own,
// so that nothing of it goes to the host's.
func (b *madeBox) bind() error {
	swapping := b.area.size
	if b.spec.Kind == platform.BoxMachine {
		if b.spec.Swap != platform.SwapNone || !unified(b.layout) {
			return nil
		}
		return b.group.BoundMemory(cgroup.NoBound, 0)
	}
	return b.group.BoundMemory(wholePages(b.spec.Memory), swapping)
}

// unified tells whether memory is version 2's.
func unified(l cgroup.Layout) bool {
	h, ok := l.For("memory")
	return ok && h.Version == 2
}

func wholePages(bytes int64) int64 { return bytes &^ int64(os.Getpagesize()-1) }
