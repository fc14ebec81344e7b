package bursts

// What the programs keep, as bpf/bursts.c lays it out.

type kernelHistogram struct {
	Counts [buckets]uint64
	Sum    uint64
}

func (k *kernelHistogram) histogram() Histogram { return Histogram{k.Counts, k.Sum} }

type kernelHistograms struct{ Burst, Wait, Blocked kernelHistogram }

type kernelCounts struct {
	CPUTime, Bursts, Wakeups, Voluntary, Involuntary, Migrations uint64
}

// The modes of a thread.
const (
	running = 1
	queued  = 2
	blocked = 3
)

type kernelThread struct {
	Since, Burst uint64
	Target       int32
	Mode, CPU, _ uint32
}

type kernelPair struct{ Waiter, Holder int32 }

type kernelBehind struct{ Nanoseconds, Waits uint64 }
