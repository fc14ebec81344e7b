package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tare/kernel/procfs"
)

const hybridMounts = `31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
36 31 0:34 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
99 31 0:32 /docker/abc /var/lib/box/root/sys/fs/cgroup/memory ro - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`

func layoutOf(t *testing.T, mountinfo string) Layout {
	t.Helper()
	mounts, err := procfs.ParseMountInfo(strings.NewReader(mountinfo))
	if err != nil {
		t.Fatal(err)
	}
	return NewLayout(mounts)
}

func TestLayout(t *testing.T) {
	hybrid := layoutOf(t, hybridMounts)
	if got := hybrid.Mode(); got != "hybrid (controllers on v1)" {
		t.Errorf("mode %q", got)
	}
	memory, ok := hybrid.For("memory")
	if !ok || memory.Mount != "/sys/fs/cgroup/memory" {
		t.Errorf("memory is at %q: a container's view was taken for the host's", memory.Mount)
	}
	if _, ok := hybrid.For("rdma"); ok {
		t.Error("found a controller that is not there")
	}
	two := layoutOf(t, "29 23 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n")
	if got := two.Mode(); got != "v2" {
		t.Errorf("mode %q", got)
	}
	one := layoutOf(t, "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n")
	if got := one.Mode(); got != "v1" {
		t.Errorf("mode %q", got)
	}
}

const members = "9:name=systemd:/init\n8:memory:/a:b\n3:cpuacct,cpu:/x (deleted)\n0::/u (deleted)\n"

