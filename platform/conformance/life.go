package conformance

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/platform"
)

func testName(t *testing.T, s suite) {
	st := s.set(t)
	name := st.platform.Name()
	if name == "" || strings.ContainsAny(name, " ,\n") {
		t.Errorf("name %q cannot be written in a list", name)
	}
	if v := st.platform.Version(st.ctx); strings.Contains(v, "\n") {
		t.Errorf("version %q is more than one line", v)
	}
}

func testPrepareTwice(t *testing.T, s suite) {
	st := s.set(t)
	if err := st.platform.Prepare(st.ctx, st.image); err != nil {
		t.Errorf("again: %v", err)
	}
}

func testExitStatus(t *testing.T, s suite) {
	st := s.set(t)
	for script, want := range map[string]int{"exit 0": 0, "exit 3": 3, "exit 255": 255, "exit 137": 137, "sh -c 'kill -KILL $$'; exit $?": 137, "sh -c 'kill -TERM $$'; exit $?": 143} {
		exit, _, _ := st.run(st.shell(script))
		if exit.Code != want || exit.OOMKilled {
			t.Errorf("%s: %+v, want code %d", script, exit, want)
		}
		if exit.Elapsed <= 0 || exit.Elapsed > bound {
			t.Errorf("%s: took %v", script, exit.Elapsed)
		}
	}
}

// What a program is said to take begins after everything is entered in the
// ledger, so not with the ledger's own time nor with the laying out between
// its entries.
func testElapsed(t *testing.T, s suite) {
	st := s.set(t)
	spec := st.shell("exit 0")
	spec.Data = []string{"/data"}
	inst := st.launch(spec)
	exit := st.wait(inst)
	if since := time.Since(st.book.stood()); exit.Elapsed > since {
		t.Errorf("it took %v, and the last ledger entry stood only %v before", exit.Elapsed, since)
	}
	st.stop(inst, spec.Name)
}

func testSignal(t *testing.T, s suite) {
	st := s.set(t)
	out := newLines()
	spec := st.shell("trap 'exit 7' USR1; echo ready; sleep 3600 & wait")
	spec.Stdout = out
	inst := st.launch(spec)
	out.await(st, "ready")
	if err := inst.Signal(int(syscall.SIGUSR1)); err != nil {
		t.Fatal(err)
	}
	if exit := st.wait(inst); exit.Code != 7 {
		t.Errorf("the handler's status is lost: %+v", exit)
	}
	if err := inst.Signal(int(syscall.SIGUSR1)); !errors.Is(err, platform.ErrGone) {
		t.Errorf("signal to a program that ended: %v, want one that wraps ErrGone", err)
	}

	inst = st.launch(st.spec("sleep", "3600"))
	if err := inst.Signal(int(syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if exit := st.wait(inst); exit.Code != 137 || exit.OOMKilled {
			t.Errorf("after SIGKILL: %+v, want code 137", exit)
		}
	}
}

func testStop(t *testing.T, s suite) {
	st := s.set(t)
	spec := st.spec("sleep", "3600")
	inst := st.launch(spec)
	for range 2 {
		st.stop(inst, spec.Name)
	}
	if exit := st.wait(inst); exit.Code != 137 {
		t.Errorf("a stopped program ended with %+v, want code 137", exit)
	}
	if _, err := inst.InForce(); !errors.Is(err, platform.ErrGone) {
		t.Errorf("InForce after Stop: %v, want one that wraps ErrGone", err)
	}
}

func testWaitContext(t *testing.T, s suite) {
	st := s.set(t)
	inst := st.launch(st.spec("sleep", "3600"))
	ctx, cancel := context.WithCancel(st.ctx)
	cancel()
	if _, err := inst.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	if pids, err := inst.Processes(); err != nil || len(pids) == 0 {
		t.Errorf("the program did not survive an abandoned Wait: %v, %v", pids, err)
	}
}

func testNoSuchProgram(t *testing.T, s suite) {
	st := s.set(t)
	for _, program := range []string{"no-such-program-at-all", "/bin/no-such-program-either", "/etc/passwd", "/etc"} {
		spec := st.spec(program)
		inst, err := st.platform.Launch(st.ctx, spec)
		if err == nil {
			st.stop(inst, spec.Name)
			t.Errorf("%s: launched", program)
			continue
		}
		if !strings.Contains(err.Error(), program) {
			t.Errorf("the error does not name %s: %v", program, err)
		}
		st.noTraces(spec.Name)
	}
	// Bytes that no kernel executes, with every permission to.
	spec := st.shell("printf garbage > /tmp/x; chmod 755 /tmp/x; /tmp/x 2>/dev/null; echo $?")
	if _, out, _ := st.run(spec); out == "0\n" {
		t.Error("executed garbage")
	}
}

// testDaemons: a program that leaves processes behind, in sessions of their
// own and holding its output, has ended when its first process has.
func testDaemons(t *testing.T, s suite) {
	st := s.set(t)
	exit, out, _ := st.run(st.shell("setsid sleep 3600 & (setsid sh -c 'sleep 3600 & sleep 3600' &) ; echo left; exit 5"))
	if exit.Code != 5 || out != "left\n" {
		t.Errorf("exit %+v, output %q", exit, out)
	}
	// And one that goes on itself.
	l := newLines()
	spec := st.shell("for i in 1 2 3 4 5; do setsid sleep 3600 & done; echo left; wait")
	spec.Stdout = l
	st.launch(spec)
	l.await(st, "left")
}

func testConcurrent(t *testing.T, s suite) {
	st := s.set(t)
	const n = 4
	type outcome struct {
		spec platform.Spec
		inst platform.Instance
		err  error
	}
	done := make(chan outcome, n)
	for range n {
		go func() {
			spec := st.spec("sleep", "3600")
			inst, err := st.platform.Launch(st.ctx, spec)
			done <- outcome{spec, inst, err}
		}()
	}
	seen := map[int]bool{}
	var launched []outcome
	for range n {
		o := <-done
		if o.err != nil {
			t.Error(o.err)
			continue
		}
		launched = append(launched, o)
		pids, err := o.inst.Processes()
		if err != nil || len(pids) == 0 || seen[pids[0]] {
			t.Errorf("processes %v (%v) beside those of others %v", pids, err, seen)
			continue
		}
		seen[pids[0]] = true
	}
	stopped := make(chan struct{})
	for _, o := range launched {
		go func() { st.stop(o.inst, o.spec.Name); stopped <- struct{}{} }()
	}
	for range launched {
		<-stopped
	}
}
