package box

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare/kernel/cgroup"
	"tare/kernel/swap"
	"tare/platform"
)

// Boxes on this host's kernel. What is in one is this very program, started again.

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(occupantVariable); ok {
		os.Exit(occupy(text))
	}
	if text, ok := os.LookupEnv(victimVariable); ok {
		os.Exit(victim(text))
	}
	os.Exit(m.Run())
}

// occupantVariable holds an occupant's orders.
const occupantVariable = "TARE_TEST_OCCUPANT"

type occupantOrders struct {
	Files []string // by which it joins its group
	Bytes int
}

// occupy fills memory, says so, and once it is told to says whether it is as it was.
func occupy(text string) int {
	var o occupantOrders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if err := cgroup.Join(o.Files); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	held := make([]byte, o.Bytes)
	draw := func(do func(at int, b byte) bool) bool {
		r := rand.NewPCG(1, 2)
		for at := 0; at < len(held); at += 8 {
			for i, v := 0, r.Uint64(); i < 8; i, v = i+1, v>>8 {
				if !do(at+i, byte(v)) {
					return false
				}
			}
		}
		return true
	}
	draw(func(at int, b byte) bool { held[at] = b; return true })
	fmt.Println("filled")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(draw(func(at int, b byte) bool { return held[at] == b }))
	}
	return 0
}

// occupant is one that runs.
type occupant struct {
	orders io.Writer
	said   *bufio.Scanner
}

// occupied starts one in a group and waits until it has filled its memory.
func occupied(t *testing.T, group string, bytes int) *occupant {
	t.Helper()
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	inner := layout.At(filepath.Join(platform.CgroupParent, group, "occupant"))
	if err := inner.Create(controllers(layout)...); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(occupantOrders{inner.ProcessFiles(), bytes})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), occupantVariable+"="+string(text))
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
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	o := &occupant{in, bufio.NewScanner(out)}
	if got := o.hear(t); got != "filled" {
		t.Fatalf("the occupant said %q", got)
	}
	return o
}

func (o *occupant) hear(t *testing.T) string {
	t.Helper()
	if !o.said.Scan() {
		t.Fatalf("the occupant said nothing: %v", o.said.Err())
	}
	return o.said.Text()
}

// unharmed has it read all of its memory.
func (o *occupant) unharmed(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(o.orders, "look\n"); err != nil {
		t.Fatal(err)
	}
	if got := o.hear(t); got != "true" {
		t.Error("what came back from swap is not what went there")
	}
}

