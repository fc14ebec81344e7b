package vm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare/image"
	"tare/kernel/cgroup"
	"tare/kernel/netns"
	"tare/kernel/process"
	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/held"
)

// book is a ledger in memory.
type book struct {
	mu     sync.Mutex
	open   map[int]platform.Entry
	n      int
	refuse int // the number of the entry that is refused, from 1
	tell   func(platform.Entry)
}

var errFull = errors.New("the ledger is full")

func (b *book) Add(e platform.Entry) (func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	if b.n == b.refuse {
		return nil, errFull
	}
	if b.open == nil {
		b.open = map[int]platform.Entry{}
	}
	n := b.n
	b.open[n] = e
	if b.tell != nil {
		b.tell(e)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.open, n)
	}, nil
}

func (b *book) entries() []platform.Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []platform.Entry
	for n := b.n; n > 0; n-- {
		if e, ok := b.open[n]; ok {
			all = append(all, e)
		}
	}
	return all
}

// there reports whether what an entry names is on the host.
func there(t *testing.T, e platform.Entry) bool {
	t.Helper()
	switch e.Kind {
	case held.Directory:
		_, err := os.Lstat(e.ID)
		return err == nil
	case held.Cgroup:
		layout, err := cgroup.Host()
		if err != nil {
			t.Fatal(err)
		}
		return layout.At(e.ID).Exists()
	case held.Link:
		mac, err := os.ReadFile(filepath.Join("/sys/class/net", e.ID, "address"))
		return err == nil && strings.TrimSpace(string(mac)) == e.Attrs[held.MAC]
	}
	t.Fatalf("a %s is entered in the ledger, which this test does not know", e.Kind)
	return false
}

// ready gives a platform with the suite's image prepared.
func ready(t *testing.T, name string, o PoolOptions) (*Platform, image.Image) {
	t.Helper()
	v := New(parse(t, name), newPool(t, o))
	skipMissing(t, v)
	img := conformance.Image(t)
	if err := v.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	return v, img
}

var sleeper = []string{"sleep", "3600"}

func launch(t *testing.T, v *Platform, spec platform.Spec) platform.Instance {
	t.Helper()
	inst, err := v.Launch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, inst) })
	return inst
}

func stop(t *testing.T, inst platform.Instance) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := inst.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

// engineProcess is the one of the pool's only machine.
func engineProcess(t *testing.T, p *Pool) *child {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) != 1 {
		t.Fatalf("%d machines, want one", len(p.all))
	}
	return p.all[0].engine.child
}

func TestAMachineKilledFromOutside(t *testing.T) {
	o := options(t, TCG)
	ledger := &book{}
	o.Ledger = ledger
	v, img := ready(t, "vm:tcg/bare", o)
	disks := len(ledger.entries())
	inst := launch(t, v, platform.Spec{Name: "killed", Image: img, Args: sleeper})
	made := ledger.entries()
	for _, e := range made {
		if !there(t, e) {
			t.Errorf("the %s %s is entered and not there", e.Kind, e.ID)
		}
	}
	if len(made) != disks+3 {
		t.Errorf("a machine entered %v; want its directory, control group and tap", made)
	}
	k := engineProcess(t, v.pool)
	if err := k.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := inst.Wait(t.Context()); !errors.Is(err, platform.ErrGone) || !strings.Contains(err.Error(), "vm:tcg+") {
		t.Errorf("Wait: %v, want one that wraps ErrGone and names the machine", err)
	}
	for what, err := range map[string]error{
		"InForce": second(inst.InForce()), "Usage": second(inst.Usage()), "Processes": second(inst.Processes()), "Signal": inst.Signal(15),
	} {
		if !errors.Is(err, platform.ErrGone) {
			t.Errorf("%s: %v, want one that wraps ErrGone", what, err)
		}
	}
	stop(t, inst)
	for _, e := range made {
		if e.Kind == held.Directory && strings.Contains(e.ID, "-image-") {
			continue // for the next machine
		}
		if there(t, e) {
			t.Errorf("the %s %s is left", e.Kind, e.ID)
		}
	}
	if left := ledger.entries(); len(left) != disks {
		t.Errorf("the ledger still has %v", left)
	}
	// And the next program has a machine of its own.
	again := launch(t, v, platform.Spec{Name: "next", Image: img, Args: []string{"true"}})
	if exit, err := again.Wait(t.Context()); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	stop(t, again)
	if err := v.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if left := ledger.entries(); len(left) != 0 {
		t.Errorf("released, and the ledger still has %v", left)
	}
}

func second[T any](_ T, err error) error { return err }

