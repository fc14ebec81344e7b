package process_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"tare/kernel/process"
)

const threadsHelper = "TARE_TEST_THREADS"

// TestThreads is no test, but the program of one: it keeps four threads, and for
// each line that it reads one more, and says so.
func TestThreads(t *testing.T) {
	if os.Getenv(threadsHelper) == "" {
		t.Skip("is run by other tests as their program")
	}
	born := make(chan struct{})
	keep := make(chan struct{})
	thread := func() {
		runtime.LockOSThread()
		born <- struct{}{}
		<-keep
	}
	for range 4 {
		go thread()
		<-born
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		go thread()
		<-born
		fmt.Println("more")
	}
	close(keep)
}

// threaded starts the program; more has it start a thread.
func threaded(t *testing.T) (pid int, more func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestThreads$")
	cmd.Env = append(os.Environ(), threadsHelper+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	await := func() {
		if !lines.Scan() {
			t.Fatalf("the program ended: %v", lines.Err())
		}
	}
	await()
	return cmd.Process.Pid, func() {
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
		await()
	}
}

func threadClasses(t *testing.T, pid int) map[process.Class]int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	classes := map[process.Class]int{}
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		class, err := process.ClassOf(tid)
		if errors.Is(err, process.ErrGone) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		classes[class]++
	}
	return classes
}

func TestSetClassOfEveryThread(t *testing.T) {
	ordinary := process.Class{Policy: process.Other}
	for _, class := range []process.Class{{Policy: process.FIFO, Priority: 3}, {Policy: process.RR, Priority: 1}} {
		t.Run(class.String(), func(t *testing.T) {
			pid, more := threaded(t)
			restore, err := process.SetClass(pid, class)
			if errors.Is(err, fs.ErrPermission) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			more()
			if got := threadClasses(t, pid); got[class] < 6 || len(got) != 1 {
				t.Errorf("the threads are %v, want all %v, the one born since among them", got, class)
			}
			for range 2 {
				if err := restore(); err != nil {
					t.Fatal(err)
				}
			}
			more()
			if got := threadClasses(t, pid); got[ordinary] < 7 || len(got) != 1 {
				t.Errorf("the threads are %v afterwards, want all %v", got, ordinary)
			}
		})
	}
}

func TestRestoreKeepsNicenessAndWhatOthersSet(t *testing.T) {
	pid, _ := threaded(t)
	if err := unix.Setpriority(unix.PRIO_PROCESS, pid, 5); err != nil {
		t.Fatal(err)
	}
	restore, err := process.SetClass(pid, process.Class{Policy: process.FIFO, Priority: 1})
	if errors.Is(err, fs.ErrPermission) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	attr, err := unix.SchedGetAttr(pid, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL || attr.Nice != 5 {
		t.Errorf("the first thread is %+v (%v) afterwards, want ordinary and nice 5 as before", attr, err)
	}

	if restore, err = process.SetClass(pid, process.Class{Policy: process.FIFO, Priority: 1}); err != nil {
		t.Fatal(err)
	}
	// Somebody else thinks otherwise meanwhile.
	if err := unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0); err != nil {
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if class, err := process.ClassOf(pid); err != nil || class.Policy != process.Idle {
		t.Errorf("the first thread is %v (%v), want idle, as somebody else made it", class, err)
	}
}

func TestSetClassRefuses(t *testing.T) {
	for _, class := range []process.Class{{}, {Policy: "deadline"}, {Policy: process.FIFO}, {Policy: process.FIFO, Priority: 100}, {Policy: process.Other}, {Policy: process.Idle}} {
		if _, err := process.SetClass(os.Getpid(), class); err == nil {
			t.Errorf("took the class %+v", class)
		}
	}
	cmd := start(t, "true")
	_ = cmd.Wait()
	if _, err := process.SetClass(cmd.Process.Pid, process.Class{Policy: process.FIFO, Priority: 1}); !errors.Is(err, process.ErrGone) {
		t.Errorf("of a process that has ended: %v, want ErrGone", err)
	}
	if _, err := process.ClassOf(cmd.Process.Pid); !errors.Is(err, process.ErrGone) {
		t.Errorf("the class of a thread that has ended: %v, want ErrGone", err)
	}
}
