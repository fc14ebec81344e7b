package swap

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/kernel/procfs"
)

// This test binary is also the program whose pages leave memory.
const holderEnv = "TARE_SWAP_TEST_HOLD"

func TestMain(m *testing.M) {
	if size := os.Getenv(holderEnv); size != "" {
		if err := hold(size); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// hold fills as much memory, a step for each line that it reads: fills it, and checks
// that every page holds what was put there. No two pages are alike, nor of one word.
func hold(text string) error {
	size, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	orders := bufio.NewScanner(os.Stdin)
	orders.Scan() // in its group by now
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	value := func(at int) uint64 { return uint64(at+1) * 0x9e3779b97f4a7c15 }
	for at := 0; at < size; at += 8 {
		binary.NativeEndian.PutUint64(b[at:], value(at))
	}
	fmt.Println("filled")
	for orders.Scan() {
		for at := 0; at < size; at += 8 {
			if have := binary.NativeEndian.Uint64(b[at:]); have != value(at) {
				return fmt.Errorf("at %d there is %#x, and %#x was put there", at, have, value(at))
			}
		}
		fmt.Println("unharmed")
	}
	return nil
}

// holder is that program, in a group of its own.
type holder struct {
	in    io.WriteCloser
	out   *bufio.Scanner
	group string // its directory
}

// order gives it the word to go on and waits for its answer.
func (h *holder) order(t *testing.T, want string) {
	t.Helper()
	if _, err := io.WriteString(h.in, "\n"); err != nil {
		t.Fatal(err)
	}
	if !h.out.Scan() || h.out.Text() != want {
		t.Fatalf("the program says %q, want %q (%v)", h.out.Text(), want, h.out.Err())
	}
}

// startHolder starts one that may have half of what it fills.
func startHolder(t *testing.T, size int) *holder {
	t.Helper()
	group := memoryGroup(t, size/2)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderEnv+"="+strconv.Itoa(size))
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
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if err := put(filepath.Join(group, "cgroup.procs"), strconv.Itoa(cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	return &holder{in, bufio.NewScanner(out), group}
}

// memoryGroup makes a control group with that limit, of either version.
func memoryGroup(t *testing.T, limit int) string {
	t.Helper()
	mounts, err := procfs.Host.Process(os.Getpid()).Mounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		file := ""
		switch {
		case m.FSType == "cgroup" && strings.Contains(","+strings.Join(m.SuperOptions, ",")+",", ",memory,"):
			file = "memory.limit_in_bytes"
		case m.FSType == "cgroup2":
			file = "memory.max"
		default:
			continue
		}
		dir := filepath.Join(m.Point, fmt.Sprintf("tare-swap-test-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := put(filepath.Join(dir, file), strconv.Itoa(limit)); err != nil {
			os.Remove(dir) // of a hybrid host's tree without controllers
			continue
		}
		t.Cleanup(func() { removeGroup(t, dir) })
		return dir
	}
	t.Skip("no memory controller")
	return ""
}

// removeGroup removes a group whose last process has been reaped, and may still be
// being torn down, which makes no event.
func removeGroup(t *testing.T, dir string) {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		err := os.Remove(dir)
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			t.Error(err)
			return
		}
	}
}

// use puts an area to use before all others, until the end of the test.
func use(t *testing.T, path string) Area {
	t.Helper()
	areas, err := Host{}.Areas()
	if err != nil {
		t.Skip(err)
	}
	priority, err := PriorityAbove(areas)
	if err != nil {
		t.Skip(err)
	}
	var refused *Refused
	if err := On(path, priority, DiscardNever); errors.As(err, &refused) && errors.Is(err, unix.EPERM) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, on, _ := (Host{}).Area(path); on {
			if err := Off(context.Background(), path); err != nil {
				t.Error(err)
			}
		}
	})
	a, ok, err := Host{}.Area(path)
	if err != nil || !ok || a.Priority != priority || a.Used != 0 {
		t.Fatalf("put to use with priority %d: %+v, %v, %v", priority, a, ok, err)
	}
	return a
}

