package box

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/swap"
	"tare/platform"
	"tare/platform/held"
)

// plain is a spec that nothing is wrong with.
var plain = platform.BoxSpec{Name: "box-1", Kind: platform.BoxGroup, Memory: 1 << 30, Swap: platform.SwapFile, SwapSize: 1 << 30, PageCluster: -1, Protect: platform.ProtectNone}

func TestWhatNoHostCouldMake(t *testing.T) {
	if err := valid(plain); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*platform.BoxSpec){
		"no name":                   func(s *platform.BoxSpec) { s.Name = "" },
		"a path":                    func(s *platform.BoxSpec) { s.Name = "../etc" },
		"tare's own":                func(s *platform.BoxSpec) { s.Name = "tare-1" },
		"no kind":                   func(s *platform.BoxSpec) { s.Kind = "" },
		"no memory":                 func(s *platform.BoxSpec) { s.Memory = 0 },
		"unknown swap":              func(s *platform.BoxSpec) { s.Swap = "tape" },
		"swap of nothing":           func(s *platform.BoxSpec) { s.SwapSize = 0 },
		"no swap of a size":         func(s *platform.BoxSpec) { s.Swap = platform.SwapNone },
		"a page-cluster of 2^32":    func(s *platform.BoxSpec) { s.PageCluster = 32 },
		"unknown protection":        func(s *platform.BoxSpec) { s.Protect = "prayer" },
		"all kept for the critical": func(s *platform.BoxSpec) { s.Protect, s.Reserve = platform.ProtectLimit, s.Memory },
		"a limit without a reserve": func(s *platform.BoxSpec) { s.Protect = platform.ProtectLimit },
	} {
		s := plain
		change(&s)
		invalid := new(Invalid)
		if err := valid(s); !errors.As(err, &invalid) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want an *Invalid of one line", name, err)
		}
	}
}

// What reaches every program on the host is refused without leave, and so before
// anything else is looked at.
func TestWhatReachesTheWholeHostNeedsLeave(t *testing.T) {
	machine, zswap, cluster := plain, plain, plain
	machine.Kind = platform.BoxMachine
	zswap.Swap = platform.SwapZswap
	cluster.PageCluster = maxCluster
	for name, s := range map[string]platform.BoxSpec{"the host as the box": machine, "zswap": zswap, "page-cluster": cluster} {
		m := New(Options{StateDir: t.TempDir()})
		invalid := new(Invalid)
		if err := m.Check(t.Context(), s); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "--disruptive") {
			t.Errorf("%s: %v, want an *Invalid that names --disruptive", name, err)
		}
		m.Allow()
		if err := m.reaches(s); err != nil {
			t.Errorf("%s, allowed: %v", name, err)
		}
		if err := New(Options{Own: true}).reaches(s); err != nil {
			t.Errorf("%s, of a kernel of one's own: %v", name, err)
		}
	}
	if err := New(Options{}).reaches(plain); err != nil {
		t.Errorf("a box with a swap file: %v", err)
	}
}

