package monitor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tare/annex"
	"tare/kernel/cgroup"
	"tare/kernel/swap"
)

// scratch is where the tests' program and swap file are, on a real file system. What an
// earlier run that was killed left there is taken out of use first.
const scratch = "/var/tmp/annex-monitor-test"

func TestMain(m *testing.M) {
	clear := func() {
		_ = swap.Off(context.Background(), filepath.Join(scratch, "swap"))
		_ = os.RemoveAll(scratch)
	}
	clear()
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		panic(err)
	}
	code := m.Run()
	clear()
	os.Exit(code)
}

// swapOnce puts a small swap file to use, for all tests.
var swapOnce = sync.OnceValue(func() error {
	path := filepath.Join(scratch, "swap")
	if err := swap.CreateFile(context.Background(), path, 64<<20); err != nil {
		return err
	}
	return swap.On(path, 0, swap.DiscardNever)
})

func needSwap(t testing.TB) {
	t.Helper()
	needRoot(t)
	if err := swapOnce(); err != nil {
		t.Skipf("no swap file can be used here: %v", err)
	}
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("watching needs root")
	}
}

// madeAhead is the program where somebody has made it already, for a host that has no compiler.
const madeAhead = "testdata/toucher"

var compile = sync.OnceValues(func() (string, error) {
	if at, err := filepath.Abs(madeAhead); err == nil {
		if _, err := os.Stat(at); err == nil {
			return at, nil
		}
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", err
	}
	program := filepath.Join(scratch, "toucher")
	out, err := exec.Command(cc, "-O1", "-Wall", "-Werror", "-static", "-o", program, "testdata/toucher.c").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%v: %s", err, out)
	}
	return program, nil
})

// groups counts those that were made, so that each has another name.
var groups atomic.Int64

// newGroup makes a control group in every hierarchy, which goes with the test. dir is its
// directory as it is watched.
func newGroup(t testing.TB) (g cgroup.Group, dir string) {
	t.Helper()
	needRoot(t)
	layout, err := cgroup.Host()
	if err != nil {
		t.Skipf("no control groups: %v", err)
	}
	g = layout.At(fmt.Sprintf("annex-monitor-test-%d-%d", os.Getpid(), groups.Add(1)))
	// Where the host has them on version 1, only those that are needed.
	var places []cgroup.Place
	for _, p := range g.Places {
		if p.Version == 2 || p.Has("memory") || p.Has("cpuacct") {
			places = append(places, p)
		}
	}
	g.Places = places
	if err := g.Create(); err != nil {
		t.Skipf("no control group can be made: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(g.Kill(ctx), g.Remove(ctx)); err != nil {
			t.Errorf("remove the test's control group: %v", err)
		}
	})
	place, ok := g.For("memory")
	if !ok {
		t.Skip("no hierarchy has the memory controller")
	}
	return g, place.Dir()
}

// toucher is a process of testdata/toucher.c in a group.
type toucher struct {
	t     testing.TB
	in    io.WriteCloser
	out   *bufio.Reader
	pid   int32
	first annex.Page
	pages int
}

func begin(t testing.TB, g cgroup.Group, pages int) *toucher {
	t.Helper()
	path, err := compile()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("no C compiler: apt-get install gcc libc6-dev")
	}
	if err != nil {
		t.Fatal(err)
	}
	// A shell enters the group, and becomes the program.
	script := ""
	for _, file := range g.ProcessFiles() {
		script += fmt.Sprintf("echo $$ >%s && ", file)
	}
	cmd := exec.Command("/bin/sh", "-c", script+fmt.Sprintf("exec %s %d", path, pages))
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
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p := &toucher{t: t, in: in, out: bufio.NewReader(out), pages: pages}
	p.meet()
	return p
}

// meet takes what it says of itself.
func (p *toucher) meet() {
	p.t.Helper()
	var first uint64
	if _, err := fmt.Sscanf(p.line(), "ready %d %d", &p.pid, &first); err != nil {
		p.t.Fatal(err)
	}
	p.first = annex.Page(first)
}

func (p *toucher) line() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the toucher ended: %v", err)
	}
	return line
}

func (p *toucher) tell(format string, a ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", a...); err != nil {
		p.t.Fatal(err)
	}
}

// ran is the processor time that it has had.
func (p *toucher) ran() time.Duration {
	p.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", p.pid))
	if err != nil {
		p.t.Fatal(err)
	}
	var ran time.Duration
	if _, err := fmt.Sscan(string(data), &ran); err != nil {
		p.t.Fatalf("schedstat %q: %v", data, err)
	}
	return ran
}

// do has it do something, and gives what it answers.
func (p *toucher) do(format string, a ...any) (answer uint64) {
	p.t.Helper()
	p.tell(format, a...)
	if _, err := fmt.Sscanf(p.line(), "done %d", &answer); err != nil {
		p.t.Fatal(err)
	}
	return answer
}

// touch has it do something with pages, in that order.
func (p *toucher) touch(how string, pages []int) uint64 {
	p.t.Helper()
	return p.do("%s %s", how, strings.Trim(fmt.Sprint(pages), "[]"))
}

// of tells which of its pages one is; false where it is none.
func (p *toucher) of(page annex.Page) (int, bool) {
	return int(page - p.first), page >= p.first && page < p.first+annex.Page(p.pages)
}
