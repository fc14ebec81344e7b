package sched

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tare/kernel/kallsyms"
	"tare/kernel/procfs"
	"tare/probe"
)

func startRecording(t testing.TB) *Recorder {
	t.Helper()
	needRoot(t)
	r, err := StartRecording()
	if missing := new(probe.Missing); errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func stopRecording(t testing.TB, r *Recorder) *Recording {
	t.Helper()
	recording, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if recording.Lost != 0 {
		t.Skipf("%d events were lost: the host is too busy for this test", recording.Lost)
	}
	return recording
}

func kernelSymbols(t testing.TB) Symbols {
	t.Helper()
	table, err := kallsyms.Load()
	if err != nil {
		t.Skip(err)
	}
	return func(address uint64) string {
		s, _, _ := table.Lookup(address)
		return s.Name
	}
}

// Two processes on one CPU hand each other a byte through pipes, for ever: the
// path goes from one to the other and back, and every moment of it is one of
// theirs. (On two CPUs one may find its answer before it waits for it.)
func TestPathOfPingPong(t *testing.T) {
	symbols := kernelSymbols(t)
	needRoot(t)
	there, back := newPipe(t), newPipe(t)
	self, err := procfs.Host.Process(os.Getpid()).Status()
	if err != nil {
		t.Fatal(err)
	}
	oneCPU := strings.FieldsFunc(self.CPUsAllowed, func(r rune) bool { return r < '0' || r > '9' })[0]
	// Of this policy one that is woken does not take the CPU from its waker, which
	// so comes to wait for its answer every time.
	play := []string{"--batch", "0", "taskset", "-c", oneCPU, "cat"}
	ping := exec.Command("chrt", play...)
	ping.Stdin, ping.Stdout = there.read, back.write
	pong := exec.Command("chrt", play...)
	pong.Stdin, pong.Stdout = back.read, there.write
	if _, err := there.write.WriteString("."); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{ping, pong} {
		if err := cmd.Start(); err != nil {
			t.Skipf("%v: apt-get install util-linux", err)
		}
		t.Cleanup(func() {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
			cmd.Wait() // says that it was killed
		})
	}
	for _, p := range []pipe{there, back} {
		p.read.Close()
		p.write.Close()
	}
	r := startRecording(t)
	const turns = 100
	awaitSwitches(t, pong.Process.Pid, turns)
	recording := stopRecording(t, r)

	// From the middle of the game, since it has to have begun on the way back.
	var played []Event
	for _, e := range recording.Events {
		if e.Kind == Switch && e.Other.PID == pong.Process.Pid {
			played = append(played, e)
		}
	}
	if len(played) < turns {
		t.Fatalf("the recording has %d turns, want %d", len(played), turns)
	}
	from, to := played[len(played)/4].Time, played[len(played)*3/4].Time
	path := CriticalPath(recording.Events, from, Moment{Time: to, PID: pong.Process.Pid}, symbols)
	checkTiles(t, path, from, to)
	on := map[int]int{}
	for _, s := range path {
		on[s.PID]++
		if s.State == Blocked {
			t.Errorf("on the path process %d waits for %q in %q, where one of the two can always go on", s.PID, s.Cause, s.Stack)
		}
	}
	for _, pid := range []int{ping.Process.Pid, pong.Process.Pid} {
		if on[pid] < turns/4 {
			t.Errorf("process %d is on the path %d times, in %d turns", pid, on[pid], len(played)/2)
		}
		delete(on, pid)
	}
	if len(on) != 0 {
		t.Errorf("on the path of two processes are others: %v", on)
	}
}

// What is sent through the loopback is delivered in a softirq, and by its sender.
func TestLoopbackIsTheSenders(t *testing.T) {
	symbols := kernelSymbols(t)
	needRoot(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	theirs, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	ours, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	file, err := theirs.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	echo := exec.Command("cat")
	echo.Stdin, echo.Stdout = file, file
	if err := echo.Start(); err != nil {
		t.Fatal(err)
	}
	file.Close()
	theirs.Close()
	turn := func() {
		if _, err := ours.Write([]byte{'.'}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(ours, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	turn() // it has started
	r := startRecording(t)
	const turns = 20
	for range turns {
		awaitSleep(t, echo.Process.Pid)
		turn()
	}
	recording := stopRecording(t, r)
	ours.Close()
	if err := echo.Wait(); err != nil {
		t.Error(err)
	}
	own := 0
	for _, e := range recording.Events {
		if e.Kind == Wake && e.Other.PID == echo.Process.Pid && e.Context&Softirq != 0 && e.Thread.PID == os.Getpid() && byThread(e, symbols) {
			own++
		}
	}
	// Now and then an interrupt comes between, and delivers.
	if own < turns/2 {
		t.Errorf("%d of %d deliveries were the sender's", own, turns)
	}
}

type pipe struct{ read, write *os.File }

func newPipe(t *testing.T) pipe {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return pipe{r, w}
}

// awaitSwitches returns when a process has waited n times more.
func awaitSwitches(t *testing.T, pid, n int) {
	t.Helper()
	waits := func() (n int) {
		status, err := os.ReadFile(procfs.Host.Process(pid).Path("status"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		if _, err := fmt.Sscan(rest, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	ctx := patient(t)
	for before := waits(); waits()-before < n; {
		if ctx.Err() != nil {
			t.Fatalf("process %d has waited %d times", pid, waits()-before)
		}
	}
}

// checkStart looks at the path and the phases of one recorded start.
func checkStart(t *testing.T, recording *Recording, marks Marks, symbols Symbols, self int, wantPhases []PhaseName, wantOnPath []probe.Component) {
	t.Helper()
	path := CriticalPath(recording.Events, marks.Sent, Moment{Time: marks.Application, PID: marks.PID}, symbols)
	checkTiles(t, path, marks.Sent, marks.Application)
	component := recording.Component(self)
	var names []PhaseName
	seen := map[probe.Component]bool{}
	var sum, other time.Duration
	for _, p := range Phases(path, marks, component) {
		names = append(names, p.Name)
		sum += p.To - p.From
		var causes, components time.Duration
		for _, d := range p.Causes {
			causes += d
		}
		for c, s := range p.Components {
			components += s.Running + s.Ready + s.Blocked
			seen[c] = true
		}
		other += p.Causes[Other]
		share := p.Share.Running + p.Share.Ready + p.Share.Blocked
		if share != p.To-p.From || causes != p.Share.Blocked || components != p.To-p.From {
			t.Errorf("%s takes %v: its share %+v, causes %v and components %v do not add up", p.Name, p.To-p.From, p.Share, causes, components)
		}
	}
	if fmt.Sprint(names) != fmt.Sprint(wantPhases) {
		t.Errorf("the phases are %q, want %q", names, wantPhases)
	}
	if length := marks.Application - marks.Sent; sum != length {
		t.Errorf("the phases add up to %v, the start took %v", sum, length)
	} else if other > length/10 {
		t.Errorf("what %v of %v were waited for has no name: %v", other, length, path)
	}
	for _, c := range wantOnPath {
		if !seen[c] {
			t.Errorf("the path has nothing of %q, only %v", c, seen)
		}
	}
}

// awaitApplication returns when the program has been executed: the answer to a
// start may come before.
func awaitApplication(t *testing.T, f *Following) {
	t.Helper()
	if marks, err := f.Application(patient(t)); err != nil {
		t.Fatalf("%v; seen: %+v", err, marks)
	}
}

func TestPathOfDockerStart(t *testing.T) {
	symbols := kernelSymbols(t)
	id := createDocker(t, sleeper)
	f := startTracer(t).Follow(id, sleeper)
	r := startRecording(t)
	sent := Now()
	docker(t, nil, "start", id)
	awaitApplication(t, f)
	recording := stopRecording(t, r)
	marks, ok := recording.Marks(id, sleeper)
	if !ok {
		t.Fatalf("the program was not seen, only %+v", marks)
	}
	marks.Sent = sent
	checkStart(t, recording, marks, symbols, os.Getpid(),
		[]PhaseName{PhaseAccept, PhasePrepare, PhaseShim, PhaseCreate, PhaseInit, PhaseExec},
		[]probe.Component{probe.Engine, probe.Containerd, probe.Shim, probe.Runtime})
}

func TestPathOfRuntimeStart(t *testing.T) {
	symbols := kernelSymbols(t)
	for _, runtime := range []string{"runc", "crun"} {
		t.Run(runtime, func(t *testing.T) {
			file := lookRuntime(t, runtime)
			dir := bundle(t, file, sleeper)
			id := fmt.Sprintf("tare-sched-%d", Now())
			f := startTracer(t).Follow(id, sleeper)
			r := startRecording(t)
			sent := Now()
			startOCI(t, file, id, starts[0].commands(dir, id))
			awaitApplication(t, f)
			recording := stopRecording(t, r)
			marks, ok := recording.Marks(id, sleeper)
			if !ok {
				t.Fatalf("the program was not seen, only %+v", marks)
			}
			marks.Sent = sent
			checkStart(t, recording, marks, symbols, os.Getpid(),
				[]PhaseName{PhaseAccept, PhaseCreate, PhaseInit, PhaseExec}, []probe.Component{probe.Client, probe.Runtime})
		})
	}
}
