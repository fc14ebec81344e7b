package diagnose

import (
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/kernel/cgroup"
	"tare/model/quota"
	"tare/probe/bursts"
	"tare/report"
	"tare/study/kit"
	"tare/terminal"
)

const (
	// harmlessRate and harmlessEvents bound what is called harmless: less than that share of
	// the time, and fewer throttled periods a second. Who waits for such a container's work
	// knows better; the finding says so.
	harmlessRate   = 0.05
	harmlessEvents = 1.0

	// ended is the p99 of the delay that is left where a setting is said to end throttling:
	// below the tick of most kernels nothing of a quota is visible.
	ended = time.Millisecond
)

// throttled finds a quota that keeps a container from working.
//
// A thread waits because of the quota from when its group's was used up, as the probe sees
// (cfs_rq->throttle_count). A group that was throttled while all its threads slept lost nothing. Where threads
// were not watched, the time is the kernel's (throttled_usec of cpu.stat), which adds up over CPUs and not
// over threads.
func throttled(h *Host, f *Facts) []Finding {
	one, ok := throttling(f)
	if !ok {
		return nil
	}
	if one.Level != Harmless {
		one.Set = remedies(h, f, workOf(f))
	}
	return []Finding{one}
}

// throttling is that finding without what to set, which takes the model's time.
func throttling(f *Facts) (one Finding, ok bool) {
	if f.Bandwidth.Quota == 0 || f.Used.Throttled == 0 {
		return one, false
	}
	cost := Cost{Rate: rate(f.Used.ThrottledTime, f.Span)}
	work := workOf(f)
	if f.Sched != nil {
		held := f.behind(bursts.Quota)
		cost = perPiece(f, held.Time)
		if held.Time > 0 && work.piece < f.Bandwidth.Quota { // each wait is another piece's
			cost.Each = held.Time / time.Duration(max(held.Waits, 1))
			cost.Events = cost.Rate / cost.Each.Seconds()
		}
	}
	one = finding(f.Container, Throttled, cost)
	one.Says = fmt.Sprintf("used up its quota in %d of %d periods", f.Used.Throttled, f.Used.Periods)
	one.Evidence = []Fact{
		{"quota", kit.Bandwidth(f.Bandwidth), "cpu.max, or cpu.cfs_quota_us"},
		{"throttled periods", fmt.Sprintf("%d of %d", f.Used.Throttled, f.Used.Periods), "cpu.stat"},
		{"throttled time, all CPUs", short(f.Used.ThrottledTime) + " in " + short(f.Span), "cpu.stat"},
	}
	if f.Used.CPU > 0 { // a group of version 1 may lack the controller that counts it
		one.Evidence = append(one.Evidence, Fact{"CPU time used", fmt.Sprintf("%s CPUs", report.Rounded(rate(f.Used.CPU, f.Span), 3)), "cpu.stat"})
	}
	if work.count > 0 {
		one.Evidence = append(one.Evidence,
			Fact{"a piece of work", fmt.Sprintf("%s of CPU time, %s a second", short(work.piece), report.Rounded(work.rate, 3)), "sched_switch"},
			fact("threads waited for the quota", f.behind(bursts.Quota).Time, f))
	}
	if cost.Each > 0 { // their product is the cost
		held := fmt.Sprintf("%s a second, each for %s", report.Rounded(cost.Events, 3), short(cost.Each))
		one.Evidence = append(one.Evidence, Fact{"pieces of work that waited for it", held, "sched_switch"})
	}
	nobodyWaited := f.Sched != nil && cost.Rate == 0
	if nobodyWaited || cost.Rate < harmlessRate && float64(f.Used.Throttled) < harmlessEvents*f.Span.Seconds() {
		one.Level = Harmless
		one.Says += "; harmless unless somebody waits for that work"
	}
	return one, true
}

// work is what a container does between blockings.
type work struct {
	count uint64
	mean  time.Duration
	shape []float64 // of equal probability, ascending, as multiples of the mean

	piece time.Duration // see [pieceOf]
	rate  float64       // pieces a second
}

// shapeSteps is into how many values of equal probability a histogram of work is cut.
const shapeSteps = 64

// slight is the share of the CPU time that the shortest bursts may have, together, to be left out of
// what the model is asked: those of a runtime's own threads are many, and nobody waits for them.
const slight = 0.1

// workOf reads off what was recorded.
func workOf(f *Facts) (w work) {
	if f.Sched == nil || f.Watched <= 0 {
		return w
	}
	all := f.Sched.AllBursts()
	var lengths []time.Duration
	var counts []uint64
	var sum, passed time.Duration
	for step, n := range all.Steps {
		length := (step.Low + step.High) / 2
		if passed += time.Duration(n) * length; passed.Seconds() <= slight*all.Sum().Seconds() {
			continue
		}
		lengths, counts = append(lengths, length), append(counts, n)
		w.count += n
		sum += time.Duration(n) * length
	}
	if w.piece = pieceOf(all); w.count == 0 || w.piece == 0 {
		return work{}
	}
	// A step stands for its middle; together they are as long as what was recorded.
	exact := all.Sum().Seconds() / passed.Seconds()
	w.mean = time.Duration(float64(sum) / float64(w.count) * exact)
	w.rate = all.Sum().Seconds() / w.piece.Seconds() / f.Watched.Seconds()
	at, below := 0, counts[0]
	for i := range uint64(shapeSteps) {
		for below*2*shapeSteps < (2*i+1)*w.count {
			at++
			below += counts[at]
		}
		w.shape = append(w.shape, lengths[at].Seconds()*float64(w.count)/sum.Seconds())
	}
	return w
}