func TestParseMembership(t *testing.T) {
	got, err := ParseMembership(strings.NewReader(members))
	if err != nil {
		t.Fatal(err)
	}
	want := []Membership{
		{ID: 9, Name: "systemd", Path: "/init"},
		{ID: 8, Controllers: []string{"memory"}, Path: "/a:b"},
		{ID: 3, Controllers: []string{"cpu", "cpuacct"}, Path: "/x (deleted)"},
		{ID: 0, Path: "/u", Deleted: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	group := layoutOf(t, hybridMounts).In(got)
	var dirs []string
	for _, p := range group.Places {
		dirs = append(dirs, p.Dir())
	}
	if diff := cmp.Diff([]string{
		"/sys/fs/cgroup/cpu,cpuacct/x (deleted)", "/sys/fs/cgroup/memory/a:b", "/sys/fs/cgroup/systemd/init", "/sys/fs/cgroup/unified/u",
	}, dirs); diff != "" {
		t.Error(diff)
	}
}

// Inside a container without a cgroup namespace, paths are the host's but only
// part of the tree is mounted.
func TestPlaceBelowPartialMount(t *testing.T) {
	h := Hierarchy{Version: 1, Mount: "/sys/fs/cgroup/memory", Root: "/docker/abc"}
	for path, want := range map[string]string{
		"/docker/abc":      "/sys/fs/cgroup/memory",
		"/docker/abc/tare": "/sys/fs/cgroup/memory/tare",
	} {
		if got := (Place{h, path}).Dir(); got != want {
			t.Errorf("%s is at %s, want %s", path, got, want)
		}
	}
}

// tree makes a fake hierarchy: files are the contents by path.
func tree(t *testing.T, version int, controllers []string, files map[string]string) Layout {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Layout{[]Hierarchy{{Version: version, Controllers: controllers, Mount: root, Root: "/"}}}
}

func TestReadLimits(t *testing.T) {
	for _, test := range []struct {
		name      string
		layout    Layout
		bandwidth Bandwidth
		shares    int
		cpus      string
		memory    int64
	}{
		{
			name: "v2, the parent's quota is tighter, the child's memory",
			layout: tree(t, 2, []string{"cpu", "cpuset", "memory"}, map[string]string{
				"a/cpu.max": "50000 100000", "a/cpu.max.burst": "1000", "a/memory.max": "max",
				"a/b/cpu.max": "100000 100000", "a/b/cpu.weight": "100", "a/b/memory.max": "1048576", "a/b/cpuset.cpus.effective": "0-1",
			}),
			bandwidth: Bandwidth{50 * time.Millisecond, 100 * time.Millisecond, time.Millisecond},
			shares:    2597, cpus: "0-1", memory: 1 << 20,
		},
		{
			name:   "v2, no controller handed down",
			layout: tree(t, 2, []string{"cpu", "cpuset", "memory"}, map[string]string{"a/b/cgroup.procs": ""}),
		},
		{
			name: "v1, its own quota, no memory limit",
			layout: tree(t, 1, []string{"cpu", "cpuset", "memory"}, map[string]string{
				"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000", "memory.limit_in_bytes": "9223372036854771712",
				"a/b/cpu.cfs_quota_us": "20000", "a/b/cpu.cfs_period_us": "10000", "a/b/cpu.cfs_burst_us": "0",
				"a/b/cpu.shares": "512", "a/b/cpuset.effective_cpus": "1", "a/b/memory.limit_in_bytes": "9223372036854771712",
			}),
			bandwidth: Bandwidth{20 * time.Millisecond, 10 * time.Millisecond, 0},
			shares:    512, cpus: "1",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := test.layout.At("/a/b")
			if got, err := g.Bandwidth(); got != test.bandwidth || err != nil {
				t.Errorf("bandwidth %+v, %v; want %+v", got, err, test.bandwidth)
			}
			if got, err := g.Shares(); got != test.shares || err != nil {
				t.Errorf("shares %d, %v; want %d", got, err, test.shares)
			}
			if got, err := g.CPUs(); got != test.cpus || err != nil {
				t.Errorf("CPUs %q, %v; want %q", got, err, test.cpus)
			}
			if got, err := g.MemoryLimit(); got != test.memory || err != nil {
				t.Errorf("memory %d, %v; want %d", got, err, test.memory)
			}
		})
	}
}

func TestApplyOnV2(t *testing.T) {
	blank := map[string]string{}
	for _, f := range []string{"cpu.max", "cpu.max.burst", "cpu.weight", "cpuset.cpus", "memory.max", "memory.swap.max"} {
		blank["tare/x/"+f] = ""
	}
	blank["cgroup.subtree_control"], blank["tare/cgroup.subtree_control"] = "cpu", ""
	layout := tree(t, 2, []string{"cpu", "cpuset", "memory"}, blank)
	group := layout.At("/tare/x")
	if err := group.Create("cpu", "cpuset", "memory", "absent"); err != nil {
		t.Fatal(err)
	}
	limits := Limits{Bandwidth{150 * time.Millisecond, 100 * time.Millisecond, 5 * time.Millisecond}, 1024, "0", 64 << 20}
	if err := group.Apply(limits); err != nil {
		t.Fatal(err)
	}
	root := layout.Hierarchies[0].Mount
	for name, want := range map[string]string{
		"cgroup.subtree_control":      "+cpu +cpuset +memory",
		"tare/cgroup.subtree_control": "+cpu +cpuset +memory",
		"tare/x/cpu.max":              "150000 100000",
		"tare/x/cpu.max.burst":        "5000",
		"tare/x/cpu.weight":           "39",
		"tare/x/cpuset.cpus":          "0",
		"tare/x/memory.max":           "67108864",
		"tare/x/memory.swap.max":      "67108864",
	} {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !strings.HasPrefix(string(b), want) {
			t.Errorf("%s holds %q (%v), want %q", name, b, err, want)
		}
	}
}

// The bounds are the kernel's own.
func TestBoundsOfBandwidth(t *testing.T) {
	layout, err := Host()
	if err != nil {
		t.Skip(err)
	}
	h, ok := layout.For("cpu")
	if !ok {
		t.Skip("no hierarchy has the cpu controller")
	}
	group := own(t, Layout{[]Hierarchy{h}})
	if err := group.Create("cpu"); err != nil { // version 2 hands it down
		t.Fatal(err)
	}
	for b, accepted := range map[Bandwidth]bool{
		{Quota: LeastQuota, Period: GreatestPeriod}:                    true,
		{Quota: 20 * time.Second, Period: 100 * time.Millisecond}:      true,
		{Quota: GreatestQuota, Period: LeastPeriod}:                    true,
		{Quota: LeastQuota - time.Microsecond, Period: LeastPeriod}:    false,
		{Quota: GreatestQuota + time.Microsecond, Period: LeastPeriod}: false,
		{Quota: LeastQuota, Period: LeastPeriod - time.Microsecond}:    false,
		{Quota: LeastQuota, Period: GreatestPeriod + time.Microsecond}: false,
	} {
		err := group.Apply(Limits{Bandwidth: b})
		if (err == nil) != accepted {
			t.Errorf("%v: %v, want it accepted: %t", b, err, accepted)
		}
		if own, err := group.Own(); accepted && (err != nil || own.Bandwidth != b) {
			t.Errorf("%v is read back as %v (%v)", b, own.Bandwidth, err)
		}
	}
}

func TestUse(t *testing.T) {
	hybrid := Layout{append(
		tree(t, 1, []string{"cpu", "cpuacct", "memory"}, map[string]string{
			"a/cpu.stat": "nr_periods 9\nnr_throttled 3\nthrottled_time 5000000", "a/cpuacct.usage": "7000000000",
			"a/cpuacct.stat":              "user 500\nsystem 200",
			"a/memory.max_usage_in_bytes": "4096", "a/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1",
		}).Hierarchies,
		tree(t, 2, nil, map[string]string{"a/cpu.stat": "usage_usec 6999999\nuser_usec 1\nsystem_usec 2"}).Hierarchies...)}
	two := tree(t, 2, []string{"cpu", "memory"}, map[string]string{
		"a/cpu.stat":    "usage_usec 7000000\nuser_usec 5000000\nsystem_usec 2000000\nnr_periods 9\nnr_throttled 3\nthrottled_usec 5000",
		"a/memory.peak": "4096", "a/memory.events": "low 0\noom 2\noom_kill 1",
	})
	want := Use{CPU: 7 * time.Second, System: 2 * time.Second, Periods: 9, Throttled: 3, ThrottledTime: 5 * time.Millisecond, MemoryPeak: 4096, OOMKills: 1}
	for _, layout := range []Layout{hybrid, two} {
		got, err := layout.At("/a").Use()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", layout.Mode(), err, diff)
		}
	}
}

