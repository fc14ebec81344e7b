package load

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// between is about how many bytes of garbage are left to lie before the runtime collects
// it, while a load runs.
const between = 64 << 20

// collector is the runtime's, which all loads of this program share.
var collector struct {
	sync.Mutex
	loads int
	usual int // its percentage while none runs
}

// quiet has garbage collected before a load, and then seldom until restore. The collector
// works on all CPUs at once, for a millisecond or two, as the program does that it works
// for: a client that goes before the service that it asks keeps that from every CPU
// meanwhile, which is then taken for the service's own tail.
func quiet() (restore func()) {
	collector.Lock()
	defer collector.Unlock()
	if collector.loads++; collector.loads == 1 {
		runtime.GC()
		collector.usual = debug.SetGCPercent(-1)
		debug.SetGCPercent(seldom(collector.usual, live()))
	}
	return sync.OnceFunc(func() {
		collector.Lock()
		defer collector.Unlock()
		if collector.loads--; collector.loads == 0 {
			debug.SetGCPercent(collector.usual)
		}
	})
}

// seldom is the percentage at which so much garbage lies beside what lives, and no less than
// the usual one; below 0 is never.
func seldom(usual int, live uint64) int {
	if usual < 0 {
		return usual
	}
	return max(usual, int(100*between/max(live, 1<<20)))
}

// tidy collects the garbage between two bursts of a load that goes on, where half of what
// may lie is there: so that it is not collected within a burst.
func tidy() {
	if inUse, live := heapBytes("/memory/classes/heap/objects:bytes"), live(); inUse > live+between/2 {
		runtime.GC()
	}
}

// live is how much was found in use when garbage was last collected.
func live() uint64 { return heapBytes("/gc/heap/live:bytes") }

func heapBytes(metric string) uint64 {
	sample := []metrics.Sample{{Name: metric}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return between // unknown to this runtime
	}
	return sample[0].Value.Uint64()
}
