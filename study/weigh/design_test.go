package weigh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tare/image"
	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/study/kit"
	"tare/workload"
)

// stand is a platform that supports some keys and launches nothing.
type stand struct {
	name    string
	lacks   []string // keys that mean nothing here
	missing error
}

func (p stand) Name() string                                 { return p.name }
func (p stand) Check(context.Context) error                  { return p.missing }
func (p stand) Prepare(context.Context, image.Image) error   { return nil }
func (p stand) Release(context.Context) error                { return nil }
func (p stand) Remove(context.Context, platform.Entry) error { return nil }
func (p stand) Version(context.Context) string               { return "" }
func (p stand) Launch(context.Context, platform.Spec) (platform.Instance, error) {
	return nil, errors.New("not in a design")
}
func (p stand) Supports(s platform.Setting) error {
	for _, pair := range s.Pairs() {
		if slices.Contains(p.lacks, pair.Key) {
			return &platform.Unsupported{Platform: p.name, Key: pair.Key, Reason: "not here"}
		}
	}
	return nil
}

// service is a workload with a port and a parameter.
type service struct{ ports []int }

func (service) Name() string                                { return "svc" }
func (service) Summary() string                             { return "a service" }
func (service) Source() workload.Source                     { return workload.Source{Recipe: "svc"} }
func (service) Params() []workload.Param                    { return []workload.Param{{Name: "payload", Default: "3"}} }
func (service) Metrics(workload.Params) []workload.Metric   { return nil }
func (service) Drive(context.Context, workload.Trial) error { return nil }
func (s service) Program(workload.Params) (workload.Program, error) {
	return workload.Program{Args: []string{"/svc"}, Ports: s.ports, Service: true, MemoryNeed: 64 << 20}, nil
}

var bareLacks = []string{"network", "memory", "cpu-shares", "seccomp", "storage", "root", "log-driver"}

func options(o Options) Options {
	stands := map[string]platform.Platform{
		"bare":     stand{name: "bare", lacks: bareLacks},
		"cgroup":   stand{name: "cgroup", lacks: []string{"network"}},
		"oci:runc": stand{name: "oci:runc", lacks: []string{"log-driver"}},
		"oci:crun": stand{name: "oci:crun", missing: &platform.Missing{What: "no crun on PATH", Mend: "apt-get install crun"}},
		"docker":   stand{name: "docker", lacks: []string{"root"}},
	}
	o.Host = kit.Host{
		CPUs: []int{0, 1},
		Platform: func(name string) (platform.Platform, error) {
			if p, ok := stands[name]; ok {
				return p, nil
			}
			return nil, &lab.UnknownPlatform{Name: name}
		},
		Check: func(p platform.Platform) error { return p.Check(context.Background()) },
	}
	if len(o.Subjects) == 0 {
		o.Subjects = []Subject{{Workload: service{ports: []int{1}}}}
	}
	o.Plan = record.Plan{Blocks: 1}
	return o
}

// labels lists a group's conditions, the baseline starred.
func labels(g lab.Group) string {
	var all []string
	for _, c := range g.Conditions {
		text := c.Label
		if c.Baseline {
			text += "*"
		}
		all = append(all, text)
	}
	return strings.Join(all, " | ")
}

