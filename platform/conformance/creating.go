package conformance

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tare/kernel/procfs"
	"tare/platform"
)

// creating are the tests of a platform that creates first and starts later.
var creating = []test{
	{"CreatedAtRest", testCreatedAtRest},
	{"CreatedIsAsLaunched", testCreatedIsAsLaunched},
	{"CreatedEndsAtOnce", testCreatedEndsAtOnce},
	{"CreatedOrder", testCreatedOrder},
	{"CreatedStoppedInAnyState", testCreatedStopped},
	{"CreatedNoSuchProgram", testCreatedNoSuchProgram},
	{"CreatedElapsedHoldsNoRest", testCreatedElapsed},
	{"CreateCancelled", testCreateCancelled},
	{"StartCancelled", testStartCancelled},
	{"CreateLedgerRefuses", testCreateLedgerRefuses},
	{"CreatedCrash", testCreatedCrash},
	{"CreatedConcurrent", testCreatedConcurrent},
}

func (st *stage) creator() platform.Creator { return st.platform.(platform.Creator) }

// create creates, and stops at the end of the test, after which no trace may
// be left.
func (st *stage) create(spec platform.Spec) platform.Created {
	st.Helper()
	c, err := st.creator().Create(st.ctx, spec)
	if err != nil {
		st.Fatalf("Create %v: %v", spec.Args, err)
	}
	st.Cleanup(func() { st.stopCreated(c, spec.Name) })
	return c
}

func (st *stage) stopCreated(c platform.Created, name string) {
	st.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		st.Errorf("Stop: %v", err)
	}
	st.noTraces(name)
	st.awaitNobodyServes(c.ID())
}

// serving lists the processes that have the container's id among their
// arguments, as its shim and its runtime do.
func serving(id string) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []int
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if args, err := procfs.Host.Process(pid).Args(); err == nil && slices.Contains(args, id) {
			found = append(found, pid)
		}
	}
	return found
}

// awaitNobodyServes waits for the end of those: an engine's shim ends by
// itself, after the engine has said that the container is gone.
func (st *stage) awaitNobodyServes(id string) {
	st.Helper()
	for len(serving(id)) > 0 {
		select {
		case <-st.ctx.Done():
			for _, pid := range serving(id) {
				args, _ := procfs.Host.Process(pid).Args()
				st.Errorf("left: process %d %q", pid, args)
			}
			return
		case <-time.After(5 * time.Millisecond): // there is no event for a stranger's end
		}
	}
}

func (st *stage) start(c platform.Created) platform.Instance {
	st.Helper()
	if err := c.Start(st.ctx); err != nil {
		st.Fatalf("Start: %v", err)
	}
	inst, err := c.Instance(st.ctx)
	if err != nil {
		st.Fatalf("Instance: %v", err)
	}
	return inst
}

// testCreatedAtRest: at rest there is neither a process nor anything that one
// has done; the start, and nothing before it, runs the program.
func testCreatedAtRest(t *testing.T, s suite) {
	st := s.set(t)
	if s.has(OtherKernel) {
		st.run(st.spec("true")) // the machine is there before
	}
	before := children()
	l := newLines()
	spec := st.shell("echo ran; sleep 3600")
	spec.Stdout = l
	c := st.create(spec)
	if c.ID() == "" {
		t.Error("it has no ID")
	}
	if pids := processesOf(spec.Name); len(pids) > 0 {
		t.Errorf("at rest it has the processes %v", pids)
	}
	for _, pid := range serving(c.ID()) {
		args, _ := procfs.Host.Process(pid).Args()
		t.Errorf("at rest process %d is about it: %q", pid, args)
	}
	if now := children(); len(now) > len(before) {
		t.Errorf("Create has left children: %v, before %v", now, before)
	}
	if out := l.String(); out != "" {
		t.Errorf("at rest it printed %q", out)
	}
	entered := st.book.entered
	inst := st.start(c)
	l.await(st, "ran")
	if st.book.entered != entered {
		t.Errorf("the start has entered %d things in the ledger, whose disk it waited for", st.book.entered-entered)
	}
	if pids, err := inst.Processes(); err != nil || len(pids) == 0 {
		t.Errorf("started, its processes are %v (%v)", pids, err)
	}
	force, err := inst.InForce()
	if err != nil {
		t.Fatal(err)
	}
	named := false
	for _, group := range force.Cgroups {
		named = named || strings.Contains(group, c.ID())
	}
	if !named && !s.has(NoControlGroups) {
		t.Errorf("the id %s is in the path of none of its cgroups: %v", c.ID(), force.Cgroups)
	}
	again, err := c.Instance(st.ctx)
	if err != nil || again != inst {
		t.Errorf("asked again for the instance: %v, %v; want the same", again, err)
	}
}

