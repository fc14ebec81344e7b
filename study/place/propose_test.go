package place

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/platform"
	"tare/probe/bursts"
)

// subject is one that behaves so, on those CPUs of those that it could be given.
func subject(name string, b Behaviour, cpus, above string) *Subject {
	parse := func(list string) []int {
		all, err := platform.ParseCPUList(list)
		if err != nil {
			panic(err)
		}
		return all
	}
	return &Subject{Container: container.Container{Name: name}, Behaviour: b, CPUs: parse(cpus), Above: parse(above), Shares: 1024, Behind: map[int]float64{}}
}

func waiting(s *Subject, p99 time.Duration, behind map[int]float64) *Subject {
	s.Evidence.Waits, s.Evidence.WaitP99, s.Behind = 10_000, p99, behind
	return s
}

func TestSuffering(t *testing.T) {
	long := time.Millisecond
	few := waiting(subject("web", Critical, "0", "0-1"), long, map[int]float64{1: 0.9})
	few.Evidence.Waits = 20
	for name, c := range map[string]struct {
		web, other *Subject
		suffers    bool
	}{
		"behind a computation":          {waiting(subject("web", Critical, "0", "0-1"), long, map[int]float64{1: 0.9}), subject("batch", CPUBound, "0", "0-1"), true},
		"hardly":                        {waiting(subject("web", Critical, "0", "0-1"), 50*time.Microsecond, map[int]float64{1: 0.9}), subject("batch", CPUBound, "0", "0-1"), false},
		"too few waits":                 {few, subject("batch", CPUBound, "0", "0-1"), false},
		"behind somebody else":          {waiting(subject("web", Critical, "0", "0-1"), long, map[int]float64{1: 0.1, bursts.Others: 0.9}), subject("batch", CPUBound, "0", "0-1"), false},
		"of what is known, half":        {waiting(subject("web", Critical, "0", "0-1"), long, map[int]float64{1: 0.1, bursts.Others: 0.1, bursts.Unknown: 0.8}), subject("batch", CPUBound, "0", "0-1"), true},
		"behind its own throttling":     {waiting(subject("web", Critical, "0", "0-1"), long, map[int]float64{bursts.Nobody: 1}), subject("batch", CPUBound, "0", "0-1"), false},
		"behind another that answers":   {waiting(subject("web", Critical, "0", "0-1"), long, map[int]float64{1: 0.9}), subject("db", Critical, "0", "0-1"), false},
		"once, on CPUs since separated": {waiting(subject("web", Critical, "1", "0-1"), long, map[int]float64{1: 0.9}), subject("batch", CPUBound, "0", "0-1"), false},
		"a computation, behind another": {waiting(subject("web", CPUBound, "0", "0-1"), long, map[int]float64{1: 0.9}), subject("batch", CPUBound, "0", "0-1"), false},
	} {
		victims, culprits := suffering([]*Subject{c.web, c.other}, Defaults())
		if (len(victims) == 1 && len(culprits) == 1) != c.suffers || !c.suffers && len(victims)+len(culprits) > 0 {
			t.Errorf("%s: %v suffer behind %v", name, victims, culprits)
		}
	}
}