func TestSharesAndWeight(t *testing.T) {
	for weight := 1; weight <= 10000; weight++ {
		if back := WeightOfShares(SharesOfWeight(weight)); back < weight-1 || back > weight {
			t.Fatalf("weight %d came back as %d", weight, back)
		}
	}
	if WeightOfShares(2) != 1 || WeightOfShares(262144) != 10000 {
		t.Error("the ends of the scales do not meet")
	}
}

// own makes a real group below the test's own, in the hierarchies that can
// follow processes.
func own(t testing.TB, layout Layout) Group {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making cgroups needs root")
	}
	mine, _, err := layout.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	group := mine.Tracking().Child("tare-test").Child(fmt.Sprintf("%s-%d", strings.ReplaceAll(strings.ToLower(t.Name()), "/", "-"), os.Getpid()))
	if len(group.Places) == 0 {
		t.Skip("neither a cgroup2 nor a freezer hierarchy is mounted")
	}
	if err := group.Create(); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			t.Skipf("may not make cgroups here: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(group.Kill(context.Background()), group.Remove(context.Background())); err != nil {
			t.Error(err)
		}
		if group.Exists() {
			t.Error("the group is still there")
		}
	})
	return group
}

// ways are the host's hierarchies that can follow processes, each alone.
func ways(t *testing.T) (all []Layout) {
	t.Helper()
	layout, err := Host()
	if err != nil {
		t.Skip(err)
	}
	for _, keep := range []func(Hierarchy) bool{
		func(h Hierarchy) bool { return h.Version == 2 },
		func(h Hierarchy) bool { return h.Has("freezer") && h.Version == 1 },
	} {
		if l := (Layout{slices.DeleteFunc(slices.Clone(layout.Hierarchies), func(h Hierarchy) bool { return !keep(h) })}); len(l.Hierarchies) > 0 {
			all = append(all, l)
		}
	}
	return all
}