func TestDesigns(t *testing.T) {
	for _, c := range []struct {
		name  string
		ask   Options
		wants string
		notes string
	}{
		{
			"by default every platform that the host has, and the engine's bridge for a service",
			Options{}, "bare* | oci:runc | docker | docker network=bridge", "oci:crun left out: no crun",
		},
		{
			"in a minute fewer of them", Options{Quick: true}, "bare* | oci:runc | docker", "",
		},
		{
			"a varied setting is weighed wherever it means something",
			Options{Platforms: []string{"bare", "docker"}, Vary: []Factor{{"network", []string{"host", "bridge"}}}},
			"bare* | docker | docker network=bridge", "bare network=bridge left out",
		},
		{
			"one factor at a time",
			Options{Platforms: []string{"docker"}, Vary: []Factor{{"network", []string{"bridge"}}, {"seccomp", []string{"unconfined"}}}},
			"docker* | docker network=bridge | docker seccomp=unconfined", "",
		},
		{
			"the full product",
			Options{Platforms: []string{"docker"}, Cross: true, Vary: []Factor{{"network", []string{"host", "bridge"}}, {"seccomp", []string{"default", "unconfined"}}}},
			"docker* | docker seccomp=unconfined | docker network=bridge | docker network=bridge seccomp=unconfined", "",
		},
		{
			"a base setting that means nothing on bare metal is left out there and noted",
			Options{Platforms: []string{"bare", "docker"}, Base: platform.Setting{Memory: 512 << 20}},
			"bare* | docker memory=512m", "bare runs without memory=512m",
		},
		{
			"what all conditions share is in no label",
			Options{Platforms: []string{"bare", "docker"}, Base: platform.Setting{CPUSet: "0"}, Vary: []Factor{{"network", []string{"bridge"}}}},
			"bare* | docker | docker network=bridge", "bare cpuset-cpus=0 network=bridge left out",
		},
		{
			"presets grant the same CPUs in two ways",
			Options{Platforms: []string{"docker"}, Base: platform.Setting{CPUs: 1}, Vary: []Factor{{"preset", []string{"vanilla", "pinned"}}}},
			"docker cpus=1* | docker cpuset-cpus=0", "",
		},
		{
			"the baseline is any condition, and joins if it is not there",
			Options{Platforms: []string{"docker"}, Baseline: "oci:runc,memory=1g"},
			"docker | oci:runc | oci:runc memory=1g*", "",
		},
		{
			"a base setting that the baseline has not is left out there",
			Options{Platforms: []string{"docker"}, Base: platform.Setting{Memory: 512 << 20}, Baseline: "bare"},
			"docker memory=512m | bare*", "bare runs without memory=512m",
		},
		{
			"the ladder",
			Options{Ladder: true},
			"bare* | cgroup | oci:runc root=dir seccomp=unconfined | oci:runc root=dir | oci:runc | docker", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Design(options(c.ask))
			if err != nil {
				t.Fatal(err)
			}
			if got := labels(d.Groups[0]); got != c.wants {
				t.Errorf("got  %s\nwant %s", got, c.wants)
			}
			if notes := strings.Join(d.Plan.Notes, "\n"); !strings.Contains(notes, c.notes) || c.notes == "" && notes != "" {
				t.Errorf("notes %q, want %q", notes, c.notes)
			}
		})
	}
}

func TestAVariedParameterMakesGroupsWithBaselinesOfTheirOwn(t *testing.T) {
	d, err := Design(options(Options{Platforms: []string{"bare", "docker"}, Vary: []Factor{{"payload", []string{"3", "1000"}}}}))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Groups) != 2 || d.Groups[1].Workload != "svc[payload=1000]" || labels(d.Groups[1]) != "bare* | docker" {
		t.Errorf("got %d groups, the last %s: %s", len(d.Groups), d.Groups[len(d.Groups)-1].Workload, labels(d.Groups[len(d.Groups)-1]))
	}
	if id := d.Groups[1].Conditions[1].ID; id != "svc[payload=1000]@docker" {
		t.Errorf("id %s", id)
	}
}

func TestImagesAreCompared(t *testing.T) {
	s := Subject{Workload: service{}, Sources: []workload.Source{{Image: "alpine"}, {Image: "debian"}}}
	d, err := Design(options(Options{Subjects: []Subject{s}, Platforms: []string{"docker"}}))
	if err != nil {
		t.Fatal(err)
	}
	if got := labels(d.Groups[0]); got != "docker image=alpine* | docker image=debian" {
		t.Errorf("got %s", got)
	}
}

// A label has the part of an image's name that distinguishes it; the first image is the
// baseline.
func TestImagesInOtherDirectories(t *testing.T) {
	for _, c := range []struct{ first, second, wants string }{
		{"/srv/v1/root", "/srv/v2/root", "bare image=v1/root* | bare image=v2/root"},
		{"/srv/old", "/srv/new", "bare image=old* | bare image=new"},
		{"/srv/app", "/srv/app/sub", "bare image=app* | bare image=app/sub"},
		{"old", "/srv/old", "bare image=old* | bare image=/srv/old"},
	} {
		s := Subject{Workload: service{}, Sources: []workload.Source{{Rootfs: c.first}, {Rootfs: c.second}}}
		d, err := Design(options(Options{Subjects: []Subject{s}, Platforms: []string{"bare"}}))
		if err != nil {
			t.Fatal(err)
		}
		if got := labels(d.Groups[0]); got != c.wants || d.Groups[0].Conditions[1].ID != "svc@bare,image="+c.second {
			t.Errorf("got %s, %s; want %s", got, d.Groups[0].Conditions[1].ID, c.wants)
		}
	}
}

