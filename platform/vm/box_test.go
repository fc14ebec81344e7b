package vm

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/platform"
)

// full is what is awaited of a program.
type full struct {
	mu   sync.Mutex
	text strings.Builder
	said chan struct{}
}

func (f *full) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := strings.Contains(f.text.String(), "full")
	n, err := f.text.Write(p)
	if !before && strings.Contains(f.text.String(), "full") {
		close(f.said)
	}
	return n, err
}

// holder is a program that has that many MiB of its own memory, and lies there: dd reads
// a whole block, and then waits for ever for the pipe.
func holder(mib string) []string {
	return []string{"sh", "-c", "dd if=/dev/zero bs=" + mib + "M count=1 2>/dev/null | (head -c 1 >/dev/null; echo full; exec sleep 3600)"}
}

// fill launches a program of that many MiB in the group, and waits until it has them.
func fill(t *testing.T, v *Platform, spec platform.Spec, mib string) platform.Instance {
	t.Helper()
	f := &full{said: make(chan struct{})}
	spec.Args, spec.Stdout = holder(mib), f
	inst := launch(t, v, spec)
	ended := make(chan platform.Exit, 1)
	go func() {
		exit, _ := inst.Wait(context.Background())
		ended <- exit
	}()
	select {
	case <-f.said:
	case exit := <-ended:
		t.Fatalf("%s ended with %+v before it had its memory", spec.Name, exit)
	case <-t.Context().Done():
		t.Fatalf("%s has not filled its memory", spec.Name)
	}
	return inst
}

func makeBox(t *testing.T, v *Platform, spec platform.BoxSpec) platform.Box {
	t.Helper()
	b, err := v.Box(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeBox(t, b) })
	return b
}

func removeBox(t *testing.T, b platform.Box) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := b.Remove(ctx); err != nil {
		t.Errorf("removing the box: %v", err)
	}
}

