package box

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/pressure"
	"tare/kernel/swap"
	"tare/platform"
)

// Read implements [platform.Box].
func (b *madeBox) Read(ctx context.Context) (platform.BoxReading, error) {
	if err := ctx.Err(); err != nil {
		return platform.BoxReading{}, err
	}
	r := platform.BoxReading{
		At:      time.Now(),
		Classes: map[platform.Class]platform.ClassReading{},
		Absent:  map[string]string{},
		Notes:   slices.Clone(b.notes),
	}
	for _, c := range platform.Classes {
		if err := b.readClass(c, &r); err != nil {
			return r, fmt.Errorf("read box %s: %w", b.spec.Name, err)
		}
	}
	if err := b.readSwap(&r); err != nil {
		return r, fmt.Errorf("read box %s: %w", b.spec.Name, err)
	}
	total, available, err := b.ground.memory()
	if err != nil {
		return r, fmt.Errorf("read box %s: %w", b.spec.Name, err)
	}
	r.HostAvailable = available
	r.Limit = total
	if b.spec.Kind == platform.BoxGroup {
		own, err := b.group.Own()
		if err != nil {
			return r, fmt.Errorf("read box %s: %w", b.spec.Name, err)
		}
		r.Limit = own.Memory
	}
	whole, err := b.stalls()
	r.Some, r.Full = totals(whole, err, r.Absent, "pressure_some_ns", "pressure_full_ns")
	r.Keeper, r.Reclaiming = b.keeper.used()
	for _, c := range b.area.changed {
		if !c.Made() {
			r.Notes = append(r.Notes, fmt.Sprintf("%s is no longer %s, which it was set to for this box", c.File, c.New))
		}
	}
	// Before danger: a box that lost its extension, and came to its end by that, says
	// nothing of what either holds.
	if err := b.readExtension(ctx, &r); err != nil {
		return r, err
	}
	if danger := b.keeper.judge(r, total).endangered(); danger != nil {
		return r, danger
	}
	if err := b.keeper.failed(); err != nil {
		return r, fmt.Errorf("box %s is not kept as it was asked for: %w", b.spec.Name, err)
	}
	return r, nil
}

// Danger implements [platform.Watched].
func (b *madeBox) Danger() *platform.Endangered { return b.keeper.met().endangered() }

// stalls is the box's own pressure: of a machine the kernel's.
func (b *madeBox) stalls() (pressure.Stall, error) {
	if b.spec.Kind == platform.BoxMachine {
		return pressure.Host(pressure.Memory).Read()
	}
	return stalls(b.group)
}

// stalls reads a group's pressure, which it has in the version 2 hierarchy alone: of the
// processes that are in it there.
func stalls(g cgroup.Group) (pressure.Stall, error) {
	dir, ok := g.Unified()
	if !ok {
		return pressure.Stall{}, errors.New("no hierarchy of cgroup version 2 is mounted, where groups have their pressure: mount -t cgroup2 none /sys/fs/cgroup/unified")
	}
	if pid, err := astray(g); err != nil {
		return pressure.Stall{}, err
	} else if pid != 0 {
		return pressure.Stall{}, fmt.Errorf("process %d is in cgroup %s for its memory, and elsewhere in the version 2 hierarchy, where groups have their pressure", pid, g)
	}
	return pressure.Group(dir, pressure.Memory).Read()
}

// astray finds a process of the group by its memory that is not of it in the version 2
// hierarchy, as where a runtime knows one of both alone: what it waits would be another's.
// 0 is none.
func astray(g cgroup.Group) (int, error) {
	memory, ok := g.For("memory")
	if !ok || memory.Version == 2 {
		return 0, nil
	}
	charged, err := cgroup.Group{Places: []cgroup.Place{memory}}.Processes()
	if err != nil {
		return 0, err
	}
	var two cgroup.Group
	for _, p := range g.Places {
		if p.Version == 2 {
			two.Places = append(two.Places, p)
		}
	}
	followed, err := two.Processes()
	if err != nil {
		return 0, err
	}
	for _, pid := range charged {
		if _, found := slices.BinarySearch(followed, pid); found {
			continue
		}
		// It may have begun, or ended, between the two.
		now, _, err := (cgroup.Layout{Hierarchies: []cgroup.Hierarchy{two.Places[0].Hierarchy}}).Of(pid)
		if err == nil && len(now.Places) > 0 && !within(now.Places[0].Path, two.Places[0].Path) {
			return pid, nil
		}
	}
	return 0, nil
}