// pieceOf is the length of a piece of work: of the burst in which a moment on the CPU lies, on
// average. Many short bursts of a runtime's own threads, which do next to nothing, leave it as
// it is.
func pieceOf(all *bursts.Histogram) time.Duration {
	var squares, sum float64
	for step, n := range all.Steps {
		length := (step.Low + step.High).Seconds() / 2
		squares += float64(n) * length * length
		sum += float64(n) * length
	}
	if sum == 0 {
		return 0
	}
	return time.Duration(squares / sum * float64(time.Second))
}

// remedies are what ends the throttling, by the model of the kernel's bandwidth control
// ([tare/model/quota]): the smallest quota in the same period; and a burst, where one is
// enough. That no quota would do is [needless].
func remedies(h *Host, f *Facts, w work) []Remedy {
	if f.QuotaOf != "" {
		return []Remedy{{Says: "a greater quota of the group above it, " + f.QuotaOf}}
	}
	if h.modelled == mostModelled {
		return []Remedy{{Says: "a greater quota: diagnose this container alone to learn which", Command: "tare diagnose " + terminal.Shell(f.Container.Argument())}}
	}
	h.modelled++
	var all []Remedy
	now := predicted(h, f, w, f.Bandwidth)
	propose := func(says string, to cgroup.Bandwidth) {
		all = append(all, Remedy{
			Says: says, Command: quotaCommand(f, to), Change: quotaChange(to),
			P99: predicted(h, f, w, to), P99Now: now,
		})
	}
	period := f.Bandwidth.Period
	if q, ok := smallestQuota(h, f, w); ok {
		to := cgroup.Bandwidth{Quota: q, Period: period, Burst: f.Bandwidth.Burst}
		propose(fmt.Sprintf("a quota of %s in each %s", short(q), short(period)), to)
	}
	if b, ok := smallestBurst(h, f, w); ok {
		to := f.Bandwidth
		to.Burst = b
		propose(fmt.Sprintf("a burst of %s beside the quota", short(b)), to)
	}
	return all
}

// mostModelled is for how many containers settings are computed, which takes some 40 ms of CPU time each.
const mostModelled = 8

// mostThreads bounds the model.
const mostThreads = 256

// service is a container as the model has it: as many threads as share its work ([Facts.Workers]), each
// of which blocks until its next piece of work. So work of one thread never meets other work of it.
func (w work) service(f *Facts) (quota.Service, quota.Arrival) {
	nothing := hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
	_ = nothing.RecordValue(1)
	threads := min(max(int(math.Round(f.Workers)), 1), mostThreads)
	each := f.Watched * time.Duration(threads) / time.Duration(w.count)
	return quota.Service{
		Demand: quota.Demand{Mean: w.mean, Shape: w.shape}, Base: nothing, CPUs: max(1, f.CPUs), Threads: threads,
	}, quota.Arrival{Connections: threads, Think: max(0, each-w.mean-f.Sched.Delay())}
}

// few keeps a prediction within some milliseconds.
func few(h *Host) quota.Options { return quota.Options{Requests: 2000, Reruns: 4, Kernel: h.Kernel} }

// predicted is the p99 of the time that a piece of work takes under a bandwidth, of which the zero value
// is none; 0 where that is unknown.
func predicted(h *Host, f *Facts, w work, b cgroup.Bandwidth) time.Duration {
	if w.count == 0 {
		return 0
	}
	service, arrival := w.service(f)
	p, err := quota.Predict(service, arrival, quota.Bandwidth{Quota: b.Quota, Period: b.Period, Burst: b.Burst}, few(h))
	if err != nil {
		return 0
	}
	return time.Duration(p.P99.High * float64(time.Microsecond))
}

func smallestQuota(h *Host, f *Facts, w work) (time.Duration, bool) {
	best := predicted(h, f, w, cgroup.Bandwidth{})
	if best == 0 {
		return 0, false
	}
	service, arrival := w.service(f)
	q, _, err := quota.Smallest(service, arrival, f.Bandwidth.Period, f.Bandwidth.Burst, best+ended, few(h))
	q = min(withMargin(q, f.Bandwidth.Period), f.Bandwidth.Period*time.Duration(max(1, f.CPUs)))
	return q, err == nil && q > f.Bandwidth.Quota
}

// withMargin adds a 32nd, which is half of the widest step of a histogram of lengths: work may be that much
// longer than the step's middle, for which the model finds a setting.
func withMargin(d, period time.Duration) time.Duration {
	grid := quota.Grid(period)
	return (d + d/32 + grid - 1) / grid * grid
}

// smallestBurst halves the range of bursts that the kernel accepts, up to the quota.
func smallestBurst(h *Host, f *Facts, w work) (time.Duration, bool) {
	best := predicted(h, f, w, cgroup.Bandwidth{})
	enough := func(burst time.Duration) bool {
		b := f.Bandwidth
		b.Burst = burst
		p99 := predicted(h, f, w, b)
		return p99 > 0 && p99 <= best+ended
	}
	step := quota.Grid(f.Bandwidth.Period)
	low, high := int64(f.Bandwidth.Burst/step)+1, int64(f.Bandwidth.Quota/step)
	if best == 0 || low > high || !enough(time.Duration(high)*step) {
		return 0, false
	}
	for low < high {
		if half := low + (high-low)/2; enough(time.Duration(half) * step) {
			high = half
		} else {
			low = half + 1
		}
	}
	return min(withMargin(time.Duration(high)*step, f.Bandwidth.Period), f.Bandwidth.Quota), true
}
