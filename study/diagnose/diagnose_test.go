package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/model/quota"
	"tare/probe/bursts"
	"tare/report"
)

const ms = time.Millisecond

var quietHost = &Host{CPUs: 2, Kernel: quota.DefaultKernel, Containers: []container.Container{{Name: "web"}, {Name: "batch"}}}

// isolated is a container that does 30 ms of work once a second, under a quota of 13 ms in
// each 100 ms: 13 ms are done, the rest of the period is waited for, twice over. Each piece of
// work takes 174 ms longer.
func isolated() *Facts {
	seen := &bursts.Group{Counts: bursts.Counts{CPUTime: 240 * ms, Delays: 8 * product(30*ms, 174*ms)}}
	for range 8 {
		seen.Burst.Add(30 * ms)
		seen.Blocked.Add(795 * ms)
		seen.Wait.Add(87 * ms)
		seen.Wait.Add(87 * ms)
	}
	seen.Behind = []bursts.Behind{{Group: bursts.Quota, Time: 8 * 174 * ms, Waits: 16}}
	return &Facts{
		Container: container.Container{Engine: container.Docker, Name: "web"}, CPUs: 2,
		Bandwidth: cgroup.Bandwidth{Quota: 13 * ms, Period: 100 * ms},
		Span:      10 * time.Second,
		Used:      Counts{CPU: 300 * ms, Periods: 30, Throttled: 20, ThrottledTime: 10 * 174 * ms},
		Watched:   8 * time.Second,
		During:    Counts{CPU: 240 * ms, Periods: 24, Throttled: 16, ThrottledTime: 8 * 174 * ms},
		Sched:     seen,
	}
}

// product is a burst's part of [bursts.Counts.Delays].
func product(length, waited time.Duration) float64 { return float64(length) * float64(waited) }

