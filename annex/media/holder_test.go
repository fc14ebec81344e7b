package media

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/annex"
	"tare/kernel/advise"
	"tare/kernel/cgroup"
	"tare/kernel/memory"
	"tare/kernel/process"
	"tare/kernel/swap"
	"tare/kernel/swap/swaptest"
)

// This test binary is also the program whose pages are moved.
const holderEnv = "TARE_MEDIA_TEST_HOLD"

func TestMain(m *testing.M) {
	if pages := os.Getenv(holderEnv); pages != "" {
		if err := hold(pages); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if space := os.Getenv(moverEnv); space != "" {
		fmt.Fprintln(os.Stderr, moveForEver(space))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// value is what the holder has in a word: no two pages are alike, and half of each can
// be compressed.
func value(word int) uint64 {
	if word%2 == 0 {
		return uint64(word+1) * 0x9e3779b97f4a7c15
	}
	return uint64(word) / 64
}

// segments is how many mappings the holder's pages are in.
const segments = 8

// hold fills so many pages, and does what it is told, a line at a time. It tells where
// they are, and then of each command that it was done.
func hold(text string) error {
	pages, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	const words = annex.PageSize / 8
	part := pages / segments
	var parts [segments]*memory.Mapping
	for i := range parts {
		if parts[i], err = memory.MapAnonymous(part * annex.PageSize); err != nil {
			return err
		}
		for at := range parts[i].Words() {
			parts[i].Words()[at] = value(i*part*words + at)
		}
		fmt.Println(parts[i].Address())
	}
	told := bufio.NewScanner(os.Stdin)
	for told.Scan() {
		var took []time.Duration
		var what string
		var first, n int
		if _, err := fmt.Sscan(told.Text(), &what, &first, &n); err != nil {
			return fmt.Errorf("%q: %w", told.Text(), err)
		}
		for page := first; page < first+n; page++ {
			has := parts[page/part].Words()
			if has == nil {
				continue // given back
			}
			has = has[page%part*words:][:words]
			switch what {
			case "check":
				for i, have := range has {
					if want := value(page*words + i); have != want {
						return fmt.Errorf("word %d of page %d is %#x, and %#x was put there", i, page, have, want)
					}
				}
			case "time":
				// One in so many, which the kernel's reading ahead does not bring.
				if page%32 == 0 {
					began := time.Now()
					has[0]++
					took = append(took, time.Since(began))
					has[0]--
				}
			case "write":
				has[0]++
				has[0]--
			case "unmap":
				if err := parts[page/part].Close(); err != nil {
					return err
				}
			}
		}
		if len(took) > 0 {
			slices.Sort(took)
			fmt.Println(took[len(took)/2].Nanoseconds(), took[len(took)*99/100].Nanoseconds())
		}
		fmt.Println("done")
	}
	return nil
}

// holder is that program.
type holder struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	space annex.Space
	parts [segments]annex.Page // where each begins
	pages int
}

func startHolder(t testing.TB, pages int) *holder {
	t.Helper()
	h := start(t, exec.Command(os.Args[0]), pages)
	h.locate(t)
	return h
}

// start starts a program that becomes a holder.
func start(t testing.TB, cmd *exec.Cmd, pages int) *holder {
	t.Helper()
	cmd.Env = append(os.Environ(), holderEnv+"="+strconv.Itoa(pages))
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
	h := &holder{cmd: cmd, in: in, out: bufio.NewScanner(out), pages: pages}
	t.Cleanup(h.end)
	id, err := process.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	h.space = annex.Space{PID: int32(id.PID), Started: id.StartTicks}
	return h
}

func (h *holder) end() {
	h.in.Close()
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

// locate reads where its pages are, which it tells once they are filled.
func (h *holder) locate(t testing.TB) {
	t.Helper()
	for i := range h.parts {
		if !h.out.Scan() {
			t.Fatalf("the program ends: %v", h.out.Err())
		}
		at, err := strconv.ParseUint(h.out.Text(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		h.parts[i] = annex.Page(at / annex.PageSize)
	}
}

// tell has it do something with pages, and waits until it has.
func (h *holder) tell(t testing.TB, what string, first, pages int) {
	t.Helper()
	if _, err := fmt.Fprintln(h.in, what, first, pages); err != nil {
		t.Fatal(err)
	}
	if !h.out.Scan() || h.out.Text() != "done" {
		t.Fatalf("told to %s, the program says %q (%v)", what, h.out.Text(), h.out.Err())
	}
}

// time has it touch one page in 32 and tells how long that took, in the middle and at
// the 99th percentile.
func (h *holder) time(t testing.TB) (p50, p99 time.Duration) {
	t.Helper()
	if _, err := fmt.Fprintln(h.in, "time", 0, h.pages); err != nil {
		t.Fatal(err)
	}
	if !h.out.Scan() {
		t.Fatalf("told to time, the program ends: %v", h.out.Err())
	}
	if _, err := fmt.Sscan(h.out.Text(), (*int64)(&p50), (*int64)(&p99)); err != nil {
		t.Fatalf("%q: %v", h.out.Text(), err)
	}
	if !h.out.Scan() || h.out.Text() != "done" {
		t.Fatalf("told to time, the program says %q (%v)", h.out.Text(), h.out.Err())
	}
	return p50, p99
}

// run is pages of the holder, by their number, all of one part.
func (h *holder) run(first, pages int) annex.Run {
	part := h.pages / segments
	return annex.Run{Space: h.space, First: h.parts[first/part] + annex.Page(first%part), Pages: pages}
}

func (h *holder) all() []annex.Run {
	var all []annex.Run
	for i := range segments {
		all = append(all, h.run(i*h.pages/segments, h.pages/segments))
	}
	return all
}

// places counts where its pages are.
func (h *holder) places(t testing.TB) map[place]int {
	t.Helper()
	target, err := Open(h.space)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	at := map[place]int{}
	if err := look(target, h.all(), func(_ annex.Page, p place) { at[p]++ }); err != nil {
		t.Fatal(err)
	}
	return at
}

// needs skips where pages cannot be had to leave for swap at once.
func needs(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("moving another program's pages needs root")
	}
	if err := advise.Supported(); err != nil {
		t.Skip(err)
	}
	swaptest.NoPool(t)
}

// onFile is a swap file.
func onFile(t testing.TB, size int64) Medium {
	t.Helper()
	needs(t)
	return of(t, swaptest.File(t, "media", size))
}

// onZRAM is compressed memory.
func onZRAM(t testing.TB, size int64) Medium {
	t.Helper()
	needs(t)
	return of(t, swaptest.ZRAM(t, size))
}

// of is an area that is in use.
func of(t testing.TB, path string) Medium {
	t.Helper()
	a, ok, err := swap.Host{}.Area(path)
	if err != nil || !ok {
		t.Fatalf("%s is not in use (%v)", path, err)
	}
	return Of(swap.Host{}, a)
}

func newKernel(t testing.TB, o Options) *Kernel {
	t.Helper()
	k, err := NewKernel(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// grouped starts a holder in a memory group of its own, from which what eviction left in
// the swap cache can be reclaimed.
func grouped(t testing.TB, name string, pages int) (*holder, cgroup.Group) {
	t.Helper()
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	group := layout.At(fmt.Sprintf("/tare-media-test-%d-%s", os.Getpid(), name))
	if err := group.Create("memory"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := group.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	h := start(t, exec.Command("/bin/sh", "-c", `read go && exec "$0"`, os.Args[0]), pages)
	if err := group.Add(h.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(h.in, "\n"); err != nil {
		t.Fatal(err)
	}
	h.locate(t)
	return h, group
}

// out has the holder's pages leave, some of them first, and the swap cache too.
func out(t testing.TB, k *Kernel, h *holder, group cgroup.Group, first []annex.Run) time.Duration {
	t.Helper()
	h.tell(t, "write", 0, h.pages) // so that they have to be written
	began := time.Now()
	if r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: append(slices.Clone(first), h.all()...)}); r.Err != nil {
		t.Fatal(r.Err)
	}
	took := time.Since(began)
	for end := time.Now().Add(time.Minute); writing(t, group) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("pages are being written for a minute")
		}
	}
	for tries := 0; ; tries++ {
		usage, err := group.MemoryUsage()
		if err != nil {
			t.Fatal(err)
		}
		size := int64(h.pages) * annex.PageSize
		if usage < size/4 || tries == 3 && usage < size/2 {
			break
		}
		if tries == 3 {
			t.Fatalf("%d bytes stay, of %d", usage, size)
		}
		if err := group.ReclaimMemory(usage-size/8, cgroup.NoBound); err != nil {
			t.Fatal(err)
		}
	}
	return took
}

// writing is how much of a group is being written, in the kernel's own unit.
func writing(t testing.TB, group cgroup.Group) (n int64) {
	t.Helper()
	place, ok := group.For("memory")
	if !ok {
		t.Fatal("no memory group")
	}
	text, err := os.ReadFile(place.File("memory.stat"))
	if err != nil {
		t.Fatal(err)
	}
	name := map[int]string{1: "writeback ", 2: "file_writeback "}[place.Version]
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(line, name); is {
			if n, err = strconv.ParseInt(strings.TrimSpace(value), 10, 64); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("memory.stat has no line %q", name)
	return 0
}
