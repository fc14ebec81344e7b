package conformance

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/procfs"
	"tare/platform"
)

// freezing are the tests of a platform that tells whether it freezes.
var freezing = []test{
	{"FrozenStandsStill", testFrozenStandsStill},
	{"FrozenConnections", testFrozenConnections},
	{"FrozenStopped", testFrozenStopped},
	{"FrozenCrash", testFrozenCrash},
	{"FreezeEnded", testFreezeEnded},
	{"Attendants", testAttendants},
}

// moment is long enough for a program to count, and for what is on its way to a CPU to get there.
const moment = 30 * time.Millisecond

// freezes skips the test where the platform refuses to freeze.
func (st *stage) freezes() {
	st.Helper()
	var unsupported *platform.Unsupported
	var missing *platform.Missing
	switch err := st.platform.(platform.Freezer).Freezes(st.ctx, platform.Setting{}); {
	case err == nil:
	case errors.As(err, &unsupported), errors.As(err, &missing):
		st.Skip(err)
	default:
		st.Fatalf("Freezes must refuse with a *platform.Unsupported or a *platform.Missing, not %T: %v", err, err)
	}
}

// freezable launches what is to be frozen.
func (st *stage) freezable(spec platform.Spec) platform.Freezing {
	st.Helper()
	st.freezes()
	inst, ok := st.launch(spec).(platform.Freezing)
	if !ok {
		st.Fatalf("%s says that it freezes, and its instances do not", st.platform.Name())
	}
	return inst
}

func (st *stage) freeze(inst platform.Freezing) {
	st.Helper()
	if err := inst.Freeze(st.ctx); err != nil {
		st.Fatalf("Freeze: %v", err)
	}
}

func (st *stage) thaw(inst platform.Freezing) {
	st.Helper()
	if err := inst.Thaw(st.ctx); err != nil {
		st.Fatalf("Thaw: %v", err)
	}
}

// counting writes a rising number to a file, and says when it has begun.
const counting = `i=0; while :; do i=$((i+1)); echo $i > /tmp/counter; [ $i = 1 ] && echo counting; done`

// counter reads how far a program has counted, from this side of its root.
func (st *stage) counter(inst platform.Instance) string {
	st.Helper()
	pids, err := inst.Processes()
	if err != nil || len(pids) == 0 {
		st.Fatalf("processes %v, %v", pids, err)
	}
	b, err := os.ReadFile(procfs.Host.Process(pids[0]).Path("root/tmp/counter"))
	if err != nil {
		st.Fatal(err)
	}
	return string(b)
}

func (st *stage) usage(inst platform.Instance) time.Duration {
	st.Helper()
	usage, err := inst.Usage()
	if err != nil {
		st.Fatal(err)
	}
	return usage.CPU
}

// testFrozenStandsStill: frozen, a program that counts does not, and uses no CPU; thawed,
// it goes on. To freeze what is frozen and to thaw what runs is no error.
func testFrozenStandsStill(t *testing.T, s suite) {
	st := s.set(t)
	l := newLines()
	spec := st.shell(counting)
	spec.Stdout = l
	inst := st.freezable(spec)
	l.await(st, "counting")
	for range 3 {
		for range 2 {
			st.freeze(inst)
		}
		count := st.counter(inst)
		time.Sleep(moment) // that nothing happens makes no event
		used := st.usage(inst)
		time.Sleep(moment)
		if now := st.counter(inst); now != count {
			t.Errorf("frozen it counted from %q to %q", count, now)
		}
		if now := st.usage(inst); now != used {
			t.Errorf("frozen it used %v", now-used)
		}
		for range 2 {
			st.thaw(inst)
		}
		for st.counter(inst) == count || st.usage(inst) == used {
			if st.ctx.Err() != nil {
				t.Fatalf("thawed it does not go on from %q", count)
			}
			time.Sleep(time.Millisecond) // it counts in a file, which makes no event
		}
	}
}

// testFrozenConnections: a connection stays open, and what it brings to a frozen server
// is answered when that is thawed.
func testFrozenConnections(t *testing.T, s suite) {
	st := s.set(t)
	port := freePort(t)
	spec := st.spec("nc", "-l", "-p", strconv.Itoa(port), "-e", "cat")
	spec.Ports = []int{port}
	inst := st.freezable(spec)
	connection := dial(st, inst.Address(port))
	defer connection.Close()
	answers := bufio.NewReader(connection)
	ask := func(line string) {
		t.Helper()
		if _, err := connection.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	answered := func(want string) {
		t.Helper()
		_ = connection.SetReadDeadline(time.Now().Add(bound))
		if line, err := answers.ReadString('\n'); err != nil || line != want {
			t.Fatalf("it answered %q (%v), want %q", line, err, want)
		}
	}
	ask("before\n")
	answered("before\n")
	for range 2 {
		st.freeze(inst)
		ask("meanwhile\n")
		_ = connection.SetReadDeadline(time.Now().Add(moment))
		if b, err := answers.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("frozen it answered %q, %v", b, err)
		}
		st.thaw(inst)
		answered("meanwhile\n")
	}
	ask("after\n")
	answered("after\n")
}

