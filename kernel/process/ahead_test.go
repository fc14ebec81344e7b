package process

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

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

// await looks until it is so, for as long as a host that is loaded may take. It sleeps
// between two looks: one that does not would be ahead of what it waits for.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	const within = 30 * time.Second
	for began := time.Now(); !so(); time.Sleep(time.Millisecond) {
		if time.Since(began) > within {
			t.Fatalf("not so within %v: %s", within, what)
		}
	}
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
			await(t, "a thread that was born since is ahead", func() bool { return isAhead(born) })
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

// A thread that works for the others stays among them, whether it says so before the
// program goes ahead or, as one that was born since, after.
func TestStayOrdinary(t *testing.T) {
	stays := func(say, said, stay chan struct{}, tid chan int) {
		runtime.LockOSThread() // and the thread ends with the goroutine
		tid <- unix.Gettid()
		<-say
		if err := StayOrdinary(); err != nil {
			t.Error(err)
		}
		close(said)
		<-stay
	}
	var tids []int
	var say, said []chan struct{}
	stay := make(chan struct{})
	defer close(stay)
	for i := range 2 {
		tid := make(chan int)
		say, said = append(say, make(chan struct{})), append(said, make(chan struct{}))
		go stays(say[i], said[i], stay, tid)
		tids = append(tids, <-tid)
	}
	close(say[0])
	<-said[0]
	_, restore, err := Ahead()
	var refused *NotAhead
	if errors.As(err, &refused) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	close(say[1])
	<-said[1]
	// One that is born from here on is met by a sweep, which has met these by then.
	there := threadsNow(t)
	for {
		tid, end := thread(t)
		defer end()
		if there[tid] {
			continue
		}
		await(t, "a thread that was born since is ahead", func() bool {
			now := attributesOf(t, tid)
			return now.Policy != unix.SCHED_NORMAL || now.Nice < 0
		})
		break
	}
	for range 2 {
		for _, tid := range tids {
			if now := attributesOf(t, tid); now.Policy != unix.SCHED_NORMAL || now.Nice < 0 {
				t.Errorf("thread %d has %+v, want it ordinary", tid, now)
			}
		}
		if err := restore(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPrecedenceString(t *testing.T) {
	for want, p := range map[string]Precedence{"none": {}, "nice -20": {Nice: -20}, "rr 1": {Class: Class{RR, 1}}} {
		if p.String() != want {
			t.Errorf("%+v is written %q, want %q", p, p, want)
		}
	}
}