// swapThrough has a program's pages leave to an area and come back.
func swapThrough(t *testing.T, path string, size int, left func(used int64)) {
	t.Helper()
	before, err := Host{}.VMStat()
	if err != nil {
		t.Fatal(err)
	}
	h := startHolder(t, size)
	h.order(t, "filled")
	a, ok, err := Host{}.Area(path)
	if err != nil || !ok {
		t.Fatalf("%+v, %v, %v", a, ok, err)
	}
	alone(t, a)
	// Half of it cannot be in memory.
	if a.Used < int64(size/2) {
		t.Errorf("%d bytes are in the area, want half of %d or more", a.Used, size)
	}
	left(a.Used)
	h.order(t, "unharmed")
	after, err := Host{}.VMStat()
	if err != nil {
		t.Fatal(err)
	}
	page := int64(os.Getpagesize())
	out, in := (after.PSwpOut-before.PSwpOut)*page, (after.PSwpIn-before.PSwpIn)*page
	if out < a.Used || in < int64(size/2) || after.PgMajFault == before.PgMajFault {
		t.Errorf("%d bytes out, %d in, of %d that were in the area; %d major faults", out, in, a.Used, after.PgMajFault-before.PgMajFault)
	}
	// With the limit away it all fits, and taking the area out of use brings it back.
	for _, file := range []string{"memory.max", "memory.limit_in_bytes"} {
		if _, err := os.Stat(filepath.Join(h.group, file)); err == nil {
			if err := put(filepath.Join(h.group, file), strconv.Itoa(4*size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := Off(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if _, on, err := (Host{}).Area(path); on || err != nil {
		t.Errorf("still in use (%v)", err)
	}
	h.order(t, "unharmed")
}

// alone skips a test where others on the host have pages go elsewhere meanwhile.
func alone(t *testing.T, ours Area) {
	t.Helper()
	if z, err := (Host{}).Zswap(); err == nil && z.Enabled {
		t.Skip("zswap is enabled, and pages go there first")
	}
	areas, err := Host{}.Areas()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range areas {
		if a.Path != ours.Path && a.Priority >= ours.Priority {
			t.Skipf("pages go to %s too: its priority is %d, and that of the test's is %d", a.Path, a.Priority, ours.Priority)
		}
	}
}

func TestSwapFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("swapon needs root")
	}
	path := filepath.Join(onDisk(t), "swap file") // the kernel escapes the blank
	const size = 64 << 20
	if err := CreateFile(t.Context(), path, size); err != nil {
		t.Fatal(err)
	}
	device, absent := Host{}.Below(path)
	var before DeviceIO
	if absent == nil {
		var err error
		if before, err = (Host{}).IO(device); err != nil {
			t.Fatal(err)
		}
	}
	if a := use(t, path); a.Size != size-int64(os.Getpagesize()) || !a.File {
		t.Errorf("%+v", a)
	}
	var refused *Refused
	if err := On(path, 1, DiscardNever); !errors.As(err, &refused) || !errors.Is(err, unix.EBUSY) {
		t.Errorf("put to use twice: %v", err)
	}
	swapThrough(t, path, size, func(used int64) {
		if absent != nil {
			t.Log(absent)
			return
		}
		after, err := Host{}.IO(device)
		if err != nil {
			t.Fatal(err)
		}
		// What is still on its way is in memory, but counts as used.
		if after.WrittenBytes == before.WrittenBytes {
			t.Errorf("%d bytes are in the area, and none was written to %s", used, device)
		}
	})
	if err := Off(t.Context(), path); !errors.As(err, &refused) || !errors.Is(err, unix.EINVAL) {
		t.Errorf("taken out of use twice: %v", err)
	}
}

// A file as it is made is taken by each file system that is said to hold one, on a disk
// of its own: a file, through a loop device.
func TestOnEachFileSystem(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	for _, name := range []string{"ext2", "ext4", "xfs", "btrfs"} {
		t.Run(name, func(t *testing.T) {
			mkfs, err := exec.LookPath("mkfs." + name)
			if err != nil {
				t.Skip(err)
			}
			dir := t.TempDir()
			disk, at := filepath.Join(dir, "disk"), filepath.Join(dir, "mounted")
			if err := os.WriteFile(disk, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(disk, 512<<20); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(mkfs, disk).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if err := os.Mkdir(at, 0o755); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("mount", "-o", "loop", disk, at).CombinedOutput(); err != nil {
				t.Skipf("%v: %s", err, out)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(at, 0); err != nil {
					t.Error(err)
				}
			})
			path := filepath.Join(at, "swap")
			if err := CreateFile(t.Context(), path, 16<<20); err != nil {
				t.Fatal(err)
			}
			if a := use(t, path); a.Size != 16<<20-int64(os.Getpagesize()) {
				t.Errorf("%+v", a)
			}
			device, err := Host{}.Below(path)
			var none *NoDevice
			if errors.As(err, &none) != (name == "btrfs") || err != nil && none == nil {
				t.Errorf("below it is %v, %v", device, err)
			}
		})
	}
}

// What does not fit below the limit of a group does not come back: the program there
// loses its life to that, and who takes the area out of use learns of it.
func TestOffThatDoesNotFit(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("swapon needs root")
	}
	if others, err := (Host{}).Areas(); err != nil || len(others) > 0 {
		t.Skipf("needs a host without swap of its own, where pages find no other place: %v %v", others, err)
	}
	path := filepath.Join(onDisk(t), "swap")
	const size = 64 << 20
	if err := CreateFile(t.Context(), path, size); err != nil {
		t.Fatal(err)
	}
	use(t, path)
	h := startHolder(t, size)
	h.order(t, "filled")
	var refused *Refused
	if err := Off(t.Context(), path); !errors.As(err, &refused) || !errors.Is(err, unix.ENOMEM) || refused.Path != path {
		t.Errorf("%v, want ENOMEM", err)
	}
	if _, on, err := (Host{}).Area(path); !on || err != nil {
		t.Errorf("out of use all the same (%v)", err)
	}
	if h.out.Scan() {
		t.Errorf("the program lives, and says %q", h.out.Text())
	}
}

func TestNoArea(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("swapon needs root")
	}
	dir := onDisk(t)
	var refused *Refused
	path := filepath.Join(dir, "none")
	if err := On(path, 0, DiscardNever); !errors.As(err, &refused) || !errors.Is(err, unix.ENOENT) {
		t.Errorf("what is not there: %v", err)
	}
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := On(path, 0, DiscardNever); !errors.As(err, &refused) || !errors.Is(err, unix.EINVAL) {
		t.Errorf("without a header: %v", err)
	}
	// A header alone, and then a hole.
	holed := filepath.Join(dir, "holed")
	const size = 4 << 20
	b, err := header(size, os.Getpagesize())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(holed, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(holed, size); err != nil {
		t.Fatal(err)
	}
	if err := On(holed, 0, DiscardNever); !errors.As(err, &refused) || !errors.Is(err, unix.EINVAL) {
		t.Errorf("with holes: %v", err)
	}
	if err := Fill(t.Context(), holed); err != nil {
		t.Fatal(err)
	}
	use(t, holed)
	if err := On(path, MaxPriority+1, DiscardNever); err == nil || errors.As(err, &refused) {
		t.Errorf("a priority that there is not: %v", err)
	}
}

func TestSwapToZRAM(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("adding a zram device needs root")
	}
	h := Host{}
	if err := h.HasZRAM(); err != nil {
		t.Skip(err)
	}
	const size = 64 << 20
	z, err := h.AddZRAM(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.RemoveZRAM(z); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(h.zramFile(z, "disksize")); err == nil {
			t.Errorf("%s is left", z.Device())
		}
	})
	if err := h.ConfigureZRAM(z, "no such"); err == nil || !strings.Contains(err.Error(), "lz") {
		t.Errorf("%v, want the compressors named", err)
	}
	algorithms, err := h.ZRAMAlgorithms(z)
	if err != nil || len(algorithms) == 0 {
		t.Fatalf("%v, %v", algorithms, err)
	}
	last := algorithms[len(algorithms)-1]
	if err := h.ConfigureZRAM(z, last); err != nil {
		t.Fatal(err)
	}
	if now, err := h.ZRAMAlgorithms(z); err != nil || now[0] != last {
		t.Errorf("%v, %v, want %s in force", now, err, last)
	}
	var other *NotOurs
	if err := h.ConfigureZRAM(z, last); !errors.As(err, &other) || other.Have != size {
		t.Errorf("configured twice: %v", err)
	}
	if err := h.RemoveZRAM(ZRAM{ID: z.ID, Size: size / 2}); !errors.As(err, &other) {
		t.Errorf("removing one of another size: %v", err)
	}
	use(t, z.Device())
	if err := h.RemoveZRAM(ZRAM{ID: z.ID, Size: size, Sequence: z.Sequence + 1}); !errors.As(err, &other) {
		t.Errorf("a device that came later: %v, want a *NotOurs", err)
	}
	if err := h.RemoveZRAM(z); !errors.Is(err, unix.EBUSY) {
		t.Errorf("removing one in use: %v", err)
	}
	swapThrough(t, z.Device(), size, func(used int64) {
		stat, err := h.ZRAMStat(z)
		if err != nil || stat.OrigDataSize == 0 || stat.MemUsedTotal < stat.ComprDataSize || stat.ComprDataSize == 0 {
			t.Errorf("%d bytes in the area, and the device has %+v (%v)", used, stat, err)
		}
	})
}

