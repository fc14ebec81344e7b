package bursts

import (
	"math"
	"time"
)

// What the programs keep, as bpf/bursts.c lays it out.

type kernelHistogram struct {
	Counts [buckets]uint64
	Sum    uint64
}

func (k *kernelHistogram) histogram() Histogram { return Histogram{k.Counts, k.Sum} }

type kernelHistograms struct{ Burst, Wait, Blocked, Run kernelHistogram }

type kernelCounts struct {
	CPUTime, Bursts, Wakeups, Voluntary, Involuntary, Migrations uint64
	Hard, Soft, InterruptWakeups                                 uint64
	InterruptElsewhere, OtherElsewhere                           uint64
	Delays, DelaysRest, Throttled                                uint64
}

func (k kernelCounts) counts() Counts {
	return Counts{
		CPUTime: time.Duration(k.CPUTime), Bursts: k.Bursts, Wakeups: k.Wakeups,
		Voluntary: k.Voluntary, Involuntary: k.Involuntary, Migrations: k.Migrations,
		Hard: k.Hard, Soft: k.Soft, InterruptWakeups: k.InterruptWakeups,
		InterruptElsewhere: k.InterruptElsewhere, OtherElsewhere: k.OtherElsewhere,
		Delays: math.Ldexp(float64(k.Delays), 40) + math.Ldexp(float64(k.DelaysRest), 20),
	}
}

// The modes of a thread.
const (
	running = 1
	queued  = 2
	blocked = 3
)

type kernelThread struct {
	Since, Burst, Group, Left      uint64
	TID, TGID, Target              int32
	Mode, Waking, Woken, Preempted uint8
	CPU, Last                      uint32
	KernelStack, UserStack         int32
}

// kernelLine is what a CPU has had, and since when it has what it has now.
type kernelLine struct {
	Slices [64]struct {
		Began, Ended uint64
		Who          int32
		_            uint32
	}
	Began                     uint64
	Count                     uint32
	Who                       int32
	Interrupt, Softirq, Timer uint8
	_                         [5]uint8
}

type kernelWay struct {
	Memory                 uint64
	TGID, Target           int32
	KernelStack, UserStack int32
	Waiting, _             uint32
}

type kernelAbsence struct {
	Nanoseconds, Count uint64
	Comm               [16]byte
}

type kernelFound struct{ Target, KernelStack int32 }

// noStack stands where none was kept.
const noStack = -1

// frameRoom is how many frames a stack has at most.
const frameRoom = 64

type kernelPair struct{ Waiter, Holder int32 }

type kernelBehind struct{ Nanoseconds, Waits uint64 }
