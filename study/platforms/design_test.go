package platforms

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tare/lab"
	"tare/platform"
	"tare/study/kit"
	"tare/workload"
)

func condition(t *testing.T, d lab.Design, id string) lab.Condition {
	t.Helper()
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			if c.ID == id {
				return c
			}
		}
	}
	t.Fatalf("no condition %s among %s", id, strings.Join(ids(d), "; "))
	return lab.Condition{}
}

// Where the program has less than the host, an affinity would not hold it.
func TestBareMetalIsHeld(t *testing.T) {
	d := designed(t, options(cns, ofSizes(0.5, 2, 4), withCPUs(4)))
	for id, want := range map[string]string{"ffmpeg 4 CPUs@bare": Bare, "ffmpeg 2 CPUs@bare": Held, "ffmpeg 0.5 CPU@bare": Held} {
		if c := condition(t, d, id); c.Platform != want || !c.Baseline {
			t.Errorf("%s is on %s, baseline %v; want %s", id, c.Platform, c.Baseline, want)
		}
	}
	without := options(cns, ofSizes(2), withCPUs(4))
	without.Host = hosted(4, &fakePlatform{name: Bare}, &fakePlatform{name: Held, missing: errors.New("no cpusets")}, &fakePlatform{name: "docker"})
	d = designed(t, without)
	if c := condition(t, d, "ffmpeg 2 CPUs@bare"); c.Platform != Bare || !strings.Contains(strings.Join(d.Plan.Notes, "; "), "by an affinity alone") {
		t.Errorf("without cpusets on %s; notes %q", c.Platform, d.Plan.Notes)
	}
}

func TestKinds(t *testing.T) {
	for path, want := range map[string]Kind{"bare": BM, "cgroup": BM, "vm:kvm/cgroup": VM, "docker": CN, "oci:runc": CN, "vm:kvm/bare": VM, "vm:tcg+cpus=4/oci:runc": VMCN} {
		if got := KindOf(path); got != want {
			t.Errorf("%s is a %s, want %s", path, got, want)
		}
	}
}

// A size is granted in each of S2's ways, and bare metal is kept to as many CPUs.
func TestGranted(t *testing.T) {
	d := designed(t, options(onPlatforms("docker", "vm:kvm/bare", "vm:kvm/oci:runc"), ofWorkloads("ffmpeg", "wordpress"), ofSizes(0.5, 2), withCPUs(4)))
	for id, want := range map[string]string{
		"ffmpeg 2 CPUs@bare":                      "cpuset-cpus=0-1",
		"ffmpeg 2 CPUs@docker vanilla":            "cpus=2",
		"ffmpeg 2 CPUs@docker pinned":             "cpuset-cpus=0-1",
		"ffmpeg 2 CPUs@vm:kvm/oci:runc pinned":    "cpuset-cpus=0-1",
		"ffmpeg 0.5 CPU@bare":                     "cpuset-cpus=0",
		"ffmpeg 0.5 CPU@docker vanilla":           "cpus=0.5",
		"wordpress 2 CPUs@bare":                   "cpuset-cpus=1-2",
		"wordpress 2 CPUs@docker vanilla":         "cpus=2,cpuset-cpus=1-3", // anywhere but on the load's
		"wordpress 2 CPUs@docker pinned":          "cpuset-cpus=1-2",
		"wordpress 2 CPUs@vm:kvm/bare pinned":     "cpuset-cpus=1-2",
		"wordpress 2 CPUs@vm:kvm/oci:runc pinned": "cpuset-cpus=1-2",
	} {
		if got := condition(t, d, id).Setting.String(); got != want {
			t.Errorf("%s is granted %s, want %s", id, got, want)
		}
	}
	for _, id := range []string{"ffmpeg 0.5 CPU@docker pinned", "wordpress 0.5 CPU@bare"} {
		if has(d, id) {
			t.Errorf("there is %s", id)
		}
	}
	for _, g := range d.Groups {
		if c := g.Conditions[0]; !c.Baseline || c.Label != Bare {
			t.Errorf("%s begins with %s", g.Workload, c.ID)
		}
		for _, c := range g.Conditions {
			if serves := strings.HasPrefix(g.Workload, "wordpress"); serves != (c.Watch != nil) {
				t.Errorf("%s: its load is kept apart: %v", c.ID, c.Watch != nil)
			}
		}
	}
}