// Several images are judged against the first of them: all else must be the same.
func TestThresholdOfImagesNeedsOneBaseline(t *testing.T) {
	images := []Subject{{Workload: service{}, Sources: []workload.Source{{Image: "app:old"}, {Image: "app:new"}}}}
	for name, c := range map[string]struct {
		ask  Options
		fine bool
	}{
		"one platform":               {Options{Subjects: images, Platforms: []string{"docker"}}, true},
		"two platforms":              {Options{Subjects: images, Platforms: []string{"bare", "docker"}}, false},
		"the default ones":           {Options{Subjects: images}, false},
		"a setting varied":           {Options{Subjects: images, Platforms: []string{"docker"}, Vary: []Factor{{"network", []string{"bridge"}}}}, false},
		"another baseline":           {Options{Subjects: images, Platforms: []string{"docker"}, Baseline: "bare"}, false},
		"a parameter varied":         {Options{Subjects: images, Platforms: []string{"docker"}, Vary: []Factor{{"payload", []string{"3", "4"}}}}, true},
		"two platforms of one image": {Options{Platforms: []string{"bare", "docker"}}, true},
	} {
		ask := options(c.ask)
		ask.Plan.FailAbove = 0.05
		_, err := Design(ask)
		var u *kit.Usage
		if c.fine != (err == nil) || err != nil && (!errors.As(err, &u) || !strings.Contains(err.Error(), "name one --platform")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestABaselineAlone(t *testing.T) {
	d, err := Design(options(Options{Platforms: []string{"bare"}, Alone: true}))
	if err != nil {
		t.Fatal(err)
	}
	if g := d.Groups[0]; len(g.Conditions) != 1 || !g.Conditions[0].Baseline || g.Executions() != 2 {
		t.Errorf("%v", g)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		ask  Options
		says string
	}{
		{"more CPUs than the host has", Options{Base: platform.Setting{CPUs: 3}}, "this host has 2"},
		{"varied beyond the host", Options{Vary: []Factor{{"cpus", []string{"1", "8"}}}}, "this host has 2"},
		{"less memory than the program needs", Options{Base: platform.Setting{Memory: 32 << 20}}, "want 64 MiB or more"},
		{"unknown key", Options{Vary: []Factor{{"colour", []string{"red"}}}}, "colour"},
		{"unknown platform in the baseline", Options{Baseline: "moon"}, `unknown platform "moon"`},
		{"nothing to compare", Options{Platforms: []string{"bare"}}, "nothing to compare"},
		{"ladder with platforms", Options{Ladder: true, Platforms: []string{"bare"}}, "names its own conditions"},
		{"half a CPU pinned", Options{Platforms: []string{"docker"}, Base: platform.Setting{CPUs: 0.5}, Vary: []Factor{{"preset", []string{"pinned"}}}}, "whole CPUs"},
		{"a baseline that its platform cannot be", Options{Platforms: []string{"docker"}, Baseline: "bare,memory=1g"}, "bare memory=1g left out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Design(options(c.ask))
			var u *kit.Usage
			if !errors.As(err, &u) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want a usage error that says %q", err, c.says)
			}
		})
	}
	_, err := Design(options(Options{Platforms: []string{"bare", "oci:crun"}}))
	var missing *platform.Missing
	if !errors.As(err, &missing) {
		t.Errorf("a platform that was named and is missing gives %v, want *platform.Missing", err)
	}
}

func TestParseCondition(t *testing.T) {
	name, s, err := ParseCondition("oci,cpuset-cpus=0,2-3,memory=1g")
	if err != nil || name != "oci:runc" || s.String() != "cpuset-cpus=0,2-3,memory=1g" && fmt.Sprint(s.Pairs()) == "" {
		t.Errorf("got %s %v, %v", name, s, err)
	}
	if s.CPUSet != "0,2-3" || s.Memory != 1<<30 {
		t.Errorf("got %+v", s)
	}
	for _, bad := range []string{"", "docker,memory", "docker,memory=", "docker,x=1", "x"} {
		if _, _, err := ParseCondition(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzParseCondition(f *testing.F) {
	f.Add("docker,network=bridge")
	f.Add("bare cpuset-cpus=0,1")
	f.Fuzz(func(t *testing.T, text string) {
		name, s, err := ParseCondition(text)
		if err != nil {
			return
		}
		again, s2, err := ParseCondition(conditionLabel(name, s))
		if err != nil || again != name || s2 != s {
			t.Errorf("%q reads as %s %v, written and read again as %s %v (%v)", text, name, s, again, s2, err)
		}
	})
}
