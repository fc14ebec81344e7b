package place

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/platform"
	"tare/probe/bursts"
	"tare/study/kit"
	"tare/terminal"
)

// Kind is a way to have those that answer wait less.
type Kind string

// The kinds, in the order in which they are proposed.
const (
	Separate Kind = "CPUs of their own"
	Period   Kind = "shorter periods"
	Shares   Kind = "shares"
	RealTime Kind = "real-time class"
)

// Action is one thing that could be done.
type Action struct {
	Kind   Kind
	Says   string // "web on CPU 1; batch on CPU 0"
	Reason string
	// Changes are made to the control groups of the containers that were watched.
	Changes []Change
	// Commands make it permanent, by the engine.
	Commands []string
	// Not says why tare itself does not do it; empty where it does.
	Not string
}

// Change is what an action changes of one container.
type Change struct {
	Subject int
	cgroup.Changes
}

// Proposal is what could be done, from the first to be tried to the last. It
// has no actions where nothing needs doing, or nothing can be done.
type Proposal struct {
	Victims  []int // those that answer and wait too long
	Culprits []int // those that compute, behind which they wait
	Actions  []Action
	// Apart says why CPUs cannot be separated; empty where they can, or need not.
	Apart string
}

// Healthy reports whether no latency-critical container suffers.
func (p *Proposal) Healthy() bool { return len(p.Victims) == 0 }

// Propose says what could be done about what was seen.
func (w *Watched) Propose() (*Proposal, error) {
	p := &Proposal{}
	p.Victims, p.Culprits = suffering(w.Subjects, w.Thresholds)
	if p.Healthy() {
		return p, nil
	}
	sets, why := divide(w.Subjects, p.Victims, p.Culprits, w.machine.cores)
	p.Apart = why
	if why == "" {
		a, err := w.separate(sets, p)
		var not *cgroup.Unchangeable
		switch {
		case errors.As(err, &not):
			p.Apart = not.Error()
		case err != nil:
			return nil, err
		default:
			p.Actions = append(p.Actions, a)
			return p, nil
		}
	}
	for _, propose := range []func(*Proposal) (Action, bool, error){w.periods, w.shares, w.realTime} {
		a, ok, err := propose(p)
		var not *cgroup.Unchangeable
		if errors.As(err, &not) {
			a, ok, err = Action{Kind: a.Kind, Says: a.Says, Reason: a.Reason, Not: not.Error()}, true, nil
		}
		if err != nil {
			return nil, err
		}
		if ok {
			p.Actions = append(p.Actions, a)
		}
	}
	return p, nil
}

// suffering finds those that answer and wait too long, where that is because of
// containers that compute on the CPUs that they have in common, and these.
func suffering(subjects []*Subject, t Thresholds) (victims, culprits []int) {
	for i, s := range subjects {
		if s.Behaviour != Critical || s.Evidence.Waits < t.FewestWaits || s.Evidence.WaitP99 <= t.Wait {
			continue
		}
		var behind float64
		var these []int
		for j, o := range subjects {
			if j != i && o.Behaviour == CPUBound && s.Behind[j] > 0 && len(intersect(s.CPUs, o.CPUs)) > 0 {
				behind += s.Behind[j]
				these = append(these, j)
			}
		}
		// Of what is unknown, the known is taken to be a sample.
		if known := 1 - s.Behind[bursts.Unknown]; known > 0 && behind >= t.WaitShare*known {
			victims, culprits = append(victims, i), append(culprits, these...)
		}
	}
	slices.Sort(culprits)
	return victims, slices.Compact(culprits)
}

// room is how busy CPUs of one's own may be on average: beyond it, those that
// answer would wait behind one another.
const room = 0.7

// divide gives those that answer CPUs of their own, and says which subjects have to
// have which CPUs for that; or why it cannot. Sets that a user has given are
// divided where that is enough, and left only where it is not, within what the
// groups above allow.
func divide(subjects []*Subject, victims, culprits []int, cores map[int][]int) (map[int][]int, string) {
	why := ""
	for _, leave := range []bool{false, true} {
		sets, not := divideWithin(subjects, victims, culprits, cores, leave)
		if not == "" {
			return sets, ""
		}
		why = not
	}
	return nil, why
}