// Groups whose names look like the kernel's marks, or end in white space, are found.
func TestOfOddNames(t *testing.T) {
	for _, way := range ways(t) {
		group := own(t, way)
		for _, name := range []string{"x (deleted)", "blank ", "return\r", `back\012slash`, "a:b", "no-break\u00a0space"} {
			odd := group.Child(name)
			if err := odd.Create(); err != nil {
				t.Fatal(err)
			}
			sleeper := exec.Command("sleep", "3600")
			if err := sleeper.Start(); err != nil {
				t.Fatal(err)
			}
			for _, file := range odd.ProcessFiles() {
				if err := os.WriteFile(file, []byte(strconv.Itoa(sleeper.Process.Pid)), 0); err != nil {
					t.Error(err)
				}
			}
			got, _, err := way.Of(sleeper.Process.Pid)
			if diff := cmp.Diff(odd, got); diff != "" || err != nil {
				t.Errorf("%q: %v %s", name, err, diff)
			}
			_ = sleeper.Process.Kill()
			_ = sleeper.Wait() // it was killed
			if err := odd.Remove(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestKillReachesEveryDescendant(t *testing.T) {
	for _, way := range ways(t) {
		t.Run(strings.Fields(way.Mode())[0], func(t *testing.T) {
			group := own(t, way)
			// The shell joins, then leaves a daemon in a session of its own.
			script := `for f; do echo $$ > "$f"; done; setsid sleep 3600 & setsid sleep 3600 & echo ready; wait`
			cmd := exec.Command("sh", append([]string{"-c", script, "sh"}, group.ProcessFiles()...)...)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Wait() }()
			defer func() { _ = cmd.Process.Kill() }()
			ready := make([]byte, 6)
			if _, err := stdout.Read(ready); err != nil {
				t.Fatal(err)
			}
			pids, err := group.Processes()
			if err != nil || len(pids) < 3 || !slices.Contains(pids, cmd.Process.Pid) {
				t.Fatalf("processes %v (%v), want the shell %d and two more", pids, err, cmd.Process.Pid)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := group.Kill(ctx); err != nil {
				t.Fatal(err)
			}
			for _, pid := range pids {
				if stat, err := procfs.Host.Process(pid).Stat(); err == nil && !stat.Zombie() {
					t.Errorf("process %d (%s) is alive", pid, stat.Comm)
				}
			}
		})
	}
}

// A process that has the id of one which ended after the group was listed is not killed in its place.
func TestKillSparesOthers(t *testing.T) {
	for _, way := range ways(t) {
		group := own(t, way)
		other, member, ended := exec.Command("sleep", "3600"), exec.Command("sleep", "3600"), exec.Command("true")
		for _, cmd := range []*exec.Cmd{other, member, ended} {
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		}
		if err := errors.Join(ended.Wait(), group.Add(member.Process.Pid)); err != nil {
			t.Fatal(err)
		}
		listed := []int{other.Process.Pid, ended.Process.Pid, member.Process.Pid}
		if err := group.killThose(listed); err != nil {
			t.Fatal(err)
		}
		if err := group.Kill(t.Context()); err != nil {
			t.Error(err)
		}
		if stat, err := procfs.Host.Process(other.Process.Pid).Stat(); err != nil || stat.Zombie() {
			t.Errorf("%s: a process outside of the group was killed: %v", way.Mode(), err)
		}
		if stat, err := procfs.Host.Process(member.Process.Pid).Stat(); err == nil && !stat.Zombie() {
			t.Errorf("%s: a process of the group is alive", way.Mode())
		}
	}
}

func TestRemoveTwiceAndRoot(t *testing.T) {
	layout, err := Host()
	if err != nil {
		t.Skip(err)
	}
	group := own(t, layout)
	if err := group.Child("below").Create(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := group.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := layout.At("/").Remove(t.Context()); err == nil {
		t.Error("removed the root")
	}
}

func FuzzParseMembership(f *testing.F) {
	f.Add(members)
	f.Fuzz(func(t *testing.T, s string) {
		all, err := ParseMembership(strings.NewReader(s))
		if err != nil {
			return
		}
		for _, m := range all {
			if !strings.HasPrefix(m.Path, "/") || m.ID < 0 {
				t.Errorf("accepted %+v", m)
			}
			if again, err := ParseMembership(strings.NewReader(m.String())); err != nil || again[0].Path != m.Path || again[0].Deleted != m.Deleted {
				t.Errorf("%+v is written as %q, which is read as %+v, %v", m, m, again, err)
			}
		}
	})
}

func FuzzParseCPUMax(f *testing.F) {
	f.Add("50000 100000")
	f.Add("max 100000")
	f.Fuzz(func(t *testing.T, s string) {
		if q, p, err := ParseCPUMax(s); err == nil && (q < 0 || p <= 0) {
			t.Errorf("%q gave quota %v, period %v", s, q, p)
		}
	})
}

func FuzzParseMemoryLimit(f *testing.F) {
	f.Add("max")
	f.Add("9223372036854771712")
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := ParseMemoryLimit(s); err == nil && v < 0 {
			t.Errorf("%q gave %d", s, v)
		}
	})
}

func FuzzParseKeyed(f *testing.F) {
	f.Add("usage_usec 7\nnr_throttled 3")
	f.Fuzz(func(t *testing.T, s string) { _, _ = ParseKeyed(strings.NewReader(s)) })
}

// Following a process must not change how it runs.
func TestTracking(t *testing.T) {
	in := []Membership{{Controllers: []string{"freezer"}, Path: "/f"}, {Controllers: []string{"cpu", "cpuacct"}, Path: "/c"}, {Controllers: []string{"cpuacct"}, Path: "/a"}, {Path: "/u"}}
	for name, test := range map[string]struct {
		mounts string
		want   []string
	}{
		"version 2 where it is": {hybridMounts, []string{"/sys/fs/cgroup/unified/u/x"}},
		"the freezer and pure accounting, from the root": {
			"36 31 0:34 / /cg/freezer rw - cgroup cgroup rw,freezer\n37 31 0:35 / /cg/cpuacct rw - cgroup cgroup rw,cpuacct\n",
			[]string{"/cg/cpuacct/x", "/cg/freezer/x"}},
		"no accounting that schedules too": {
			"36 31 0:34 / /cg/freezer rw - cgroup cgroup rw,freezer\n37 31 0:35 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
			[]string{"/cg/freezer/x"}},
		"nothing without a freezer": {"37 31 0:35 / /cg/cpuacct rw - cgroup cgroup rw,cpuacct\n", nil},
	} {
		var got []string
		for _, p := range layoutOf(t, test.mounts).In(in).Tracking().Child("x").Places {
			got = append(got, p.Dir())
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// What a runtime has not put in force is found by comparing with what was asked.
func TestMissingLimits(t *testing.T) {
	two := tree(t, 2, []string{"cpu", "cpuset", "memory"}, map[string]string{
		"cpu.max": "1000 100000", "a/cpu.max": "50000 100000", "a/cpu.max.burst": "0", "a/cpu.weight": "20", "a/cpuset.cpus.effective": "0", "a/memory.max": "67108864",
	})
	have, err := two.At("/a").Own()
	if err != nil {
		t.Fatal(err)
	}
	half := Bandwidth{Quota: 50 * time.Millisecond, Period: 100 * time.Millisecond}
	for name, test := range map[string]struct {
		want Limits
		diff string
	}{
		"nothing asked":   {Limits{}, ""},
		"all there":       {Limits{half, 512, "0", 64 << 20}, ""},
		"within a page":   {Limits{Memory: 64<<20 + 1}, ""},
		"no burst":        {Limits{Bandwidth: Bandwidth{half.Quota, half.Period, time.Millisecond}}, "the CPU bandwidth is 50ms each 100ms instead of 50ms each 100ms, saving up to 1ms"},
		"shares":          {Limits{Shares: 2048}, "the number of CPU shares is 500 instead of 2048"},
		"memory and CPUs": {Limits{CPUs: "1", Memory: 32 << 20}, "the set of CPUs is 0 instead of 1, the memory limit is 67108864 instead of 33554432"},
	} {
		if got := test.want.Missing(have); got != test.diff {
			t.Errorf("%s: %q, want %q", name, got, test.diff)
		}
	}
}