// A pinned machine is the vanilla one, held elsewhere; while nobody uses it, its time
// stands still.
func TestAMachineIsPinnedAndPaused(t *testing.T) {
	v, img := ready(t, "vm:tcg/bare", options(t, TCG))
	allowed, err := process.Affinity()
	if err != nil {
		t.Fatal(err)
	}
	one := allowed[len(allowed)-1]
	force := func(s platform.Setting) string {
		t.Helper()
		inst := launch(t, v, platform.Spec{Name: "pinned", Image: img, Args: sleeper, Setting: s})
		defer stop(t, inst)
		f, err := inst.InForce()
		if err != nil {
			t.Fatal(err)
		}
		m := v.pool.all[0]
		cpus, err := m.mayRun(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := allowed
		if s.CPUSet != "" {
			if want, err = platform.ParseCPUList(s.CPUSet); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(cpus, want) {
			t.Errorf("with %v its CPUs are on %v, want %v", s, cpus, want)
		}
		return f.CPUSet
	}
	vanilla, pinned := platform.Setting{CPUs: 1}, platform.Setting{CPUSet: fmt.Sprint(one)}
	if got := force(vanilla); got != "0" {
		t.Errorf("vanilla: inside it has %s, want the machine's one CPU", got)
	}
	if got := force(pinned); got != fmt.Sprint(one) {
		t.Errorf("pinned: in force is %s, want the host's %d", got, one)
	}
	// One CPU of the machine's, anywhere on several of the host's.
	if some := platform.FormatCPUList(allowed); len(allowed) > 1 {
		if got := force(platform.Setting{CPUs: 1, CPUSet: some}); got != some {
			t.Errorf("roaming: in force is %s, want the host's %s", got, some)
		}
	}
	force(vanilla)
	if boots := v.Boots(); len(boots) != 1 || len(boots[0].Phases) < 5 || boots[0].Ready <= 0 || boots[0].Clock.Within <= 0 {
		t.Errorf("the boots are %+v; want one, with its phases and clock", boots)
	}
	m := v.pool.all[0]
	var status struct{ Status string }
	if err := m.engine.monitor.Execute(t.Context(), "query-status", nil, &status); err != nil || status.Status != "paused" {
		t.Errorf("unused, the machine is %q (%v), want paused", status.Status, err)
	}
	if want := "an emulated virtual machine"; !strings.Contains(v.NotRepresentative(), want) {
		t.Errorf("%q does not say that it is %s", v.NotRepresentative(), want)
	}
	for _, want := range []string{"QEMU ", " tcg", "Linux 6"} {
		if version := v.Version(t.Context()); !strings.Contains(version, want) {
			t.Errorf("version %q lacks %q", version, want)
		}
	}
}

// What is in a container's machine after it, only bare metal in the same machine sees.
func TestNothingIsLeftInTheMachine(t *testing.T) {
	v, img := ready(t, "vm:tcg/oci", options(t, TCG))
	inst := launch(t, v, platform.Spec{Name: "leaver", Image: img, Args: []string{"sh", "-c", "setsid sleep 3600 & exec sleep 3600"},
		Env: []string{"MARK=leaver"}, Setting: platform.Setting{Network: platform.NetworkBridge, Storage: platform.StorageTmpfs}, Data: []string{"/data"}})
	stop(t, inst)
	witness := New(parse(t, "vm:tcg/bare"), v.pool)
	var out bytes.Buffer
	looks := launch(t, witness, platform.Spec{Name: "witness", Image: img, Stdout: &out, Stderr: &out, Args: []string{"sh", "-c",
		"for e in /proc/[0-9]*/environ; do tr '\\0' '\\n' < $e 2>/dev/null | grep -q '^MARK=leaver$' && echo process $e; done; grep leaver /proc/mounts; find /sys/fs/cgroup -name '*leaver*'; grep tare- /proc/net/dev; true"}})
	if exit, err := looks.Wait(t.Context()); err != nil || exit.Code != 0 || out.String() != "" {
		t.Errorf("%+v, %v; left in the machine:\n%s", exit, err, out.String())
	}
}

func TestALedgerThatRefusesLeavesNothing(t *testing.T) {
	o := options(t, TCG)
	ledger := &book{}
	o.Ledger = ledger
	v, img := ready(t, "vm:tcg/bare", o)
	before := ledger.entries()
	for step := 1; step <= 3; step++ {
		var entered []platform.Entry
		ledger.refuse, ledger.tell = ledger.n+step, func(e platform.Entry) { entered = append(entered, e) }
		_, err := v.Launch(t.Context(), platform.Spec{Name: "refused", Image: img, Args: sleeper})
		if !errors.Is(err, errFull) {
			t.Errorf("entry %d refused: %v", step, err)
		}
		if len(entered) != step-1 {
			t.Errorf("entry %d refused, after %v", step, entered)
		}
		for _, e := range entered {
			if there(t, e) {
				t.Errorf("entry %d refused: the %s %s is left", step, e.Kind, e.ID)
			}
		}
		if left := ledger.entries(); len(left) != len(before) {
			t.Errorf("entry %d refused: the ledger still has %v", step, left)
		}
	}
}

// A guest that never answers, and one that ends: bounded, with its last words, and
// nothing is left.
func TestAGuestThatDoesNotAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, p *Pool)
		says  []string
	}{
		"silent": {func(_ *testing.T, p *Pool) { p.options.Bound = 300 * time.Millisecond }, []string{"did not answer within 300ms"}},
		"panics": {func(t *testing.T, p *Pool) {
			b, err := p.bootFiles(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			empty := filepath.Join(t.TempDir(), "initrd")
			if err := os.WriteFile(empty, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			b.Initrd = empty
			p.files = &b
		}, []string{"its engine ended", "console's end", "Kernel panic"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, TCG)
			ledger := &book{}
			o.Ledger = ledger
			v, img := ready(t, "vm:tcg/bare", o)
			before := ledger.entries()
			c.spoil(t, v.pool)
			_, err := v.Launch(t.Context(), platform.Spec{Name: "never", Image: img, Args: sleeper})
			var failed *BootError
			if !errors.As(err, &failed) {
				t.Fatalf("%v, want a *BootError", err)
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nlacks %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			if left := ledger.entries(); len(left) != len(before) {
				t.Errorf("the ledger still has %v", left)
			}
		})
	}
}

func TestWithoutATapPortsAreForwarded(t *testing.T) {
	o := options(t, TCG)
	v, img := ready(t, "vm:tcg/bare", o)
	v.pool.makeTap = func(netns.Link, netip.Prefix) (*netns.Tap, error) {
		return nil, &os.PathError{Op: "open", Path: "/dev/net/tun", Err: syscall.EPERM}
	}
	inst := launch(t, v, platform.Spec{Name: "forwarded", Image: img, Args: []string{"httpd", "-f", "-p", "8080", "-h", "/www"}, Ports: []int{8080}})
	if at := inst.Address(8080); !strings.HasPrefix(at, "127.0.0.1:") {
		t.Errorf("it is reached at %s, want a forward of this host's", at)
	}
	notes := strings.Join(v.Boots()[0].Notes, "\n")
	if !strings.Contains(notes, "/dev/net/tun") || !strings.Contains(notes, "through its agent") {
		t.Errorf("the notes do not say so: %q", notes)
	}
}

func TestAnImageTooLargeIsRefusedByFigures(t *testing.T) {
	v := New(parse(t, "vm:tcg/bare"), newPool(t, PoolOptions{StateDir: t.TempDir()}))
	err := v.Prepare(t.Context(), image.Image{Name: "huge", Digest: "sha256:0", Root: t.TempDir(), Size: 1 << 50})
	if err == nil || !strings.Contains(err.Error(), "huge") || !strings.Contains(err.Error(), "1342177280 MiB") || !strings.Contains(err.Error(), "MiB left") {
		t.Errorf("%v", err)
	}
}

// What a host lacks is said before anything is made.
func TestWhatAHostLacks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("without root the lack is another")
	}
	t.Setenv("PATH", t.TempDir())
	v := New(parse(t, "vm:tcg/bare"), newPool(t, PoolOptions{StateDir: t.TempDir()}))
	var lack *platform.Missing
	if err := v.Check(t.Context()); !errors.As(err, &lack) || !strings.Contains(err.Error(), "apt-get install --no-install-recommends qemu-system-x86") {
		t.Errorf("without QEMU: %v", err)
	}
}

