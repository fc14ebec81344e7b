package density

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/lab/labtest"
	"tare/load"
	"tare/platform"
	"tare/record"
	"tare/study/kit"
	"tare/workload"
)

// journal is what happened, in order.
type journal struct {
	mu     sync.Mutex
	lines  []string
	prefix string // of the lines awaited
	until  int    // so many
	there  chan struct{}
}

// wait has a channel closed when there are so many lines of a prefix.
func (j *journal) wait(prefix string, count int, there chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.prefix, j.until, j.there = prefix, count, there
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
	if j.there != nil && j.count(j.prefix) >= j.until {
		close(j.there)
		j.there = nil
	}
}

// has reports whether a line is there; the caller holds the lock.
func (j *journal) has(line string) bool { return line != "" && slices.Contains(j.lines, line) }

// at is where a line stands; -1 is nowhere.
func (j *journal) at(line string) int { return slices.Index(j.lines, line) }

func (j *journal) count(prefix string) (n int) {
	for _, line := range j.lines {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// world is a test's platform, its box, and what goes wrong in it.
type world struct {
	platform.Platform // nil: what is not overridden is not called
	journal
	launched map[string]platform.Spec
	reads    int
	danger   int    // the reading from which on the box is in danger; 0 is never
	killed   int64  // programs that the kernel kills where something goes wrong
	kills    int64  // those that it has killed
	killAt   string // a line of the journal at which it kills one that nobody misses
	killLoad int    // the closed load, from 1, at which it does; 0 is none
	awaited  string // the port of a third neighbour, for whose being asked the open loads wait
	heard    chan struct{}
	once     sync.Once
	unread   int    // the reading from which on there is none: the box is not kept; 0 is never
	refuses  string // the group whose programs cannot be launched
	after    int    // so many were
	grouping error  // why its programs can be in no group
	unstable string // what fails to be removed
}

func (w *world) Name() string                    { return "fake" }
func (w *world) Check(context.Context) error     { return nil }
func (w *world) Supports(platform.Setting) error { return nil }
func (w *world) Groups(context.Context) error    { return w.grouping }

func (w *world) Launch(_ context.Context, s platform.Spec) (platform.Instance, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Group == w.refuses && len(w.launched) >= w.after {
		w.kills = w.killed
		return nil, errors.New("it does not start")
	}
	w.launched[s.Name] = s
	w.lines = append(w.lines, "launch "+s.Args[0])
	return &program{w: w, spec: s}, nil
}

type program struct {
	platform.Instance // nil likewise
	w                 *world
	spec              platform.Spec
}

func (p *program) Address(port int) string { return fmt.Sprintf("192.0.2.1:%d", port) }
func (p *program) Wait(ctx context.Context) (platform.Exit, error) {
	<-ctx.Done()
	return platform.Exit{}, ctx.Err()
}
func (p *program) Stop(context.Context) error {
	p.w.add("stop %s", p.spec.Args[0])
	if p.spec.Args[0] == p.w.unstable {
		return errors.New("it does not end")
	}
	return nil
}

// box is a platform.Box that holds a MiB for each neighbour.
type fakeBox struct{ w *world }

func (b fakeBox) Group(c platform.Class) string { return "box/" + string(c) }
func (b fakeBox) Read(context.Context) (platform.BoxReading, error) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.w.reads++
	kills := b.w.kills
	if b.w.has(b.w.killAt) || b.w.killLoad > 0 && b.w.count("load closed") >= b.w.killLoad {
		kills++
	}
	r := platform.BoxReading{At: time.Unix(int64(b.w.reads), 0), SwapOut: int64(10 * b.w.reads),
		Limit: 100 << 20, Keeper: time.Duration(b.w.reads) * time.Millisecond, Reclaiming: time.Duration(2*b.w.reads) * time.Millisecond,
		Notes: []string{"the host has swap of its own", fmt.Sprintf("reading %d", b.w.reads)}, Classes: map[platform.Class]platform.ClassReading{
			platform.Critical: {Anonymous: 1 << 20, Resident: 2 << 20},
			platform.Idle:     {Anonymous: 1 << 20, Swapped: 2 << 20, MajorFaults: int64(b.w.reads), OOMKills: kills},
		}}
	if b.w.danger > 0 && b.w.reads >= b.w.danger {
		return r, &platform.Endangered{Why: "a test's"}
	}
	if b.w.unread > 0 && b.w.reads >= b.w.unread {
		return r, errors.New("the box is not kept")
	}
	return r, nil
}
func (b fakeBox) Remove(context.Context) error { b.w.add("remove box"); return nil }

// shop is a critical service of two parts, which answers at the rates that a test gives.
type shop struct {
	workload.Workload // nil likewise
	w                 *world
	closed            []float64 // rates of the closed loop, warm-up first
	failed            int64
	err               error // of the closed loops from the third on
	openErr           error // of the open loops from the third on
}

func (s *shop) Name() string            { return "shop" }
func (s *shop) Source() workload.Source { return workload.Source{Recipe: "shop"} }
func (s *shop) Params() []workload.Param {
	return []workload.Param{{Name: "rate", Default: "50"}, {Name: "duration", Default: "1s"}}
}
func (s *shop) Program(workload.Params) (workload.Program, error) {
	return workload.Program{Args: []string{"shop"}, Service: true, MemoryNeed: 64 << 20}, nil
}
func (s *shop) Offered(p workload.Params) (workload.Offered, error) {
	return workload.Offered{Rate: 50}, nil
}
func (s *shop) Ready(_ context.Context, t workload.Trial) error {
	s.w.add("ready at %s", t.Address(80))
	return nil
}
func (s *shop) Parts(workload.Params) ([]workload.Part, error) {
	return []workload.Part{
		{Name: "database", Program: func(func(string, int) string) workload.Program { return workload.Program{Args: []string{"database"}} },
			Ready: func(context.Context, func(int) string) error { s.w.add("database is ready"); return nil }},
		{Name: "site", Program: func(at func(string, int) string) workload.Program {
			return workload.Program{Args: []string{"site", at("database", 27017)}}
		}},
	}, nil
}
func (s *shop) Load(ctx context.Context, t workload.Trial, _ uint64) (load.Result, error) {
	s.w.add("load %s", t.Params()["rate"])
	r := load.Result{Corrected: load.NewHistogram(), Requests: 5, Rate: 50, Errors: map[string]int64{}}
	_ = r.Corrected.RecordValue(1500)
	if t.Params()["rate"] != closedLoop {
		if s.openErr != nil && s.w.count("load 50") >= 3 {
			return load.Result{}, s.openErr
		}
		if s.w.awaited != "" && s.w.at("fill "+s.w.awaited+" with 10") >= 0 {
			select {
			case <-s.w.heard:
			case <-ctx.Done():
			}
		}
		return r, nil
	}
	n := s.w.count("load closed") - 1
	if s.failed > 0 && n > 0 {
		r.Errors["status"], r.FirstError = s.failed, errors.New("what was booked is not there")
	}
	r.Rate = 100
	if n < len(s.closed) {
		r.Rate = s.closed[n]
	}
	if s.err != nil && n >= 2 {
		return load.Result{}, s.err
	}
	return r, nil
}

// napper is an idle neighbour.
type napper struct {
	workload.Workload // nil likewise
	w                 *world
	bad               int // the neighbour that cannot be filled, by its port; 0 is none
}

func (n napper) Name() string             { return "napper" }
func (n napper) Source() workload.Source  { return workload.Source{Recipe: "napper"} }
func (n napper) Params() []workload.Param { return []workload.Param{{Name: "port", Default: "1"}} }
func (n napper) Program(p workload.Params) (workload.Program, error) {
	return workload.Program{Args: []string{"napper-" + p["port"]}, MemoryNeed: 9 << 20}, nil
}
func (n napper) Ready(context.Context, workload.Trial) error { return nil }
func (n napper) Sized(p workload.Params, bytes int64) (workload.Params, error) {
	if bytes < 1<<20 {
		return nil, errors.New("at least 1 MiB")
	}
	return p, nil
}
func (n napper) Fill(_ context.Context, t workload.Trial, seed uint64) error {
	if t.Params()["port"] == fmt.Sprint(n.bad) {
		n.w.mu.Lock()
		defer n.w.mu.Unlock()
		n.w.kills = n.w.killed
		return errors.New("its memory ended")
	}
	n.w.add("fill %s with %d", t.Params()["port"], seed)
	return nil
}
func (n napper) Asks(t workload.Trial, filled, _ uint64) (load.Target, error) {
	return asked{n.w, t.Params()["port"]}, nil
}

// asked is a neighbour as a target, which answers at once.
type asked struct {
	w    *world
	port string
}

func (a asked) Open(context.Context) (load.Conn, error) { return a, nil }
func (a asked) Do(time.Time) (bool, error) {
	a.w.add("ask %s", a.port)
	if a.port == a.w.awaited {
		a.w.once.Do(func() { close(a.w.heard) })
	}
	return true, nil
}
func (a asked) Close() error { return nil }

// fixture is an options set on a world, and the two workloads in it.
type fixture struct {
	*world
	shop  *shop
	nap   *napper
	bench *labtest.Bench
	o     Options
}

func newFixture(neighbours ...int) *fixture {
	w := &world{launched: map[string]platform.Spec{}, heard: make(chan struct{})}
	f := &fixture{world: w, shop: &shop{w: w}, nap: &napper{w: w}, bench: labtest.NewBench(w)}
	f.bench.Boxes = func(_ context.Context, spec platform.BoxSpec) (platform.Box, error) {
		w.add("box %s %d", spec.Swap, spec.Memory>>20)
		return fakeBox{w}, nil
	}
	f.o = Default()
	f.o.Critical, f.o.Noises = workload.Subject{Workload: f.shop}, nil
	f.o.Neighbours, f.o.Box, f.o.Platform = neighbours, 128<<20, "fake"
	f.o.Think, f.o.Open, f.o.Closed = time.Millisecond, leastLoad, leastLoad
	f.o.WarmRounds = 1
	f.o.Plan = record.Plan{Blocks: 1}
	f.o.Host = Host{
		Host: kit.Host{
			Memory: 1 << 30, CPUs: []int{0, 1},
			Platform: func(string) (platform.Platform, error) { return w, nil },
			Check:    func(p platform.Platform) error { return p.Check(context.Background()) },
		},
		Look: func(string) (string, error) { return "", errors.New("annexd is not on PATH") },
	}
	return f
}

// run carries out one trial of the design's first condition.
func (f *fixture) run(t *testing.T) error {
	t.Helper()
	return f.runCondition(t, 0)
}

// runCondition is run of another condition.
func (f *fixture) runCondition(t *testing.T, i int) error {
	t.Helper()
	f.o.Noises = []workload.Subject{{Workload: *f.nap}}
	d, err := Design(f.o)
	if err != nil {
		t.Fatal(err)
	}
	c := d.Groups[0].Conditions[i]
	f.bench.Of = c.Condition
	return c.Procedure(t.Context(), f.bench)
}

// boxing is a platform whose programs run under another kernel.
type boxing struct{ platform.Platform }

func (boxing) Box(context.Context, platform.BoxSpec) (platform.Box, error) { return nil, nil }

// inMachine has a virtual machine of its own be the platform.
func inMachine(o *Options) {
	on := o.Host.Platform
	o.Platform, o.Host.Platform = "vm:tcg+memory=1024m/oci", func(name string) (platform.Platform, error) {
		p, err := on(name)
		return boxing{p}, err
	}
}
