package diagnose

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/probe/bursts"
	"tare/report"
)

// A quota that throttles while CPUs are idle and nobody waits spares nobody anything. Its cost is
// that of the throttling, and is counted once.
func TestSharesWouldDo(t *testing.T) {
	idle := *quietHost
	idle.Idle = 0.6
	found := Diagnose(&idle, []*Facts{isolated()})
	if len(found) != 2 || found[0].Kind != Throttled || found[1].Kind != Needless {
		t.Fatalf("%+v, want throttled and then needless-quota", found)
	}
	if one := found[1]; one.Within != found[0].ID || one.Set[0].Command != "docker update --cpu-quota -1 web" {
		t.Errorf("%+v, want it within %s, and no quota to be set", one, found[0].ID)
	}
	near(t, "cost", found[1].Cost.Rate, found[0].Cost.Rate)

	waits := &Facts{
		Container: container.Container{Name: "other"}, Self: 1, CPUs: 2, Span: 10 * time.Second, Watched: 8 * time.Second,
		Sched: &bursts.Group{Behind: []bursts.Behind{{Group: bursts.Others, Time: 200 * ms}}},
	}
	crowded := isolated()
	crowded.Sched.Behind = append(crowded.Sched.Behind, bursts.Behind{Group: bursts.Others, Time: 300 * ms})
	for why, hosts := range map[string]func() []Finding{
		"it waits behind the host":      func() []Finding { return Diagnose(&idle, []*Facts{crowded}) },
		"another container waits":       func() []Finding { return Diagnose(&idle, []*Facts{isolated(), waits}) },
		"the CPUs are busy":             func() []Finding { return Diagnose(quietHost, []*Facts{isolated()}) },
		"what was refused does not fit": func() []Finding { h := idle; h.CPUs = 0; return Diagnose(&h, []*Facts{isolated()}) },
		"throttling costs nobody":       func() []Finding { return Diagnose(&idle, []*Facts{sleeper()}) },
	} {
		for _, f := range hosts() {
			if f.Kind == Needless {
				t.Errorf("%s, and shares are said to do: %+v", why, f)
			}
		}
	}
}

// The model takes time: of many throttled containers it is asked for those that used most.
func TestTheModelIsBounded(t *testing.T) {
	var all []*Facts
	for range mostModelled + 1 {
		all = append(all, isolated())
	}
	commands := map[string]int{}
	for _, f := range Diagnose(quietHost, all) {
		commands[f.Set[0].Command]++
	}
	if commands["tare diagnose web"] != 1 || len(commands) != 2 {
		t.Errorf("%v, want one that is to be looked at alone", commands)
	}
}

// sleeper is throttled now and then, and loses nothing by it.
func sleeper() *Facts {
	f := isolated()
	f.Used = Counts{CPU: 4 * ms, Periods: 4, Throttled: 2, ThrottledTime: 198 * ms}
	f.During, f.Sched = Counts{}, nil
	return f
}

// vanilla is a container with the time of one CPU on a host of 16, whose threads run for 300 us
// and move to another CPU 1,000 times a second.
func vanilla() *Facts {
	seen := &bursts.Group{Counts: bursts.Counts{CPUTime: 6 * time.Second, Migrations: 8000}, PerCPU: make([]bursts.Counts, 16)}
	seen.PerCPU[3].CPUTime, seen.PerCPU[11].CPUTime = 4*time.Second, 2*time.Second
	for range 20_000 {
		seen.Run.Add(300 * time.Microsecond)
		seen.Burst.Add(300 * time.Microsecond)
	}
	return &Facts{
		Container: container.Container{Name: "web", Engine: container.Docker}, CPUs: 16,
		Bandwidth: cgroup.Bandwidth{Quota: 100 * ms, Period: 100 * ms},
		Span:      10 * time.Second, Watched: 8 * time.Second, Sched: seen,
	}
}