func read(t *testing.T, b platform.Box) platform.BoxReading {
	t.Helper()
	r, err := b.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A machine is a box whose programs are all in it: with more memory wanted than it has,
// its kernel swaps, and that is read. A box of control groups in the same machine is
// held to its own memory. With TARE_TEST_VM, of any value: an emulated machine takes half
// a minute for it.
func TestBoxesInAMachine(t *testing.T) {
	if os.Getenv("TARE_TEST_VM") == "" {
		t.Skip("boots an emulated machine and fills it: set TARE_TEST_VM=1")
	}
	v, img := ready(t, "vm:tcg+memory=512m/cgroup", options(t, TCG))
	spec := platform.BoxSpec{
		Name: "box-1", Kind: platform.BoxMachine, Memory: 512 << 20, Swap: platform.SwapFile, SwapSize: 1 << 30,
		PageCluster: 0, Protect: platform.ProtectNone,
	}
	b := makeBox(t, v, spec)
	before := read(t, b)
	if before.SwapSize < spec.SwapSize-1<<20 || before.SwapUsed != 0 {
		t.Errorf("an empty box has %d bytes of swap, %d in use", before.SwapSize, before.SwapUsed)
	}
	if off := time.Since(before.At); off < 0 || off > time.Minute {
		t.Errorf("the box was read %v ago, by this host's clock", off)
	}
	started := time.Now()
	critical := fill(t, v, platform.Spec{Name: "critical", Image: img, Group: b.Group(platform.Critical)}, "280")
	idle := fill(t, v, platform.Spec{Name: "idle", Image: img, Group: b.Group(platform.Idle)}, "280")
	t.Logf("two programs of 280 MiB are there after %v", time.Since(started))
	after := read(t, b)
	t.Logf("%+v", after)
	if after.SwapOut <= before.SwapOut || after.SwapUsed <= 0 || after.DeviceWritten <= before.DeviceWritten {
		t.Errorf("560 MiB in a machine of 512 swapped nothing: %+v", after)
	}
	for class, inst := range map[platform.Class]platform.Instance{platform.Critical: critical, platform.Idle: idle} {
		of := after.Classes[class]
		if held := of.Resident + of.Swapped; held < 270<<20 || held > 340<<20 {
			t.Errorf("%s holds %d MiB, in memory %d and swapped %d", class, held>>20, of.Resident>>20, of.Swapped>>20)
		}
		if of.CPU <= 0 || of.OOMKills != 0 {
			t.Errorf("%s: %+v", class, of)
		}
		force, err := inst.InForce()
		if err != nil || !strings.Contains(strings.Join(force.Cgroups, " "), "/tare/"+b.Group(class)+"/") {
			t.Errorf("%s is in %v (%v)", class, force.Cgroups, err)
		}
	}
	if n := len(v.pool.Boots()); n != 1 {
		t.Errorf("%d machines have booted for one box", n)
	}
	stop(t, critical)
	stop(t, idle)
	removeBox(t, b)
	inBox := platform.Spec{Name: "late", Image: img, Args: sleeper, Group: b.Group(platform.Idle)}
	if inst, err := v.Launch(t.Context(), inBox); !errors.As(err, new(*platform.BadGroup)) {
		t.Errorf("launching into a box that was removed: %v", err)
		if err == nil {
			stop(t, inst)
		}
	}

	spec = platform.BoxSpec{
		Name: "box-2", Kind: platform.BoxGroup, Memory: 96 << 20, Swap: platform.SwapZRAM, SwapSize: 512 << 20,
		PageCluster: -1, Protect: platform.ProtectSwappiness,
	}
	small := makeBox(t, v, spec)
	greedy := fill(t, v, platform.Spec{Name: "greedy", Image: img, Group: small.Group(platform.Idle)}, "150")
	force, err := greedy.InForce()
	if err != nil || force.Memory <= 0 || force.Memory > spec.Memory {
		t.Errorf("in a box of %d bytes the memory in force is %d (%v)", spec.Memory, force.Memory, err)
	}
	if r := read(t, small); r.Classes[platform.Idle].Swapped < 40<<20 || r.Limit <= 0 || r.Limit > spec.Memory || r.SwapUsed <= 0 {
		t.Errorf("150 MiB in a box of 96: %+v", r)
	} else {
		t.Logf("%+v", r)
	}
	if n := len(v.pool.Boots()); n != 1 {
		t.Errorf("%d machines have booted for two boxes, one after another", n)
	}
	stop(t, greedy)
	removeBox(t, small)
}

// What no machine can be for a box is refused before one boots.
func TestBoxesThatNoMachineCanHold(t *testing.T) {
	o := PoolOptions{StateDir: t.TempDir(), Version: "test"}
	for name, spec := range map[string]platform.BoxSpec{
		"vm:tcg/bare":               {Name: "box", Kind: platform.BoxMachine, Memory: 1 << 30},
		"vm:tcg+memory=512m/cgroup": {Name: "box", Kind: platform.BoxGroup, Memory: 512 << 20},
		"vm:tcg/cgroup":             {Name: "box", Kind: platform.BoxGroup, Memory: 1 << 45},
	} {
		pool := NewPool(o)
		_, err := New(parse(t, name), pool).Box(t.Context(), spec)
		if refused := new(platform.Unsupported); !errors.As(err, &refused) || refused.Platform != name {
			t.Errorf("%s, a box of %s and %d bytes: %v", name, spec.Kind, spec.Memory, err)
		}
		if n := len(pool.Boots()); n != 0 {
			t.Errorf("%s: %d machines have booted", name, n)
		}
	}
	pool := NewPool(o)
	bad := new(platform.BadGroup)
	if _, err := New(parse(t, "vm:tcg+memory=1g/bare"), pool).Box(t.Context(), platform.BoxSpec{Name: "../box", Kind: platform.BoxMachine}); !errors.As(err, &bad) {
		t.Errorf("a box whose name leads elsewhere: %v", err)
	}
	for _, group := range []string{"box-9/idle", "../idle"} {
		spec := platform.Spec{Name: "x", Args: sleeper, Group: group}
		if _, err := New(parse(t, "vm:tcg+memory=1g/bare"), pool).Launch(t.Context(), spec); !errors.As(err, &bad) || bad.Group != group {
			t.Errorf("group %q: %v", group, err)
		}
	}
}

// A machine is one box's alone, and everybody's again when the box is gone.
func TestAMachineIsOneBoxes(t *testing.T) {
	m := &machine{}
	for _, c := range []struct {
		users int
		box   string
		want  wanted
		ok    bool
	}{
		{0, "", wanted{}, true},
		{0, "", wanted{box: "a"}, true},
		{1, "", wanted{}, true},
		{1, "", wanted{pin: []int{1}}, false},
		{1, "", wanted{box: "a"}, false},
		{1, "a", wanted{}, false},
		{2, "a", wanted{box: "b"}, false},
		{2, "a", wanted{box: "a"}, false}, // its programs come by the box
	} {
		m.users, m.box = c.users, c.box
		if m.serves(c.want) != c.ok {
			t.Errorf("a machine of %d users and box %q serves %+v: %v", c.users, c.box, c.want, !c.ok)
		}
	}
}