func divideWithin(
	subjects []*Subject,
	victims, culprits []int,
	cores map[int][]int,
	leave bool,
) (map[int][]int, string) {
	may := func(s *Subject) []int {
		if leave && s.Bound == "" {
			return union(s.CPUs, s.Above)
		}
		return s.CPUs
	}
	var pool []int
	for _, i := range slices.Concat(victims, culprits) {
		pool = union(pool, may(subjects[i]))
	}
	if len(pool) < 2 {
		return nil, fmt.Sprintf("they have only CPU %s in common, which cannot be divided", platform.FormatCPUList(pool))
	}
	demand := 0.0
	for _, s := range subjects {
		if s.Behaviour == Critical {
			demand += s.Evidence.Share
		}
	}
	need := max(1, int(math.Ceil(demand/room)))
	if need >= len(pool) {
		return nil, fmt.Sprintf("the latency-critical containers need %s CPUs, which at %s utilisation takes all %d that they may use", digits(demand), percent(room), len(pool))
	}
	reserved := reserve(subjects, pool, need, cores, may)
	sets := map[int][]int{}
	for i, s := range subjects {
		overlap := intersect(s.CPUs, reserved)
		var want []int
		switch {
		case s.Behaviour == Idle:
			continue
		case s.Behaviour == Critical:
			if want = overlap; len(want) == 0 {
				want = intersect(may(s), reserved)
			}
		case len(overlap) == 0:
			continue
		default:
			if want = without(s.CPUs, reserved); len(want) == 0 {
				want = without(may(s), reserved)
			}
		}
		switch {
		case slices.Equal(want, s.CPUs):
		case s.Bound != "":
			return nil, fmt.Sprintf("the CPUs of %s would have to change, but %s", s.Container.Name, s.Bound)
		case len(want) == 0:
			return nil, fmt.Sprintf("%s may use CPUs %s alone, and the other side needs those: too few to separate them", s.Container.Name, platform.FormatCPUList(s.CPUs))
		default:
			sets[i] = want
		}
	}
	if len(sets) == 0 {
		return nil, "they have CPUs of their own already"
	}
	return sets, ""
}

// reserve picks the CPUs for those that answer: such as most of them may use and as
// few of the others are bound to; whole cores, where enough are left; and high
// numbers, since devices' interrupts come to the first CPU by default.
func reserve(subjects []*Subject, pool []int, need int, cores map[int][]int, may func(*Subject) []int) []int {
	type ranked struct{ cpu, for_, against int }
	var all []ranked
	for _, cpu := range pool {
		r := ranked{cpu: cpu}
		for _, s := range subjects {
			switch {
			case s.Behaviour == Critical && slices.Contains(may(s), cpu):
				r.for_++
			case s.Behaviour != Critical && s.Behaviour != Idle && len(s.CPUs) == 1 && s.CPUs[0] == cpu:
				r.against++
			}
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		if a.for_ != b.for_ {
			return b.for_ - a.for_
		}
		if a.against != b.against {
			return a.against - b.against
		}
		return b.cpu - a.cpu
	})
	var taken []int
	for _, r := range all {
		if len(taken) >= need {
			break
		}
		if slices.Contains(taken, r.cpu) {
			continue
		}
		core := intersect(union(cores[r.cpu], []int{r.cpu}), pool)
		if len(union(taken, core)) >= len(pool) {
			core = []int{r.cpu}
		}
		taken = union(taken, core)
	}
	return taken
}

// separate makes the changes that give subjects their sets.
func (w *Watched) separate(sets map[int][]int, p *Proposal) (Action, error) {
	a := Action{Kind: Separate}
	var says []string
	for i, s := range w.Subjects {
		cpus, ok := sets[i]
		if !ok {
			continue
		}
		list := platform.FormatCPUList(cpus)
		changes, err := s.Group.ChangeCPUs(list)
		if err != nil {
			return a, err
		}
		a.Changes = append(a.Changes, Change{i, changes})
		text := fmt.Sprintf("%s on CPU %s", s.Container.Name, list)
		if len(without(cpus, s.CPUs)) > 0 {
			text += fmt.Sprintf(" (outside its present CPUs %s)", platform.FormatCPUList(s.CPUs))
		}
		says = append(says, text)
		a.Commands = append(a.Commands, permanent(s.Container, changes, "--cpuset-cpus "+list)...)
	}
	a.Says = strings.Join(says, "; ")
	a.Reason = w.because(p)
	if shared := sharedCores(sets, w.Subjects, w.machine.cores); shared != "" {
		a.Reason += "; " + shared
	}
	return a, nil
}

// sharedCores names CPUs of one core that both sides still share.
func sharedCores(sets map[int][]int, subjects []*Subject, cores map[int][]int) string {
	now := func(i int) []int {
		if set, ok := sets[i]; ok {
			return set
		}
		return subjects[i].CPUs
	}
	var critical, others []int
	for i, s := range subjects {
		switch s.Behaviour {
		case Critical:
			critical = union(critical, now(i))
		case CPUBound:
			others = union(others, now(i))
		}
	}
	for _, cpu := range critical {
		if both := intersect(without(cores[cpu], []int{cpu}), others); len(both) > 0 {
			return fmt.Sprintf("CPUs %d and %d are one core, which both sides still share: the effect may be smaller for it", cpu, both[0])
		}
	}
	return ""
}

