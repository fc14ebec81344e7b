package docker

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"tare/platform"
)

func TestPublishedPortsComeFirst(t *testing.T) {
	port := network.MustParsePort
	got := portsOf(
		network.PortSet{port("80/tcp"): {}, port("9000/tcp"): {}, port("53/udp"): {}, port("8080/tcp"): {}},
		network.PortMap{port("9000/tcp"): nil},
	)
	if want := []int{9000, 80, 8080}; !slices.Equal(got, want) {
		t.Errorf("ports %v, want %v", got, want)
	}
}

func TestSettingOfAnOriginal(t *testing.T) {
	for _, c := range []struct {
		of   container.HostConfig
		want string
	}{
		{container.HostConfig{NetworkMode: "default"}, "network=bridge"},
		{container.HostConfig{NetworkMode: "host", LogConfig: container.LogConfig{Type: "json-file"}, Runtime: "runc"}, "network=bridge"},
		{container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "local"}}, "network=none,log-driver=local"},
		{container.HostConfig{Resources: container.Resources{CPUShares: 512, CpusetCpus: "0-1"}}, "cpu-shares=512,cpuset-cpus=0-1,network=bridge"},
		{container.HostConfig{SecurityOpt: []string{"seccomp=unconfined", "apparmor=unconfined"}}, "network=bridge,seccomp=unconfined,lsm=unconfined"},
		{container.HostConfig{Privileged: true, Runtime: "crun"}, "network=bridge,seccomp=unconfined,lsm=unconfined,runtime=crun"},
	} {
		if got := settingOf(&c.of).String(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.of, got, c.want)
		}
	}
}

func TestWhatACopyLacksIsSaid(t *testing.T) {
	limit := int64(10)
	for _, c := range []struct {
		of   container.HostConfig
		want []string
	}{
		{container.HostConfig{NetworkMode: "bridge"}, nil},
		{container.HostConfig{NetworkMode: "shop"}, []string{"network shop: it finds no other container by name"}},
		{container.HostConfig{NetworkMode: "host", Privileged: true}, []string{"the host's network: it is reached over a bridge", "privileges"}},
		{container.HostConfig{NetworkMode: "default", SecurityOpt: []string{"seccomp={}"}, Resources: container.Resources{PidsLimit: &limit}},
			[]string{"a limit of processes", "a seccomp profile of its own: the engine's is used"}},
	} {
		if got := lacksOf(&container.Config{}, &c.of); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.of, got, c.want)
		}
	}
}

func TestRootlessEnginesAndSwarmsSaveNoQuota(t *testing.T) {
	s := platform.Setting{CPUs: 1, CPUBurst: 1e6}
	for _, p := range []*Platform{NewRootless(Options{StateDir: t.TempDir()}), newPlatform(NameSwarm, Options{StateDir: t.TempDir()})} {
		if _, ok := p.Supports(s).(*platform.Unsupported); !ok {
			t.Errorf("%s: %v", p.Name(), p.Supports(s))
		}
	}
}

// FuzzDescription: whatever an engine says of a container, the setting of its copy is one that can be
// written and read.
func FuzzDescription(f *testing.F) {
	f.Add([]byte(`{"Config":{"ExposedPorts":{"80/tcp":{}},"Tty":true},"HostConfig":{"CpuShares":1,"CpusetCpus":"0-1","NetworkMode":"host","SecurityOpt":["seccomp=x"]}}`))
	f.Add([]byte(`{"Config":{},"HostConfig":{"PortBindings":{"x/udp":null},"Init":null,"PidsLimit":null}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var c container.InspectResponse
		if json.Unmarshal(text, &c) != nil || c.Config == nil || c.HostConfig == nil {
			return
		}
		_ = settingOf(c.HostConfig).String()
		_ = lacksOf(c.Config, c.HostConfig)
		for _, port := range portsOf(c.Config.ExposedPorts, c.HostConfig.PortBindings) {
			if port < 0 || port > 65535 {
				t.Errorf("%q has port %d", text, port)
			}
		}
	})
}
