package perfevent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// perfGroup makes a control group in the hierarchy that carries perf_event.
func perfGroup(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a control group")
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	at := ""
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		switch {
		case fields[2] == "cgroup2" && at == "":
			at = fields[1]
		case fields[2] == "cgroup" && strings.Contains(","+fields[3]+",", ",perf_event,"):
			at = fields[1]
		}
	}
	if at == "" {
		t.Skip("no hierarchy carries perf_event")
	}
	dir := filepath.Join(at, fmt.Sprintf("tare-perfevent-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// runIn runs a program in the group from its birth on.
func runIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	if out, err := cmd.CombinedOutput(); err != nil {
		if errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.EINVAL) {
			t.Skipf("no program can be born into %s: %v", dir, err)
		}
		t.Fatalf("%v: %s", err, out)
	}
}

func TestCountGroup(t *testing.T) {
	dir := perfGroup(t)
	c, err := CountGroup(PageFaults, dir)
	if refused := (*Refused)(nil); errors.As(err, &refused) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	read := func() uint64 {
		t.Helper()
		n, err := c.Read()
		if err != nil || n.Share != 1 {
			t.Fatalf("%+v, %v", n, err)
		}
		return n.Value
	}
	if n := read(); n != 0 {
		t.Errorf("%d faults of nobody", n)
	}
	// A program that is loaded faults; what it does outside of the group does not count.
	runIn(t, dir, "true")
	once := read()
	if once == 0 {
		t.Error("a program was executed without a fault")
	}
	if out, err := exec.Command("true").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if n := read(); n != once {
		t.Errorf("%d faults after a program outside of the group, had %d", n, once)
	}
	// A program's child counts too.
	runIn(t, dir, "sh", "-c", "true; /bin/true; /bin/true")
	if n := read() - once; n <= once {
		t.Errorf("a shell and its two children had %d faults, one program %d", n, once)
	}
}

func TestCountGroupRefuses(t *testing.T) {
	if _, err := CountGroup(PageFaults, filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want that it is not there", err)
	}
	_, err := CountGroup(PageFaults, t.TempDir())
	if refused := (*Refused)(nil); !errors.As(err, &refused) || refused.Mend == "" {
		t.Errorf("of a directory that is no control group: %v, want a *Refused", err)
	}
}

func TestProjected(t *testing.T) {
	for _, c := range []struct {
		r    reading
		want uint64
	}{
		{reading{1000, 80, 80}, 1000},
		{reading{1000, 80, 20}, 4000},
		{reading{0, 80, 0}, 0},
		{reading{7, 0, 0}, 7},
	} {
		if got := c.r.projected(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.r, got, c.want)
		}
	}
}
