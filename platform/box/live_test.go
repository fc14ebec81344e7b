package box

import (
	"bufio"
	"context"
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
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/swap"
	"tare/platform"
	"tare/platform/crashtest"
)

// Boxes on this host's kernel. What is in one is this very program, started again.

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(occupantVariable); ok {
		os.Exit(occupy(text))
	}
	if behaviour, ok := os.LookupEnv(fakeVariable); ok {
		os.Exit(fake(behaviour))
	}
	if code, ours := crashtest.Main(victim); ours {
		os.Exit(code)
	}
	os.Exit(listed(m.Run))
}

// occupantVariable holds an occupant's orders.
const occupantVariable = "TARE_TEST_OCCUPANT"

type occupantOrders struct {
	Files []string // by which it joins its group
	Bytes int
	Dense bool // what it fills memory with does not compress; else to a third or so
}

// occupy fills memory, says so, and once it is asked to says whether it is as it was.
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
	held := make([]byte, o.Bytes&^7)
	draw := func(do func(at int, b byte) bool) bool {
		r := rand.NewPCG(1, 2)
		for at := 0; at < len(held); at += 8 {
			v := r.Uint64()
			if !o.Dense && at%32 != 0 {
				v = 0
			}
			for i := 0; i < 8; i, v = i+1, v>>8 {
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

// occupying starts one in a group.
func occupying(t *testing.T, group string, bytes int, dense bool) (*exec.Cmd, io.Writer, *bufio.Scanner) {
	t.Helper()
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	inner := layout.At(filepath.Join(platform.CgroupParent, group, fmt.Sprintf("occupant-%d", serial())))
	if err := inner.Create(controllers(layout)...); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(occupantOrders{inner.ProcessFiles(), bytes, dense})
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
	return cmd, in, bufio.NewScanner(out)
}

// occupied starts one in a group and waits until it has filled its memory.
func occupied(t *testing.T, group string, bytes int) *occupant {
	t.Helper()
	_, in, out := occupying(t, group, bytes, false)
	o := &occupant{in, out}
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
	for _, dir := range []string{swapDirectory, extendDirectory} {
		files, err := filepath.Glob(filepath.Join(state, dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, files...)
	}
	lines = append(lines, extenders(t, filepath.Join(state, extendDirectory, s.Name))...)
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	beside, _ := extenderGroup(layout, s.Name)
	for _, p := range append(layout.At(filepath.Join(platform.CgroupParent, s.Name)).Places, beside.Places...) {
		if _, err := os.Stat(p.Dir()); p.Path != "" && err == nil {
			lines = append(lines, p.Dir())
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// extenders are the processes of a directory's daemon, and of its guard.
func extenders(t *testing.T, dir string) (lines []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), dir+"/") {
			lines = append(lines, filepath.Dir(file)+" "+strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return lines
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

// stateDirectory is where swap files of tests lie, and the ledger of what these make.
func stateDirectory(t *testing.T) string {
	t.Helper()
	if runDirectory == "" {
		t.Skip("boxes need root")
	}
	if _, err := swap.Room(runDirectory); err != nil {
		t.Skip(err)
	}
	return runDirectory
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
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := b.Remove(ctx); err != nil {
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
			if kind == platform.SwapZswap {
				needsOwnKernel(t)
			}
			state := stateDirectory(t)
			s := spec(t, kind)
			found := surroundings(t, state, s)
			b := made(t, New(Options{Ledger: runLedger, StateDir: state, Disruptive: true}), s)
			before := read(t, b)
			o := occupied(t, b.Group(platform.Idle), 300<<20)
			// The kernel brings a group's figures up to date every two seconds.
			filled := read(t, b)
			for range 100 {
				if filled.Classes[platform.Idle].Swapped >= 300<<20-s.Memory {
					break
				}
				time.Sleep(100 * time.Millisecond)
				filled = read(t, b)
			}
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
			} else if layout, err := cgroup.Host(); err == nil && (kind == platform.SwapZRAM || !unified(layout)) {
				// The limit follows, some steps behind.
				await(t, b, "the limit does not follow the pool", func(r platform.BoxReading, err error) bool {
					return err == nil && r.Limit+r.Pool <= s.Memory+2*coarse && r.Limit+r.Pool >= s.Memory-2*coarse
				})
			}
			remove(t, b)
			if left := surroundings(t, state, s); left != found {
				t.Errorf("found:\n%s\nleft:\n%s", found, left)
			}
		})
	}
}

// await reads a box until what is read is as wanted, for as long as the test may take.
func await(t *testing.T, b platform.Box, what string, wanted func(platform.BoxReading, error) bool) platform.BoxReading {
	t.Helper()
	r, ok := reads(t, b, time.Minute, wanted)
	if !ok {
		_, err := b.Read(t.Context())
		t.Fatalf("%s: %+v, %+v, %v", what, r, r.Extension, err)
	}
	return r
}

// reads reads a box until what it reads is wanted, or for so long.
func reads(t *testing.T, b platform.Box, limit time.Duration, wanted func(platform.BoxReading, error) bool) (platform.BoxReading, bool) {
	t.Helper()
	end := time.After(limit)
	for {
		r, err := b.Read(t.Context())
		if wanted(r, err) {
			return r, true
		}
		select {
		case <-end:
			return r, false
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// What a protection keeps: the critical class' pages stay, or room stays free.
func TestProtections(t *testing.T) {
	const critical, idle = 64 << 20, 300 << 20
	for _, protect := range []platform.Protection{platform.ProtectSwappiness, platform.ProtectLimit, platform.ProtectHeadroom} {
		t.Run(string(protect), func(t *testing.T) {
			s := spec(t, platform.SwapFile)
			s.Protect = protect
			if protect == platform.ProtectLimit {
				s.Reserve = 2 * critical
			}
			b := made(t, New(Options{Ledger: runLedger, StateDir: stateDirectory(t)}), s)
			first := occupied(t, b.Group(platform.Critical), critical)
			// Version 2 hands no protection down: the keeper does, which is to be before memory
			// is asked for beside it.
			if m := b.(*madeBox); m.protectsBelow() {
				below, err := m.class(platform.Critical).Below("memory")
				if err != nil || len(below) == 0 {
					t.Fatalf("the critical class has no groups below: %v", err)
				}
				// One that has no memory of its own, as each has while it is made.
				if err := os.Mkdir(filepath.Join(below[0].Places[0].Dir(), "without"), 0o755); err != nil {
					t.Fatal(err)
				}
				want := strconv.FormatInt(wholePages(s.Memory), 10)
				await(t, b, "an instance's group is not protected", func(platform.BoxReading, error) bool {
					have, err := os.ReadFile(filepath.Join(below[0].Places[0].Dir(), "memory.low"))
					return err == nil && strings.TrimSpace(string(have)) == want
				})
			}
			second := occupied(t, b.Group(platform.Idle), idle)
			switch protect {
			case platform.ProtectHeadroom:
				// What it reclaims is reported once it has: it may be at it still.
				await(t, b, "headroom is not kept, or what that takes is not reported", func(r platform.BoxReading, err error) bool {
					free := s.Memory - r.Classes[platform.Critical].Resident - r.Classes[platform.Idle].Resident
					return err == nil && free >= Headroom(s.Memory) && r.Keeper > 0 && r.Reclaiming > 0
				})
			case platform.ProtectLimit:
				if r := read(t, b); r.Classes[platform.Idle].Resident > s.Memory-s.Reserve || r.Classes[platform.Critical].Swapped > 0 {
					t.Errorf("beside a limited class: %+v", r)
				}
			default:
				// The kernel brings memory.stat up to date each two seconds at the latest: it may
				// still tell of the moment before anything left.
				r := await(t, b, "nothing of the class beside one that is kept from swap has left", func(r platform.BoxReading, err error) bool {
					return err == nil && r.Classes[platform.Idle].Swapped > 0
				})
				if r.Classes[platform.Critical].Swapped > 0 {
					t.Errorf("of a class that is kept from swap: %+v", r)
				}
			}
			first.unharmed(t)
			second.unharmed(t)
			if r := read(t, b); len(r.Notes) > 0 {
				t.Logf("notes: %q", r.Notes)
			}
		})
	}
}

// A critical program that the OOM killer has ended is a danger, and stays one; an idle
// one that it ended is not.
func TestTheOOMKillerAmongTheCritical(t *testing.T) {
	s := spec(t, platform.SwapNone)
	s.Memory = 32 << 20
	b := made(t, New(Options{Ledger: runLedger, StateDir: t.TempDir()}), s)
	died := func(c platform.Class) func(platform.BoxReading, error) bool {
		return func(r platform.BoxReading, _ error) bool { return r.Classes[c].OOMKills > 0 }
	}
	outgrown(t, b.Group(platform.Idle), 64<<20)
	await(t, b, "nobody was killed", died(platform.Idle))
	if _, err := b.Read(t.Context()); err != nil {
		t.Errorf("for an idle program that was killed: %v", err)
	}
	outgrown(t, b.Group(platform.Critical), 64<<20)
	await(t, b, "nobody critical was killed", died(platform.Critical))
	for range 2 {
		endangered := new(platform.Endangered)
		if r, err := b.Read(t.Context()); !errors.As(err, &endangered) || r.Limit != s.Memory {
			t.Errorf("%+v, %v, want a reading and an *Endangered", r, err)
		}
	}
}

// outgrown runs an occupant that takes more than there is.
func outgrown(t *testing.T, group string, bytes int) {
	t.Helper()
	cmd, _, _ := occupying(t, group, bytes, false)
	if err := cmd.Wait(); err == nil {
		t.Error("a program outgrew its box and lives")
	}
}

// A swap area that fills is a danger before it is full.
func TestASwapAreaThatFills(t *testing.T) {
	s := spec(t, platform.SwapFile)
	s.Memory, s.SwapSize = 64<<20, s.SwapSize-320<<20
	b := made(t, New(Options{Ledger: runLedger, StateDir: stateDirectory(t)}), s)
	occupied(t, b.Group(platform.Idle), int(s.Memory+s.SwapSize*9/10))
	// Little by little, by less than lies between danger and the end: where the OOM killer comes
	// before anybody looks, there is room again.
	m := b.(*madeBox)
	for {
		area, _, err := m.ground.swap.Area(m.area.path)
		if err != nil {
			t.Fatal(err)
		}
		if float64(area.Used) > FullSwap*float64(area.Size) {
			break
		}
		_, _, said := occupying(t, b.Group(platform.Idle), 1<<20, false)
		said.Scan()
	}
	// The box finds it by itself, and whoever reads it then reads the same.
	for end := time.Now().Add(time.Minute); m.Danger() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing was said of a full swap area")
		}
	}
	if _, err := b.Read(t.Context()); !errors.As(err, new(*platform.Endangered)) {
		t.Errorf("it is in danger, and a reading says %v", err)
	}
}

// Compressed swap gains nothing of what does not compress: the box has then no memory
// left but the pool, which is a danger.
func TestWhatDoesNotCompress(t *testing.T) {
	s := spec(t, platform.SwapZRAM)
	s.Memory = 64 << 20
	b := made(t, New(Options{Ledger: runLedger, StateDir: t.TempDir()}), s)
	occupying(t, b.Group(platform.Idle), 192<<20, true)
	r := await(t, b, "nothing was said of a pool as large as the box", func(_ platform.BoxReading, err error) bool {
		endangered := new(platform.Endangered)
		return errors.As(err, &endangered)
	})
	if r.Pool < s.Memory-2*Smallest {
		t.Errorf("in danger with %+v", r)
	}
}

// What others set meanwhile is reported, and left as they set it.
func TestWhatOthersSetMeanwhileStays(t *testing.T) {
	needsOwnKernel(t)
	cluster := swap.Host{}.PageCluster()
	found, err := cluster.Read()
	if err != nil {
		t.Skip(err)
	}
	n, err := strconv.Atoi(found)
	if err != nil {
		t.Fatal(err)
	}
	s := spec(t, platform.SwapNone)
	s.PageCluster = n + 1
	b := made(t, New(Options{Ledger: runLedger, StateDir: t.TempDir(), Disruptive: true}), s)
	if have, err := cluster.Read(); err != nil || have != strconv.Itoa(n+1) {
		t.Errorf("page-cluster is %s (%v), want %d", have, err, n+1)
	}
	restore, err := cluster.Set(strconv.Itoa(n + 2))
	if err != nil {
		t.Fatal(err)
	}
	if r := read(t, b); !strings.Contains(strings.Join(r.Notes, "\n"), "no longer") {
		t.Errorf("notes: %q, want that page-cluster was set by somebody else", r.Notes)
	}
	remove(t, b)
	if have, err := cluster.Read(); err != nil || have != strconv.Itoa(n+2) {
		t.Errorf("page-cluster is %s (%v) afterwards, want what somebody else set", have, err)
	}
	// Back to what this test found, over the box's own value.
	if err := restore(); err != nil {
		t.Error(err)
	}
	if _, err := cluster.Set(found); err != nil {
		t.Error(err)
	}
}

// Two boxes of one name cannot be, and the second leaves the first alone.
func TestABoxThatIsThere(t *testing.T) {
	s := spec(t, platform.SwapNone)
	m := New(Options{Ledger: runLedger, StateDir: t.TempDir()})
	b := made(t, m, s)
	if _, err := m.Make(t.Context(), s); err == nil {
		t.Error("made twice")
	}
	read(t, b)
}

// ownKernelVariable says that these tests have a kernel of their own, as in a virtual
// machine, which they may run out of memory.
const ownKernelVariable = "TARE_TEST_OWN_KERNEL"

func ownKernel() bool { return os.Getenv(ownKernelVariable) != "" }

// needsOwnKernel is for what sets what every program on the host has.
func needsOwnKernel(t *testing.T) {
	t.Helper()
	if !ownKernel() {
		t.Skip("this changes settings of the kernel's for all of the host: in a virtual machine, set " + ownKernelVariable)
	}
}

// A machine as the box: nothing bounds it but what it has.
func TestAMachine(t *testing.T) {
	if !ownKernel() {
		t.Skip("a machine as the box takes all memory of its kernel: in a virtual machine, set " + ownKernelVariable)
	}
	// What files hold counts as available, and yet the kernel may swap before it gives that up.
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		t.Fatal(err)
	}
	total, available, err := ground{}.memory()
	if err != nil {
		t.Fatal(err)
	}
	s := spec(t, platform.SwapFile)
	s.Kind, s.Memory = platform.BoxMachine, total
	state := stateDirectory(t)
	found := surroundings(t, state, s)
	b := made(t, New(Options{Ledger: runLedger, StateDir: state, Own: true}), s)
	first := occupied(t, b.Group(platform.Critical), 16<<20)
	second := occupied(t, b.Group(platform.Idle), int(available)+128<<20)
	r := read(t, b)
	if r.Limit != total || r.Classes[platform.Idle].Swapped < 64<<20 || r.SwapUsed < 64<<20 {
		t.Errorf("of a machine with %d MiB: %+v", total>>20, r)
	}
	first.unharmed(t)
	second.unharmed(t)
	remove(t, b)
	if left := surroundings(t, state, s); left != found {
		t.Errorf("found:\n%s\nleft:\n%s", found, left)
	}
}

// What this host has not the disk for, or the memory, is refused in one line that says
// how much is wanted and there, and before anything is made.
func TestWhatDoesNotFitIsRefused(t *testing.T) {
	disk, memory, elsewhere := spec(t, platform.SwapFile), spec(t, platform.SwapNone), spec(t, platform.SwapFile)
	disk.SwapSize, memory.Memory = 1<<42, 1<<50
	for name, c := range map[string]struct {
		spec  platform.BoxSpec
		state string
		want  []string
	}{
		"disk":           {disk, stateDirectory(t), []string{"4194304 MiB", "left"}},
		"memory":         {memory, t.TempDir(), []string{"1073741824 MiB", "to give"}},
		"swap in memory": {elsewhere, "/dev/shm", []string{"/dev/shm", "tmpfs"}},
	} {
		b, err := New(Options{Ledger: runLedger, StateDir: c.state}).Make(t.Context(), c.spec)
		if b != nil {
			t.Errorf("%s: it was made", name)
		}
		missing := new(platform.Missing)
		if !errors.As(err, &missing) {
			t.Errorf("%s: %v, want a *platform.Missing", name, err)
			continue
		}
		for _, want := range append(c.want, "") {
			if text := err.Error(); !strings.Contains(text, want) || strings.Contains(text, "\n") {
				t.Errorf("%s: %q, want one line with %q", name, text, want)
			}
		}
		if left, err := filepath.Glob(filepath.Join(c.state, swapDirectory, "*")); err != nil || len(left) > 0 {
			t.Errorf("%s: left %q, %v", name, left, err)
		}
	}
}

// Pressure of programs that are elsewhere in the version 2 hierarchy is not reported as the
// box's, nor taken for somebody else's.
func TestProgramsThatAreAstray(t *testing.T) {
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	if _, ok := layout.Unified(); !ok || unified(layout) {
		t.Skip("memory and pressure are of one hierarchy here, or there is none with pressure")
	}
	s := spec(t, platform.SwapNone)
	b := made(t, New(Options{Ledger: runLedger, StateDir: t.TempDir()}), s)
	const figure = "classes.idle.pressure_some_ns"
	cmd, _, _ := occupying(t, b.Group(platform.Idle), 1<<20, false)
	in := layout.At(filepath.Join(platform.CgroupParent, b.Group(platform.Idle)))
	await(t, b, "nobody is in it", func(r platform.BoxReading, err error) bool {
		return err == nil && r.Classes[platform.Idle].Anonymous >= 1<<20
	})
	if pid, err := astray(in); err != nil || pid != 0 {
		t.Errorf("process %d is astray (%v), and is in its groups", pid, err)
	}
	if why := read(t, b).Absent[figure]; strings.Contains(why, "elsewhere") {
		t.Errorf("pressure is absent: %s", why)
	}
	two, _, _ := layout.Of(os.Getpid())
	for _, p := range two.Places {
		if p.Version == 2 {
			if err := (cgroup.Group{Places: []cgroup.Place{p}}).Add(cmd.Process.Pid); err != nil {
				t.Fatal(err)
			}
		}
	}
	if pid, err := astray(in); err != nil || pid != cmd.Process.Pid {
		t.Errorf("process %d is astray (%v), want %d", pid, err, cmd.Process.Pid)
	}
	if why := read(t, b).Absent[figure]; !strings.Contains(why, "elsewhere") {
		t.Errorf("pressure is reported of a program that is not there: %q", why)
	}
}