func TestDivide(t *testing.T) {
	busy := subject("web", Critical, "0-3", "0-3")
	busy.Evidence.Share = 1.5 // at 70 % busy three CPUs
	bound := subject("batch", CPUBound, "0", "0-1")
	bound.Bound = "it has bound itself"
	boundWeb := subject("web", Critical, "0-1", "0-1")
	boundWeb.Bound = "it has bound itself"
	pairs := map[int][]int{0: {0, 2}, 2: {0, 2}, 1: {1, 3}, 3: {1, 3}}
	for _, c := range []struct {
		name     string
		subjects []*Subject
		cores    map[int][]int
		want     map[int]string // by place
		not      string
	}{
		{"two on two CPUs", []*Subject{subject("web", Critical, "0-1", "0-1"), subject("batch", CPUBound, "0-1", "0-1")}, nil, map[int]string{0: "1", 1: "0"}, ""},
		{"two on one of two CPUs: one leaves its set", []*Subject{subject("web", Critical, "0", "0-1"), subject("batch", CPUBound, "0", "0-1")}, nil, map[int]string{0: "1"}, ""},
		{"within sets that users gave, where that is enough", []*Subject{subject("web", Critical, "0-1", "0-7"), subject("batch", CPUBound, "0-1", "0-7")}, nil, map[int]string{0: "1", 1: "0"}, ""},
		{"one CPU in all", []*Subject{subject("web", Critical, "0", "0"), subject("batch", CPUBound, "0", "0")}, nil, nil, "only CPU 0"},
		{"a busy service keeps as many as it needs", []*Subject{busy, subject("batch", CPUBound, "0-3", "0-3")}, nil, map[int]string{0: "1-3", 1: "0"}, ""},
		{"too busy for what there is", []*Subject{busy, subject("batch", CPUBound, "0-2", "0-2")}, nil, map[int]string{0: "1-3", 1: "0"}, ""},
		{"whole cores", []*Subject{subject("web", Critical, "0-3", "0-3"), subject("batch", CPUBound, "0-3", "0-3")}, pairs, map[int]string{0: "1,3", 1: "0,2"}, ""},
		{"one core of two threads", []*Subject{subject("web", Critical, "0-1", "0-1"), subject("batch", CPUBound, "0-1", "0-1")}, map[int][]int{0: {0, 1}, 1: {0, 1}}, map[int]string{0: "1", 1: "0"}, ""},
		{"others that answer come along, those that idle stay", []*Subject{
			subject("web", Critical, "0-3", "0-3"), subject("batch", CPUBound, "0-3", "0-3"), subject("db", Critical, "0-3", "0-3"), subject("cron", Idle, "0-3", "0-3"), subject("app", Mixed, "2-3", "0-3"),
		}, nil, map[int]string{0: "3", 1: "0-2", 2: "3", 4: "2"}, ""},
		{"the one that computes is bound: the other goes", []*Subject{subject("web", Critical, "0-1", "0-1"), bound}, nil, map[int]string{0: "1"}, ""},
		{"both are bound", []*Subject{boundWeb, bound}, nil, nil, "bound itself"},
	} {
		for _, s := range c.subjects {
			if s.Evidence.Share == 0 {
				s.Evidence.Share = 0.1
			}
		}
		sets, not := divide(c.subjects, []int{0}, []int{1}, c.cores)
		if (not == "") != (c.not == "") || !strings.Contains(not, c.not) {
			t.Errorf("%s: %q, want %q", c.name, not, c.not)
			continue
		}
		var got map[int]string
		for i, set := range sets {
			if got == nil {
				got = map[int]string{}
			}
			got[i] = platform.FormatCPUList(set)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
		// Whatever it is, nobody has the CPUs of the other side.
		for i, s := range c.subjects {
			for j, o := range c.subjects {
				if not == "" && s.Behaviour == Critical && o.Behaviour == CPUBound && len(intersect(setOf(sets, c.subjects, i), setOf(sets, c.subjects, j))) > 0 {
					t.Errorf("%s: %s and %s still share a CPU", c.name, s.Container.Name, o.Container.Name)
				}
			}
		}
	}
}

func setOf(sets map[int][]int, subjects []*Subject, i int) []int {
	if set, ok := sets[i]; ok {
		return set
	}
	return subjects[i].CPUs
}

func TestFairShare(t *testing.T) {
	want := func(s *Subject, cpus float64) *Subject { s.Evidence.Wanted = cpus; return s }
	heavy := want(subject("web", Critical, "0", "0"), 1)
	heavy.Shares = 3072
	limited := want(subject("batch", CPUBound, "0", "0"), 1)
	limited.Bandwidth = cgroup.Bandwidth{Quota: 20 * time.Millisecond, Period: 100 * time.Millisecond}
	for name, c := range map[string]struct {
		web, batch *Subject
		want       float64
	}{
		"what the one does not want":   {want(subject("web", Critical, "0", "0"), 0.2), want(subject("batch", CPUBound, "0", "0"), 1), 0.8},
		"half of what both want":       {want(subject("web", Critical, "0", "0"), 1), want(subject("batch", CPUBound, "0", "0"), 1), 0.5},
		"by weight":                    {heavy, want(subject("batch", CPUBound, "0", "0"), 1), 0.25},
		"no more than is wanted":       {want(subject("web", Critical, "0", "0"), 0.2), want(subject("batch", CPUBound, "0", "0"), 0.3), 0.3},
		"no more than a quota":         {want(subject("web", Critical, "0", "0"), 0.2), limited, 0.2},
		"no more CPUs than it may use": {want(subject("web", Critical, "0-1", "0-1"), 0.2), want(subject("batch", CPUBound, "0", "0-1"), 3), 1},
	} {
		if got := fairShare([]*Subject{c.web, c.batch}, []int{0}, []int{1}); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// What is shown to be copied into a root shell holds names that users chose.
func TestPermanentQuotesNames(t *testing.T) {
	changes := cgroup.Changes{{File: "/sys/fs/cgroup/user.slice/a;id/cpu.weight", New: "200"}}
	for engine, want := range map[container.Engine]string{
		container.Podman: "podman update --cpu-shares 2 '$(id)'",
		container.Cgroup: "echo 200 > '/sys/fs/cgroup/user.slice/a;id/cpu.weight'",
	} {
		got := permanent(container.Container{Engine: engine, Name: "$(id)"}, changes, "--cpu-shares 2")
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", engine, got, want)
		}
	}
	w := &Watched{Subjects: []*Subject{subject("x;id", "", "0", "0")}}
	if got, want := next(w, &Proposal{}, nil), "tare place --for 60s 'x;id'"; len(got) != 1 || got[0] != want {
		t.Errorf("next is %q, want %q", got, want)
	}
}
