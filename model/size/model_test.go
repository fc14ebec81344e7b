package size

import (
	"fmt"
	"math"
	"time"
)

// Machine is a host as a discrete-event model, for one purpose: to have overheads of
// which it is known what caused them, by which the fit is tried. Nobody claims that it
// is any host; that each cost does what it says, and nothing where it is 0, is all.
//
// Its scheduler keeps a task on the CPU where it last ran while that is idle. With the
// chance Restless, at each waking and at each end of a time slice, it looks at another
// CPU that the task may use, drawn at random, and takes that if it is idle; so tasks
// wander the more, the more CPUs are idle around them, which is what S2 supposes of
// containers with a small share of their host. A CPU with nothing to do takes a task
// that waits for another.
//
// A quota is the kernel's, as [tare/model/quota] has it for a service's requests (which
// that package's simulator is bound to, so that it could not serve here): a pool that
// is filled at each period's end, slices of it taken by each CPU, all but a
// millisecond given back by one that goes idle, CPUs held back while the pool is
// empty. Other than there CPUs run out of a slice on the nanosecond instead of at a tick,
// and what is given back is handed on at once.
type Machine struct {
	CPUs     int
	Slice    time.Duration // the scheduler's; 0 is 3 ms
	Restless float64       // 0 to 1
	// Spread has an interrupt come to a CPU drawn from all of the machine's; else it
	// comes to the one on which the task began to wait, as a device with a queue for
	// each CPU has it.
	Spread bool
	Costs  Costs
}

// Costs are CPU time that is spent beside a program's work. Those of quota and of
// accounting are of a group with a quota alone.
type Costs struct {
	Migration time.Duration // for a task that goes on on another CPU than its last: its cache
	Interrupt time.Duration // for a task woken by an interrupt that goes on on another CPU than this came to
	Switch    time.Duration // of accounting, for each task that a CPU begins to run
	Share     time.Duration // of accounting, for each slice taken, by each CPU that holds one: the pool is shared
	Release   time.Duration // for each CPU that is released at a period's begin
}

// Program is tasks that are all alike. They run for Burst of work in the mean
// (exponential), then wait for input or output for Wait in the mean (exponential), and
// are woken by an interrupt. Without a Burst they never wait.
type Program struct {
	Tasks       int
	Burst, Wait time.Duration
}

// Mode is how a program is given its CPUs.
type Mode string

// The modes, named as S2 does.
const (
	Bare    Mode = "bare"    // a machine that has no other CPUs
	Vanilla Mode = "vanilla" // a quota on all of the machine's
	Pinned  Mode = "pinned"  // a cpuset
)

// Grant is what a platform gives a program.
type Grant struct {
	Mode Mode
	// CPUs may be a fraction for Vanilla alone.
	CPUs float64
	// Factor is by what each piece of work takes longer than on bare metal, whatever the
	// size: the truth of the platform's type. 0 is 1.
	Factor float64
	Period time.Duration // of the quota; 0 is 100 ms
}

// Outcome is what a program did in a run.
type Outcome struct {
	Elapsed time.Duration
	Work    time.Duration // of the program's own, without what it cost
	Spent   time.Duration // CPU time, with it
	// Held is CPU time for which CPUs with tasks were held back.
	Held                                        time.Duration
	Switches, Migrations, Interrupts, Elsewhere int // Elsewhere are interrupts that came to another CPU than the task went on on
}

// Bounds that keep a run finite.
const (
	mostSimulatedCPUs  = 4096
	mostSimulatedTasks = 1 << 16
	longestRun         = time.Hour
	leastSpan          = time.Microsecond
)