func TestASmallContainerThatMoves(t *testing.T) {
	large := &Host{CPUs: 16, Containers: []container.Container{{Name: "web"}}}
	found := one(t, Diagnose(large, []*Facts{vanilla()}))
	if found.Kind != Unpinned || found.Level != Medium || found.Based != Estimated {
		t.Errorf("%s is %s and %s, want unpinned, medium and estimated", found.ID, found.Level, found.Based)
	}
	near(t, "cost", found.Cost.Rate, 1000*50e-6)
	near(t, "events", found.Cost.Events, 1000)
	if found.Set[0].Command != "docker update --cpuset-cpus 3 web" {
		t.Errorf("to be set: %+v, want the CPU on which it ran most", found.Set)
	}
	for why, change := range map[string]func(h *Host, f *Facts){
		"it has a set of CPUs":          func(_ *Host, f *Facts) { f.CPUs = 4 },
		"the host has two CPUs":         func(h *Host, f *Facts) { h.CPUs, f.CPUs = 2, 2 },
		"it has no quota":               func(_ *Host, f *Facts) { f.Bandwidth = cgroup.Bandwidth{} },
		"its quota is large":            func(_ *Host, f *Facts) { f.Bandwidth.Quota = 800 * ms },
		"the host is hardly larger":     func(h *Host, f *Facts) { h.CPUs, f.CPUs, f.Bandwidth.Quota = 3, 3, 200*ms },
		"it moves as seldom as ours do": func(_ *Host, f *Facts) { f.Sched.Migrations = 8 * 128 },
		"nobody watched":                func(_ *Host, f *Facts) { f.Watched, f.Sched = 0, nil },
	} {
		h, f := *large, vanilla()
		change(&h, f)
		if found := Diagnose(&h, []*Facts{f}); len(found) > 0 {
			t.Errorf("%s, and it is blamed: %+v", why, found)
		}
	}
}

// What is lost by a move is not more than what was run.
func TestShortRunsHaveLittleToLose(t *testing.T) {
	f := vanilla()
	f.Sched.Run = bursts.Histogram{}
	for range 8000 {
		f.Sched.Run.Add(20 * time.Microsecond)
	}
	near(t, "each", one(t, Diagnose(&Host{CPUs: 16}, []*Facts{f})).Cost.Each.Seconds(), 20e-6)
}

