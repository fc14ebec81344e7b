package process_test

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/kernel/process"
)

func ofThread() time.Duration {
	var used unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used)
	return time.Duration(used.Nano())
}

// spin uses that much CPU time on a thread that then ends, if it is to.
func spin(much time.Duration, ends bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if !ends {
			defer runtime.UnlockOSThread()
		}
		for began := ofThread(); ofThread()-began < much; {
		}
	}()
	<-done
}

func TestMeterCountsThreadsThatEnded(t *testing.T) {
	m, err := process.NewMeter([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const much = 3 * time.Millisecond // less than the tick of /proc/PID/stat
	for _, ends := range []bool{false, true} {
		before, err := m.Read()
		if err != nil {
			t.Fatal(err)
		}
		spin(much, ends)
		after, err := m.Read()
		if err != nil || after-before < much {
			t.Errorf("a thread that used %v brought %v (%v)", much, after-before, err)
		}
	}
}

// Of what has ended the last reading stays, so that a sum does not fall.
func TestMeterOfProcessThatEnded(t *testing.T) {
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done; echo; read _")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	m, err := process.NewMeter([]int{cmd.Process.Pid})
	if err != nil {
		t.Fatal(err)
	}
	before, err := m.Read()
	if err != nil || before <= 0 {
		t.Errorf("%v, %v", before, err)
	}
	_ = stdin.Close()
	_ = cmd.Wait()
	for range 2 {
		if after, err := m.Read(); after != before || err != nil {
			t.Errorf("after its end %v (%v), before %v", after, err, before)
		}
	}
	m.Close()
	m.Close()
	if none, err := process.NewMeter([]int{cmd.Process.Pid}); err != nil {
		t.Error(err)
	} else if used, err := none.Read(); used != 0 || err != nil {
		t.Errorf("of a process that had ended before: %v, %v", used, err)
	}
}

func BenchmarkMeter(b *testing.B) {
	m, err := process.NewMeter([]int{os.Getpid(), os.Getppid()})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	for b.Loop() {
		if _, err := m.Read(); err != nil {
			b.Fatal(err)
		}
	}
}
