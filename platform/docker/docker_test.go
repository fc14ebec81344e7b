package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"tare/image"
	"tare/kernel/cgroup"
	"tare/platform"
)

// notebook is a ledger in memory.
type notebook struct {
	mu      sync.Mutex
	entries []*platform.Entry
}

func (n *notebook) Add(e platform.Entry) (func(), error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.entries = append(n.entries, &e)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.entries = slices.DeleteFunc(n.entries, func(other *platform.Entry) bool { return other == &e })
	}, nil
}

func (n *notebook) open() []platform.Entry {
	n.mu.Lock()
	defer n.mu.Unlock()
	var open []platform.Entry
	for _, e := range n.entries {
		open = append(open, *e)
	}
	return open
}

// busybox is the test image, made once.
var busybox = sync.OnceValues(func() (image.Image, error) {
	store, err := image.OpenStore(filepath.Join(os.TempDir(), "tare-test-images"), nil)
	if err != nil {
		return image.Image{}, err
	}
	return store.Recipe(context.Background(), "busybox")
})

func testImage(t *testing.T) image.Image {
	t.Helper()
	img, err := busybox()
	if missing := new(image.Missing); errors.As(err, &missing) {
		t.Skipf("needs the busybox image: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// real is a platform on this host's engine, with the test image loaded.
func real(t *testing.T) (*Platform, *notebook, image.Image) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to read what is in force for a container's processes")
	}
	ledger := &notebook{}
	p := New(Options{StateDir: t.TempDir(), Ledger: ledger})
	if err := p.Check(t.Context()); err != nil {
		t.Skipf("needs an engine: %v", err)
	}
	img := testImage(t)
	t.Cleanup(func() {
		if err := p.Release(context.Background()); err != nil {
			t.Errorf("Release: %v", err)
		}
		if left := ledger.open(); len(left) > 0 {
			t.Errorf("left in the ledger: %v", left)
		}
	})
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	return p, ledger, img
}

var counter int

// launch starts a program that the test's end stops.
func launch(t *testing.T, p *Platform, spec platform.Spec) platform.Instance {
	t.Helper()
	inst, err := p.Launch(t.Context(), named(spec))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inst.Stop(context.Background()); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	return inst
}

func named(spec platform.Spec) platform.Spec {
	counter++
	if spec.Name == "" {
		spec.Name = fmt.Sprintf("test-%d-%d", os.Getpid(), counter)
	}
	return spec
}

func wait(t *testing.T, inst platform.Instance) platform.Exit {
	t.Helper()
	exit, err := inst.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

func TestOutputIsCompleteWhenWaitReturns(t *testing.T) {
	p, _, img := real(t)
	for range 5 {
		var stdout, stderr bytes.Buffer
		inst := launch(t, p, platform.Spec{
			Image: img, Stdout: &stdout, Stderr: &stderr,
			Args: []string{"sh", "-c", "seq 1 20000; echo last words >&2; exit 3"},
		})
		exit := wait(t, inst)
		if exit.Code != 3 {
			t.Errorf("exit code %d, want 3", exit.Code)
		}
		if got := strings.Count(stdout.String(), "\n"); got != 20000 {
			t.Errorf("%d lines, want 20000", got)
		}
		if stderr.String() != "last words\n" {
			t.Errorf("standard error %q", stderr.String())
		}
	}
}

func TestSurroundingsAreTheProgramsWhole(t *testing.T) {
	p, _, img := real(t)
	img.Config.Env, img.Config.WorkingDir = nil, ""
	var stdout bytes.Buffer
	inst := launch(t, p, platform.Spec{
		Image: img, Stdout: &stdout, Dir: "/tmp",
		Env:  []string{"LANG=de_DE.UTF-8", "EXTRA=1"},
		Args: []string{"/usr/bin/env"},
	})
	wait(t, inst)
	got := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	slices.Sort(got)
	want := []string{"EXTRA=1", "HOME=/", "HOSTNAME=tare", "LANG=de_DE.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
}

// sleeper is a program that stays, and says when it runs.
func sleeper(img image.Image, s platform.Setting, data ...string) platform.Spec {
	return platform.Spec{Image: img, Args: []string{"sleep", "1000"}, Setting: s, Data: data}
}

func TestSettingsAreInForce(t *testing.T) {
	p, _, img := real(t)
	force := func(t *testing.T, setting string, data ...string) platform.InForce {
		t.Helper()
		var s platform.Setting
		for _, pair := range strings.Fields(setting) {
			key, value, _ := strings.Cut(pair, "=")
			if err := s.Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		got, err := launch(t, p, sleeper(img, s, data...)).InForce()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	t.Run("default", func(t *testing.T) {
		f := force(t, "", "/data")
		if f.NetworkNS != "host" || f.RootFS != "overlay" || !slices.Equal(f.DataFS, []string{"overlay"}) || f.Seccomp != 2 {
			t.Errorf("%+v", f)
		}
		if f.OpenFiles != platform.Surroundings.OpenFiles || f.CoreSize != 0 || f.OOMScore != 0 {
			t.Errorf("limits %d %d, score %d", f.OpenFiles, f.CoreSize, f.OOMScore)
		}
		if f.Stdin != "/dev/null" {
			t.Errorf("standard input is %s", f.Stdin)
		}
		parent := platform.CgroupParent + "/"
		if !slices.ContainsFunc(f.Cgroups, func(line string) bool { return strings.Contains(line, parent) }) {
			t.Errorf("not below %s: %v", parent, f.Cgroups)
		}
		want := slices.Sorted(slices.Values(append([]string{"HOME=/", "LANG=C.UTF-8"}, platform.Surroundings.Env...)))
		if !slices.Equal(f.Env, want) {
			t.Errorf("environment %q, want %q", f.Env, want)
		}
	})
	t.Run("limits", func(t *testing.T) {
		f := force(t, "cpus=0.5 cpu-period=20ms cpu-shares=512 cpuset-cpus=0 memory=64m")
		if f.CPUQuota != 10*time.Millisecond || f.CPUPeriod != 20*time.Millisecond || f.CPUShares != 512 || f.CPUSet != "0" || f.Memory != 64<<20 {
			t.Errorf("%+v", f)
		}
	})
	t.Run("unconfined", func(t *testing.T) {
		if f := force(t, "seccomp=unconfined lsm=unconfined"); f.Seccomp != 0 {
			t.Errorf("seccomp mode %d, want 0", f.Seccomp)
		}
	})
	t.Run("none", func(t *testing.T) {
		if f := force(t, "network=none log-driver=none"); f.NetworkNS != "own" {
			t.Errorf("network namespace %s, want own", f.NetworkNS)
		}
	})
	for storage, isOverlay := range map[string]bool{"layer": true, "bind": false, "volume": false} {
		t.Run(storage, func(t *testing.T) {
			f := force(t, "storage="+storage, "/data", "/var/lib/other")
			if len(f.DataFS) != 2 || (f.DataFS[0] == "overlay") != isOverlay || f.DataFS[0] != f.DataFS[1] {
				t.Errorf("data on %v", f.DataFS)
			}
		})
	}
	t.Run("tmpfs", func(t *testing.T) {
		if f := force(t, "storage=tmpfs log-driver=local", "/data"); !slices.Equal(f.DataFS, []string{"tmpfs"}) {
			t.Errorf("data on %v", f.DataFS)
		}
	})
}

// withData is a copy of the image's root with files in /data, which the engine
// cannot know; only what tare copies in is tested with it.
func withData(t *testing.T, img image.Image) image.Image {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{"bin/sh", "bin/sleep"} { // which tare looks for, and the engine has
		if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "data"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "data", "seed"), []byte("from the image"), 0o640); err != nil {
		t.Fatal(err)
	}
	img.Root = root
	return img
}

func TestBoundDataStartsAsTheImageHasIt(t *testing.T) {
	p, _, img := real(t)
	for range 2 { // the second finds nothing of the first
		var stdout bytes.Buffer
		inst := launch(t, p, platform.Spec{
			Image: withData(t, img), Stdout: &stdout, Data: []string{"/data"},
			Setting: platform.Setting{Storage: platform.StorageBind},
			Args:    []string{"sh", "-c", "ls /data; cat /data/seed; stat -c ' %a' /data; echo more > /data/more"},
		})
		if exit := wait(t, inst); exit.Code != 0 {
			t.Fatalf("exit code %d", exit.Code)
		}
		if got := stdout.String(); got != "seed\nfrom the image 750\n" {
			t.Errorf("the program saw %q", got)
		}
		if err := inst.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTmpfsOverTheImagesFilesIsRefused(t *testing.T) {
	p, _, img := real(t)
	_, err := p.Launch(t.Context(), named(sleeper(withData(t, img), platform.Setting{Storage: platform.StorageTmpfs}, "/data")))
	if refused := new(platform.Unsupported); !errors.As(err, &refused) {
		t.Errorf("error %v, want an *Unsupported", err)
	}
}

// served launches a web server and returns its address.
func served(t *testing.T, p *Platform, img image.Image, network platform.Network, port int) (platform.Instance, string) {
	t.Helper()
	inst := launch(t, p, platform.Spec{
		Image: img, Ports: []int{port}, Setting: platform.Setting{Network: network},
		Args: []string{"httpd", "-f", "-p", strconv.Itoa(port), "-h", "/etc"},
	})
	address := inst.Address(port)
	if address == "" {
		t.Fatalf("no address for port %d", port)
	}
	return inst, address
}

// dial connects as soon as the server listens, and proves that it answers.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		conn, err := net.DialTimeout("tcp", address, 10*time.Second)
		if err == nil {
			// A userland proxy accepts before the program listens; only an
			// answer proves the way.
			fmt.Fprintf(conn, "GET /passwd HTTP/1.1\r\nHost: tare\r\n\r\n")
			conn.SetReadDeadline(deadline)
			var head [5]byte
			if _, err = io.ReadFull(conn, head[:]); err == nil && string(head[:]) == "HTTP/" {
				t.Cleanup(func() { conn.Close() })
				return conn
			}
			conn.Close()
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing answers at %s: %v", address, err)
		}
		time.Sleep(5 * time.Millisecond) // the server has no event to tell that it listens
	}
}

func TestAddresses(t *testing.T) {
	p, _, img := real(t)
	for _, network := range []platform.Network{"", platform.NetworkBridge, platform.NetworkProxy, platform.NetworkNAT} {
		t.Run(string(network), func(t *testing.T) {
			_, address := served(t, p, img, network, 8123)
			dial(t, address)
			host, _, _ := net.SplitHostPort(address)
			if wantLoopback := network == "" || network == platform.NetworkProxy; (host == "127.0.0.1") != wantLoopback {
				t.Errorf("address %s", address)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		inst := launch(t, p, platform.Spec{Image: img, Ports: []int{8123}, Setting: platform.Setting{Network: platform.NetworkNone}, Args: []string{"sleep", "1000"}})
		if address := inst.Address(8123); address != "" {
			t.Errorf("address %q of a port that nothing reaches", address)
		}
	})
}

// sockets counts the sockets that a process has open.
func sockets(t *testing.T, pid int) int {
	t.Helper()
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(names) == 0 {
		t.Fatalf("cannot read the descriptors of process %d: %v", pid, err)
	}
	n := 0
	for _, name := range names {
		if target, err := os.Readlink(name); err == nil && strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}

// TestWhoCarriesAPublishedPort shows what the package comment says: the proxy
// process holds two more sockets while a connection to loopback is open, and
// none while one to the gateway is, though it listens there too.
func TestWhoCarriesAPublishedPort(t *testing.T) {
	p, _, img := real(t)
	for network, wantCarried := range map[platform.Network]int{platform.NetworkProxy: 2, platform.NetworkNAT: 0} {
		t.Run(string(network), func(t *testing.T) {
			_, address := served(t, p, img, network, 8080)
			dial(t, address).Close()
			_, port, _ := net.SplitHostPort(address)
			pids := proxies(0, port)
			if len(pids) != 1 {
				t.Skipf("needs an engine with a userland proxy; found %v", pids)
			}
			idle := settled(t, pids[0])
			dial(t, address)
			if carried := sockets(t, pids[0]) - idle; carried != wantCarried {
				t.Errorf("the proxy holds %d more sockets while a connection is open, want %d", carried, wantCarried)
			}
		})
	}
}

// settled waits until the proxy has let go of earlier connections: its
// listening socket alone is left.
func settled(t *testing.T, pid int) int {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		if n := sockets(t, pid); n == 1 || time.Now().After(deadline) {
			return n
		}
		time.Sleep(5 * time.Millisecond) // another process' descriptors raise no event
	}
}

func TestKilledForMemory(t *testing.T) {
	p, _, img := real(t)
	for range 3 {
		inst := launch(t, p, platform.Spec{
			Image: img, Setting: platform.Setting{Memory: 16 << 20},
			Args: []string{"sh", "-c", "x=0123456789; while :; do x=$x$x; done"},
		})
		if exit := wait(t, inst); !exit.OOMKilled || exit.Code != 137 {
			t.Errorf("%+v, want OOMKilled and 137", exit)
		}
	}
}

func TestUsageOutlivesTheProgram(t *testing.T) {
	p, _, img := real(t)
	inst := launch(t, p, platform.Spec{
		Image: img, Setting: platform.Setting{CPUs: 0.2, CPUPeriod: 10 * time.Millisecond},
		Args: []string{"sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"},
	})
	exit := wait(t, inst)
	usage, err := inst.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if usage.CPU <= 0 || usage.Throttled <= 0 || usage.ThrottledTime <= 0 || usage.MemoryPeak <= 0 {
		t.Errorf("%+v", usage)
	}
	if usage.CPU > exit.Elapsed {
		t.Errorf("one thread used %v in %v", usage.CPU, exit.Elapsed)
	}
	if _, err := inst.InForce(); !errors.Is(err, platform.ErrGone) {
		t.Errorf("InForce of a program that has ended: %v, want ErrGone", err)
	}
	if err := inst.Signal(int(syscall.SIGTERM)); !errors.Is(err, platform.ErrGone) {
		t.Errorf("Signal to a program that has ended: %v, want ErrGone", err)
	}
}

func TestSignalAndStop(t *testing.T) {
	p, _, img := real(t)
	inst := launch(t, p, platform.Spec{Image: img, Args: []string{"sh", "-c", "trap 'exit 7' TERM; sleep 1000 & wait"}})
	awaitProcesses(t, inst, 2) // the shell has set its trap before it starts the sleep
	if err := inst.Signal(int(syscall.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, inst); exit.Code != 7 {
		t.Errorf("exit code %d, want the trap's 7", exit.Code)
	}

	inst = launch(t, p, platform.Spec{Image: img, Args: []string{"sleep", "1000"}})
	for range 2 {
		if err := inst.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if exit := wait(t, inst); exit.Code != 137 {
		t.Errorf("exit code %d after Stop, want 137", exit.Code)
	}
}

func awaitProcesses(t *testing.T, inst platform.Instance, want int) []int {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		pids, err := inst.Processes()
		if err != nil {
			t.Fatal(err)
		}
		if len(pids) >= want {
			return pids
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes %v, want %d", pids, want)
		}
		time.Sleep(5 * time.Millisecond) // a fork in another process raises no event
	}
}

func TestEnginePIDs(t *testing.T) {
	p, _, img := real(t)
	before := p.EnginePIDs(t.Context())
	inst, _ := served(t, p, img, platform.NetworkProxy, 8080)
	pids := p.EnginePIDs(t.Context())
	if len(before) == 0 || len(pids) <= len(before) {
		t.Errorf("engine processes %v, with a container %v: want a shim more", before, pids)
	}
	first, err := inst.Processes()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(pids, first[0]) {
		t.Errorf("the program itself, %d, is among the engine's %v", first[0], pids)
	}

	// The shim of a container that was started is known before it is taken hold of.
	c, err := p.Create(t.Context(), named(sleeper(img, platform.Setting{})))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	ofIt := func() (serving []int) {
		for _, pid := range p.EnginePIDs(t.Context()) {
			if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && slices.Contains(arguments(line), c.ID()) {
				serving = append(serving, pid)
			}
		}
		return serving
	}
	if shims := ofIt(); len(shims) != 0 {
		t.Errorf("processes %v serve a container at rest", shims)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if shims := ofIt(); len(shims) != 1 {
		t.Errorf("of a container that was started it knows %v, want its shim", shims)
	}
}

func TestProgramThatIsNotThere(t *testing.T) {
	p, ledger, img := real(t)
	before := len(ledger.open())
	_, err := p.Launch(t.Context(), named(platform.Spec{Image: img, Args: []string{"/no/such/program"}}))
	if err == nil || !strings.Contains(err.Error(), "/no/such/program") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q: want one line that names the program", err)
	}
	if left := ledger.open(); len(left) != before {
		t.Errorf("left in the ledger: %v", left)
	}
}

func TestNameClash(t *testing.T) {
	p, ledger, img := real(t)
	spec := named(sleeper(img, platform.Setting{}))
	first := launch(t, p, spec)
	open := len(ledger.open())
	_, err := p.Launch(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), "tare clean") {
		t.Errorf("error %v: want what removes it", err)
	}
	// The clean-up of the second must not have taken the first.
	if pids, err := first.Processes(); err != nil || len(pids) == 0 {
		t.Errorf("the first container is gone: %v %v", pids, err)
	}
	if got := len(ledger.open()); got != open {
		t.Errorf("%d entries, want %d", got, open)
	}
}

func TestImageThatWasNotPrepared(t *testing.T) {
	p, _, img := real(t)
	img.Reference = "tare.local/nothing:000000000000"
	_, err := p.Launch(t.Context(), named(sleeper(img, platform.Setting{})))
	if err == nil || !strings.Contains(err.Error(), img.Reference) {
		t.Errorf("error %v: want the reference", err)
	}
}

// TestRemoveAfterACrash removes by the ledger alone, as tare clean does.
func TestRemoveAfterACrash(t *testing.T) {
	p, ledger, img := real(t)
	var left []platform.Entry
	for _, storage := range []platform.Storage{platform.StorageVolume, platform.StorageBind} {
		inst, err := p.Launch(t.Context(), named(sleeper(img, platform.Setting{Storage: storage}, "/data")))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, ledger.open()...)
		t.Cleanup(func() { inst.Stop(context.Background()) })
	}
	left = slices.DeleteFunc(left, func(e platform.Entry) bool { return e.Kind == kindImage })

	another := New(Options{StateDir: filepath.Dir(p.stateDir), Ledger: &notebook{}})
	for range 2 {
		for _, e := range slices.Backward(left) {
			if err := another.Remove(t.Context(), e); err != nil {
				t.Errorf("Remove %s %s: %v", e.Kind, e.ID, err)
			}
		}
	}
	for _, e := range left {
		var err error
		switch e.Kind {
		case kindContainer:
			_, err = p.client.ContainerInspect(t.Context(), e.ID, client.ContainerInspectOptions{})
		case kindVolume:
			_, err = p.client.VolumeInspect(t.Context(), e.ID, client.VolumeInspectOptions{})
		case kindDir:
			if _, err = os.Stat(e.ID); errors.Is(err, os.ErrNotExist) {
				continue
			}
		}
		if !gone(err) {
			t.Errorf("%s %s is there still: %v", e.Kind, e.ID, err)
		}
	}
}

// TestRemoveLeavesOthersAlone gives entries whose names now belong to others.
func TestRemoveLeavesOthersAlone(t *testing.T) {
	p, _, img := real(t)
	spec := named(sleeper(img, platform.Setting{Storage: platform.StorageVolume}, "/data"))
	inst := launch(t, p, spec)
	for _, e := range []platform.Entry{
		{Kind: kindContainer, ID: "tare-" + spec.Name, Attrs: map[string]string{labelLedger: "another"}},
		{Kind: kindContainer, ID: "tare-" + spec.Name},
		{Kind: kindVolume, ID: "tare-" + spec.Name + "-0", Attrs: map[string]string{labelLedger: "another"}},
	} {
		if err := p.Remove(t.Context(), e); err != nil {
			t.Errorf("Remove %v: %v", e, err)
		}
	}
	if _, err := inst.Processes(); err != nil {
		t.Errorf("the container is gone: %v", err)
	}
	for _, e := range []platform.Entry{
		{Kind: kindImage, ID: "busybox:latest"},
		{Kind: kindDir, ID: "/etc"},
		{Kind: kindDir, ID: p.stateDir + "/../../etc"},
		{Kind: "swap", ID: "/swapfile"},
	} {
		if err := p.Remove(t.Context(), e); err == nil {
			t.Errorf("Remove %v: want a refusal", e)
		}
	}
}

func TestReleaseKeepsWhatWasThere(t *testing.T) {
	p, _, img := real(t) // has loaded it
	ledger := &notebook{}
	second := New(Options{StateDir: t.TempDir(), Ledger: ledger})
	if err := second.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	if open := ledger.open(); len(open) != 0 {
		t.Errorf("an image that was there is entered: %v", open)
	}
	if err := second.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if present, err := p.holds(t.Context(), img.Reference); err != nil || !present {
		t.Errorf("the image is gone: %v", err)
	}
}

func TestExport(t *testing.T) {
	p, _, img := real(t)
	stream, err := p.Export(t.Context(), img.Reference)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, stream)
	if err != nil || n < img.Size {
		t.Errorf("%d bytes, %v; want at least the image's %d", n, err, img.Size)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	_, err = p.Export(t.Context(), "no-such-image:1")
	if unknown := new(UnknownImage); !errors.As(err, &unknown) {
		t.Errorf("error %v, want an *UnknownImage", err)
	}
}

func TestCancelledLaunchLeavesNothing(t *testing.T) {
	p, ledger, img := real(t)
	before := ledger.open()
	for _, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		inst, err := p.Launch(ctx, named(sleeper(img, platform.Setting{Storage: platform.StorageVolume}, "/data")))
		cancel()
		if err == nil { // it was faster
			if err := inst.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if left := ledger.open(); len(left) != len(before) {
			t.Fatalf("cancelled after %v: left %v", after, left)
		}
	}
}

func TestVersionsAreShort(t *testing.T) {
	for said, want := range map[string]string{
		"20.10.24+dfsg1": "20.10.24",
		"4.3.1":          "4.3.1",
		"crun version 1.8.1\ncommit: f8a096be\nrundir: /run/crun\nspec: 1.0.0": "1.8.1",
		"\n": "",
	} {
		if got := upstream("crun", said); got != want {
			t.Errorf("%q is %q, want %q", said, got, want)
		}
	}
}

func TestVersionNamesWhatRuns(t *testing.T) {
	p, _, _ := real(t)
	if v := p.Version(t.Context()); !strings.ContainsAny(v, "0123456789") || strings.ContainsAny(v, "\n+") {
		t.Errorf("version %q", v)
	}
}

func TestGroupsBelowAContainersAreItsOwn(t *testing.T) {
	for path, want := range map[string]string{
		"/docker/0a1b":                                 "/docker/0a1b",
		"/system.slice/docker-0a1b.scope":              "/system.slice/docker-0a1b.scope",
		"/machine.slice/libpod-0a1b.scope/container":   "/machine.slice/libpod-0a1b.scope",
		"/docker/0a1b/init.scope/made by its own init": "/docker/0a1b",
		"/":            "",
		"/docker/ffff": "",
	} {
		var got string
		for _, p := range containersOwn(cgroup.Group{Places: []cgroup.Place{{Path: path}}}, "0a1b").Places {
			got += p.Path
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