func (m Machine) check(p Program, g Grant, d time.Duration) error {
	whole := g.CPUs == math.Trunc(g.CPUs)
	switch {
	case m.CPUs < 1 || m.CPUs > mostSimulatedCPUs:
		return fmt.Errorf("a machine of %d CPUs: want 1 to %d", m.CPUs, mostSimulatedCPUs)
	case !(m.Restless >= 0 && m.Restless <= 1):
		return fmt.Errorf("restless %v: want a chance, 0 to 1", m.Restless)
	case m.Slice < leastSpan:
		return fmt.Errorf("a time slice of %v: want %v or more", m.Slice, leastSpan)
	case min(m.Costs.Migration, m.Costs.Interrupt, m.Costs.Switch, m.Costs.Share, m.Costs.Release) < 0:
		return fmt.Errorf("costs %+v: want none below 0", m.Costs)
	case p.Tasks < 1 || p.Tasks > mostSimulatedTasks:
		return fmt.Errorf("%d tasks: want 1 to %d", p.Tasks, mostSimulatedTasks)
	case p.Burst != 0 && p.Burst < leastSpan || p.Wait < 0 || p.Wait > 0 && p.Burst == 0:
		return fmt.Errorf("bursts of %v and waits of %v: want bursts of %v or more and waits between them, or neither", p.Burst, p.Wait, leastSpan)
	case g.Mode != Bare && g.Mode != Vanilla && g.Mode != Pinned:
		return fmt.Errorf("unknown mode %q: want %s, %s or %s", string(g.Mode), Bare, Vanilla, Pinned)
	case !(g.CPUs > 0 && g.CPUs <= float64(m.CPUs)) || g.Mode != Vanilla && !whole:
		return fmt.Errorf("%v CPUs of %d, %s: want some, as many as there are at most, and a fraction for %s alone", g.CPUs, m.CPUs, g.Mode, Vanilla)
	case !(g.Factor >= 0.01 && g.Factor <= 100):
		return fmt.Errorf("a factor of %v: want 0.01 to 100", g.Factor)
	case g.Period < time.Millisecond || g.Period > time.Second:
		return fmt.Errorf("a period of %v: the kernel takes 1ms to 1s", g.Period)
	case d < g.Period || d > longestRun:
		return fmt.Errorf("a run of %v: want a period to %v", d, longestRun)
	}
	return nil
}

// Run runs a program for d, after a tenth of that which does not count (both in whole
// periods), by a seed that determines all.
func (m Machine) Run(p Program, g Grant, d time.Duration, seed uint64) (Outcome, error) {
	if m.Slice == 0 {
		m.Slice = 3 * time.Millisecond
	}
	if g.Factor == 0 {
		g.Factor = 1
	}
	if g.Period == 0 {
		g.Period = 100 * time.Millisecond
	}
	if err := m.check(p, g, d); err != nil {
		return Outcome{}, fmt.Errorf("simulate: %w", err)
	}
	s := newSimulation(m, p, g, seed)
	periods := int64(d / g.Period)
	warm := (periods + 9) / 10
	s.until(warm * int64(g.Period))
	before := s.outcome()
	s.until((warm + periods) * int64(g.Period))
	return s.outcome().less(before), nil
}

func (o Outcome) less(b Outcome) Outcome {
	return Outcome{
		Elapsed: o.Elapsed - b.Elapsed, Work: o.Work - b.Work, Spent: o.Spent - b.Spent, Held: o.Held - b.Held,
		Switches: o.Switches - b.Switches, Migrations: o.Migrations - b.Migrations,
		Interrupts: o.Interrupts - b.Interrupts, Elsewhere: o.Elsewhere - b.Elsewhere,
	}
}

// Overhead is the logarithm of the time that a piece of the program's work takes under
// a grant over what it takes on bare metal of the same size. Bare metal has no fractions
// of a CPU: there, it is the time on the next whole number of CPUs, over the part of
// them that was granted. Only the grant's outcome is given.
func (m Machine) Overhead(p Program, g Grant, d time.Duration, seed uint64) (float64, Outcome, error) {
	with, err := m.Run(p, g, d, seed)
	if err != nil {
		return math.NaN(), Outcome{}, err
	}
	whole := math.Ceil(g.CPUs)
	bare, err := m.Run(p, Grant{Mode: Bare, CPUs: whole, Period: g.Period}, d, seed)
	if err != nil {
		return math.NaN(), Outcome{}, err
	}
	if with.Work <= 0 || bare.Work <= 0 {
		return math.NaN(), Outcome{}, fmt.Errorf("simulate: no work was done in %v", d)
	}
	return math.Log(float64(bare.Work) * g.CPUs / whole / float64(with.Work)), with, nil
}
