package process_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/kernel/process"
	"tare/kernel/procfs"
)

func start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestKillSparesARecycledID(t *testing.T) {
	cmd := start(t, "sleep", "3600")
	id, err := process.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	// The same id, but of a process that started at another time.
	former := id
	former.StartTicks--
	if err := former.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if stat, err := procfs.Host.Process(id.PID).Stat(); err != nil || stat.Zombie() {
		t.Fatal("killed a process that only has the same id")
	}
	pid, ticks := id.Strings()
	if back, err := process.ParseIdentity(pid, ticks); back != id || err != nil {
		t.Errorf("identity came back as %v, %v", back, err)
	}
	for range 2 {
		if err := id.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("ended well although killed")
	}
	if _, err := id.Open(); !errors.Is(err, process.ErrGone) {
		t.Errorf("opening a process that is gone: %v", err)
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	cmd := start(t, "sleep", "3600")
	id, err := process.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	h, err := id.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := h.Await(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("await: %v", err)
	}
}

func TestReap(t *testing.T) {
	for script, want := range map[string]process.Ending{
		"exit 3":        {Code: 3},
		"kill -TERM $$": {Code: 128 + 15, Signal: 15},
	} {
		// Not through os/exec, which reaps by itself.
		child, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "read x; " + script}, &os.ProcAttr{Files: []*os.File{nil, nil, nil}})
		if err != nil {
			t.Fatal(err)
		}
		id, err := process.Identify(child.Pid)
		if err != nil {
			t.Fatal(err)
		}
		h, err := id.Open()
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.Reap(t.Context())
		if got != want || err != nil {
			t.Errorf("%s: %+v, %v; want %+v", script, got, err, want)
		}
		_ = h.Close()
		_ = child.Release()
	}
}

// A program that leaves a daemon holding its output has printed all it will
// print; the daemon keeps the pipe open.
func TestFlushDoesNotWaitForDaemons(t *testing.T) {
	var got bytes.Buffer
	child, out, err := process.NewOutput(&got)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "sleep 3600 & echo $! >&2; head -c 1000000 /dev/zero; echo end")
	cmd.Stdout = child
	var daemon bytes.Buffer
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child.Close()
	buf := make([]byte, 64)
	n, _ := stderr.Read(buf)
	daemon.Write(buf[:n])
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		t.Error(err)
	}
	if want := 1000000 + len("end\n"); got.Len() != want || !strings.HasSuffix(got.String(), "end\n") {
		t.Errorf("%d bytes, want %d ending in a line", got.Len(), want)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	pid, err := process.ParseIdentity(strings.TrimSpace(daemon.String()), "0")
	if err != nil {
		t.Fatal(err)
	}
	id, err := process.Identify(pid.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Kill(t.Context()); err != nil {
		t.Error(err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestOutputOutlivesItsWriter(t *testing.T) {
	child, out, err := process.NewOutput(broken{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("head", "-c", "1000000", "/dev/zero")
	cmd.Stdout = child
	if err := cmd.Run(); err != nil {
		t.Errorf("the program suffered: %v", err)
	}
	child.Close()
	if err := out.Close(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("the writer's error is lost: %v", err)
	}
}

func TestLookPath(t *testing.T) {
	root := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"bin/prog": 0o755, "bin/plain": 0o644, "opt/prog2": 0o755} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	// Absolute links lead within the root.
	if err := os.Symlink("/opt/prog2", filepath.Join(root, "bin/linked")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, want string
		err        error
	}{
		{"prog", "/bin/prog", nil},
		{"linked", "/bin/linked", nil},
		{"/opt/prog2", "/opt/prog2", nil},
		{"./prog2", "./prog2", nil},
		{"plain", "", fs.ErrPermission},
		{"/bin", "", fs.ErrPermission},
		{"absent", "", fs.ErrNotExist},
		{"/etc/passwd", "", fs.ErrNotExist}, // the host's, not the root's
	} {
		got, err := process.LookPath(root, "/opt", test.name, "/none:/bin")
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %q, %v; want %q, %v", test.name, got, err, test.want, test.err)
		}
		if err != nil && !strings.Contains(err.Error(), test.name) {
			t.Errorf("%s: the error does not name it: %v", test.name, err)
		}
	}
}

// An entry of the search path that is relative finds nothing, and what it would find by the
// working directory is refused.
func TestLookPathRelativeEntries(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "app/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"app/bin/tool", "app/here"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ name, path, want, refused string }{
		{"tool", "bin:/app/bin", "", `"bin"`},
		{"tool", "/app/bin:bin", "/app/bin/tool", ""},
		{"tool", ".:/app/bin", "/app/bin/tool", ""},
		{"here", ":/none", "", `""`},
		{"here", "", "", "file does not exist"},
	} {
		got, err := process.LookPath(root, "/app", test.name, test.path)
		if got != test.want || (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s by %q: %q, %v; want %q, %s", test.name, test.path, got, err, test.want, test.refused)
		}
	}
}

func TestAffinity(t *testing.T) {
	cpus, err := process.Affinity()
	if err != nil || len(cpus) == 0 {
		t.Fatalf("%v, %v", cpus, err)
	}
	if err := process.SetAffinity([]int{1023}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a CPU that no host has: %v", err)
	}
}

func FuzzParseIdentity(f *testing.F) {
	f.Add("1", "2")
	f.Fuzz(func(t *testing.T, pid, start string) {
		id, err := process.ParseIdentity(pid, start)
		if err == nil && id.PID <= 0 {
			t.Errorf("accepted %+v", id)
		}
	})
}

// The first thread is what others take for the whole program: it is never lent.
func TestOnFreshThreadSparesTheFirst(t *testing.T) {
	want := errors.New("handed back")
	for range 200 {
		err := process.OnFreshThread(func() error {
			if syscall.Gettid() == os.Getpid() {
				t.Error("ran on the first thread")
			}
			return want
		})
		if err != want {
			t.Fatal(err)
		}
	}
}