func TestAMachineThatTheHostCannotHold(t *testing.T) {
	p := newPool(t, PoolOptions{StateDir: t.TempDir()})
	p.host = func() (machineHost, error) { return machineHost{[]int{0}, 4 << 30}, nil }
	p.all = []*machine{{shape: shape{memory: 2 << 30}, users: 1}}
	if err := p.makeRoom(t.Context(), 1<<30); err != nil {
		t.Errorf("3g of 3g: %v", err)
	}
	if err := p.makeRoom(t.Context(), 2<<30); err == nil || !strings.Contains(err.Error(), "2g does not fit") {
		t.Errorf("4g of 3g: %v", err)
	}
	p.all = nil
}

// KVM that answers need not run a guest: that is tried once, and remembered.
func TestKVMIsTriedOnce(t *testing.T) {
	o := options(t, KVM)
	o.Bound = 10 * time.Second
	p := newPool(t, o)
	first := p.tryKVM(t.Context())
	if lack := new(platform.Missing); first != nil && !errors.As(first, &lack) {
		t.Fatal(first)
	}
	want := KVM
	if first != nil {
		want = TCG
	}
	if got := p.Resolve(t.Context(), parse(t, "vm/bare")).Engine; got != want {
		t.Errorf("vm/bare is by %s, want %s", got, want)
	}
	later := newPool(t, o)
	second := later.tryKVM(t.Context())
	if fmt.Sprint(second) != fmt.Sprint(first) || len(later.Boots()) > 0 {
		t.Errorf("asked again: %v, before %v; %d machines booted", second, first, len(later.Boots()))
	}
}

