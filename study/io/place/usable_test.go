package place

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"tare/platform"
	"tare/study/kit"
)

// fakePlatform stands where nothing is launched.
type fakePlatform struct {
	platform.Platform // nil: what is not overridden is not called

	name    string
	missing error
	refuses string // the key of a setting
	apart   bool   // nobody reaches its host network
	checks  int
}

func (p *fakePlatform) Name() string { return p.name }

func (p *fakePlatform) Check(context.Context) error {
	p.checks++
	return p.missing
}

func (p *fakePlatform) Supports(s platform.Setting) error {
	for _, pair := range s.Pairs() {
		if key, _, _ := strings.Cut(p.refuses, "="); pair.Key == key && (p.refuses == key || p.refuses == key+"="+pair.Value) {
			return &platform.Unsupported{Platform: p.name, Key: p.refuses, Reason: "a test's"}
		}
	}
	return nil
}

func (p *fakePlatform) Reaches(s platform.Setting) error {
	if p.apart && (s.Network == "" || s.Network == platform.NetworkHost) {
		return &platform.Unsupported{Platform: p.name, Key: "network=host", Reason: "nobody reaches it"}
	}
	return nil
}

func TestUsable(t *testing.T) {
	wanted := []Place{Metal}
	for _, network := range []platform.Network{platform.NetworkHost, platform.NetworkBridge} {
		for _, storage := range []platform.Storage{platform.StorageVolume, platform.StorageBind} {
			wanted = append(wanted, Place{Platform: "docker", Storage: storage, Network: network})
		}
	}
	kept := platform.Setting{CPUSet: "1"}
	for name, c := range map[string]struct {
		docker fakePlatform
		asked  Asked
		places string
		notes  []string
	}{
		"all":             {fakePlatform{}, Asked{Base: kept, Serves: true}, "bare, docker volume, docker bind, docker volume bridge, docker bind bridge", nil},
		"no engine":       {fakePlatform{missing: &platform.Missing{What: "no engine", Mend: "start one"}}, Asked{}, "bare", []string{"docker is left out: no engine: start one"}},
		"no bridge":       {fakePlatform{refuses: "network=bridge"}, Asked{}, "bare, docker volume, docker bind", []string{"docker volume bridge, docker bind bridge are left out: docker has no network=bridge: a test's"}},
		"no CPU set":      {fakePlatform{refuses: "cpuset-cpus"}, Asked{Base: kept}, "bare", []string{"docker is left out: docker has no cpuset-cpus: a test's"}},
		"none asked for":  {fakePlatform{refuses: "cpuset-cpus"}, Asked{}, "bare, docker volume, docker bind, docker volume bridge, docker bind bridge", nil},
		"any CPU":         {fakePlatform{refuses: "cpuset-cpus"}, Asked{Base: kept, AnyCPU: true}, "bare, docker volume anywhere, docker bind anywhere, docker volume bridge anywhere, docker bind bridge anywhere", []string{"docker cannot pin the program to CPU 1"}},
		"no host network": {fakePlatform{apart: true}, Asked{Serves: true}, "bare, docker volume bridge, docker bind bridge", []string{"docker volume, docker bind are left out: docker has no network=host: nobody reaches it"}},
		"serving nothing": {fakePlatform{apart: true}, Asked{}, "bare, docker volume, docker bind, docker volume bridge, docker bind bridge", nil},
		"both at once":    {fakePlatform{apart: true, refuses: "cpuset-cpus"}, Asked{Base: kept, Serves: true, AnyCPU: true}, "bare, docker volume bridge anywhere, docker bind bridge anywhere", []string{"docker cannot pin", "docker volume, docker bind are left out"}},
	} {
		docker := c.docker
		docker.name = "docker"
		on := map[string]*fakePlatform{Bare: {name: Bare}, "docker": &docker}
		host := Host{Host: kit.Host{
			Platform: func(name string) (platform.Platform, error) {
				if p := on[name]; p != nil {
					return p, nil
				}
				return nil, errors.New("unknown platform " + name)
			},
			Check: func(p platform.Platform) error { return p.Check(t.Context()) },
		}}
		places, notes := host.Usable(wanted, c.asked)
		var labels []string
		for _, p := range places {
			label := p.Label()
			if p.AnyCPU {
				label += " anywhere"
			}
			if set := p.Setting(c.asked.Base).CPUSet; (set == "") != (p.AnyCPU || c.asked.Base.CPUSet == "") {
				t.Errorf("%s: %s has the CPUs %q", name, label, set)
			}
			labels = append(labels, label)
		}
		if got := strings.Join(labels, ", "); got != c.places {
			t.Errorf("%s: %s, want %s", name, got, c.places)
		}
		if !slices.EqualFunc(notes, c.notes, strings.HasPrefix) {
			t.Errorf("%s: notes %q, want %q", name, notes, c.notes)
		}
		if docker.checks != 1 {
			t.Errorf("%s: checked %d times", name, docker.checks)
		}
	}
}