// surroundings are what a box could leave behind, or leave changed.
func surroundings(t *testing.T, state string, s platform.BoxSpec) string {
	t.Helper()
	var host swap.Host
	var lines []string
	areas, err := host.Areas()
	if err != nil {
		t.Skip(err)
	}
	zrams, err := ground{}.zrams()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range areas {
		if strings.HasPrefix(a.Path, state) || strings.HasPrefix(a.Path, zramPath) {
			lines = append(lines, "area "+a.Path)
		}
	}
	for _, id := range zrams {
		// Others' are of other sizes, and come and go.
		if size, err := os.ReadFile(fmt.Sprintf("/sys/block/zram%d/disksize", id)); err == nil && strings.TrimSpace(string(size)) == strconv.FormatInt(s.SwapSize, 10) {
			lines = append(lines, "zram "+strconv.Itoa(id))
		}
	}
	cluster, err := host.PageCluster().Read()
	if err != nil {
		t.Fatal(err)
	}
	zswap, err := host.Zswap()
	lines = append(lines, "page-cluster "+cluster, fmt.Sprintf("zswap %+v %v", zswap, err))
	files, err := filepath.Glob(filepath.Join(state, swapDirectory, "*"))
	if err != nil {
		t.Fatal(err)
	}
	lines = append(lines, files...)
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range layout.At(filepath.Join(platform.CgroupParent, s.Name)).Places {
		if _, err := os.Stat(p.Dir()); err == nil {
			lines = append(lines, p.Dir())
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// spec is a small box with twice its memory of swap, of a size that nobody else has.
func spec(t *testing.T, kind platform.SwapKind) platform.BoxSpec {
	t.Helper()
	n := serial()
	s := platform.BoxSpec{
		Name: fmt.Sprintf("box-test-%d-%d", os.Getpid(), n), Kind: platform.BoxGroup, Memory: 256 << 20,
		Swap: kind, PageCluster: -1, Protect: platform.ProtectNone,
	}
	if kind != platform.SwapNone {
		s.SwapSize = 512<<20 + int64((os.Getpid()%1000*10+n)*os.Getpagesize())
	}
	return s
}

var serials int

func serial() int { serials++; return serials }

// stateDirectory is where swap files of tests lie: the directory for temporary files may
// be in memory.
func stateDirectory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := swap.Room(dir); err != nil {
		t.Skip(err)
	}
	return dir
}

// made makes a box that is gone when the test is over.
func made(t *testing.T, m *Maker, s platform.BoxSpec) platform.Box {
	t.Helper()
	b, err := m.Make(t.Context(), s)
	if missing := new(platform.Missing); errors.As(err, &missing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func read(t *testing.T, b platform.Box) platform.BoxReading {
	t.Helper()
	r, err := b.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// remove removes a box before its test is over.
func remove(t *testing.T, b platform.Box) {
	t.Helper()
	if err := b.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// More than a box holds goes to its swap, is counted, and comes back unharmed; what was
// found is there afterwards.
func TestPagesLeaveAndComeBack(t *testing.T) {
	for _, kind := range []platform.SwapKind{platform.SwapFile, platform.SwapZRAM, platform.SwapZswap} {
		t.Run(string(kind), func(t *testing.T) {
			state := stateDirectory(t)
			s := spec(t, kind)
			found := surroundings(t, state, s)
			b := made(t, New(Options{StateDir: state, Disruptive: true}), s)
			before := read(t, b)
			o := occupied(t, b.Group(platform.Idle), 300<<20)
			filled := read(t, b)
			idle := filled.Classes[platform.Idle]
			if idle.Swapped < 300<<20-s.Memory || filled.SwapUsed < idle.Swapped/2 {
				t.Errorf("%d MiB of a box of %d MiB: %d MiB swapped, %d MiB of the area used", 300, s.Memory>>20, idle.Swapped>>20, filled.SwapUsed>>20)
			}
			if out := (filled.SwapOut - before.SwapOut) * int64(os.Getpagesize()); out < idle.Swapped {
				t.Errorf("%d MiB are swapped, and %d MiB were written", idle.Swapped>>20, out>>20)
			}
			if critical := filled.Classes[platform.Critical]; critical.Anonymous != 0 || critical.CPU != 0 {
				t.Errorf("the critical class has %+v, and nobody is in it", critical)
			}
			o.unharmed(t)
			back := read(t, b)
			if back.SwapIn == filled.SwapIn || back.Classes[platform.Idle].MajorFaults == idle.MajorFaults {
				t.Errorf("what came back is not counted: %+v", back)
			}
			for _, figure := range []string{"classes.idle.pressure_some_ns", "classes.idle.swapped_bytes"} {
				if why := back.Absent[figure]; why != "" {
					t.Logf("%s: %s", figure, why)
				}
			}
			if _, absent := back.Absent["classes.idle.pressure_some_ns"]; !absent && (back.Classes[platform.Idle].Some == 0 || back.Some == 0) {
				t.Errorf("all that, and nobody waited: %+v", back)
			}
			if kind == platform.SwapFile {
				if back.Limit != s.Memory || back.Pool != 0 {
					t.Errorf("limit %d, pool %d, want %d and none", back.Limit, back.Pool, s.Memory)
				}
			} else if back.Pool == 0 {
				t.Errorf("compressed swap holds nothing: %+v", back)
			}
			remove(t, b)
			if left := surroundings(t, state, s); left != found {
				t.Errorf("found:\n%s\nleft:\n%s", found, left)
			}
		})
	}
}