func TestPinning(t *testing.T) {
	at := cgroup.Place{Hierarchy: cgroup.Hierarchy{Version: 2, Mount: "/sys/fs/cgroup", Root: "/"}, Path: "/app"}
	for _, c := range []struct {
		container container.Container
		want      string
	}{
		{container.Container{Engine: container.Podman, Name: "web"}, "podman update --cpuset-cpus 1,3 web"},
		{container.Container{Engine: container.Kubernetes}, "resources: {limits: {cpu: 2}, requests: {cpu: 2}} # exclusive where the node's cpuManagerPolicy is static"},
		{container.Container{Engine: container.Cgroup, Cgroup: "/sys/fs/cgroup/a.service"}, "systemctl set-property a.service AllowedCPUs=1,3"},
		{container.Container{Engine: container.Cgroup, Cgroup: "/sys/fs/cgroup/app"}, "echo 1,3 > /sys/fs/cgroup/app/cpuset.cpus"},
	} {
		if got := pinCommand(&Facts{Container: c.container, CPU: at}, 2, "1,3"); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// Three of twelve containers were compared, and hold 100 MiB three times.
func TestDuplicates(t *testing.T) {
	h := &Host{CPUs: 2, Memory: 16 << 30}
	f := &Facts{
		Container: container.Container{Name: "web-1"}, Span: 10 * time.Second,
		Twice: &Twice{
			Image: "web:2", Siblings: 12, Compared: []string{"web-1", "web-2", "web-3"}, Read: 1500,
			Candidates: 400 << 20, Anonymous: 200 << 20, Least: 180 << 20, Tables: 3 << 20, SpareTables: 1 << 20,
		},
	}
	found := one(t, Diagnose(h, []*Facts{f}))
	if found.Kind != Duplicated || found.Level != Medium || found.Cost.Bytes != 201<<20*11/2 || found.Cost.Rate != 0 {
		t.Errorf("%s is %s and costs %v, want duplicated, medium and %s", found.ID, found.Level, found.Cost, bytes(201<<20*11/2))
	}
	if found.Cost.String() != "1.08 GiB" {
		t.Errorf("cost %s", found.Cost)
	}
	f.Twice.Least, f.Twice.SpareTables = 0, 0
	if found := Diagnose(h, []*Facts{f}); len(found) > 0 {
		t.Errorf("an interval that reaches 0 is no evidence: %+v", found)
	}
}

func TestOrders(t *testing.T) {
	all := []Finding{
		{ID: "b/x", Container: "b", Level: High, Cost: Cost{Rate: 0.2}},
		{ID: "a/z", Container: "a", Level: Medium, Cost: Cost{Rate: 0.02}},
		{ID: "a/m", Container: "a", Level: High, Cost: Cost{Bytes: 5 << 30}},
		{ID: "a/y", Container: "a", Level: High, Cost: Cost{Rate: 0.3}, Within: "a/x"},
		{ID: "a/z", Container: "a", Level: High, Cost: Cost{Rate: 0.3}},
	}
	for order, want := range map[string]string{"cost": "a/z a/y b/x a/m a/z ", "name": "a/z a/y a/m a/z b/x "} {
		Sort(all, order)
		got := ""
		for _, f := range all {
			got += f.ID + " "
		}
		if got != want {
			t.Errorf("by %s: %s, want %s", order, got, want)
		}
	}
}

func TestIdentities(t *testing.T) {
	for id, want := range map[string]string{
		"web/throttled":                         "web throttled",
		"ns/pod/c/noisy-neighbour:ns/other/c":   "ns/pod/c noisy-neighbour",
		"/sys/fs/cgroup/a.service/health-check": "/sys/fs/cgroup/a.service health-check",
		"web":                                   "", "/throttled": "", "web/throttledx": "", "web/": "", "": "",
	} {
		name, kind, ok := OfID(id)
		if got := strings.TrimSpace(name + " " + string(kind)); got != want || ok != (want != "") {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
}

func TestExplain(t *testing.T) {
	r := &Result{Span: 10 * time.Second, Findings: Diagnose(quietHost, []*Facts{isolated(), victim()})}
	s := r.Explain("web/throttled", report.Sheet{Parts: []report.Part{report.Prose{}, report.Prose{}}})
	if len(s.Parts) != 2 || len(s.Next) != 1 || s.Next[0] != "tare causes web" {
		t.Fatalf("%d parts, next %q: want evidence and settings, and tare causes web", len(s.Parts), s.Next)
	}
	table := s.Parts[0].(report.Table)
	for _, want := range []string{"Cost: ", "Source: ", "Not reported: ", "model/quota"} {
		if !strings.Contains(table.Note, want) {
			t.Errorf("the explanation lacks %q: %s", want, table.Note)
		}
	}
	s = r.Explain("web/log", report.Sheet{})
	if s.Answer != "web/log was not found within 10 s." || len(s.Parts) != 1 {
		t.Errorf("%q with %d parts, want that it was not found, and what it would mean", s.Answer, len(s.Parts))
	}
}

// Every kind of finding is explained, and has a section in docs/diagnose.md.
func TestEveryKindIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/diagnose.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range declaredKinds(t) {
		e, ok := explanations[k]
		if !ok || e.means == "" || e.cost == "" || e.source == "" || e.silent == "" {
			t.Errorf("%s is not explained", k)
		}
		if !strings.Contains(string(page), fmt.Sprintf("\n### `%s`", k)) {
			t.Errorf("docs/diagnose.md has no section on %s", k)
		}
	}
}

// declaredKinds are the constants of type Kind.
func declaredKinds(t *testing.T) (all []Kind) {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !strings.HasSuffix(name.Name(), ".go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return true
			}
			if typ, ok := v.Type.(*ast.Ident); !ok || typ.Name != "Kind" {
				return true
			}
			if text, ok := v.Values[0].(*ast.BasicLit); ok {
				kind, err := strconv.Unquote(text.Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, Kind(kind))
			}
			return true
		})
	}
	if len(all) < 10 {
		t.Fatalf("only %d kinds were found", len(all))
	}
	return all
}

