package box

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"tare/kernel/cgroup"
	"tare/kernel/pressure"
	"tare/kernel/swap"
	"tare/platform"
)

// Look says what boxes can be had here, and makes nothing: what there is, and what there
// is not with the reason. The error, a [*platform.Missing], says why there can be none.
func (m *Maker) Look() (offers string, err error) {
	layout, err := cgroup.Host()
	if err != nil {
		return "", &platform.Missing{What: err.Error()}
	}
	if err := controlled(layout, platform.BoxSpec{Kind: platform.BoxGroup, Swap: platform.SwapFile}); err != nil {
		return "", err
	}
	dir := filepath.Join(m.options.StateDir, swapDirectory)
	room, unfit := swap.Room(dir)
	parts := []string{
		offer(fmt.Sprintf("swap file up to %.1f GiB", float64(room)/(1<<30)), "swap file", unfit),
		offer("zram", "zram", m.ground.swap.HasZRAM()),
	}
	_, err = m.ground.swap.Zswap()
	parts = append(parts, offer("zswap", "zswap", err))
	_, err = pressure.Host(pressure.Memory).Read()
	if _, ok := layout.Unified(); err == nil && !ok {
		err = errors.New("no cgroup2 is mounted")
	}
	parts = append(parts, offer("pressure of groups", "pressure of groups", err))
	protects := "memory.low"
	if !unified(layout) {
		protects = "memory.swappiness of groups (no memory.low: version 1)"
	}
	parts = append(parts, offer(protects, protects, layout.CanProtect()), offer("headroom", "headroom", layout.CanReclaim()))
	areas, err := m.ground.swap.Areas()
	if err == nil && len(areas) > 0 {
		parts = append(parts, fmt.Sprintf("swap of the host's own is there (%s)", areas[0].Path))
	}
	return strings.Join(parts, ", "), nil
}

// offer is what there is, or what there is not and why.
func offer(there, name string, err error) string {
	if err == nil {
		return there
	}
	return fmt.Sprintf("no %s (%v)", name, err)
}
