package lab

import (
	"context"
	"fmt"
	"os"

	"tare/kernel/cgroup"
	"tare/kernel/host"
	"tare/kernel/memory"
)

// warmReserve is the share of the host's memory that is left alone when memory is
// warmed: twice of that at which a run would stop itself.
const warmReserve = 2 * LowMemory

// Warmed is what came of warming memory.
type Warmed struct {
	memory.Warmth
	// Less says why fewer bytes than asked for were touched; empty where all were.
	Less string
}

// WarmMemory touches so much of the host's free memory, once for a run and before
// anything is measured, so that no trial pays for what its hypervisor has not backed
// yet, which the first ones would and the later ones not. Free memory alone can be
// cold: what caches hold is not taken from them, and a part of all is left alone.
// Nothing is touched where tare's own control group has a limit, which would have to
// swap for it.
func WarmMemory(ctx context.Context, bytes int64) (Warmed, error) {
	limit, err := ownMemoryLimit()
	if err != nil {
		return Warmed{}, fmt.Errorf("warm memory: %w", err)
	}
	return warmMemory(ctx, bytes, limit, readMemInfo)
}

// warmMemory is WarmMemory under a limit, 0 being none, on a host that has such memory.
func warmMemory(ctx context.Context, bytes, limit int64, host func() map[string]int64) (Warmed, error) {
	if limit > 0 {
		return Warmed{Less: fmt.Sprintf("tare's own control group is limited to %d MiB: start it outside of that", limit>>20)}, nil
	}
	warmth, err := memory.Warm(ctx, bytes, func(step int64) bool { return roomFor(step, host()) })
	if err != nil {
		return Warmed{}, fmt.Errorf("warm memory: %w", err)
	}
	w := Warmed{Warmth: warmth}
	if page := int64(os.Getpagesize()); w.Bytes < bytes/page*page {
		w.Less = fmt.Sprintf("the host has no more than %d MiB free beside the %.0f %% that are left alone", w.Bytes>>20, 100*warmReserve)
	}
	return w, nil
}

// roomFor tells whether so much can be touched beside what is left alone.
func roomFor(step int64, mem map[string]int64) bool {
	left := int64(warmReserve * float64(mem["MemTotal"]))
	return min(mem["MemFree"], mem["MemAvailable"])-step >= left
}

// readMemInfo is empty where it cannot be read, which leaves room for nothing.
func readMemInfo() map[string]int64 {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return nil
	}
	defer file.Close()
	return host.ParseMemInfo(file)
}

// ownMemoryLimit is the tightest of the control groups that tare runs in; 0 is none.
func ownMemoryLimit() (int64, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return 0, err
	}
	group, _, err := layout.Of(os.Getpid())
	if err != nil {
		return 0, err
	}
	return group.MemoryLimit()
}