func one(t *testing.T, found []Finding) Finding {
	t.Helper()
	if len(found) != 1 {
		t.Fatalf("%d findings, want one: %+v", len(found), found)
	}
	return found[0]
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.05*want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestThrottledWork(t *testing.T) {
	found := one(t, Diagnose(quietHost, []*Facts{isolated()}))
	if found.Kind != Throttled || found.Level != High {
		t.Errorf("%s is %s, want throttled and high", found.ID, found.Level)
	}
	near(t, "cost", found.Cost.Rate, 0.174)
	near(t, "each", found.Cost.Each.Seconds(), 0.174)
	near(t, "events", found.Cost.Events, 1)
	if len(found.Set) != 1 || !strings.Contains(found.Set[0].Command, "--cpu-period 100000 --cpu-quota 30000 ") {
		t.Errorf("to be set: %+v, want a quota of 30 ms in each 100 ms, and no burst", found.Set)
	}
	// A piece of work takes 30 ms with it, and waits for the rest of two periods without it.
	near(t, "predicted p99", found.Set[0].P99.Seconds(), 0.03)
	near(t, "predicted p99 as it is", found.Set[0].P99Now.Seconds(), 0.204)
}

// Wherever work of one length lies within its step of the histogram, what is proposed is no less than it, and
// at most the margin and two steps of the model more.
func TestTheQuotaIsThatOfTheWork(t *testing.T) {
	for micros := 20_000; micros <= 60_000; micros += 3300 {
		work := time.Duration(micros) * time.Microsecond
		f := isolated()
		f.Sched.Burst = bursts.Histogram{}
		for range 8 {
			f.Sched.Burst.Add(work)
		}
		q, ok := smallestQuota(quietHost, f, workOf(f))
		if least, most := work.Truncate(ms), work+work/32+2*ms; !ok || q < least || q > most {
			t.Errorf("work of %v: a quota of %v, want %v to %v", work, q, least, most)
		}
	}
}

// Short pieces: each of those that met the end of the quota waited for the rest of the period,
// and no piece can have waited longer.
func TestShortWorkWaitsForNoMoreThanAPeriod(t *testing.T) {
	seen := &bursts.Group{Counts: bursts.Counts{CPUTime: 4 * time.Second, Delays: 1000 * product(ms, 25*ms)}}
	for range 4000 {
		seen.Burst.Add(ms)
		seen.Blocked.Add(ms)
	}
	seen.Behind = []bursts.Behind{{Group: bursts.Quota, Time: 1000 * 25 * ms, Waits: 1000}}
	f := isolated()
	f.Bandwidth.Quota, f.Sched = 50*ms, seen
	found := one(t, Diagnose(quietHost, []*Facts{f}))
	near(t, "each", found.Cost.Each.Seconds(), 0.025)
	// The cost is the product of what the evidence shows: not of all pieces, of which most waited for nothing.
	want := fmt.Sprintf("%s a second, each for 25 ms", report.Rounded(found.Cost.Rate/0.025, 3))
	if !slices.ContainsFunc(found.Evidence, func(e Fact) bool { return e.Value == want }) {
		t.Errorf("%+v, want %s", found.Evidence, want)
	}
}

func TestAQuotaOfTheGroupAbove(t *testing.T) {
	f := isolated()
	f.QuotaOf = "/kubepods/pod1"
	if set := one(t, Diagnose(quietHost, []*Facts{f})).Set; len(set) != 1 || !strings.Contains(set[0].Says, "/kubepods/pod1") {
		t.Errorf("to be set: %+v, want the group above", set)
	}
}

func TestCommandsThatTheOwnerTakes(t *testing.T) {
	b := cgroup.Bandwidth{Quota: 30 * ms, Period: 100 * ms}
	of := func(c container.Container, version int) *Facts {
		return &Facts{Container: c, CPU: cgroup.Place{Hierarchy: cgroup.Hierarchy{Version: version, Mount: "/sys/fs/cgroup/cpu", Root: "/"}, Path: "/my app"}}
	}
	for _, c := range []struct {
		facts *Facts
		want  string
	}{
		{of(container.Container{Engine: container.Docker, Name: "web"}, 1), "docker update --cpu-period 100000 --cpu-quota 30000 web"},
		{of(container.Container{Engine: container.Docker, Name: "web", Kept: container.Kept{HasCPUs: true}}, 1), "docker update --cpus 0.3 web"},
		{of(container.Container{Engine: container.Docker, Name: "x;id"}, 2), "docker update --cpu-period 100000 --cpu-quota 30000 'x;id'"},
		{of(container.Container{Engine: container.Kubernetes}, 2), "resources: {limits: {cpu: 300m}}"},
		{of(container.Container{Engine: container.Cgroup, Cgroup: `/sys/fs/cgroup/a\x2d;b.service`}, 2), `systemctl set-property 'a\x2d;b.service' CPUQuota=30% CPUQuotaPeriodSec=100ms`},
		{of(container.Container{Engine: container.Cgroup, Cgroup: "/sys/fs/cgroup/lxc/--host=x.scope"}, 1), "echo 30000 > '/sys/fs/cgroup/cpu/my app/cpu.cfs_quota_us'"},
		{of(container.Container{Engine: container.Cgroup}, 1), "echo 30000 > '/sys/fs/cgroup/cpu/my app/cpu.cfs_quota_us'"},
		{of(container.Container{Engine: container.Cgroup}, 2), "echo 30000 100000 > '/sys/fs/cgroup/cpu/my app/cpu.max'"},
	} {
		if got := quotaCommand(c.facts, b); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
		// No quota is written smaller than it is.
		small := cgroup.Bandwidth{Quota: 1250 * time.Microsecond, Period: 100 * ms}
		want := strings.NewReplacer("0.3 ", "0.013 ", "300m", "13m", "30%", "1.3%", "30000", "1250").Replace(c.want)
		if got := quotaCommand(c.facts, small); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A burst of the quota's own size ends what is not more than twice the quota.
func TestABurstIsEnough(t *testing.T) {
	f := isolated()
	f.Bandwidth.Quota = 20 * ms
	var settings []string
	for _, to := range one(t, Diagnose(quietHost, []*Facts{f})).Set {
		settings = append(settings, to.Says)
	}
	if all := strings.Join(settings, "; "); !strings.Contains(all, "a burst of ") {
		t.Errorf("to be set: %s, want a burst among them", all)
	}
}

func TestASleeperPaysNothing(t *testing.T) {
	if found := one(t, Diagnose(quietHost, []*Facts{sleeper()})); found.Level != Harmless || len(found.Set) > 0 {
		t.Errorf("%+v, want it harmless and nothing to set", found)
	}
}

// victim works for 30 ms, ten times a second, on the CPU of one that never stops: it waits
// for about as long as it works.
func victim() *Facts {
	seen := &bursts.Group{Counts: bursts.Counts{CPUTime: 2400 * ms, Delays: 80 * product(30*ms, 30*ms)}}
	for range 80 {
		seen.Burst.Add(30 * ms)
		seen.Blocked.Add(40 * ms)
		seen.Wait.Add(30 * ms)
	}
	seen.Behind = []bursts.Behind{{Group: 1, Time: 2300 * ms}, {Group: bursts.Others, Time: 60 * ms}, {Group: bursts.Nobody, Time: 40 * ms}}
	return &Facts{
		Container: container.Container{Engine: container.Docker, Name: "web"}, CPUs: 1,
		Span: 10 * time.Second, Watched: 8 * time.Second, Sched: seen,
	}
}

func TestANoisyNeighbourIsNamed(t *testing.T) {
	noisy := &Facts{
		Container: container.Container{Name: "batch"}, Self: 1, CPUs: 1, Span: 10 * time.Second, Watched: 8 * time.Second,
		Sched: &bursts.Group{
			Counts: bursts.Counts{CPUTime: 5600 * ms}, Unfinished: []time.Duration{8 * time.Second},
			Behind: []bursts.Behind{{Group: 0, Time: 2400 * ms}},
		},
	}
	found := one(t, Diagnose(quietHost, []*Facts{victim(), noisy}))
	if found.ID != "web/noisy-neighbour:batch" || found.Level != High {
		t.Errorf("%s is %s, want web's neighbour batch, high", found.ID, found.Level)
	}
	near(t, "cost", found.Cost.Rate, 2.3/8)
	near(t, "each", found.Cost.Each.Seconds(), 2.3/80)
	if found.Set[0].Command != "tare place web batch" || found.Detail != "tare place web batch" {
		t.Errorf("to be set: %+v, in detail %s", found.Set, found.Detail)
	}
}

// A process chooses its command, by which it is shown, and commands name it by its id.
func TestCommandsNameProcessesByTheirIDs(t *testing.T) {
	process := container.Container{Engine: container.Process, ID: "7", Name: "--json=x/7"}
	h := *quietHost
	h.Containers = []container.Container{process, {Engine: container.Process, ID: "8", Name: "--all/8"}}
	f := victim()
	f.Container = process
	if found := one(t, Diagnose(&h, []*Facts{f})); found.Set[0].Command != "tare place pid:7 pid:8" || found.Detail != "tare place pid:7 pid:8" {
		t.Errorf("to be set: %+v, in detail %s", found.Set, found.Detail)
	}
	for kind, want := range map[Kind]string{Throttled: "tare causes pid:7", MemoryLimit: "tare faults pid:7"} {
		if got := explanations[kind].detail(process, &Finding{Container: process.Name}); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
	h.modelled = mostModelled
	if got := remedies(&h, &Facts{Container: process}, work{}); len(got) != 1 || got[0].Command != "tare diagnose pid:7" {
		t.Errorf("throttled: %+v", got)
	}
}

func TestMemoryLimit(t *testing.T) {
	f := &Facts{
		Container: container.Container{Name: "db", Engine: container.Docker}, Limit: 64 << 20, Span: 10 * time.Second,
		Used: Counts{Memory: cgroup.Reclaim{Usage: 64 << 20, AtLimit: 50, Refaults: 5000, MajorFaults: 800}},
	}
	found := one(t, Diagnose(quietHost, []*Facts{f}))
	if found.Kind != MemoryLimit || found.Based != Estimated {
		t.Errorf("%s, %s: want memory-limit, estimated", found.ID, found.Based)
	}
	f.Used.HasStall, f.Used.MemoryStall = true, 2*time.Second
	found = one(t, Diagnose(quietHost, []*Facts{f}))
	near(t, "cost", found.Cost.Rate, 0.2)
	if found.Based != Estimated || found.Set[0].Command != "docker update --memory 88080384 db" {
		t.Errorf("%s, to be set: %+v", found.Based, found.Set)
	}
	f.Container.Kept.HasSwapLimit, f.Container.Kept.Swap = true, 64<<20
	found = one(t, Diagnose(quietHost, []*Facts{f}))
	if want := "docker update --memory 88080384 --memory-swap 155189248 db"; found.Set[0].Command != want {
		t.Errorf("to be set: %s, want %s", found.Set[0].Command, want)
	}
	f.Used.Memory.Refaults = 50_000 // 195 MiB in ten seconds
	if found = one(t, Diagnose(quietHost, []*Facts{f})); found.Set[0].Says != "a memory limit of 128 MiB as a first step, and another look" {
		t.Errorf("to be set: %s", found.Set[0].Says)
	}
	f.Used.Memory.Refaults = 5000
	f.Used.Memory.OOMKills = 2
	found = one(t, Diagnose(quietHost, []*Facts{f}))
	if found.Level != High || found.Says != "needs more memory than its limit of 64 MiB: 2 processes killed" {
		t.Errorf("%s: %s", found.Level, found.Says)
	}
	if got, want := found.sentence(), "db needs more memory than its limit of 64 MiB: 2 processes killed."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	f.Used.Memory.OOMKills = 0
	// A quarter of a second on a CPU and three off it, in ten.
	f.Watched, f.InKernel = 10*time.Second, InKernel{ReclaimWait: 3 * time.Second, BlockedIn: 10 * time.Second}
	f.InKernel.Sampled = Sampled{All: 400, CPU: time.Second, Reclaim: 100}
	for _, c := range []struct {
		read, lost int64
		cost       float64
		based      Confidence
	}{
		{5000 * page, 0, 0.325, Measured},
		{5000 * page, 1, 0.325, Estimated},
		{10000 * page, 0, 0.1625, Estimated}, // half of the pages had to be read anyway
		{0, 0, 0.325, Estimated},             // nobody counts what is read
		{-1, 0, 0.325, Estimated},
	} {
		f.Used.Memory.Read, f.InKernel.BlockedLost = c.read, uint64(c.lost)
		found = one(t, Diagnose(quietHost, []*Facts{f}))
		near(t, "cost", found.Cost.Rate, c.cost)
		if found.Based != c.based {
			t.Errorf("%d bytes read, %d lost: %s, want %s", c.read, c.lost, found.Based, c.based)
		}
	}
	// A kernel with other names for that: what pressure tells.
	f.InKernel.ReclaimWait, f.InKernel.Sampled.Reclaim = 0, 0
	near(t, "cost", one(t, Diagnose(quietHost, []*Facts{f})).Cost.Rate, 0.2)
	f.Used.Memory.AtLimit, f.Used.Memory.HasMet = 0, true
	one(t, Diagnose(quietHost, []*Facts{f}))
	f.Used.Memory.HasMet = false
	if found := Diagnose(quietHost, []*Facts{f}); len(found) > 0 {
		t.Errorf("a limit that is not met is blamed: %+v", found)
	}
}

func TestTheHealthyHaveNoLine(t *testing.T) {
	f := victim()
	f.Sched.Behind = []bursts.Behind{{Group: bursts.Others, Time: 30 * ms}, {Group: bursts.Nobody, Time: 300 * ms}}
	f.Sched.Delays = 80 * product(30*ms, 4*ms)
	if found := Diagnose(quietHost, []*Facts{f}); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
}

// checked is one of twenty containers whose check runs each second.
func checked(every time.Duration) *Facts {
	return &Facts{
		Container: container.Container{Name: "web", Engine: container.Docker, Kept: container.Kept{CheckEvery: every}},
		Span:      10 * time.Second,
		Used:      Counts{CPU: 200 * ms},
		Engine:    EngineWork{Shim: 500 * ms, Daemon: 100 * ms},
	}
}

func TestACheckThatCostsMoreThanTheService(t *testing.T) {
	found := one(t, Diagnose(quietHost, []*Facts{checked(time.Second)}))
	if found.Kind != Checks || !strings.Contains(found.Says, "costs more than the service") {
		t.Errorf("%s: %s", found.ID, found.Says)
	}
	near(t, "cost", found.Cost.Rate, 0.06)
	near(t, "each", found.Cost.Each.Seconds(), 0.06)
	if found.Set[0].Command != "docker run --health-interval 30s" {
		t.Errorf("to be set: %+v", found.Set)
	}
	rare := checked(5 * time.Minute)
	rare.Engine = EngineWork{Shim: 10 * ms}
	if found := Diagnose(quietHost, []*Facts{rare}); len(found) > 0 {
		t.Errorf("a rare check is blamed: %+v", found)
	}
}

// A node knows what the runtime starts in a pod, and not why.
func TestProbesOfAPod(t *testing.T) {
	pod := checked(0)
	pod.Container.Engine = container.Kubernetes
	pod.Engine = EngineWork{Shim: time.Second, Started: 500 * ms}
	found := one(t, Diagnose(quietHost, []*Facts{pod}))
	if found.Kind != Checks || !strings.Contains(found.Says, "exec probes") {
		t.Errorf("%s: %s", found.ID, found.Says)
	}
	near(t, "cost", found.Cost.Rate, 0.05)
	near(t, "saved", found.Set[0].Saves, 0.045)
	if found.Set[0].Command != "" || found.Cost.Each != 0 {
		t.Errorf("%+v", found)
	}
	pod.Engine.Started = 0 // the shim copies the container's output
	if found := Diagnose(quietHost, []*Facts{pod}); len(found) > 0 {
		t.Errorf("a pod without probes: %+v", found)
	}
	pod.Engine.Started, pod.Span = 2*10*ms, time.Second // two ticks
	if found := Diagnose(quietHost, []*Facts{pod}); len(found) > 0 {
		t.Errorf("two ticks: %+v", found)
	}
}

func TestALogFloodAndAProxy(t *testing.T) {
	flood := &Facts{
		Container: container.Container{Name: "chatty", Kept: container.Kept{LogDriver: "json-file"}},
		Span:      10 * time.Second, Engine: EngineWork{Daemon: 2 * time.Second, LogBytes: 50 << 20},
	}
	if found := one(t, Diagnose(quietHost, []*Facts{flood})); found.Kind != Log || !strings.Contains(found.Says, "5 MiB/s") {
		t.Errorf("%s: %s", found.ID, found.Says)
	}
	published := &Facts{Container: container.Container{Name: "web"}, Span: 10 * time.Second, Engine: EngineWork{Proxy: 3 * time.Second}}
	if found := one(t, Diagnose(quietHost, []*Facts{published})); found.Kind != Proxy || found.Level != High {
		t.Errorf("%s is %s", found.ID, found.Level)
	}
}

func TestShareDaemon(t *testing.T) {
	silent, checks, chatty := &Facts{Span: time.Second}, checked(time.Second), &Facts{Span: time.Second}
	chatty.Engine.LogBytes = 30 * checkWork
	shareDaemon([]*Facts{silent, checks, chatty}, 4*time.Second)
	if silent.Engine.Daemon != 0 || checks.Engine.Daemon != time.Second || chatty.Engine.Daemon != 3*time.Second {
		t.Errorf("shares %v, %v and %v, want 0, 1s and 3s", silent.Engine.Daemon, checks.Engine.Daemon, chatty.Engine.Daemon)
	}
}