func (w *Watched) because(p *Proposal) string {
	var all []string
	for _, i := range p.Victims {
		s := w.Subjects[i]
		var behind []string
		share := 0.0
		for _, j := range p.Culprits {
			if s.Behind[j] > 0 {
				behind = append(behind, w.Subjects[j].Container.Name)
				share += s.Behind[j]
			}
		}
		all = append(all, fmt.Sprintf("%s waits up to %v (p99) for a CPU, %s of its waiting time behind %s",
			s.Container.Name, kit.Short(s.Evidence.WaitP99), percent(min(1, share)), strings.Join(behind, ", ")))
	}
	return strings.Join(all, "; ")
}

// shortPeriod is the shortest period worth setting.
const shortPeriod = 10 * time.Millisecond

// periods has those that compute use their quotas in smaller pieces.
func (w *Watched) periods(p *Proposal) (Action, bool, error) {
	a := Action{Kind: Period, Reason: "CPU-bound containers use their quota in one piece, which others wait behind. A shorter period makes the pieces smaller, at the same share of CPU time"}
	var says []string
	for _, i := range p.Culprits {
		s := w.Subjects[i]
		own, err := s.Group.Own()
		if err != nil {
			return a, false, err
		}
		b := own.Bandwidth
		if b.Quota == 0 || b.Period <= shortPeriod || b.Burst > 0 {
			continue
		}
		quota := time.Duration(float64(b.Quota) * float64(shortPeriod) / float64(b.Period))
		shorter := cgroup.Bandwidth{Period: shortPeriod, Quota: quota.Round(time.Microsecond)}
		if shorter.Quota < cgroup.LeastQuota {
			period := time.Duration(float64(cgroup.LeastQuota) * float64(b.Period) / float64(b.Quota))
			shorter.Period, shorter.Quota = period.Round(time.Microsecond), cgroup.LeastQuota
		}
		if shorter.Period >= b.Period {
			continue
		}
		changes, err := s.Group.ChangeBandwidth(shorter)
		if err != nil {
			return a, false, err
		}
		a.Changes = append(a.Changes, Change{i, changes})
		says = append(says, fmt.Sprintf("%s: %v instead of %v", s.Container.Name, shorter, b))
		a.Commands = append(
			a.Commands,
			permanent(
				s.Container,
				changes,
				fmt.Sprintf("--cpu-period %d --cpu-quota %d", shorter.Period.Microseconds(), shorter.Quota.Microseconds()),
			)...)
	}
	a.Says = strings.Join(says, "; ")
	return a, len(a.Changes) > 0, nil
}

// heavier is by how much the weight of those that answer grows, and mostShares
// the largest weight there is.
const (
	heavier    = 8
	mostShares = 262144
)

// shares has those that answer go before those that compute.
func (w *Watched) shares(p *Proposal) (Action, bool, error) {
	a := Action{Kind: Shares, Reason: "latency-critical containers need little CPU time, and need it at once. A larger weight schedules them sooner, and takes from the others no more than they use"}
	var says []string
	for _, i := range p.Victims {
		s := w.Subjects[i]
		if s.Shares == 0 {
			continue
		}
		shares := min(heavier*s.Shares, mostShares)
		if shares == s.Shares {
			continue
		}
		changes, err := s.Group.ChangeShares(shares)
		if err != nil {
			return a, false, err
		}
		a.Changes = append(a.Changes, Change{i, changes})
		says = append(says, fmt.Sprintf("%s: %d shares instead of %d", s.Container.Name, shares, s.Shares))
		a.Commands = append(a.Commands, permanent(s.Container, changes, "--cpu-shares "+strconv.Itoa(shares))...)
	}
	a.Says = strings.Join(says, "; ")
	return a, len(a.Changes) > 0, nil
}

// realTime is proposed and left to the user: a program of that class that does not
// block keeps all others off its CPUs.
func (w *Watched) realTime(p *Proposal) (Action, bool, error) {
	var names []string
	for _, i := range p.Victims {
		names = append(names, w.Subjects[i].Container.Name)
	}
	return Action{
		Kind: RealTime, Says: strings.Join(names, ", ") + ": SCHED_RR for its threads",
		Reason: "a real-time thread runs as soon as it wakes up, before every ordinary one",
		Not:    "a faulty real-time program blocks all others on its CPUs. With CONFIG_RT_GROUP_SCHED the engine's own group needs a real-time budget as well. tare latency cpu measures the effect on copies",
	}, true, nil
}

// permanent is the command that has a container's engine keep a change.
func permanent(c container.Container, changes cgroup.Changes, flags string) []string {
	switch c.Engine {
	case container.Docker, container.Podman:
		return []string{fmt.Sprintf("%s update %s %s", c.Engine, flags, terminal.Shell(c.Name))}
	case container.Kubernetes:
		return nil // the kubelet would set it back: pods are given CPUs by its policy
	}
	var all []string
	for _, one := range changes {
		all = append(all, fmt.Sprintf("echo %s > %s", one.New, terminal.Shell(one.File)))
	}
	return all
}

func union(a, b []int) []int {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

func intersect(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(cpu int) bool { return !slices.Contains(b, cpu) })
}

func without(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(cpu int) bool { return slices.Contains(b, cpu) })
}
