package diagnose

import (
	"time"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/model/quota"
	"tare/probe/bursts"
	"tare/study/kit"
)

// Facts are what was read of one container. Rules read nothing else of it.
type Facts struct {
	Container container.Container
	CPUs      int // that it may use
	Bandwidth cgroup.Bandwidth
	// QuotaOf is the group above it whose quota that is; empty where it is its own.
	QuotaOf string
	Limit   int64 // of memory, in bytes; 0 is none
	// CPU and Memory are its group in the hierarchies with those controllers.
	CPU, Memory cgroup.Place

	Span time.Duration // of the counters
	Used Counts

	// Watched is how long its threads were watched; 0 where triage found nothing to watch.
	Watched time.Duration
	// During are the counters of that time alone, as far as they are of CPU time.
	During Counts
	Sched  *bursts.Group
	Self   int // its place among [Host.Names], where it was watched

	// Engine is what the engine did for it in Span.
	Engine EngineWork
	// Workers are as many threads as would share its CPU time alike; known where it was throttled.
	Workers float64
	// InKernel is what the kernel did for it while it was watched.
	InKernel InKernel

	// Twice is what it and the others of its image hold twice; the first of them has it.
	Twice *Twice
}

// behind is how long its threads waited behind somebody.
func (f *Facts) behind(who int) (all bursts.Behind) {
	if f.Sched == nil {
		return all
	}
	for _, b := range f.Sched.Behind {
		if b.Group == who {
			all.Time += b.Time
			all.Waits += b.Waits
		}
	}
	return all
}

// EngineWork is CPU time that an engine's processes used for one container.
type EngineWork struct {
	Shim time.Duration // its shim, with the runtime and the checks that it waited for
	// Started is the part of what it waited for. The shim of a pod has several containers, of which one has it.
	Started time.Duration
	Proxy   time.Duration // its docker-proxy processes
	// Daemon is the part of the engine's daemons that went to its checks and its log: see
	// shareDaemon.
	Daemon   time.Duration
	LogBytes int64
}

// Counts are counters of a container, or their differences.
type Counts struct {
	CPU, System, ThrottledTime time.Duration
	Periods, Throttled         int64
	Memory                     cgroup.Reclaim
	// MemoryStall is the time in which at least one task waited for memory; it is known
	// where HasStall.
	MemoryStall time.Duration
	HasStall    bool
	// Packets are those of its network devices, in both directions.
	Packets int64
}

func (c Counts) since(b Counts) Counts {
	return Counts{
		CPU: c.CPU - b.CPU, System: c.System - b.System, ThrottledTime: c.ThrottledTime - b.ThrottledTime,
		Periods: c.Periods - b.Periods, Throttled: c.Throttled - b.Throttled,
		Memory: c.Memory.Since(b.Memory), MemoryStall: c.MemoryStall - b.MemoryStall,
		HasStall: c.HasStall && b.HasStall, Packets: c.Packets - b.Packets,
	}
}

// Host is what rules need to know of the host.
type Host struct {
	CPUs   int
	Kernel quota.Kernel
	// Idle is the share of the CPUs' time in which nothing ran.
	Idle   float64
	Memory int64 // bytes
	// Waited is for how long, in each second, all containers' threads waited for a CPU behind
	// somebody. [Diagnose] sets it.
	Waited float64
	// Outside are the processes that used most CPU time and are in none of the containers that were watched.
	Outside []string
	// Containers are those that were watched, by the index that [bursts.Behind] has.
	Containers []container.Container

	modelled int // containers whose settings were computed
}

// rules are all of them.
var rules = []func(*Host, *Facts) []Finding{
	throttled, waiting, memoryLimit, checks, logs, proxy, translated, layers, copyUps, filtered,
	duplicated, unpinned, needless,
}

// Diagnose applies every rule to every container. The costliest finding comes first.
func Diagnose(h *Host, all []*Facts) []Finding {
	h.Waited, h.modelled = 0, 0
	for _, f := range all {
		h.Waited += waited(f)
	}
	var found []Finding
	for _, f := range all {
		for _, rule := range rules {
			for _, one := range rule(h, f) {
				if e := explanations[one.Kind]; e.detail != nil {
					one.Detail = e.detail(f.Container, &one)
				}
				found = append(found, one)
			}
		}
	}
	Sort(found, "cost")
	return found
}

// rate is a time in each second of another.
func rate(of, in time.Duration) float64 {
	if in <= 0 {
		return 0
	}
	return of.Seconds() / in.Seconds()
}

// short writes a time with three digits.
func short(d time.Duration) string { return kit.Short(d) }