func TestMoreMemoryThanTheHostHas(t *testing.T) {
	g := ground{root: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(g.root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(g.proc("meminfo"), []byte("MemTotal: 4194304 kB\nMemAvailable: 1363148 kB\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := plain // and 6 % of 4 GiB are 246 MiB: 1270 of 1331
	m := Maker{ground: g}
	if err := m.roomForMemory(s); err != nil {
		t.Error(err)
	}
	s.Swap = platform.SwapZRAM // whose pool may be 64 MiB ahead of the limit: 1334
	missing := new(platform.Missing)
	if err := m.roomForMemory(s); !errors.As(err, &missing) {
		t.Errorf("%v, want a *platform.Missing", err)
	}
	m.options.Own = true // where nothing need be left
	if err := m.roomForMemory(s); err != nil {
		t.Error(err)
	}
}

func TestDanger(t *testing.T) {
	safe := situation{kind: platform.BoxGroup, total: 1000 << 20, available: 500 << 20, swapUsed: 1, swapSize: 100 << 20, outside: -1}
	for _, c := range []struct {
		name   string
		change func(*situation)
		want   string // a part of it; empty is no danger
	}{
		{"none", func(*situation) {}, ""},
		{"a critical program killed", func(s *situation) { s.criticalKilled = 1 }, "OOM killer ended the service"},
		{"killed in a machine of one's own", func(s *situation) { s.criticalKilled, s.own = 2, true }, "OOM killer ended the service"},
		{"swap nearly full", func(s *situation) { s.swapUsed = 96 << 20 }, "full to 96 %"},
		{"swap not yet full", func(s *situation) { s.swapUsed = 95 << 20 }, ""},
		{"no swap", func(s *situation) { s.swapUsed, s.swapSize = 0, 0 }, ""},
		{"the pool is the box", func(s *situation) { s.memory, s.pool = 256<<20, 241<<20 }, "241 MiB of the box's 256 MiB"},
		{"the pool is not yet the box", func(s *situation) { s.memory, s.pool = 256<<20, 240<<20 }, ""},
		{"the host is short", func(s *situation) { s.available = 59 << 20 }, "59 MiB more"},
		{"the host is not yet short", func(s *situation) { s.available = 60 << 20 }, ""},
		{"a machine that is short is what was asked for", func(s *situation) { s.kind, s.available = platform.BoxMachine, 1 }, ""},
		{"a group in a machine of one's own", func(s *situation) { s.own, s.available = true, 1 }, ""},
		{"others wait", func(s *situation) { s.outside = 0.26 }, "outside the box waited for memory for 26 %"},
		{"others wait a little", func(s *situation) { s.outside = 0.25 }, ""},
	} {
		s := safe
		c.change(&s)
		got := danger(s).why
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if within := danger(s).within; got != "" && within != (strings.Contains(got, "swap") || strings.Contains(got, "the service")) {
			t.Errorf("%s: within the box alone: %v", c.name, within)
		}
	}
}

func TestOutside(t *testing.T) {
	at := time.Unix(1000, 0)
	s := func(seconds, host, box int) stalled {
		return stalled{at.Add(time.Duration(seconds) * time.Second), time.Duration(host) * time.Second, time.Duration(box) * time.Second}
	}
	for _, c := range []struct {
		name    string
		samples []stalled
		want    float64
	}{
		{"nothing yet", nil, -1},
		{"one", []stalled{s(0, 0, 0)}, -1},
		{"too short", []stalled{s(0, 0, 0), s(9, 9, 0)}, -1},
		{"all of it the box's", []stalled{s(0, 5, 5), s(10, 15, 15)}, 0},
		{"a half of it the box's", []stalled{s(0, 0, 0), s(5, 1, 1), s(10, 8, 4)}, 0.4},
		{"counted a moment apart", []stalled{s(0, 0, 0), s(10, 4, 5)}, 0},
	} {
		if got := outside(c.samples); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestTheLimitFollows(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ have, want, next int64 }{
		{256, 256, 256}, {256, 255, 255}, {256, 200, 240}, {240, 200, 224}, {208, 200, 200}, {200, 256, 256}, {32, 4, 16}, {16, 4, 16},
	} {
		if got := nextLimit(c.have*mib, c.want*mib); got != c.next*mib {
			t.Errorf("from %d towards %d MiB: %d, want %d", c.have, c.want, got/mib, c.next)
		}
	}
	if got := nextLimit(256*mib, 256*mib-4096); got != 256*mib {
		t.Errorf("for a page: %d", got)
	}
}

func TestHowMuchRoomIsMade(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ free, headroom, want int64 }{{64, 64, 0}, {100, 64, 0}, {60, 64, 16}, {15, 16, 5}, {-1, 16, 16}} {
		if got := roomWanted(c.free*mib, c.headroom*mib); got != c.want*mib {
			t.Errorf("%d of %d MiB free: %d MiB, want %d", c.free, c.headroom, got/mib, c.want)
		}
	}
	if Headroom(1<<30) != 64<<20 || Headroom(8<<30) != 64<<20 || Headroom(256<<20) != 16<<20 {
		t.Error("the headroom is not what is said of it")
	}
}

func TestPoolPercent(t *testing.T) {
	for _, c := range []struct {
		percent    int
		box, total int64
		want       int
	}{{20, 1 << 30, 1 << 30, 20}, {20, 1 << 30, 4 << 30, 5}, {20, 1 << 30, 64 << 30, 1}} {
		if got := poolPercent(c.percent, c.box, c.total); got != c.want {
			t.Errorf("%d %% of %d of %d GiB: %d, want %d", c.percent, c.box>>30, c.total>>30, got, c.want)
		}
	}
}

// What the OOM killer ended counts also where the instance's group has gone with it.
func TestKillsAreRemembered(t *testing.T) {
	var k kills
	for _, step := range []struct {
		now  map[string]int64
		want int64
	}{
		{map[string]int64{"/a": 0}, 0}, {map[string]int64{"/a": 1, "/b": 1}, 2}, {map[string]int64{"/b": 1}, 2}, {map[string]int64{"/b": 3, "/c": 1}, 5},
	} {
		if got := k.count(platform.Critical, step.now); got != step.want {
			t.Errorf("%v: %d, want %d", step.now, got, step.want)
		}
	}
	if got := k.count(platform.Idle, nil); got != 0 {
		t.Errorf("of the other class: %d", got)
	}
}

// A ledger is a file, and may hold anything: what is not a box's is left alone.
func TestRemoveRefusesWhatIsNoBoxs(t *testing.T) {
	state := t.TempDir()
	precious := filepath.Join(state, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := Remover(state)
	for name, e := range map[string]platform.Entry{
		"a file elsewhere":           {Kind: kindFile, ID: precious},
		"a file outside":             {Kind: kindFile, ID: filepath.Join(state, swapDirectory, "../precious")},
		"an area elsewhere":          {Kind: kindArea, ID: precious},
		"another setting":            {Kind: kindSetting, ID: "/proc/sys/kernel/panic", Attrs: map[string]string{attrOld: "0", attrNew: "1"}},
		"a device without its size":  {Kind: kindZRAM, ID: "0"},
		"a device without a number":  {Kind: kindZRAM, ID: "x", Attrs: map[string]string{attrSize: "4096"}},
		"an area without its size":   {Kind: kindArea, ID: "/dev/zram0"},
		"an addition without a size": {Kind: kindAdding, ID: "box"},
		"a cgroup elsewhere":         {Kind: held.Cgroup, ID: "/docker/abc"},
		"the unknown":                {Kind: "mount", ID: "/"},
	} {
		if err := r.Remove(t.Context(), e); err == nil {
			t.Errorf("%s was removed", name)
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestADeviceThatWasBeingAdded(t *testing.T) {
	g := ground{root: t.TempDir()}
	device := func(id, size string) {
		dir := filepath.Join(g.root, "sys/block/zram"+id)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "disksize"), []byte(size+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	control := filepath.Join(g.root, "sys/class/zram-control")
	if err := os.MkdirAll(control, 0o755); err != nil {
		t.Fatal(err)
	}
	remove := filepath.Join(control, "hot_remove")
	if err := os.WriteFile(remove, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	g.swap.Root = g.root
	e := platform.Entry{Kind: kindAdding, ID: "box", Attrs: map[string]string{attrSize: "4096", attrKnown: "0,3"}}
	device("0", "0")
	device("3", "8192")
	device("4", "8192") // somebody else's, since
	removed := func() string {
		b, err := os.ReadFile(remove)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if err := removeAdded(g, e); err != nil || removed() != "" {
		t.Errorf("none was added: %v, removed %q", err, removed())
	}
	// An empty one may be anybody's.
	device("5", "0")
	if err := removeAdded(g, e); err == nil || !strings.Contains(err.Error(), "by hand") || removed() != "" {
		t.Errorf("one was added: %v, removed %q", err, removed())
	}
	if err := g.removeDevice(swap.ZRAM{ID: 5, Size: 4096}); err == nil || removed() != "" {
		t.Errorf("an empty one of that number: %v, removed %q", err, removed())
	}
	if err := os.WriteFile(filepath.Join(g.root, "sys/block/zram5/diskseq"), []byte("77\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := g.removeDevice(swap.ZRAM{ID: 5, Size: 4096, Sequence: 76}); err != nil || removed() != "" {
		t.Errorf("one that came later: %v, removed %q", err, removed())
	}
	if err := g.removeDevice(swap.ZRAM{ID: 5, Size: 4096, Sequence: 77}); err != nil || removed() != "5" {
		t.Errorf("the very one: %v, removed %q", err, removed())
	}
}

// What cannot be added is not looked for by a clean.
func TestADeviceThatCannotBeAdded(t *testing.T) {
	l := &tally{}
	b := &madeBox{spec: plain, ledger: l}
	b.ground.root = t.TempDir()
	b.ground.swap.Root = b.ground.root
	b.area.size = plain.SwapSize
	if err := b.takeZRAM(t.Context()); err == nil {
		t.Fatal("a device was added where there is no zram")
	}
	if l.entered != 1 || l.crossed != 1 {
		t.Errorf("%d were entered and %d crossed out, want one each", l.entered, l.crossed)
	}
}

// tally is a ledger that counts.
type tally struct{ entered, crossed int }

func (l *tally) Add(platform.Entry) (func(), error) {
	l.entered++
	return func() { l.crossed++ }, nil
}

func TestWhatComesBackMustFit(t *testing.T) {
	for _, c := range []struct {
		held, total, available int64
		fits                   bool
	}{{0, 1000, 0, true}, {1, 1000, 60, false}, {440, 1000, 500, true}, {441, 1000, 500, false}} {
		if why := unfitting(c.held<<20, c.total<<20, c.available<<20); (why == "") != c.fits {
			t.Errorf("%d MiB where %d of %d MiB are to be had: %q", c.held, c.available, c.total, why)
		}
	}
}

// An area whose box's programs may live stays in use; the file given here is none, so
// that nothing is taken out of use whatever is decided.
func TestAnAreaOfABoxThatIsThereStays(t *testing.T) {
	b := fakeBox(t, 2, plain, map[string]string{"idle/memory.current": ""})
	b.ground.root = t.TempDir()
	b.ground.swap.Root = b.ground.root
	if err := os.MkdirAll(b.ground.proc(""), 0o755); err != nil {
		t.Fatal(err)
	}
	area := filepath.Join(b.ground.root, "area")
	for name, text := range map[string]string{
		b.ground.proc("swaps"):   "Filename\tType\tSize\tUsed\tPriority\n" + area + " file 1048572 524288 5\n",
		b.ground.proc("meminfo"): "MemTotal: 4194304 kB\nMemAvailable: 524288 kB\n",
		area:                     "",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := turnOff(t.Context(), b.ground, area, b.group); err == nil || !strings.Contains(err.Error(), "tare clean") || !strings.Contains(err.Error(), "cgroup") {
		t.Errorf("while its box is there: %v", err)
	}
	if err := turnOff(t.Context(), b.ground, area, cgroup.Group{}); err == nil || !strings.Contains(err.Error(), "it holds 512 MiB") {
		t.Errorf("without the memory for it: %v", err)
	}
}

// fakeBox is a box over a tree of files.
func fakeBox(t *testing.T, version int, s platform.BoxSpec, files map[string]string) *madeBox {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		file := filepath.Join(root, "tare", s.Name, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	layout := cgroup.Layout{Hierarchies: []cgroup.Hierarchy{{Version: version, Controllers: []string{"memory"}, Mount: root, Root: "/"}}}
	return &madeBox{spec: s, layout: layout, group: layout.At(filepath.Join(platform.CgroupParent, s.Name))}
}

func (b *madeBox) holds(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.group.Places[0].Dir(), file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWhatProtectionsWrite(t *testing.T) {
	s := plain
	s.Memory, s.Reserve = 100<<20, 40<<20
	for _, c := range []struct {
		name    string
		version int
		protect platform.Protection
		file    string
		want    string
	}{
		{"none, v1", 1, platform.ProtectNone, "critical/memory.swappiness", ""},
		{"swappiness, v1", 1, platform.ProtectSwappiness, "critical/memory.swappiness", "0"},
		{"swappiness, v2", 2, platform.ProtectSwappiness, "critical/memory.low", "104857600"},
		{"swappiness, v2, an instance's", 2, platform.ProtectSwappiness, "critical/app/memory.low", "104857600"},
		{"limit, v1", 1, platform.ProtectLimit, "idle/memory.limit_in_bytes", "62914560"},
		{"limit, v2", 2, platform.ProtectLimit, "idle/memory.max", "62914560"},
		{"headroom, v2", 2, platform.ProtectHeadroom, "idle/memory.max", ""},
	} {
		s.Protect = c.protect
		b := fakeBox(t, c.version, s, map[string]string{
			"critical/memory.swappiness": "", "critical/memory.low": "", "critical/app/memory.low": "", "idle/memory.limit_in_bytes": "", "idle/memory.max": "",
		})
		if err := errors.Join(b.protect(), b.protectBelow()); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := b.holds(t, c.file); got != c.want {
			t.Errorf("%s: %s holds %q, want %q", c.name, c.file, got, c.want)
		}
	}
}

// The keeper makes room in the idle class alone, and leaves its limit as it was.
func TestRoomIsMadeInTheIdleClass(t *testing.T) {
	s := plain
	s.Memory, s.Protect = 256<<20, platform.ProtectHeadroom
	for version, asked := range map[int]string{1: "idle/memory.limit_in_bytes", 2: "idle/memory.reclaim"} {
		b := fakeBox(t, version, s, map[string]string{
			"memory.usage_in_bytes": "260046848", "memory.current": "260046848", // 248 MiB, of which 8 are missing to 16 free
			"idle/memory.usage_in_bytes": "209715200", "idle/memory.current": "209715200",
			"idle/memory.limit_in_bytes": "", "idle/memory.reclaim": "",
		})
		k := &keeper{box: b, limit: s.Memory, idle: -1}
		made, err := k.makeRoom()
		if err != nil || made {
			t.Errorf("v%d: %v, %v: nothing moves in a tree of files", version, made, err)
		}
		want := map[int]string{1: "-1", 2: "12582912"}[version] // v1: what was; v2: 8 MiB and a quarter of 16 more
		if got := b.holds(t, asked); !strings.HasPrefix(got, want) {
			t.Errorf("v%d: %s holds %q, want %q", version, asked, got, want)
		}
		if _, reclaiming := k.used(); reclaiming <= 0 {
			t.Errorf("v%d: the time that it took is not reported", version)
		}
	}
}
