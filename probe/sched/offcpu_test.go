package sched

import (
	"errors"
	"io"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tare/kernel/procfs"
	"tare/probe"
)

func TestNamed(t *testing.T) {
	o := OffTimes{Absences: []Absence{
		{PID: 10, Comm: "runc", State: Blocked, Stack: []uint64{15, 1, 2, rcuStack}, Time: 30, Count: 3, Last: 99},
		{PID: 10, Comm: "runc", State: Ready, Time: 20, Count: 9, Last: 100},
		{PID: 11, Comm: "gone", State: Blocked, Stack: []uint64{1, 2, futexStack}, Time: 10, Count: 1},
		{PID: 12, Comm: "kworker/0:1", Kernel: true, State: Blocked, Stack: []uint64{1, 2, 10}, Time: 9, Count: 1},
		{PID: 12, Comm: "kworker/0:1", Kernel: true, State: Blocked, Stack: []uint64{1, 2, rcuStack, 10}, Time: 8, Count: 1},
	}}
	known := probe.Process{PID: 10, Comm: "runc", Exe: "/usr/sbin/runc"}
	got := o.Named(func(pid int, at time.Duration) (probe.Process, bool) {
		return known, pid == 10 && at >= 99
	}, madeUp)
	worker := probe.Process{PID: 12, Comm: "kworker/0:1", KernelThread: true}
	want := []OffTime{
		{Process: known, State: Blocked, Cause: RCU, Stack: []string{"synchronize_rcu_normal"}, Time: 30, Count: 3},
		{Process: known, State: Ready, Time: 20, Count: 9},
		{Process: probe.Process{PID: 11, Comm: "gone"}, State: Blocked, Cause: IPC, Stack: []string{"futex_wait_queue"}, Parked: true, Time: 10, Count: 1},
		{Process: worker, State: Blocked, Cause: Other, Stack: []string{"worker_thread"}, Parked: true, Time: 9, Count: 1},
		{Process: worker, State: Blocked, Cause: RCU, Stack: []string{"synchronize_rcu_normal", "worker_thread"}, Time: 8, Count: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// awaitSleep returns when a process waits; there is no event to await.
func awaitSleep(t *testing.T, pid int) {
	t.Helper()
	for ctx := patient(t); ; {
		stat, err := procfs.Host.Process(pid).Stat()
		if err != nil {
			t.Fatal(err)
		}
		if stat.State == 'S' {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("process %d is in state %c", pid, stat.State)
		case <-time.After(100 * time.Microsecond):
		}
	}
}

func TestTimeOffCPUIsAddedUp(t *testing.T) {
	symbols := kernelSymbols(t)
	tracer := startTracer(t)
	off, err := StartOffCPU()
	if missing := new(probe.Missing); errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	const nap = 50 * time.Millisecond
	began := Now()
	cmd := exec.Command("sleep", "0.05")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	reader := exec.Command("cat")
	in, err := reader.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := reader.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "."); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	// It has answered; what it waits for next is more to read.
	awaitSleep(t, reader.Process.Pid)
	in.Close()
	if err := reader.Wait(); err != nil {
		t.Fatal(err)
	}
	passed := Now() - began
	times, err := off.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.Stop(); err != nil {
		t.Fatal(err)
	}
	if len(times.Absences) == 0 || !slices.IsSortedFunc(times.Absences, func(a, b Absence) int { return int(b.Time - a.Time) }) {
		t.Errorf("%d absences, in no order", len(times.Absences))
	}
	find := func(pid int, comm string, cause Cause) (found OffTime) {
		t.Helper()
		for _, o := range times.Named(tracer.Processes().At, symbols) {
			if o.Process.PID == pid && o.Process.Comm == comm && o.Cause == cause && o.Time > found.Time {
				found = o
			}
		}
		return found
	}
	slept := find(cmd.Process.Pid, "sleep", Sleep)
	if slept.Time < nap || slept.Time > passed || slept.Count == 0 || !slept.Parked {
		t.Errorf("slept %+v, want at least %v", slept, nap)
	}
	pipe := find(reader.Process.Pid, "cat", IPC)
	if pipe.Time == 0 || pipe.Time > passed || pipe.Parked {
		t.Errorf("read the pipe %+v", pipe)
	}
}