// testCreatedIsAsLaunched: what is in force, what is used and how it ends is
// not distinguished from a program that was launched.
func testCreatedIsAsLaunched(t *testing.T, s suite) {
	st := s.set(t)
	specOf := func() (platform.Spec, *lines) {
		l := newLines()
		spec := st.full(st.shell("echo ready; sleep 3600 & wait"))
		spec.Env = []string{"ADDED=1"}
		spec.Stdout = l
		return spec, l
	}
	specL, outL := specOf()
	launched := st.launch(specL)
	outL.await(st, "ready")
	want, err := launched.InForce()
	if err != nil {
		t.Fatal(err)
	}
	st.stop(launched, specL.Name)

	spec, out := specOf()
	c := st.create(spec)
	inst := st.start(c)
	out.await(st, "ready")
	got, err := inst.InForce()
	if err != nil {
		t.Fatal(err)
	}
	if diff := Difference(want, got); diff != "" {
		t.Errorf("surroundings differ (-launched +created):\n%s", diff)
	}
	want.Env, got.Env = nil, nil
	want.Cgroups, got.Cgroups = nil, nil // each has its own
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is in force differs (-launched +created):\n%s", diff)
	}
	usage, err := inst.Usage()
	if err != nil || usage.CPU <= 0 {
		t.Errorf("usage %+v, %v", usage, err)
	}
	st.stop(inst, spec.Name)
	if exit := st.wait(inst); exit.Code != 137 {
		t.Errorf("stopped, it ended with %+v, want code 137", exit)
	}
}

// testCreatedEndsAtOnce: a program that is over before anybody looks is no
// error, and its status and output are there.
func testCreatedEndsAtOnce(t *testing.T, s suite) {
	st := s.set(t)
	for code, wait := range map[string]bool{"3": false, "4": true} {
		l := newLines()
		spec := st.shell("echo over; exit " + code)
		spec.Stdout = l
		c := st.create(spec)
		if err := c.Start(st.ctx); err != nil {
			t.Fatal(err)
		}
		if wait { // over for certain, and not only perhaps
			l.await(st, "over")
			st.awaitEnd(spec.Name)
		}
		inst, err := c.Instance(st.ctx)
		if err != nil {
			t.Fatalf("Instance of a program that has ended: %v", err)
		}
		exit := st.wait(inst)
		if got := l.String(); exit.Code != int(code[0]-'0') || got != "over\n" {
			t.Errorf("exit %+v, output %q; want code %s", exit, got, code)
		}
		if exit.Elapsed <= 0 || exit.Elapsed > bound {
			t.Errorf("it took %v", exit.Elapsed)
		}
		if _, err := inst.InForce(); !errors.Is(err, platform.ErrGone) {
			t.Errorf("InForce after its end: %v, want one that wraps ErrGone", err)
		}
	}
	// And one whose output nobody wants.
	inst := st.start(st.create(st.shell("echo unheard; exit 5")))
	if exit := st.wait(inst); exit.Code != 5 {
		t.Errorf("exit %+v, want code 5", exit)
	}
}

