package diagnose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"
	"time"

	"tare/container"
	"tare/kernel/accounting"
	"tare/kernel/cgroup"
	"tare/kernel/host"
	"tare/kernel/pressure"
	"tare/kernel/procfs"
	"tare/platform"
	"tare/probe/bpf"
	"tare/probe/bursts"
	"tare/study/kit"
	"tare/study/predict"
)

// The bounds of the time that containers are watched.
const (
	Shortest = time.Second
	Longest  = time.Hour
)

const (
	// triageShare is the part of the time that counters alone are read, to find what is
	// worth watching.
	triageShare = 0.2
	// busy is the CPU use, in CPUs, from which a container is watched.
	busy = 0.005
	// mostWatched bounds how many containers are watched: those that used most.
	mostWatched = 256
)

// Result is what was found.
type Result struct {
	Began    time.Time
	Span     time.Duration
	Facts    []*Facts
	Findings []Finding
	Watched  int // containers whose threads were watched
	Lost     uint64
	Weight   bursts.Weight
	Notes    []string
	// Requests are those that the service counted itself; nil where it was not asked.
	Requests *Requests
}

// Run diagnoses running containers for a time, or until ctx ends, which is no error after
// [Shortest]. It changes nothing.
func Run(ctx context.Context, containers []container.Container, named bool, span time.Duration) (*Result, error) {
	if span < Shortest || span > Longest {
		return nil, kit.Usagef("watching for %v: want %v to %v", span, Shortest, Longest)
	}
	layout, err := cgroup.Host()
	if err != nil {
		return nil, err
	}
	defer bpf.Share()()
	r := &Result{Began: time.Now()}
	var subjects []*subject
	for _, c := range containers {
		s, err := describe(c, layout)
		var ended *container.Ended
		switch {
		case errors.As(err, &ended):
			r.Notes = append(r.Notes, err.Error())
		case err != nil:
			r.Notes = append(r.Notes, fmt.Sprintf("%s is left out: %v", c.Name, err))
		default:
			subjects = append(subjects, s)
		}
	}
	if len(subjects) == 0 {
		return nil, errors.New("nothing to diagnose: the containers have ended")
	}
	return r, r.watch(ctx, subjects, named, span)
}

// subject is a container while it is watched.
type subject struct {
	threads              map[string]time.Duration // at the second reading
	facts                *Facts
	group                cgroup.Group
	above                cgroup.Group // whose quota holds, where it is not its own
	first, second, third reading
	isShort              bool // of memory, in triage
}

// reading are the counters of a moment.
type reading struct {
	at     time.Time
	counts Counts
}

func describe(c container.Container, layout cgroup.Layout) (*subject, error) {
	in, _, err := layout.Of(c.PID)
	if err != nil {
		if procfs.Gone(err) {
			return nil, &container.Ended{Name: c.Name}
		}
		return nil, err
	}
	s := &subject{facts: &Facts{Container: c}, group: c.OwnGroup(in, layout)}
	f := s.facts
	list, err := s.group.CPUs()
	if err != nil {
		return nil, err
	}
	if list == "" {
		list = host.ReadTopology("/").Online
	}
	cpus, err := platform.ParseCPUList(list)
	if err != nil {
		return nil, err
	}
	f.CPUs = len(cpus)
	if f.Bandwidth, err = s.group.Bandwidth(); err != nil {
		return nil, err
	}
	f.CPU, _ = s.group.For("cpu")
	f.Memory, _ = s.group.For("memory")
	if s.above, f.QuotaOf, err = quotaAbove(f.CPU, f.Bandwidth); err != nil {
		return nil, err
	}
	if f.Limit, err = s.group.MemoryLimit(); err != nil {
		return nil, err
	}
	f.InKernel = inKernelOf(c)
	s.first, err = s.read(true)
	return s, err
}

