package box

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tare/kernel/cgroup"
	"tare/kernel/host"
	"tare/kernel/swap"
	"tare/platform"
	"tare/terminal"
)

// Smallest is the least memory of a box: below it there is no room for a page of each
// of the kernel's lists of each of a few programs.
const Smallest = 16 << 20

// Invalid says that no box can be as was asked, on whatever host, or that it reaches
// further than was allowed: what to ask instead is the user's to say.
type Invalid struct{ What, Mend string }

func (i *Invalid) Error() string { return i.What + ": " + i.Mend }

// nameShape is [platform.Spec.Name]'s.
var nameShape = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// valid refuses what no host could make.
func valid(s platform.BoxSpec) error {
	mib := func(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }
	switch {
	case !nameShape.MatchString(s.Name) || strings.HasPrefix(s.Name, "tare"):
		return &Invalid{fmt.Sprintf("a box named %q", s.Name), "want lower-case letters, digits and hyphens, at most 63, and none of tare's own"}
	case s.Kind != platform.BoxGroup && s.Kind != platform.BoxMachine:
		return &Invalid{fmt.Sprintf("a box of kind %q", s.Kind), fmt.Sprintf("want %s or %s", platform.BoxGroup, platform.BoxMachine)}
	case s.Memory < Smallest:
		return &Invalid{"a box of " + mib(s.Memory), "want at least " + mib(Smallest)}
	case !slices.Contains(platform.SwapKinds, s.Swap):
		return &Invalid{fmt.Sprintf("swap %q", s.Swap), fmt.Sprintf("want one of %v", platform.SwapKinds)}
	case s.Swap != platform.SwapNone && s.SwapSize < Smallest:
		return &Invalid{fmt.Sprintf("swap %s of %s", s.Swap, mib(s.SwapSize)), "want at least " + mib(Smallest)}
	case s.Swap == platform.SwapNone && s.SwapSize != 0:
		return &Invalid{fmt.Sprintf("%s of swap, and swap %s", mib(s.SwapSize), s.Swap), "want one of file, zram and zswap, or no size"}
	case s.PageCluster > maxCluster:
		return &Invalid{fmt.Sprintf("page-cluster %d", s.PageCluster), fmt.Sprintf("want 0 to %d: 2^n pages are read at once", maxCluster)}
	case !slices.Contains(platform.Protections, s.Protect):
		return &Invalid{fmt.Sprintf("protection %q", s.Protect), fmt.Sprintf("want one of %v", platform.Protections)}
	case s.Protect == platform.ProtectLimit && (s.Reserve <= 0 || s.Memory-s.Reserve < Smallest):
		return &Invalid{fmt.Sprintf("protection %s with %s of %s kept for the critical class", s.Protect, mib(s.Reserve), mib(s.Memory)), "want more than nothing, and at least " + mib(Smallest) + " left for the idle class"}
	case !slices.Contains(platform.Extensions, s.Extend):
		return &Invalid{fmt.Sprintf("memory extension %q", s.Extend), fmt.Sprintf("want %s, or none", platform.ExtendAnnex)}
	case s.Extend != platform.ExtendNone && s.Swap == platform.SwapNone:
		return &Invalid{fmt.Sprintf("memory extension %s without swap", s.Extend), "it moves pages there: want swap file, zram or zswap"}
	case s.Extend == platform.ExtendNone && s.ExtendConfig != "":
		return &Invalid{"the configuration of a memory extension, and none of these", fmt.Sprintf("want %s, or no configuration", platform.ExtendAnnex)}
	}
	return nil
}

// maxCluster bounds vm.page-cluster: page_cluster_max of mm/swap.c, since Linux 6.2.
const maxCluster = 31

// Check refuses, before anything is made, what this host cannot give: the error is an
// [*Invalid] or a [*platform.Missing].
func (m *Maker) Check(_ context.Context, s platform.BoxSpec) error {
	if err := valid(s); err != nil {
		return err
	}
	if err := m.reaches(s); err != nil {
		return err
	}
	if err := m.extendable(s); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return &platform.Missing{What: "a box needs root, for its control groups and its swap", Mend: "sudo tare ..."}
	}
	layout, err := cgroup.Host()
	if err != nil {
		return &platform.Missing{What: err.Error()}
	}
	if err := controlled(layout, s); err != nil {
		return err
	}
	if err := m.roomForSwap(s); err != nil {
		return err
	}
	return m.roomForMemory(s)
}