func TestInstancesHaveTheirMemory(t *testing.T) {
	large, ok := InstanceSize("large")
	if !ok || large != (Size{2, 8 << 30}) {
		t.Fatalf("large is %v", large)
	}
	d := designed(t, options(onPlatforms("docker"), func(o *Options) { o.Sizes, o.Host.Memory = []Size{large, {4, 16 << 30}}, 10<<30 }))
	if got := condition(t, d, "ffmpeg 2 CPUs 8g@docker vanilla").Setting.String(); got != "cpus=2,memory=8g" {
		t.Errorf("docker is granted %s", got)
	}
	if got := condition(t, d, "ffmpeg 2 CPUs 8g@bare").Setting.String(); got != "cpuset-cpus=0-1" {
		t.Errorf("bare metal is granted %s", got)
	}
	if notes := strings.Join(d.Plan.Notes, "; "); !strings.Contains(notes, "10 GiB of memory") {
		t.Errorf("no note of what memory does not hold: %s", notes)
	}
}

// Where a program is granted all CPUs there is nothing to choose between the presets: one
// is measured, both where they are named.
func TestWherePresetsCoincide(t *testing.T) {
	d := designed(t, options(onPlatforms("docker"), ofSizes(1, 2), withCPUs(2)))
	if has(d, "ffmpeg 2 CPUs@docker pinned") || !has(d, "ffmpeg 1 CPU@docker pinned") {
		t.Errorf("there are %s", strings.Join(ids(d), "; "))
	}
	if c := condition(t, d, "ffmpeg 2 CPUs@docker vanilla"); !same(c.Condition) {
		t.Error("it is not said that they coincide")
	}
	if c := condition(t, d, "ffmpeg 1 CPU@docker vanilla"); same(c.Condition) || chr(c.Condition) != 0.5 {
		t.Errorf("one of two CPUs: the same %v, CHR %g", same(c.Condition), chr(c.Condition))
	}
	named := designed(t, options(onPlatforms("docker"), ofSizes(2), withCPUs(2), func(o *Options) { o.Both = true }))
	if !has(named, "ffmpeg 2 CPUs@docker pinned") {
		t.Errorf("named, there are %s", strings.Join(ids(named), "; "))
	}
	service := designed(t, options(onPlatforms("docker"), ofWorkloads("cassandra"), ofSizes(1, 2), withCPUs(2)))
	if got := condition(t, service, "cassandra 1 CPU@docker vanilla"); !same(got.Condition) {
		t.Error("a service that the load leaves one CPU is not said to have it alone")
	}
	if notes := strings.Join(service.Plan.Notes, "; "); !strings.Contains(notes, "of which the load keeps one; on a larger host, run tare platforms --workload cassandra --cpus 2") {
		t.Errorf("notes: %s", notes)
	}
}

// One rank has nobody to talk to, and two on one CPU take turns.
func TestRanksHaveACPUEach(t *testing.T) {
	ranked := func(params map[string]string) func(*Options) {
		return func(o *Options) {
			o.Subjects = []workload.Subject{{Workload: fakeWorkload{name: "mpi-search", ranks: true}, Params: params}}
		}
	}
	d := designed(t, options(cns, ofSizes(0.5, 1, 1.5, 4), ranked(nil)))
	for id, want := range map[string]string{"mpi-search 1.5 CPUs@bare": "2", "mpi-search 4 CPUs@docker pinned": "4"} {
		if got := condition(t, d, id).Params[paramRanks]; got != want {
			t.Errorf("%s has %s ranks, want %s", id, got, want)
		}
	}
	if len(d.Groups) != 2 || !strings.Contains(strings.Join(d.Plan.Notes, "; "), "take turns") {
		t.Errorf("there are %s; notes %q", strings.Join(ids(d), "; "), d.Plan.Notes)
	}
	asked := designed(t, options(cns, ofSizes(1), ranked(map[string]string{paramRanks: "2"})))
	if got := condition(t, asked, "mpi-search 1 CPU@bare").Params[paramRanks]; got != "2" {
		t.Errorf("asked for two ranks, there are %s", got)
	}
}

func TestWhatIsWatched(t *testing.T) {
	d := designed(t, options(onPlatforms("oci:runc", "docker"), ofSizes(1), func(o *Options) { o.Causes = true }))
	want := []string{"ffmpeg 1 CPU, causes@bare", "ffmpeg 1 CPU, causes@docker vanilla", "ffmpeg 1 CPU, causes@docker pinned"}
	for _, id := range want {
		if c := condition(t, d, id); c.Watch == nil {
			t.Errorf("%s is not watched", id)
		}
	}
	for _, g := range d.Groups {
		if watched := strings.HasSuffix(g.Workload, ", causes"); watched != g.Once || watched && len(g.Conditions) != len(want) {
			t.Errorf("%s: %d conditions, once %v", g.Workload, len(g.Conditions), g.Once)
		}
		for _, c := range g.Conditions {
			if (c.Watch != nil) != g.Once {
				t.Errorf("%s: watched %v: what a probe costs must be in no other figure", c.ID, c.Watch != nil)
			}
		}
	}
}