// awaitEnd waits until no process of the instance runs.
func (st *stage) awaitEnd(name string) {
	st.Helper()
	for len(processesOf(name)) > 0 {
		select {
		case <-st.ctx.Done():
			st.Fatalf("%s has not ended", name)
		case <-time.After(time.Millisecond): // there is no event for a stranger's end
		}
	}
}

// testCreatedOrder: what comes out of its order is refused, and harms nothing.
func testCreatedOrder(t *testing.T, s suite) {
	st := s.set(t)
	spec := st.spec("sleep", "3600")
	c := st.create(spec)
	if _, err := c.Instance(st.ctx); err == nil {
		t.Error("gave an instance of what has not been started")
	}
	inst := st.start(c)
	if err := c.Start(st.ctx); err == nil {
		t.Error("started twice")
	}
	if pids, err := inst.Processes(); err != nil || len(pids) != 1 {
		t.Errorf("after that its processes are %v (%v), want one", pids, err)
	}
	st.stopCreated(c, spec.Name)
	if exit := st.wait(inst); exit.Code != 137 {
		t.Errorf("stopped, it ended with %+v, want code 137", exit)
	}
	if err := c.Start(st.ctx); err == nil {
		t.Error("started after it was stopped")
	}
	st.noTraces(spec.Name)
}

// testCreatedStopped stops in each state, twice.
func testCreatedStopped(t *testing.T, s suite) {
	start := func(st *stage, c platform.Created) {
		if err := c.Start(st.ctx); err != nil {
			st.Error(err)
		}
	}
	for _, state := range []struct {
		name, script string
		reach        func(*stage, platform.Created)
	}{
		{"at rest", "sleep 3600", func(*stage, platform.Created) {}},
		{"started", "setsid sleep 3600 & sleep 3600", start},
		{"started and ended", "exit 0", start},
		{"held", "setsid sleep 3600 & sleep 3600", func(st *stage, c platform.Created) { st.start(c) }},
		{"held and ended", "exit 0", func(st *stage, c platform.Created) { st.wait(st.start(c)) }},
		{"held and stopped", "sleep 3600", func(st *stage, c platform.Created) {
			if err := st.start(c).Stop(st.ctx); err != nil {
				st.Error(err)
			}
		}},
	} {
		t.Run(state.name, func(t *testing.T) {
			st := s.set(t)
			spec := st.full(st.shell(state.script))
			c, err := st.creator().Create(st.ctx, spec)
			if err != nil {
				t.Fatal(err)
			}
			state.reach(st, c)
			for range 2 {
				st.stopCreated(c, spec.Name)
				st.nothingEntered()
			}
			if err := c.Start(st.ctx); err == nil {
				t.Error("started after it was stopped")
			}
			if _, err := c.Instance(st.ctx); err == nil && !strings.HasPrefix(state.name, "held") {
				t.Error("gave an instance after it was stopped")
			}
			st.noTraces(spec.Name)
		})
	}
}

// testCreatedNoSuchProgram: a program that is not there is reported by Create
// or, where only the start can know, by Start.
func testCreatedNoSuchProgram(t *testing.T, s suite) {
	st := s.set(t)
	creator := st.creator()
	for _, program := range []string{"no-such-program-at-all", "/bin/no-such-program-either", "/etc/passwd"} {
		spec := st.full(st.spec(program))
		c, err := creator.Create(st.ctx, spec)
		if err == nil {
			if err = c.Start(st.ctx); err == nil {
				t.Errorf("%s: started", program)
			} else if _, holding := c.Instance(st.ctx); holding == nil {
				t.Errorf("%s: gave an instance after the start had failed", program)
			}
			st.stopCreated(c, spec.Name)
		}
		if err != nil && !strings.Contains(err.Error(), program) {
			t.Errorf("the error does not name %s: %v", program, err)
		}
		st.noTraces(spec.Name)
		st.nothingEntered()
	}
}