// quotaAbove finds the group above whose quota holds for a group, and its path; none where the
// quota is the group's own.
func quotaAbove(own cgroup.Place, tightest cgroup.Bandwidth) (cgroup.Group, string, error) {
	for p := own; tightest.Quota > 0 && len(p.Path) > 1; p.Path = path.Dir(p.Path) {
		g := cgroup.Group{Places: []cgroup.Place{p}}
		l, err := g.Own()
		switch {
		case err != nil:
			return g, "", err
		case l.Quota == 0 || rate(l.Quota, l.Period) > rate(tightest.Quota, tightest.Period):
			continue
		case p.Path == own.Path:
			return cgroup.Group{}, "", nil
		}
		return g, p.Path, nil
	}
	return cgroup.Group{}, "", nil
}

// read takes the counters: all, or, while others wait for their turn, those of CPU time alone. Of memory
// nothing is asked where there is no limit: the kernel adds up memory.stat whenever it is read.
func (s *subject) read(isWhole bool) (reading, error) {
	if len(s.group.Places) > 0 && !s.group.Exists() {
		return reading{}, fs.ErrNotExist // counters that a kernel may lack are no sign of it
	}
	use, err := s.group.CPUUse()
	if err != nil {
		return reading{}, err
	}
	if s.facts.QuotaOf != "" {
		held, err := s.above.CPUUse()
		if err != nil {
			return reading{}, err
		}
		use.Periods, use.Throttled, use.ThrottledTime = held.Periods, held.Throttled, held.ThrottledTime
	}
	r := reading{
		at: time.Now(),
		counts: Counts{
			CPU: use.CPU, System: use.System, ThrottledTime: use.ThrottledTime,
			Periods: use.Periods, Throttled: use.Throttled,
		},
	}
	if !isWhole {
		return r, nil
	}
	if s.facts.InKernel.OwnNet {
		r.counts.Packets = packets(s.facts.Container)
	}
	if s.facts.Limit == 0 {
		return r, nil
	}
	if r.counts.Memory, err = s.group.Reclaimed(); err != nil {
		return reading{}, err
	}
	if dir, ok := s.group.Unified(); ok {
		if stall, err := pressure.Group(dir, pressure.Memory).Read(); err == nil {
			r.counts.MemoryStall, r.counts.HasStall = stall.Some.Total, true
		}
	}
	return r, nil
}

// isWorthWatching tells whether the time of triage showed anything that the scheduler's
// events could explain.
func (s *subject) isWorthWatching() bool {
	c := s.second.counts.since(s.first.counts)
	return c.Throttled > 0 || s.isShort || rate(c.CPU, s.second.at.Sub(s.first.at)) >= busy
}

// isShortOfMemory reports whether pages came back during triage that the memory limit had pushed out. Memory is asked
// about again only where the limit was once met.
func (s *subject) isShortOfMemory() bool {
	was := s.first.counts.Memory
	if was.AtLimit == 0 && !was.HasMet || was.Refaults == 0 {
		return false
	}
	now, err := s.group.Reclaimed()
	return err == nil && float64(now.Refaults-was.Refaults) >= leastRefaults*time.Since(s.first.at).Seconds()
}

// triaged is the CPU time used, and waited for because of a quota, in the time of triage.
func (s *subject) triaged() time.Duration {
	c := s.second.counts.since(s.first.counts)
	return c.CPU + c.ThrottledTime
}