// reaches refuses what reaches every program on the host, where that was not allowed.
func (m *Maker) reaches(s platform.BoxSpec) error {
	if m.options.Disruptive || m.options.Own {
		return nil
	}
	const allow = "allow that by --disruptive; what was found is put back"
	if s.Kind == platform.BoxMachine {
		return &Invalid{"a box that is the whole host takes memory from every program on it", "allow that by --disruptive, or have a virtual machine as the box"}
	}
	if s.Swap == platform.SwapZswap {
		return &Invalid{"zswap is a setting of the kernel's, for every program on the host", allow}
	}
	if s.PageCluster < 0 {
		return nil
	}
	have, err := m.ground.swap.PageCluster().Read()
	if err == nil && have == fmt.Sprint(s.PageCluster) {
		return nil
	}
	return &Invalid{"vm.page-cluster is a setting of the kernel's, for every program on the host that swaps", allow}
}

// controlled refuses a host whose control groups cannot do it.
func controlled(l cgroup.Layout, s platform.BoxSpec) error {
	missing := func(err error) error {
		if u := new(cgroup.Unchangeable); errors.As(err, &u) {
			return &platform.Missing{What: u.What, Mend: u.Mend}
		}
		return err
	}
	if _, ok := l.For("memory"); !ok {
		return &platform.Missing{What: "a box needs the memory controller, which no cgroup hierarchy of this host carries", Mend: "boot without cgroup_disable=memory"}
	}
	if s.Swap != platform.SwapNone && s.Kind == platform.BoxGroup {
		if err := l.CanBoundSwap(); err != nil {
			return missing(err)
		}
	}
	switch s.Protect {
	case platform.ProtectSwappiness:
		return missing(l.CanProtect())
	case platform.ProtectHeadroom:
		return missing(l.CanReclaim())
	}
	return nil
}

// roomForSwap refuses swap that cannot be had.
func (m *Maker) roomForSwap(s platform.BoxSpec) error {
	switch s.Swap {
	case platform.SwapNone:
		return m.noOtherSwap(s)
	case platform.SwapZRAM:
		if err := m.ground.swap.HasZRAM(); err != nil {
			return &platform.Missing{What: err.Error()}
		}
	case platform.SwapZswap:
		if _, err := m.ground.swap.Zswap(); err != nil {
			return &platform.Missing{What: err.Error()}
		}
	}
	areas, err := m.ground.swap.Areas()
	if err != nil {
		return &platform.Missing{What: err.Error()}
	}
	if _, err := swap.PriorityAbove(areas); err != nil {
		return &platform.Missing{What: err.Error()}
	}
	if s.Swap == platform.SwapZRAM {
		return nil
	}
	if err := swap.Fits(filepath.Join(m.options.StateDir, swapDirectory), wholePages(s.SwapSize)); err != nil {
		return &platform.Missing{What: err.Error()}
	}
	return nil
}

// noOtherSwap refuses a machine without swap where the kernel has some: of version 1
// nothing keeps a group's pages from it when the machine itself runs short.
func (m *Maker) noOtherSwap(s platform.BoxSpec) error {
	if s.Kind != platform.BoxMachine {
		return nil
	}
	areas, err := m.ground.swap.Areas()
	if err != nil || len(areas) == 0 {
		return nil // a kernel without swap has none
	}
	return &platform.Missing{What: fmt.Sprintf("the host swaps to %s, so that a box of all its memory has swap", areas[0].Path), Mend: "swapoff " + terminal.Shell(areas[0].Path)}
}

// roomForMemory refuses a box that the host has not the memory for: that its programs
// fill it is what it is there for, and with it filled the host must be as far from danger
// as [danger] wants it.
func (m *Maker) roomForMemory(s platform.BoxSpec) error {
	if s.Kind == platform.BoxMachine {
		return nil
	}
	total, available, err := m.ground.memory()
	if err != nil {
		return err
	}
	// Compressed swap's pool is the box's own, but the limit follows it a moment later.
	lag := int64(0)
	if s.Swap == platform.SwapZRAM || s.Swap == platform.SwapZswap {
		lag = s.Memory / 16
	}
	reserve := int64(LowMemory * float64(total))
	if m.options.Own {
		reserve = 0
	}
	if need := s.Memory + lag + reserve; available < need {
		return &platform.Missing{
			What: fmt.Sprintf("the host has %d MiB of memory to give, and a box of %d MiB takes %d MiB, with what is left to the host", available>>20, s.Memory>>20, need>>20),
			Mend: "ask for a smaller --box, or end other programs",
		}
	}
	return nil
}

// memory is what the kernel has, and could give without swapping, in bytes.
func (g ground) memory() (total, available int64, err error) {
	file, err := os.Open(g.proc("meminfo"))
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	m := host.ParseMemInfo(file)
	if m["MemTotal"] <= 0 {
		return 0, 0, fmt.Errorf("%s does not tell MemTotal", g.proc("meminfo"))
	}
	return m["MemTotal"], m["MemAvailable"], nil
}
