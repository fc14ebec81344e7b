package pagetable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare/kernel/procfs"
	"tare/probe"
)

// madeAhead is the helper where somebody has made it already, for a host that has no compiler.
const madeAhead = "testdata/subject"

// compiled is the helper of testdata/subject.c, made once.
var compiled = sync.OnceValues(func() (string, error) {
	if at, err := filepath.Abs(madeAhead); err == nil {
		if _, err := os.Stat(at); err == nil {
			return at, nil
		}
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", errors.New("no C compiler (cc)")
	}
	dir, err := os.MkdirTemp("", "pagetable")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "subject")
	if out, err := exec.Command(cc, "-O1", "-pthread", "-o", file, "testdata/subject.c").CombinedOutput(); err != nil {
		return "", fmt.Errorf("cc: %w\n%s", err, out)
	}
	return file, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if file, err := compiled(); err == nil && !strings.HasSuffix(file, "/"+madeAhead) {
		os.RemoveAll(filepath.Dir(file))
	}
	os.Exit(code)
}

// helper is a running scenario of testdata/subject.c.
type helper struct {
	t    testing.TB
	pid  int
	in   io.WriteCloser
	out  *bufio.Scanner
	at   map[string]region
	pids map[string][]int
	says map[string]string
}

// region is pages that the helper mapped.
type region struct{ page, pages uint64 }

func start(t testing.TB, args ...string) *helper {
	t.Helper()
	needRoot(t)
	file, err := compiled()
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(file, args...)
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
	h := &helper{t: t, pid: cmd.Process.Pid, in: in, out: bufio.NewScanner(out), at: map[string]region{}, pids: map[string][]int{}, says: map[string]string{}}
	t.Cleanup(func() {
		// With its input it ends, and its children with it.
		in.Close()
		ended := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Errorf("the helper does not end with its input")
			_ = cmd.Process.Kill()
		}
	})
	h.listen()
	return h
}

// step has the helper go on.
func (h *helper) step() {
	h.t.Helper()
	if _, err := io.WriteString(h.in, "\n"); err != nil {
		h.t.Fatal(err)
	}
	h.listen()
}

// listen takes in what the helper says, up to the dot.
func (h *helper) listen() {
	h.t.Helper()
	for h.out.Scan() {
		line := h.out.Text()
		f := strings.Fields(line)
		switch {
		case line == ".":
			return
		case strings.HasPrefix(line, "cannot "):
			h.t.Fatal("the helper " + line)
		case len(f) == 2:
			h.says[f[0]] = f[1]
		case len(f) == 3 && f[1] == "pid":
			pid, err := strconv.Atoi(f[2])
			if err != nil {
				h.t.Fatal(err)
			}
			h.pids[f[0]] = append(h.pids[f[0]], pid)
		case len(f) == 3:
			at, err1 := strconv.ParseUint(f[1], 16, 64)
			pages, err2 := strconv.ParseUint(f[2], 10, 64)
			if err1 != nil || err2 != nil {
				h.t.Fatalf("the helper says %q", line)
			}
			h.at[f[0]] = region{at / PageSize, pages}
		default:
			h.t.Fatalf("the helper says %q", line)
		}
	}
	h.t.Fatalf("the helper ended (%v)", h.out.Err())
}