// dial connects as soon as somebody listens.
func dial(st *stage, address string) net.Conn {
	st.Helper()
	for {
		connection, err := new(net.Dialer).DialContext(st.ctx, "tcp", address)
		if err == nil {
			return connection
		}
		select {
		case <-st.ctx.Done():
			st.Fatalf("nobody listens at %s: %v", address, err)
		case <-time.After(5 * time.Millisecond): // there is no event for another's listen
		}
	}
}

// frozen are the ways in which a program may stand still when it is to be removed: by its
// platform, and behind that's back by version 1's freezer, in which SIGKILL ends nothing.
var frozen = []struct {
	name   string
	freeze func(*stage, platform.Freezing)
}{
	{"by its platform", func(st *stage, inst platform.Freezing) { st.freeze(inst) }},
	{"by version 1", func(st *stage, inst platform.Freezing) {
		pids, err := inst.Processes()
		if err != nil || len(pids) == 0 {
			st.Fatalf("processes %v, %v", pids, err)
		}
		layout, err := cgroup.Host()
		if err != nil {
			st.Fatal(err)
		}
		own, _, err := layout.Of(pids[0])
		if err != nil {
			st.Fatal(err)
		}
		ours, _, err := layout.Of(os.Getpid())
		if err != nil {
			st.Fatal(err)
		}
		place, ok := own.For("freezer")
		shared := slices.ContainsFunc(ours.Places, func(p cgroup.Place) bool { return p.Dir() == place.Dir() })
		if !ok || shared || place.Version != 1 {
			st.Skip("it has no group of its own in version 1's freezer")
		}
		if err := (cgroup.Group{Places: []cgroup.Place{place}}).Freeze(st.ctx); err != nil {
			st.Fatal(err)
		}
	}},
}

// testFrozenStopped: Stop of a frozen instance leaves nothing.
func testFrozenStopped(t *testing.T, s suite) {
	for _, way := range frozen {
		t.Run(way.name, func(t *testing.T) {
			st := s.set(t)
			l := newLines()
			spec := st.full(st.shell("setsid sleep 3600 & echo ready; wait"))
			spec.Stdout = l
			inst := st.freezable(spec)
			l.await(st, "ready")
			way.freeze(st, inst)
			st.stop(inst, spec.Name)
			if exit := st.wait(inst); exit.Code != 137 {
				t.Errorf("stopped, it ended with %+v, want code 137", exit)
			}
			if err := inst.Freeze(st.ctx); !errors.Is(err, platform.ErrGone) {
				t.Errorf("Freeze after Stop: %v, want one that wraps ErrGone", err)
			}
		})
	}
}

// testFrozenCrash: what a program that was killed leaves frozen is removed.
func testFrozenCrash(t *testing.T, s suite) {
	for _, way := range frozen {
		for _, order := range []string{"latest first", "earliest first"} {
			t.Run(way.name+", "+order, func(t *testing.T) {
				st := s.set(t)
				l := newLines()
				spec := st.full(st.shell("setsid sleep 3600 & echo ready; wait"))
				spec.Stdout = l
				inst := st.freezable(spec)
				l.await(st, "ready")
				way.freeze(st, inst)
				entries := st.book.left()
				if order == "earliest first" {
					slices.Reverse(entries)
				}
				st.removeTwice(s.newPlatform(t, &book{t: t}), entries)
				st.noTraces(spec.Name)
			})
		}
	}
}

func testFreezeEnded(t *testing.T, s suite) {
	st := s.set(t)
	inst := st.freezable(st.spec("true"))
	st.wait(inst)
	for name, f := range map[string]func(context.Context) error{"Freeze": inst.Freeze, "Thaw": inst.Thaw} {
		if err := f(st.ctx); !errors.Is(err, platform.ErrGone) {
			t.Errorf("%s of a program that has ended: %v, want one that wraps ErrGone", name, err)
		}
	}
}

// testAttendants: what serves a program uses time when it hands the program's output on, and
// its account does not fall, at the program's end either.
func testAttendants(t *testing.T, s suite) {
	st := s.set(t)
	l := newLines()
	spec := st.shell(`mkfifo /tmp/go; echo ready; read -r _ < /tmp/go; yes | head -c 1000000; echo done; sleep 3600`)
	spec.Stdout = l
	inst, ok := st.launch(spec).(platform.Attending)
	if !ok {
		t.Skip(st.platform.Name() + " keeps nothing beside its programs")
	}
	l.await(st, "ready")
	before, err := inst.Attendants()
	if err != nil || before <= 0 {
		t.Fatalf("%v, %v", before, err)
	}
	pids, err := inst.Processes()
	if err != nil || len(pids) == 0 {
		t.Fatalf("processes %v, %v", pids, err)
	}
	if err := os.WriteFile(procfs.Host.Process(pids[0]).Path("root/tmp/go"), []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	l.await(st, "done")
	after, err := inst.Attendants()
	if err != nil || after <= before {
		t.Errorf("a megabyte of output was handed on in %v (%v)", after-before, err)
	}
	t.Logf("a megabyte of output took %v", after-before)
	st.stop(inst, spec.Name)
	if ended, err := inst.Attendants(); err != nil || ended < after {
		t.Errorf("after the end %v (%v), before %v", ended, err, after)
	}
}
