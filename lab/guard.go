package lab

import (
	"context"
	"fmt"
	"time"

	"tare/kernel/accounting"
)

// LowMemory is the share of the host's memory below which a run stops itself:
// what else lives on the host comes first.
const LowMemory = 0.03

// guard cancels when the host runs out of memory, looking whenever tick tells
// it to, until ctx ends.
func guard(ctx context.Context, tick <-chan time.Time, read func() (accounting.Memory, error), cancel context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		m, err := read()
		if err != nil {
			return // a host that does not tell cannot be guarded
		}
		if m.Available > 0 && float64(m.Available) < LowMemory*float64(m.Total) {
			cancel(fmt.Errorf("stopped: the host has %d MiB of its %d MiB of memory left, under %.0f %%: free some, or give the programs a smaller --memory",
				m.Available>>20, m.Total>>20, 100*LowMemory))
			return
		}
	}
}