func TestHostsOfSeveralSizes(t *testing.T) {
	asked := func(o *Options) { o.Hosts, o.Disruptive = []int{4, 2}, true }
	d := designed(t, options(onPlatforms("docker"), ofSizes(2), withCPUs(4), asked))
	base := condition(t, d, "ffmpeg 2 CPUs, hosts@bare on 2 CPUs")
	if !base.Baseline || base.Around == nil {
		t.Errorf("the smallest host is the baseline %v, and made so %v", base.Baseline, base.Around != nil)
	}
	if c := condition(t, d, "ffmpeg 2 CPUs, hosts@docker vanilla on 4 CPUs"); c.Around == nil || chr(c.Condition) != 0.5 {
		t.Errorf("on all CPUs the host is changed %v, CHR %g", c.Around != nil, chr(c.Condition))
	}
	m := designed(t, options(onPlatforms("vm:tcg/oci:runc"), ofSizes(2), withCPUs(2), func(o *Options) { o.Hosts = []int{2, 4} }))
	for id, platform := range map[string]string{
		"ffmpeg 2 CPUs, hosts in vm:tcg@vm:tcg+cpus=2/bare":             "vm:tcg+cpus=2/bare",
		"ffmpeg 2 CPUs, hosts in vm:tcg@vm:tcg+cpus=4/cgroup":           "vm:tcg+cpus=4/cgroup",
		"ffmpeg 2 CPUs, hosts in vm:tcg@vm:tcg+cpus=4/oci:runc vanilla": "vm:tcg+cpus=4/oci:runc",
		"ffmpeg 2 CPUs, hosts in vm:tcg@vm:tcg+cpus=4/oci:runc pinned":  "vm:tcg+cpus=4/oci:runc",
	} {
		if c := condition(t, m, id); c.Platform != platform || c.NotRepresentative == "" || c.Around != nil {
			t.Errorf("%s runs on %s (%s)", id, c.Platform, c.NotRepresentative)
		}
	}
}

