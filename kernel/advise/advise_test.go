package advise

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pidfd is a process by its descriptor.
type pidfd int

func (p pidfd) Control(f func(fd int) error) error { return f(int(p)) }

func open(t *testing.T, pid int) pidfd {
	t.Helper()
	if err := Supported(); err != nil {
		t.Skip(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return pidfd(fd)
}

var page = os.Getpagesize()

// mapped is a file on a disk, mapped by this program: pages of such leave without swap,
// since the file has what they hold.
func mapped(t *testing.T, pages int) []byte {
	t.Helper()
	stay(t)
	const home = "/var/tmp" // on a disk where a temporary directory may not be
	f, err := os.CreateTemp(home, "tare-advise-test-")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, pages*page)
	for i := range text {
		text[i] = byte(i / page)
	}
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, len(text), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = munmap(b, 0, pages) })
	// A page at a time, so that none is part of a large one, which leaves as a whole.
	if err := unix.Madvise(b, unix.MADV_RANDOM); err != nil {
		t.Fatal(err)
	}
	if err := drop(f, b); err != nil {
		t.Skip(err)
	}
	use(b)
	return b
}

// stay keeps a test on one processor: pages that wait in another's batch do not leave.
func stay(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // and the thread ends with the test
	var may, first unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; first.Count() == 0; cpu++ {
		if may.IsSet(cpu) {
			first.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &first); err != nil {
		t.Skip(err)
	}
}

// drop has the page cache of a file go, and its pages of this program's with it.
func drop(f *os.File, b []byte) error {
	if err := unix.Madvise(b, unix.MADV_DONTNEED); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

var sink byte

func use(b []byte) {
	for at := 0; at < len(b); at += page {
		sink += b[at]
	}
}

// munmap unmaps pages in the midst of a mapping, which unix.Munmap does not.
func munmap(b []byte, first, pages int) error {
	_, _, errno := unix.Syscall(unix.SYS_MUNMAP, uintptr(unsafe.Pointer(&b[first*page])), uintptr(pages*page), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func pages(b []byte, first, n int) Range {
	return Range{uint64(uintptr(unsafe.Pointer(&b[0]))) + uint64(first*page), uint64(n * page)}
}

// present lists the pages that are mapped, by the page map of this program.
func present(t *testing.T, b []byte) []int {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	words := make([]byte, len(b)/page*8)
	if _, err := f.ReadAt(words, int64(pages(b, 0, 1).Start)/int64(page)*8); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	var there []int
	for i := range len(b) / page {
		if binary.NativeEndian.Uint64(words[8*i:])>>63 == 1 {
			there = append(there, i)
		}
	}
	return there
}

func numbers(first, n int) []int {
	var all []int
	for i := range n {
		all = append(all, first+i)
	}
	return all
}

// Pages leave by advice, and what is mapped is there again.
func TestGive(t *testing.T) {
	p, b := open(t, os.Getpid()), mapped(t, 64)
	if got := present(t, b); !slices.Equal(got, numbers(0, 64)) {
		t.Fatalf("at first %v are there", got)
	}
	passed, err := Give(p, PageOut, []Range{pages(b, 40, 8), pages(b, 0, 32)})
	if err != nil || len(passed) > 0 {
		t.Fatal(passed, err)
	}
	if got := present(t, b); len(got) > 24 || slices.Contains(got, 16) {
		t.Errorf("%v are there still", got)
	}
	if passed, err := Give(p, WillNeed, []Range{pages(b, 0, 64)}); err != nil || len(passed) > 0 {
		t.Error(passed, err)
	}
	if passed, err := Give(p, Cold, []Range{pages(b, 0, 64)}); err != nil || len(passed) > 0 {
		t.Error(passed, err)
	}
	if n, err := Map(p, os.Getpid(), []Range{pages(b, 0, 20), pages(b, 30, 3), pages(b, 33, 31)}); n != 1+3+1 || err != nil {
		t.Errorf("%d of 5 read, %v", n, err)
	}
	if got := present(t, b); !slices.Equal(got, slices.Concat(numbers(0, 20), still(got, 20, 30), numbers(30, 34))) {
		t.Errorf("%v are there", got)
	}
	use(b)
	for i := range 64 {
		if b[i*page] != byte(i) {
			t.Errorf("page %d is of %d", i, b[i*page])
		}
	}
}

// still is those of pages that are among some.
func still(some []int, first, end int) []int {
	return slices.DeleteFunc(slices.Clone(some), func(i int) bool { return i < first || i >= end })
}

// A hole, or pages that are locked, cost no others their turn.
func TestGivePassesBy(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoil  func(b []byte) error
		errno  error
		within Range // in pages: what may be passed by
	}{
		{"a hole", func(b []byte) error { return munmap(b, 20, 8) }, unix.ENOMEM, Range{0, 64}},
		{"locked", func(b []byte) error { return unix.Mlock(b[20*page : 28*page]) }, unix.EINVAL, Range{16, 16}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, b := open(t, os.Getpid()), mapped(t, 96)
			if err := c.spoil(b); err != nil {
				t.Skip(err)
			}
			passed, err := Give(p, PageOut, []Range{pages(b, 90, 4), pages(b, 0, 64), pages(b, 70, 16)})
			if err != nil || len(passed) == 0 {
				t.Fatal(passed, err)
			}
			base := pages(b, 0, 1).Start
			for _, r := range passed {
				first, n := (r.Start-base)/uint64(page), r.Length/uint64(page)
				if !errors.Is(r.Err, c.errno) || first < c.within.Start || first+n > c.within.End() {
					t.Errorf("passed by %d pages from %d on: %v", n, first, r.Err)
				}
			}
			still := present(t, b)
			for _, left := range []int{4, 12, 40, 60, 75, 91} {
				if slices.Contains(still, left) {
					t.Errorf("page %d is still there: %v", left, still)
				}
			}
			if c.errno == unix.EINVAL && !slices.Contains(still, 24) {
				t.Errorf("a locked page left: %v", still)
			}
		})
	}
}

// More ranges than a call takes are as many calls.
func TestGiveMany(t *testing.T) {
	p, b := open(t, os.Getpid()), mapped(t, 8)
	var ranges []Range
	for i := range 2*most + 1 {
		ranges = append(ranges, pages(b, i%8, 1))
	}
	if passed, err := Give(p, Cold, ranges); len(passed) > 0 || err != nil {
		t.Error(passed, err)
	}
	if n, err := Map(p, os.Getpid(), ranges); n != len(ranges) || err != nil {
		t.Errorf("%d of %d mapped, %v", n, len(ranges), err)
	}
}

// Map goes on behind what cannot be read.
func TestMapPassesBy(t *testing.T) {
	p, b := open(t, os.Getpid()), mapped(t, 16)
	if err := munmap(b, 4, 2); err != nil {
		t.Fatal(err)
	}
	var each []Range
	for i := range 16 {
		each = append(each, pages(b, i, 1))
	}
	for _, c := range []struct {
		ranges []Range
		want   int
	}{
		{each, 14},
		{[]Range{pages(b, 4, 8), pages(b, 8, 8)}, 1},
		{[]Range{pages(b, 2, 3), pages(b, 6, 1), pages(b, 0, 16)}, 2 + 1 + 1},
	} {
		if n, err := Map(p, os.Getpid(), c.ranges); n != c.want || err != nil {
			t.Errorf("of %v %d read, want %d (%v)", c.ranges, n, c.want, err)
		}
	}
}

// A process that has ended has nothing to advise on, reaped or not.
func TestGone(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, some := open(t, cmd.Process.Pid), []Range{{1 << 20, uint64(page)}}
	if passed, err := Give(p, Cold, some); err != nil || len(passed) != 1 || !errors.Is(passed[0].Err, unix.ENOMEM) {
		t.Errorf("while it lives: %v, %v", passed, err)
	}
	in.Close()
	gone := func(when string) {
		t.Helper()
		if _, err := Give(p, Cold, some); !errors.Is(err, ErrGone) {
			t.Errorf("%s: %v", when, err)
		}
		if n, err := Map(p, cmd.Process.Pid, some); n != 0 || !errors.Is(err, ErrGone) {
			t.Errorf("%s: %d mapped, %v", when, n, err)
		}
	}
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(p), Events: unix.POLLIN}}, -1); err != nil {
		t.Fatal(err)
	}
	gone("ended")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	gone("reaped")
}

func TestRefused(t *testing.T) {
	var refused *Refused
	if err := fatal("op", unix.EPERM); !errors.As(err, &refused) || !errors.Is(err, unix.EPERM) {
		t.Error(err)
	}
	closed := errors.New("closed")
	if _, err := Give(failing{closed}, Cold, []Range{{0, 1}}); !errors.Is(err, closed) {
		t.Error(err)
	}
	for want, a := range map[string]Advice{"MADV_PAGEOUT": PageOut, "MADV_WILLNEED": WillNeed, "MADV_COLD": Cold, "advice 99": 99} {
		if a.String() != want {
			t.Errorf("%d is written %q, want %q", int(a), a, want)
		}
	}
}

type failing struct{ err error }

func (f failing) Control(func(int) error) error { return f.err }

// What this kernel takes is found by asking it.
func TestTakes(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skip(err)
	}
	for a, want := range map[Advice]bool{PageOut: true, Cold: true} {
		if got, err := Takes(a); got != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", a, got, err, want)
		}
	}
}
