package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare/kernel/filesystem/fusetest"
	"tare/kernel/memory"
	"tare/kernel/mount"
	"tare/kernel/procfs"
)

// ends runs tare as a process of its own, since one that waits for a file system that does not answer
// cannot end. A process that does not end is a failure.
func ends(t *testing.T, signal os.Signal, env []string, args ...string) (code int, output string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = "tare"
	cmd.Env = append(append(os.Environ(), actAsTare+"=1"), env...)
	name := filepath.Join(t.TempDir(), "output")
	file, err := os.Create(name)
	if err != nil {
		t.Error(err)
		return -1, ""
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file // no pipe, which a process that is left would hold
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return -1, ""
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if signal != nil {
		time.AfterFunc(time.Second, func() { _ = cmd.Process.Signal(signal) }) // at any moment it is to end
	}
	select {
	case <-ended:
	case <-time.After(6 * mount.Patience):
		_ = cmd.Process.Kill()
		t.Errorf("tare %v does not end", args)
		return -1, ""
	}
	out, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// A path whose file system does not answer is one line, whichever flag names it.
func TestSilentPaths(t *testing.T) {
	if !fusetest.Apart(t) {
		return
	}
	s := fusetest.Mount(t, 4096)
	s.Silence()
	there := filepath.Join(s.Directory, "a")
	home := t.TempDir()
	var all sync.WaitGroup
	for _, c := range []struct {
		env  []string
		args string
	}{
		{nil, "--home " + there + " weigh redis --quick --dry-run"},
		{nil, "--home " + s.Directory + " runs"},
		{[]string{"TARE_HOME=" + there}, "doctor"},
		{nil, "--home " + home + " weigh --rootfs " + s.Directory + " --platform bare --dry-run -- /bin/true"},
		{nil, "--home " + home + " weigh --image-archive " + s.File() + " --platform bare --dry-run -- /bin/true"},
		{nil, "--home " + home + " weigh --workload " + s.File()},
		{nil, "--home " + home + " import " + s.File()},
		{nil, "--home " + home + " faults --pid 1 --json " + s.File()},
	} {
		all.Go(func() { // all wait at once
			code, out := ends(t, nil, c.env, strings.Fields(c.args)...)
			if code != exitHost || strings.Count(out, "\n") != 1 || !strings.Contains(out, s.Directory) || !strings.Contains(out, "umount") {
				t.Errorf("%s: code %d: %s", c.args, code, out)
			}
		})
	}
	all.Go(func() {
		before := time.Now()
		code, out := ends(t, syscall.SIGTERM, nil, "--home", there, "runs")
		if code == exitSuccess || time.Since(before) >= mount.Patience {
			t.Errorf("after SIGTERM: code %d: %s", code, out)
		}
	})
	all.Wait()
}

// A program whose own file, or a mapped one, lies on a file system that does not answer keeps nobody from
// looking at it, nor at another.
func TestSilentMappedFiles(t *testing.T) {
	if !fusetest.Apart(t) {
		return
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	info, err := os.Stat(sleep)
	if err != nil {
		t.Fatal(err)
	}
	s := fusetest.Mount(t, info.Size())
	// Another process writes it: the Go runtime's poller would wait for an answer of its own process.
	if out, err := exec.Command("cp", sleep, s.File()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, path := range []string{sleep, s.File()} {
		cmd := exec.Command(path, "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		asleep(t, cmd.Process.Pid)
		defer func() {
			t.Run(path, func(t *testing.T) { looks(t, cmd.Process.Pid) })
		}()
	}
	s.Silence()
}

// lockedFile holds the path of a file that this test binary maps until its memory stays locked (TestMain).
const lockedFile = "TARE_TEST_LOCKED"

// lockMemory leaves this process with its memory locked. It maps a file whose server no longer answers, and reads a
// page of it. Mapping the file again waits for that page and holds the lock meanwhile.
func lockMemory() error {
	f, err := os.Open(os.Getenv(lockedFile))
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	m, err := memory.MapFile(f, int(info.Size()), false)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	go func() { lockedByte = m.Bytes()[0] }()
	time.Sleep(time.Second)
	_, err = memory.MapFile(f, int(info.Size()), false)
	return err
}

var lockedByte byte // what is read is used

// Every command ends, though it looks at a process whose memory stays locked.
func TestLockedMemory(t *testing.T) {
	if !fusetest.Apart(t) {
		return
	}
	cmd := exec.Command("/proc/self/exe")
	t.Cleanup(func() { _ = cmd.Wait() }) // which the end of the mount lets end
	s := fusetest.Mount(t, 1<<20)
	cmd.Env = append(os.Environ(), lockedFile+"="+s.File(), "GOMAXPROCS=2")
	cmd.Stderr = os.Stderr
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
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	s.Silence()
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	process := procfs.Host.Process(cmd.Process.Pid)
	for end := time.Now().Add(mount.Patience); !process.Locked(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Skip("this kernel does not lock memory so")
		}
	}
	looks(t, cmd.Process.Pid)
}

// asleep waits until a program sleeps in the system call that it is to sleep in.
func asleep(t *testing.T, pid int) {
	for {
		in, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(in), "nanosleep") {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func looks(t *testing.T, pid int) {
	home := t.TempDir()
	for _, args := range []string{"pages --pid %d", "faults --pid %d --for 1s", "causes --pid %d --for 1s"} {
		t.Run(args, func(t *testing.T) {
			code, out := ends(t, nil, nil, append([]string{"--home", home}, strings.Fields(fmt.Sprintf(args, pid))...)...)
			if code != exitSuccess && code != exitHost {
				t.Errorf("code %d: %s", code, out)
			}
		})
	}
	_, out := ends(t, nil, nil, "--home", home, "doctor")
	if !strings.Contains(out, "host") {
		t.Errorf("doctor: %s", out)
	}
}
