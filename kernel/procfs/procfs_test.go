package procfs

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tare/kernel/filesystem/fusetest"
)

const statLine = "4242 (a) (b\n) S 17 4242 4242 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 200 18446744073709551615 0"

func TestParseStat(t *testing.T) {
	got, err := ParseStat(strings.NewReader(statLine))
	if err != nil {
		t.Fatal(err)
	}
	want := Stat{PID: 4242, Comm: "a) (b\n", State: 'S', Parent: 17, StartTicks: 987654}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	kernel, err := ParseStat(strings.NewReader("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 3 0 0"))
	if err != nil || !kernel.Kernel {
		t.Errorf("a kernel thread is reported as %+v (%v)", kernel, err)
	}
	for _, bad := range []string{"", "1", "1 (x", "x (y) S 1", "1 (y) S 1 2 3"} {
		if _, err := ParseStat(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

const statusText = "Name:\tredis\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nCapEff:\t00000000a80425fb\nSeccomp:\t2\nCpus_allowed_list:\t0-1\nVmPTE:\t      52 kB\nRssAnon:\t    640 kB\n"

func TestParseStatus(t *testing.T) {
	got, err := ParseStatus(strings.NewReader(statusText))
	if err != nil {
		t.Fatal(err)
	}
	want := Status{CPUsAllowed: "0-1", Seccomp: 2, CapEff: "00000000a80425fb", UID: 2, GID: 6, PageTables: 52 * 1024, Anonymous: 640 * 1024}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

const limitsText = `Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max core file size        0                    unlimited            bytes     
Max open files            16384                16384                files     
Max nice priority         0                    0                    
`

func TestParseLimits(t *testing.T) {
	got, err := ParseLimits(strings.NewReader(limitsText))
	if err != nil {
		t.Fatal(err)
	}
	want := Limits{
		"Max cpu time":      {Unlimited, Unlimited},
		CoreSize:            {0, Unlimited},
		OpenFiles:           {16384, 16384},
		"Max nice priority": {0, 0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

const mountText = `27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
31 27 0:29 /a\040b /mnt/c\134d rw,nosuid shared:3 master:1 - overlay overlay rw,lowerdir=/x:/y
40 27 0:40 / /empty ro - tmpfs  rw
41 27 0:40 / /no-break space\040(deleted) ro - tmpfs tmpfs rw
`

func TestParseMountInfo(t *testing.T) {
	got, err := ParseMountInfo(strings.NewReader(mountText))
	if err != nil {
		t.Fatal(err)
	}
	want := []Mount{
		{ID: 27, Parent: 1, Device: "254:0", Root: "/", Point: "/", Options: []string{"rw", "relatime"}, Propagation: []string{},
			FSType: "ext4", Source: "/dev/vda", SuperOptions: []string{"rw", "discard"}},
		{ID: 31, Parent: 27, Device: "0:29", Root: "/a b", Point: `/mnt/c\d`, Options: []string{"rw", "nosuid"}, Propagation: []string{"shared:3", "master:1"},
			FSType: "overlay", Source: "overlay", SuperOptions: []string{"rw", "lowerdir=/x:/y"}},
		{ID: 40, Parent: 27, Device: "0:40", Root: "/", Point: "/empty", Options: []string{"ro"}, Propagation: []string{},
			FSType: "tmpfs", Source: "", SuperOptions: []string{"rw"}},
		{ID: 41, Parent: 27, Device: "0:40", Root: "/", Point: "/no-break\u00a0space (deleted)", Options: []string{"ro"}, Propagation: []string{},
			FSType: "tmpfs", Source: "tmpfs", SuperOptions: []string{"rw"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseEnviron(t *testing.T) {
	got := ParseEnviron([]byte("Z=1\x00A=two words\x00"))
	if diff := cmp.Diff([]string{"A=two words", "Z=1"}, got); diff != "" {
		t.Error(diff)
	}
	if got := ParseEnviron(nil); got != nil {
		t.Errorf("no environment gave %q", got)
	}
}

// What a descriptor is can be said though the file system of its file does not answer.
func TestASilentDescriptor(t *testing.T) {
	if !fusetest.Apart(t) {
		return
	}
	s := fusetest.Mount(t, 4096)
	dir, err := os.Open(s.Directory)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(dir.Fd())
	s.Silence()
	s.Ends(t, "a descriptor", func() {
		if got, err := Host.Process(os.Getpid()).Descriptor(fd); got != s.Directory || err != nil {
			t.Errorf("it is %q, %v", got, err)
		}
	})
}

// A child of our own, whose descriptors, arguments and ancestry are known.
func TestProcess(t *testing.T) {
	cmd := exec.Command("sleep", "3600")
	cmd.Env = []string{"B=2", "A=1"}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := Host.Process(cmd.Process.Pid)

	if err := p.AwaitProgram(t.Context()); err != nil {
		t.Fatal(err)
	}
	env, err := p.Environ()
	if diff := cmp.Diff([]string{"A=1", "B=2"}, env); diff != "" || err != nil {
		t.Error(diff, err)
	}
	args, err := p.Args()
	if diff := cmp.Diff([]string{"sleep", "3600"}, args); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for fd, want := range map[int]string{0: "/dev/null", 1: "pipe"} {
		if got, err := p.Descriptor(fd); got != want || err != nil {
			t.Errorf("descriptor %d is %q (%v), want %q", fd, got, err, want)
		}
	}
	stat, err := p.Stat()
	if err != nil || stat.Parent != os.Getpid() || stat.StartTicks == 0 {
		t.Errorf("stat %+v, %v", stat, err)
	}
	children, err := Host.Process(os.Getpid()).Children()
	if err != nil || !contains(children, cmd.Process.Pid) {
		t.Errorf("children %v (%v) lack %d", children, err, cmd.Process.Pid)
	}
	ours, err := Host.Process(os.Getpid()).Namespaces()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := p.Namespaces()
	if diff := cmp.Diff(ours, theirs); diff != "" || err != nil {
		t.Error(diff, err)
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if _, err := p.Stat(); !Gone(err) {
		t.Errorf("of a process that ended: %v", err)
	}
}

func contains(pids []int, pid int) bool {
	for _, p := range pids {
		if p == pid {
			return true
		}
	}
	return false
}

func FuzzParseStat(f *testing.F) {
	f.Add(statLine)
	f.Fuzz(func(t *testing.T, s string) {
		if st, err := ParseStat(strings.NewReader(s)); err == nil && !strings.Contains(s, "("+st.Comm+")") {
			t.Errorf("command %q is not in %q", st.Comm, s)
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add(statusText)
	f.Fuzz(func(t *testing.T, s string) { _, _ = ParseStatus(strings.NewReader(s)) })
}

func FuzzParseLimits(f *testing.F) {
	f.Add(limitsText)
	f.Fuzz(func(t *testing.T, s string) {
		if l, err := ParseLimits(strings.NewReader(s)); err == nil {
			if _, ok := l[OpenFiles]; !ok {
				t.Error("accepted without open files")
			}
		}
	})
}

func FuzzParseMountInfo(f *testing.F) {
	f.Add(mountText)
	f.Fuzz(func(t *testing.T, s string) { _, _ = ParseMountInfo(strings.NewReader(s)) })
}

func FuzzParseEnviron(f *testing.F) {
	f.Add([]byte("B=2\x00A=1\x00\x00"))
	f.Add([]byte("\x00\x00x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		env := ParseEnviron(b)
		if !slices.IsSorted(env) || strings.Contains(strings.Join(env, ""), "\x00") {
			t.Errorf("%q is split into %q", b, env)
		}
	})
}

// A process that has ended and was not waited for is still in /proc, without its mounts.
func TestAnEndedProcessHasNoMounts(t *testing.T) {
	cmd := exec.Command("true")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	if _, err := io.Copy(io.Discard, out); err != nil { // until it has closed its output
		t.Fatal(err)
	}
	for {
		_, err := Host.Process(cmd.Process.Pid).Mounts()
		if err == nil { // it is about to end
			continue
		}
		if !Gone(err) {
			t.Errorf("%v, want it gone", err)
		}
		return
	}
}