// testCreatedElapsed: how long the container lay at rest is no part of how
// long its program took.
func testCreatedElapsed(t *testing.T, s suite) {
	st := s.set(t)
	creating := time.Now()
	c := st.create(st.shell("exit 0"))
	rests := time.Now()
	// Another's whole life is a rest as long as anything in a life.
	spec := st.shell("exit 0")
	st.wait(st.launch(spec))
	starts := time.Now()
	exit := st.wait(st.start(c))
	if without := time.Since(creating) - starts.Sub(rests); exit.Elapsed > without {
		t.Errorf("it took %v; without its rest there were only %v from its making to its end", exit.Elapsed, without)
	}
}

// testCreateCancelled cancels Create before each thing that it makes.
func testCreateCancelled(t *testing.T, s suite) {
	st := s.set(t)
	creator := st.creator()
	steps := s.countSteps(st)
	for step := 0; step <= steps; step++ {
		ctx, cancel := context.WithCancel(st.ctx)
		first := st.book.entered
		st.book.onAdd = func(n int) error {
			if n-first == step {
				cancel()
			}
			return nil
		}
		if step == 0 {
			cancel()
		}
		spec := st.full(st.spec("sleep", "3600"))
		c, err := creator.Create(ctx, spec)
		cancel()
		st.book.onAdd = nil
		if err == nil {
			t.Errorf("cancelled before thing %d of %d: created nevertheless", step, steps)
			st.stopCreated(c, spec.Name)
			continue
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before thing %d of %d: %v, want one that wraps context.Canceled", step, steps, err)
		}
		st.noTraces(spec.Name)
		st.nothingEntered()
	}
}

// testStartCancelled: a start whose time is over before it begins starts
// nothing, and one that is given up half-way leaves nothing after its Stop.
func testStartCancelled(t *testing.T, s suite) {
	st := s.set(t)
	for _, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond} {
		spec := st.full(st.spec("sleep", "3600"))
		c := st.create(spec)
		ctx, cancel := context.WithTimeout(st.ctx, after)
		err := c.Start(ctx)
		cancel()
		if after == 0 {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("its time was over before it began: %v, want one that wraps context.DeadlineExceeded", err)
			}
			if pids := processesOf(spec.Name); len(pids) > 0 {
				t.Errorf("its time was over before it began: processes %v", pids)
			}
		}
		st.stopCreated(c, spec.Name)
		st.nothingEntered()
	}
}

// testCreateLedgerRefuses lets each of Create's entries be refused in turn; the
// start enters nothing, since an entry is a file's way to the disk.
func testCreateLedgerRefuses(t *testing.T, s suite) {
	st := s.set(t)
	creator := st.creator()
	full := errors.New("the ledger is full")
	steps := s.countSteps(st)
	for step := 1; step <= steps; step++ {
		first := st.book.entered
		st.book.onAdd = func(n int) error {
			if n-first == step {
				return full
			}
			return nil
		}
		spec := st.full(st.spec("sleep", "3600"))
		c, err := creator.Create(st.ctx, spec)
		st.book.onAdd = nil
		if err == nil {
			st.stopCreated(c, spec.Name)
		}
		if !s.tells(err, full) {
			t.Errorf("entry %d of %d refused: %v", step, steps, err)
		}
		st.noTraces(spec.Name)
		st.nothingEntered()
	}
}

// testCreatedCrash abandons a container at rest, as a program that was killed
// would, and lets another platform remove what the ledger lists.
func testCreatedCrash(t *testing.T, s suite) {
	s.skipWithMachine(t)
	st := s.set(t)
	spec := st.full(st.spec("sleep", "3600"))
	c := st.create(spec)
	entries := st.book.left()
	st.removeTwice(s.newPlatform(t, &book{t: t}), entries)
	st.noTraces(spec.Name)
	// The abandoned side has nothing to start any more.
	if err := c.Start(st.ctx); err == nil {
		t.Error("started what had been removed")
	}
}
