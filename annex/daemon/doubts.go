package daemon

import (
	"fmt"
	"slices"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/config"
	"tare/annex/media"
	"tare/container"
	"tare/kernel/cgroup"
	"tare/kernel/swap"
)

// noSwap refuses a host that has nowhere for pages to go.
var noSwap = &Lacking{"this host has no swap for pages to leave to", "make a swap file (fallocate, mkswap, swapon), a device or zram, and start again"}

// Doubts looks at a host by a configuration, as a start does, a reload, and annexd --check.
// The error is why a start would be refused; the warnings are what is most likely not meant.
func Doubts(c config.Config, found []container.Container) ([]string, error) {
	group := c.Memory.Defend
	if group == config.Host {
		group = ""
	}
	b, err := bound.New(bound.Options{Group: group, SwapReserve: c.Memory.SwapReserve})
	if err != nil {
		return nil, fmt.Errorf("memory.defend: %w", err)
	}
	m, err := b.Memory()
	if err != nil {
		return nil, err
	}
	mediums, err := media.InUse(swap.Host{})
	if err != nil {
		return nil, err
	}
	var areas []string
	for _, one := range mediums {
		areas = append(areas, one.Name())
	}
	none := holds(b, c, found)
	if len(mediums) == 0 {
		none = noSwap
	}
	if c.Memory.Headroom >= m.Limit {
		none = neverFree(c, m.Limit)
	}
	layout, err := cgroup.Host()
	if err != nil {
		return nil, err
	}
	all := doubts(c, found, areas, layout)
	if none == nil || c.Mode == config.Manage {
		return all, none
	}
	return append(all, none.Error()), nil
}

// neverFree refuses a headroom that would have everything leave, and never be reached.
func neverFree(c config.Config, limit int64) error {
	return &Lacking{
		fmt.Sprintf("memory.headroom is %d MiB, and what is defended (%s) is %d MiB: as much can never be free", c.Memory.Headroom>>20, c.Memory.Defend, limit>>20),
		"lower memory.headroom, or defend more",
	}
}

// doubts are those of a host of which this is known: the containers that run, the swap areas
// in use, and where control groups lie.
func doubts(c config.Config, found []container.Container, areas []string, layout cgroup.Layout) (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, t := range c.Tiers {
		if !slices.Contains(areas, t.Area) {
			say("the tier of %s bounds nothing: no such swap area is in use (swapon --show lists them)", t.Area)
		}
	}
	// By the first rule that fits: one behind it that fits as well decides nothing.
	used, critical := make([]bool, len(c.Rules)), false
	for _, one := range found {
		if i := c.Decides(one); i < len(c.Rules) {
			used[i] = true
			critical = critical || c.Rules[i].Class == annex.Critical
		}
	}
	for i, r := range c.Rules {
		if !used[i] {
			say("rule %d (%s) decides of no container that runs: %s", i+1, r.Class, unused(c, i, found, layout))
		}
	}
	if !critical {
		say("no container that runs is critical: nothing is protected, and no pressure stops eviction")
	}
	return all
}

// unstarted says which keys are in force only after a start.
func unstarted(keys []string) (all []string) {
	if len(keys) > 0 {
		all = append(all, fmt.Sprintf("in force only when annexd is started anew: %v", keys))
	}
	return all
}
