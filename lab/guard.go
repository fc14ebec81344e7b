package lab

import (
	"context"
	"fmt"
	"os"
	"time"

	"tare/kernel/host"
)

// hostMemory reads how much memory the host has, and has left without
// swapping, in bytes.
func hostMemory() (total, available int64, err error) {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	m := host.ParseMemInfo(file)
	return m["MemTotal"], m["MemAvailable"], nil
}

// LowMemory is the share of the host's memory below which a run stops itself:
// what else lives on the host comes first.
const LowMemory = 0.03

// guard cancels when the host runs out of memory, looking whenever tick tells
// it to, until ctx ends.
func guard(
	ctx context.Context,
	tick <-chan time.Time,
	read func() (total, available int64, err error),
	cancel context.CancelCauseFunc,
) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		total, available, err := read()
		if err != nil || available <= 0 {
			return // a host that does not tell cannot be guarded
		}
		if float64(available) < LowMemory*float64(total) {
			cancel(fmt.Errorf("stopped: the host has %d MiB of its %d MiB of memory left, under %.0f %%: free some, or give the programs a smaller --memory",
				available>>20, total>>20, 100*LowMemory))
			return
		}
	}
}