// A victim is this test's program, which boots a machine and is killed with SIGKILL.
const victimVar = "TARE_TEST_VM_VICTIM"

type victimOrder struct {
	State string
	Image image.Image
}

func TestWhatAKilledTareLeavesIsRemoved(t *testing.T) {
	if order := os.Getenv(victimVar); order != "" {
		beVictim(t, order)
		return
	}
	o := options(t, TCG)
	v, img := ready(t, "vm:tcg/bare", o) // makes what the victim boots from
	order, err := json.Marshal(victimOrder{o.StateDir, img})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), victimVar+"="+string(order), "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var entries []platform.Entry
	var engine process.Identity
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "entry "); ok {
			var e platform.Entry
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				t.Fatal(err)
			}
			entries = slices.Insert(entries, 0, e)
		}
		if text, ok := strings.CutPrefix(lines.Text(), "engine "); ok {
			pid, start, _ := strings.Cut(text, " ")
			if engine, err = process.ParseIdentity(pid, start); err != nil {
				t.Fatal(err)
			}
			break
		}
		if text, ok := strings.CutPrefix(lines.Text(), "failed "); ok {
			t.Fatal(text)
		}
	}
	if len(entries) < 4 || engine.PID == 0 {
		t.Fatalf("the victim entered %v, its engine is %v", entries, engine)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The engine ends by itself, with its parent.
	if h, err := engine.Open(); err == nil {
		if err := h.Await(t.Context()); err != nil {
			t.Error(err)
		}
		_ = h.Close()
	}
	remover := Remover(v.pool)
	for range 2 {
		for _, e := range entries {
			if e.Platform != Entered {
				t.Errorf("the %s %s is entered for %q", e.Kind, e.ID, e.Platform)
			}
			if err := remover.Remove(t.Context(), e); err != nil {
				t.Errorf("Remove %s %s: %v", e.Kind, e.ID, err)
			}
		}
	}
	for _, e := range entries {
		if there(t, e) {
			t.Errorf("the %s %s is left", e.Kind, e.ID)
		}
	}
}

func beVictim(t *testing.T, text string) {
	fail := func(err error) { fmt.Println("failed", strings.ReplaceAll(err.Error(), "\n", "; ")); t.FailNow() }
	var order victimOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		fail(err)
	}
	o := options(t, TCG)
	o.StateDir = order.State
	o.Ledger = &book{tell: func(e platform.Entry) {
		b, err := json.Marshal(e)
		if err != nil {
			fail(err)
		}
		fmt.Println("entry", string(b))
	}}
	v := New(parse(t, "vm:tcg/bare"), NewPool(o))
	if err := v.Prepare(context.Background(), order.Image); err != nil {
		fail(err)
	}
	if _, err := v.Launch(context.Background(), platform.Spec{Name: "victim", Image: order.Image, Args: sleeper}); err != nil {
		fail(err)
	}
	pid, start := engineProcess(t, v.pool).Strings()
	fmt.Println("engine", pid, start)
	select {}
}

func TestRemoveSparesWhatIsNotAMachines(t *testing.T) {
	v := Remover(NewPool(PoolOptions{StateDir: t.TempDir()}))
	outside := t.TempDir()
	for _, e := range []platform.Entry{
		{Kind: held.Directory, ID: outside}, {Kind: held.Directory, ID: "/"}, {Kind: held.Cgroup, ID: "/"},
		{Kind: held.Link, ID: "lo", Attrs: map[string]string{held.MAC: "02:00:00:00:00:01"}}, {Kind: "no-such-kind", ID: "x"},
	} {
		if err := v.Remove(t.Context(), e); err == nil {
			t.Errorf("the %s %s is not refused", e.Kind, e.ID)
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}
