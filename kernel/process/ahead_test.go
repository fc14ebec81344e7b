package process

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// thread keeps one of its own until end.
func thread(t *testing.T) (tid int, end func()) {
	t.Helper()
	born, stay := make(chan int), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		born <- unix.Gettid()
		<-stay
	}()
	return <-born, func() { close(stay) }
}

func threadsNow(t *testing.T) map[int]bool {
	t.Helper()
	tids, err := Threads(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	now := map[int]bool{}
	for _, tid := range tids {
		now[tid] = true
	}
	return now
}

func attributesOf(t *testing.T, tid int) unix.SchedAttr {
	t.Helper()
	attr, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		t.Fatal(err)
	}
	return *attr
}

// Every thread goes ahead, those born since too, and what is started does not.
func TestAhead(t *testing.T) {
	for _, p := range precedences {
		t.Run(p.String(), func(t *testing.T) {
			niced, end := thread(t)
			defer end()
			if err := unix.Setpriority(unix.PRIO_PROCESS, niced, 5); err != nil {
				t.Fatal(err)
			}
			was := attributesOf(t, niced)
			restore, err := ahead(p)
			if errors.Is(err, fs.ErrPermission) || errors.Is(err, errUnbounded) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer restore()
			there := threadsNow(t)
			born, endBorn := thread(t)
			defer func() { endBorn() }()
			for there[born] { // the runtime had one to spare
				end := endBorn
				defer end()
				born, endBorn = thread(t)
			}
			want := unix.SchedAttr{Policy: unix.SCHED_RR, Priority: 1}
			if !p.Class.RealTime() {
				want = unix.SchedAttr{Policy: unix.SCHED_NORMAL, Nice: int32(p.Nice)}
			}
			isAhead := func(tid int) bool {
				now := attributesOf(t, tid)
				return now.Policy == want.Policy && now.Priority == want.Priority && (p.Class.RealTime() || now.Nice == want.Nice)
			}
			if !isAhead(niced) || !isAhead(os.Getpid()) {
				t.Errorf("a thread has %+v, the first one %+v, want %s", attributesOf(t, niced), attributesOf(t, os.Getpid()), p)
			}
			for !isAhead(born) { // within a sweep, or the test's time
				runtime.Gosched()
			}
			child := exec.Command("cat")
			in, err := child.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			if attr := attributesOf(t, child.Process.Pid); attr.Policy != unix.SCHED_NORMAL || attr.Nice < 0 {
				t.Errorf("a child has %+v, want it ordinary", attr)
			}
			if err := errors.Join(in.Close(), child.Wait()); err != nil {
				t.Error(err)
			}
			for range 2 {
				if err := restore(); err != nil {
					t.Fatal(err)
				}
			}
			if now := attributesOf(t, niced); now.Policy != was.Policy || now.Nice != was.Nice || now.Flags != was.Flags {
				t.Errorf("a thread has %+v afterwards, want %+v as before", now, was)
			}
			for tid := range threadsNow(t) {
				if isAhead(tid) {
					t.Errorf("thread %d is ahead afterwards", tid)
				}
			}
		})
	}
}

// What goes ahead in its own way keeps it, and what somebody else set stays.
func TestAheadLeavesOthersChoices(t *testing.T) {
	punctual, end := thread(t)
	defer end()
	set := func(tid int, attr unix.SchedAttr) {
		t.Helper()
		if err := setAttributes(tid, attr); err != nil {
			t.Skip(err)
		}
	}
	set(punctual, unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 2})
	batch, endBatch := thread(t)
	defer endBatch()
	_, restore, err := Ahead()
	var refused *NotAhead
	if errors.As(err, &refused) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	set(batch, unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 7})
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if now := attributesOf(t, punctual); now.Policy != unix.SCHED_FIFO || now.Priority != 2 {
		t.Errorf("a thread that was ahead has %+v", now)
	}
	if now := attributesOf(t, batch); now.Policy != unix.SCHED_FIFO || now.Priority != 7 {
		t.Errorf("a thread that was set otherwise meanwhile has %+v", now)
	}
}

func TestPrecedenceString(t *testing.T) {
	for want, p := range map[string]Precedence{"none": {}, "nice -20": {Nice: -20}, "rr 1": {Class: Class{RR, 1}}} {
		if p.String() != want {
			t.Errorf("%+v is written %q, want %q", p, p, want)
		}
	}
}