func TestTasking(t *testing.T) {
	d := designed(t, options(onPlatforms("docker"), ofSizes(2), func(o *Options) { o.Tasks = []int{1, 30} }))
	many := condition(t, d, "ffmpeg 2 CPUs, tasks@docker vanilla, 30 processes")
	if many.Params[paramTasks] != "30" {
		t.Errorf("the work is cut in %s", many.Params[paramTasks])
	}
	if len(d.Groups) != 1 || !condition(t, d, "ffmpeg 2 CPUs, tasks@bare, 1 process").Baseline {
		t.Errorf("there are %s", strings.Join(ids(d), "; "))
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"no workload":      {func(o *Options) { o.Subjects = nil }, "--workload"},
		"twice":            {ofWorkloads("ffmpeg", "ffmpeg"), "twice"},
		"no platform":      {onPlatforms(), "--platform"},
		"a platform twice": {onPlatforms("docker", "docker"), "twice"},
		"bare alone":       {onPlatforms(Bare), "it is the baseline"},
		"no preset":        {func(o *Options) { o.Presets = nil }, "--preset"},
		"unknown preset":   {func(o *Options) { o.Presets = []string{"sideways"} }, "vanilla (a quota) or pinned"},
		"size 0":           {ofSizes(0), "--cpus 0"},
		"size beyond all":  {ofSizes(32), "no program fits: this host has 16 CPUs, and at least 32 are required"},
		"sizes twice":      {ofSizes(1, 1), "twice"},
		"CPUs set":         {func(o *Options) { o.Base.CPUs = 2 }, "--cpus"},
		"too little memory": {func(o *Options) {
			o.Base.Memory, o.Subjects = 1<<20, []workload.Subject{{Workload: fakeWorkload{name: "ffmpeg", needs: 1 << 30}}}
		}, "too little"},
		"one host":              {func(o *Options) { o.Hosts = []int{2} }, "at least two sizes"},
		"host 0":                {func(o *Options) { o.Hosts = []int{0, 2} }, "--host-cpus 0"},
		"hosts, not disruptive": {func(o *Options) { o.Hosts, o.Sizes = []int{1, 2}, []Size{{CPUs: 1}} }, "--disruptive"},
		"hosts too small":       {func(o *Options) { o.Hosts, o.Disruptive = []int{1, 2}, true }, "does not fit"},
		"hosts too large":       {func(o *Options) { o.Hosts, o.Disruptive, o.Sizes = []int{1, 32}, true, []Size{{CPUs: 1}} }, "this host has 16"},
		"hosts of a service": {func(o *Options) {
			o.Hosts, o.Disruptive, o.Sizes, o.Subjects = []int{1, 2}, true, []Size{{CPUs: 1}}, subjectsOf("wordpress")
		}, "programs that compute"},
		"one task":               {func(o *Options) { o.Tasks = []int{1} }, "one and many"},
		"tasks of what has none": {func(o *Options) { o.Tasks, o.Subjects = []int{1, 30}, subjectsOf("mpi-search") }, "cannot be cut"},
		// Also where no size is left for it: that is not what is to be mended.
		"tasks, and no size": {func(o *Options) {
			o.Tasks, o.Sizes = []int{1, 30}, []Size{{CPUs: 0.5}, {CPUs: 1}}
			o.Subjects = []workload.Subject{{Workload: fakeWorkload{name: "mpi-search", ranks: true}}}
		}, "cannot be cut"},
		"machines have their CPUs": {func(o *Options) {
			o.Platforms, o.Hosts, o.Sizes = []string{"vm:tcg+cpus=2/oci:runc"}, []int{1, 2}, []Size{{CPUs: 1}}
			o.Host = hosted(4, append(usual(), &fakePlatform{name: "vm:tcg+cpus=2/oci:runc"})...)
		}, "leave cpus= out"},
	} {
		_, err := Design(options(c.change))
		if refused := (*kit.Usage)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// What the host lacks is left out, and refused where it was asked for.
func TestMissingPlatforms(t *testing.T) {
	lacking := func(o *Options) {
		o.Host = hosted(4, &fakePlatform{name: Bare}, &fakePlatform{name: "oci:runc"}, &fakePlatform{name: "docker", missing: &platform.Missing{What: "no engine", Mend: "start one"}})
	}
	d := designed(t, options(lacking))
	if !has(d, "ffmpeg 1 CPU@oci:runc vanilla") || has(d, "ffmpeg 1 CPU@docker vanilla") || !slices.Contains(d.Plan.Notes, "docker is left out: no engine: start one") {
		t.Errorf("%s; notes %q", strings.Join(ids(d), "; "), d.Plan.Notes)
	}
	missing := (*platform.Missing)(nil)
	if _, err := Design(options(lacking, onPlatforms("docker"))); !errors.As(err, &missing) {
		t.Errorf("asked for: %v", err)
	}
	none := func(o *Options) {
		o.Host = hosted(4, &fakePlatform{name: Bare}, &fakePlatform{name: "docker", refuses: "cpus"})
	}
	d = designed(t, options(none, onPlatforms("docker"), ofSizes(1)))
	if has(d, "ffmpeg 1 CPU@docker vanilla") || !has(d, "ffmpeg 1 CPU@docker pinned") {
		t.Errorf("without a quota there are %s", strings.Join(ids(d), "; "))
	}
}

func TestSizesOfAHost(t *testing.T) {
	for cpus, want := range map[int]int{1: 2, 2: 3, 3: 3, 4: 4, 16: 6} {
		if got := Sizes(cpus); len(got) != want || got[0].CPUs != 0.5 {
			t.Errorf("%d CPUs: %v, want %d sizes", cpus, got, want)
		}
	}
	if q := Quick(1).Sizes; len(q) != 1 || q[0].CPUs != 1 {
		t.Errorf("quick on one CPU: %v", q)
	}
}

// S2 sent a site a thousand requests at once. What other programs call their requests is
// theirs.
func TestRequestsAreASitesAlone(t *testing.T) {
	fewer := func(o *Options) { o.Requests = fewRequests }
	site := subject{Subject: onlySubject(t, "wordpress")}
	other := subject{Subject: onlySubject(t, "redis")}
	b := &builder{Options: options(fewer)}
	if got := b.sized(other, Size{CPUs: 1}).Params[paramRequests]; got != "" || len(b.notes) != 0 {
		t.Errorf("redis is sent %q requests; notes %q", got, b.notes)
	}
	if got := b.sized(site, Size{CPUs: 1}).Params[paramRequests]; got != "250" || len(b.notes) != 1 {
		t.Errorf("wordpress is sent %q requests; notes %q", got, b.notes)
	}
}

func onlySubject(t *testing.T, name string) workload.Subject {
	t.Helper()
	w, err := workload.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return workload.Subject{Workload: w}
}

// Where no program fits, that is said once, not of each.
func TestASizeBeyondTheHostIsReportedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		sizes []Size
		says  string
	}{
		"an instance": {[]Size{{64, 256 << 30}}, "no program fits: this host has 2 CPUs, 16xlarge needs 64"},
		"several":     {[]Size{{8, 0}, {4, 0}}, "no program fits: this host has 2 CPUs, and at least 4 are required"},
	} {
		_, err := Design(options(onPlatforms("docker"), ofWorkloads("ffmpeg", "wordpress", "mpi-search"), withCPUs(2), func(o *Options) { o.Sizes = c.sizes }))
		if asked := (*kit.Usage)(nil); !errors.As(err, &asked) || err.Error() != c.says {
			t.Errorf("%s: %v", name, err)
		}
	}
}