func TestSwapThroughZswap(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("enabling zswap needs root")
	}
	h := Host{}
	found, err := h.Zswap()
	if err != nil {
		t.Skip(err)
	}
	if found.Enabled {
		t.Skip("zswap is enabled already, and what is in its pool is others'")
	}
	path := filepath.Join(onDisk(t), "swap")
	const size = 64 << 20
	if err := CreateFile(t.Context(), path, size); err != nil {
		t.Fatal(err)
	}
	changes, err := h.ChangeZswap(Zswap{Enabled: true, MaxPoolPercent: 1 + found.MaxPoolPercent%50})
	if err != nil || len(changes) != 2 {
		t.Fatalf("%+v, %v", changes, err)
	}
	t.Cleanup(func() {
		if now, err := h.Zswap(); now != found || err != nil {
			t.Errorf("%+v (%v) is left, and %+v was there", now, err, found)
		}
	})
	for _, c := range changes {
		if err := c.Make(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Undo(); err != nil {
				t.Error(err)
			}
		})
	}
	use(t, path)
	before, err := h.VMStat()
	if err != nil {
		t.Fatal(err)
	}
	holder := startHolder(t, size)
	holder.order(t, "filled")
	pool, err := h.ZswapPool()
	if none := new(NoZswap); errors.As(err, &none) {
		t.Skip(err)
	}
	after, failing := h.VMStat()
	if err != nil || failing != nil || pool.Stored == 0 || pool.Held == 0 || after.ZswpOut == before.ZswpOut {
		t.Errorf("the pool has %+v (%v), and %d pages went there (%v)", pool, err, after.ZswpOut-before.ZswpOut, failing)
	}
	holder.order(t, "unharmed")
}

func TestNoZRAM(t *testing.T) {
	var none *NoZRAM
	if _, err := fake(t, nil).AddZRAM(1 << 20); !errors.As(err, &none) {
		t.Error(err)
	}
	// Gone already, by a restart of the host.
	if err := fake(t, nil).RemoveZRAM(ZRAM{ID: 7, Size: 1 << 20}); err != nil {
		t.Error(err)
	}
}