// within tells whether a group's path is another's, or below it.
func within(path, of string) bool { return path == of || strings.HasPrefix(path, of+"/") }

// totals takes a stall's totals; what is unknown is noted by those names.
func totals(s pressure.Stall, err error, absent map[string]string, some, full string) (time.Duration, time.Duration) {
	if err != nil {
		absent[some], absent[full] = err.Error(), err.Error()
	}
	return s.Some.Total, s.Full.Total
}

// readClass reads what a class has.
func (b *madeBox) readClass(c platform.Class, r *platform.BoxReading) error {
	group := b.class(c)
	name := func(figure string) string { return "classes." + string(c) + "." + figure }
	accounts, err := group.MemoryAccounts()
	if err != nil {
		return err
	}
	for figure, why := range accounts.Absent {
		key, ok := map[string]string{"anonymous": "anonymous_bytes", "swapped": "swapped_bytes", "major_faults": "major_faults"}[figure]
		if ok {
			r.Absent[name(key)] = why
		}
	}
	use, err := group.Use()
	if err != nil {
		return err
	}
	one := platform.ClassReading{
		Resident:    accounts.Usage,
		Anonymous:   accounts.Anonymous,
		Swapped:     accounts.Swapped,
		MajorFaults: accounts.MajorFaults,
		CPU:         use.CPU,
	}
	killed, err := group.OOMKills()
	if err != nil {
		return err
	}
	one.OOMKills = b.kills.count(c, killed)
	own, err := stalls(group)
	one.Some, one.Full = totals(own, err, r.Absent, name("pressure_some_ns"), name("pressure_full_ns"))
	r.Classes[c] = one
	return nil
}

// readSwap reads the area, what is before it and what is below it.
func (b *madeBox) readSwap(r *platform.BoxReading) error {
	counts, err := b.ground.swap.VMStat()
	if err != nil {
		return err
	}
	// Whatever holds them: an area, zswap's pool, or a bit that says that they were
	// empty. What the pool passes on had left memory before.
	r.SwapIn = counts.PSwpIn + counts.SwpInZero + counts.ZswpIn
	r.SwapOut = counts.PSwpOut + counts.SwpOutZero + counts.ZswpOut - counts.ZswpWb
	if b.area.path == "" {
		return nil
	}
	one, used, err := b.ground.swap.Area(b.area.path)
	if err != nil {
		return err
	}
	if !used {
		return fmt.Errorf("its swap area %s is no longer in use: somebody else has taken it out (swapoff)", b.area.path)
	}
	r.SwapUsed, r.SwapSize = one.Used, one.Size
	if r.Pool, _, err = b.pool(); err != nil {
		return err
	}
	if b.area.zram != nil {
		return nil // nothing is below it
	}
	if b.area.apart != "" {
		r.Absent["device_written_bytes"], r.Absent["device_read_bytes"] = b.area.apart, b.area.apart
		return nil
	}
	io, err := b.ground.swap.IO(b.area.device)
	if none := new(swap.NoDevice); errors.As(err, &none) {
		r.Absent["device_written_bytes"], r.Absent["device_read_bytes"] = none.Error(), none.Error()
		return nil
	}
	r.DeviceWritten, r.DeviceRead = io.WrittenBytes, io.ReadBytes
	return err
}

// kills remembers what the OOM killer ended in groups that are gone since.
type kills struct {
	mu   sync.Mutex
	most map[platform.Class]map[string]int64
}

func (k *kills) count(c platform.Class, now map[string]int64) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.most == nil {
		k.most = map[platform.Class]map[string]int64{}
	}
	if k.most[c] == nil {
		k.most[c] = map[string]int64{}
	}
	for path, n := range now {
		k.most[c][path] = max(k.most[c][path], n)
	}
	sum := int64(0)
	for n := range maps.Values(k.most[c]) {
		sum += n
	}
	return sum
}