// A container whose group is gone has ended, whatever counters it had.
func TestTheEndedAreLeftOut(t *testing.T) {
	place := cgroup.Place{Hierarchy: cgroup.Hierarchy{Version: 2, Mount: t.TempDir(), Root: "/"}, Path: "/gone"}
	gone := &subject{facts: &Facts{Container: container.Container{Name: "web"}}, group: cgroup.Group{Places: []cgroup.Place{place}}}
	var r Result
	still := r.readAll([]*subject{gone}, false, func(*subject, reading) { t.Error("it was read") })
	if len(still) > 0 || len(r.Notes) != 1 || r.Notes[0] != "web has ended, and is left out" {
		t.Errorf("%v, %q", still, r.Notes)
	}
}

// Who waits for a CPU learns behind whom most of all, and what would end that.
func TestBehindWhomItWaits(t *testing.T) {
	host := &Host{CPUs: 2, Containers: []container.Container{{Name: "web"}, {Name: "a"}, {Name: "b"}, {Name: "c"}}}
	for says, c := range map[string]struct {
		behind []bursts.Behind
		set    string
	}{
		"waits for a CPU mostly behind processes outside of containers": {
			[]bursts.Behind{{Group: bursts.Others, Time: 900 * ms}, {Group: 0, Time: 800 * ms}, {Group: 1, Time: 100 * ms}},
			"nothing in its settings ends it: those processes",
		},
		"waits for a CPU behind its own threads": {[]bursts.Behind{{Group: 0, Time: 900 * ms}}, "more CPUs than 1"},
		"waits for a CPU mostly behind the kernel's threads": {
			[]bursts.Behind{{Group: bursts.Kernel, Time: 900 * ms}, {Group: 0, Time: ms}}, "nothing in its settings ends it: the kernel",
		},
		"waits for a CPU mostly behind other containers: b, a, c": {
			[]bursts.Behind{
				{Group: bursts.Others, Time: 900 * ms}, {Group: bursts.Kernel, Time: 200 * ms}, {Group: 0, Time: 850 * ms},
				{Group: 1, Time: 400 * ms}, {Group: 2, Time: 500 * ms}, {Group: 3, Time: 300 * ms},
			},
			"CPUs of their own for them",
		},
	} {
		f := victim()
		f.Sched.Behind = c.behind
		found := one(t, Diagnose(host, []*Facts{f}))
		if found.Kind != WaitsForCPU || found.Says != says || len(found.Set) != 1 || !strings.HasPrefix(found.Set[0].Says, c.set) {
			t.Errorf("%s: %q, to be set %+v; want %q, %q", found.ID, found.Says, found.Set, says, c.set)
		}
	}
}

// The answer is a sentence, whatever its clause begins with.
func TestTheAnswerIsASentence(t *testing.T) {
	for says, want := range map[string]string{
		"waits for a CPU behind batch":    "One finding: web waits for a CPU behind batch, which costs 0.2 s in each second.",
		"its health check runs every 1 s": "One finding: web's health check runs every 1 s, which costs 0.2 s in each second.",
	} {
		if got := answer([]Finding{{Container: "web", Says: says, Cost: Cost{Rate: 0.2}}}, 1, time.Second); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// At 80 columns all figures are there, in units that fit them; one that is estimated is marked.
func TestFindingsFitAScreen(t *testing.T) {
	found := []Finding{
		{Container: "web", Says: "waits for a CPU behind batch", Level: High, Cost: Cost{Rate: 0.493, Each: 29800 * time.Microsecond}, Based: Estimated},
		{Container: "web", Says: "its seccomp filter sees 335000 system calls/s", Cost: Cost{Rate: 0.0134, Each: 40}, Based: Measured},
	}
	var screen strings.Builder
	sheet := report.Sheet{Parts: []report.Part{table(found, false)}}
	if err := report.SheetTerminal(&screen, sheet, report.TerminalOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"~0.493", "29.8 ms", " 0.0134", "40 ns", "~: estimated"} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("no %q:\n%s", want, screen.String())
		}
	}
	if strings.Contains(screen.String(), "Not shown") {
		t.Errorf("something is left out:\n%s", screen.String())
	}
	if note := table(found[1:], false).Note; strings.Contains(note, "~") {
		t.Errorf("a mark that nothing has: %s", note)
	}
}

func TestContainersInOneLine(t *testing.T) {
	for watched, want := range map[int]string{3: "containers: 3", 1: "containers: 3 (1 watched, 2 idle)"} {
		if got := (&Result{Facts: make([]*Facts, 3), Watched: watched}).containers(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