func (r *Result) watch(ctx context.Context, subjects []*subject, named bool, span time.Duration) error {
	hostBefore, err := accounting.Take("/proc")
	if err != nil {
		return err
	}
	logs := logSizes(subjects)
	stopped := !kit.Wait(ctx, time.Duration(triageShare*float64(span)))
	subjects = r.readAll(subjects, false, func(s *subject, to reading) { s.second = to })
	h := &Host{CPUs: host.ReadTopology("/").CPUs(), Memory: host.Read("/").Memory}
	h.Kernel, _ = predict.HostKernel("/")
	// Those that used most come first, in case there are too many.
	slices.SortStableFunc(subjects, func(a, b *subject) int { return cmp.Compare(b.triaged(), a.triaged()) })
	var targets []bursts.Target
	var watched []*subject
	for _, s := range subjects {
		s.isShort = s.isShortOfMemory()
		if !named && !s.isWorthWatching() {
			continue
		}
		if len(targets) == mostWatched {
			r.Notes = append(r.Notes, fmt.Sprintf("only the %d that used most were watched", mostWatched))
			break
		}
		t, err := kit.Target(s.facts.Container)
		if err != nil {
			r.Notes = append(r.Notes, err.Error())
			continue
		}
		targets, watched = append(targets, t), append(watched, s)
		h.Containers = append(h.Containers, s.facts.Container)
	}
	var recording *bursts.Recording
	var inKernel *kernelWatch
	rest := time.Duration((1 - triageShare) * float64(span))
	if len(targets) > 0 && !stopped {
		inKernel = watchKernel(watched, named, r.Began)
		defer inKernel.close()
		if recording, err = inKernel.record(targets); err != nil {
			return err
		}
		defer func() { _, _ = recording.Stop() }()
		// Loading the programs took a while: what is compared begins now.
		r.readAll(watched, false, func(s *subject, to reading) { s.second = to })
		for _, s := range watched {
			s.threads = threadTimes(s.facts)
		}
		stopped = !inKernel.wait(ctx, rest)
	} else if !stopped { // the counters are of the whole time, too
		stopped = !kit.Wait(ctx, rest)
	}
	if stopped && time.Since(r.Began) < Shortest {
		return context.Cause(ctx)
	}
	if stopped {
		r.Notes = append(r.Notes, "stopped before the end")
	}
	subjects = r.readAll(subjects, true, func(s *subject, to reading) { s.third = to })
	if recording != nil {
		seen, err := recording.Stop()
		if err != nil {
			return err
		}
		r.Lost, r.Weight, r.Watched = seen.Lost, seen.Weight, len(watched)
		for i, s := range watched {
			s.facts.Watched, s.facts.Sched, s.facts.Self = seen.Span(), &seen.Groups[i], i
			s.facts.During = s.third.counts.since(s.second.counts)
			s.facts.Workers = workers(s.threads, threadTimes(s.facts))
		}
		r.Notes = append(r.Notes, inKernel.finish(r.Began, seen)...)
	}
	hostAfter, err := accounting.Take("/proc")
	if err != nil {
		return err
	}
	h.Idle, h.Outside = idle(hostBefore, hostAfter), busyOutside(hostBefore, hostAfter, h.Containers)
	for _, s := range subjects {
		s.facts.Span, s.facts.Used = s.third.at.Sub(s.first.at), s.third.counts.since(s.first.counts)
		r.Facts = append(r.Facts, s.facts)
	}
	r.Span = time.Since(r.Began)
	engineWork(r.Facts, logs, hostBefore, hostAfter)
	r.Notes = append(r.Notes, compareSiblings(ctx, r.Facts, h.Memory)...)
	r.Findings, r.Notes = Diagnose(h, r.Facts), kit.Once(r.Notes)
	return nil
}

// readAll reads each, and drops with a note those that have ended.
func (r *Result) readAll(subjects []*subject, isWhole bool, put func(*subject, reading)) (still []*subject) {
	for _, s := range subjects {
		to, err := s.read(isWhole)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV):
			r.Notes = append(r.Notes, s.facts.Container.Name+" has ended, and is left out")
			continue
		case err != nil:
			r.Notes = append(r.Notes, fmt.Sprintf("%s is left out: %v", s.facts.Container.Name, err))
			continue
		}
		put(s, to)
		still = append(still, s)
	}
	return still
}

// idle is the share of the CPUs' time in which nothing ran, or somebody else's machine did.
func idle(before, after accounting.Snapshot) float64 {
	whole := after.Taken.Sub(before.Taken) * time.Duration(max(1, after.CPUs))
	return 1 - rate(after.Busy-before.Busy, whole)
}