// takers are both back ends.
func takers(t testing.TB) []Taker {
	t.Helper()
	needRoot(t)
	var all []Taker
	walk, err := NewWalk()
	if missing := new(probe.Missing); errors.As(err, &missing) {
		t.Logf("only one back end: %v", missing)
	} else if err != nil {
		t.Fatal(err)
	} else {
		all = append(all, walk)
	}
	files, err := NewFiles()
	if missing := new(probe.Missing); errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, files)
	for _, taker := range all {
		t.Cleanup(func() {
			if err := taker.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return all
}

func take(t testing.TB, taker Taker, flags bool, pids ...int) *Census {
	t.Helper()
	var processes []Process
	for i, pid := range pids {
		processes = append(processes, Process{PID: pid, Group: i})
	}
	c, err := taker.Take(t.Context(), processes, flags)
	if err != nil {
		t.Fatalf("%s: %v", taker.Name(), err)
	}
	return c
}

// spaceOf is the one space of a census.
func spaceOf(t testing.TB, c *Census, pid int) *Space {
	t.Helper()
	for i := range c.Spaces {
		if c.Spaces[i].PID == pid {
			return &c.Spaces[i]
		}
	}
	t.Fatalf("%s: process %d is not in the census: gone %v, kernel %v, twin %v", c.Backend, pid, c.Gone, c.Kernel, c.Twin)
	return nil
}

// entries gives a region's entries, by the page within it; 0 where there is none.
func (s *Space) entries(r region) map[uint64]Entry {
	found := map[uint64]Entry{}
	for _, run := range s.Runs {
		for i, e := range run.Entries {
			if page := run.Page + uint64(i); page >= r.page && page < r.page+r.pages {
				found[page-r.page] = e
			}
		}
	}
	return found
}

// kindAt is the kind of the mapping that a region lies in.
func (s *Space) kindAt(r region) Kind {
	for i := range s.Mappings {
		if m := &s.Mappings[i]; m.Start/PageSize <= r.page && r.page < m.End/PageSize {
			return m.Kind
		}
	}
	return Kinds
}

// well holds a space to what every one has: runs ascending, without empty ones
// or entries that say nothing, each within its mapping.
func (s *Space) well(t testing.TB, backend string) {
	t.Helper()
	end := uint64(0)
	for i, r := range s.Runs {
		if r.Page < end || len(r.Entries) == 0 || r.Mapping < 0 || r.Mapping >= len(s.Mappings) {
			t.Fatalf("%s: run %d of %d begins at page %#x, after %#x, has %d entries, mapping %d", backend, i, s.PID, r.Page, end, len(r.Entries), r.Mapping)
		}
		end = r.Page + uint64(len(r.Entries))
		if m := s.Mappings[r.Mapping]; r.Page < m.Start/PageSize || end > m.End/PageSize {
			t.Fatalf("%s: run %d of %d is not within its mapping %+v", backend, i, s.PID, m)
		}
		for _, e := range r.Entries {
			if (e&Present != 0) == (e&Swapped != 0) {
				t.Fatalf("%s: entry %#x of %d is neither present nor swapped, or both", backend, e, s.PID)
			}
		}
	}
}

// agree holds the back ends' entries of all pages to one another. Flags of
// frames may change between the two readings, by the kernel's own doing: they
// have three attempts.
func agree(t testing.TB, all []Taker, pids ...int) {
	t.Helper()
	if len(all) < 2 {
		return
	}
	for _, pid := range pids {
		for _, flags := range []bool{false, true} {
			mask := Common
			if flags {
				mask = CommonFlags
			}
			var differences []string
			for range 3 {
				a, b := spaceOf(t, take(t, all[0], flags, pid), pid), spaceOf(t, take(t, all[1], flags, pid), pid)
				if differences = compare(a, b, mask); len(differences) == 0 {
					break
				}
			}
			for i, d := range differences {
				if i == 10 {
					t.Errorf("... %d in all", len(differences))
					break
				}
				t.Errorf("of process %d (flags: %v) the back ends disagree: %s", pid, flags, d)
			}
		}
	}
}

func compare(a, b *Space, mask Entry) (differences []string) {
	everywhere := region{0, 1 << 52}
	of, and := a.entries(everywhere), b.entries(everywhere)
	name := func(page uint64) string {
		for i := range a.Mappings {
			if m := &a.Mappings[i]; m.Start/PageSize <= page && page < m.End/PageSize {
				return fmt.Sprintf("page %#x (kind %d %s)", page, m.Kind, m.File)
			}
		}
		return fmt.Sprintf("page %#x", page)
	}
	for page, x := range of {
		if y := and[page]; x&mask != y&mask {
			differences = append(differences, fmt.Sprintf("%s: %#x, %#x, of which %#x", name(page), x, y, (x^y)&mask))
		}
	}
	for page, y := range and {
		if of[page] == 0 {
			differences = append(differences, fmt.Sprintf("%s: none, %#x", name(page), y))
		}
	}
	return differences
}

// alive reports whether a process is there to be signalled.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// A process that maps more than what is read, or whose memory stays locked, ends no census.
func TestWhatCannotBeReadIsLeftOut(t *testing.T) {
	for _, why := range []error{procfs.ErrTooLong, procfs.ErrLocked} {
		if f, err := fateOf(fmt.Errorf("process 1: %w", why)); f != refused || err != nil {
			t.Errorf("%v: its fate is %v, %v", why, f, err)
		}
	}
}
