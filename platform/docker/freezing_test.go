package docker

import (
	"errors"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/system"

	"tare/platform"
)

// What has no group cannot be frozen, and what has a kernel of its own is not.
func TestFreezesByTheEngine(t *testing.T) {
	runtimes := map[string]system.RuntimeWithStatus{}
	for name, path := range map[string]string{"runc": "runc", "sandbox": "/usr/local/bin/runsc", "crun": "/usr/bin/crun"} {
		r := system.RuntimeWithStatus{}
		r.Path = path
		runtimes[name] = r
	}
	for _, test := range []struct{ platform, driver, byDefault, runtime, refusal string }{
		{Name, "cgroupfs", "runc", "", ""},
		{Name, "systemd", "sandbox", "crun", ""},
		{Name, "cgroupfs", "runc", "sandbox", "kernel of its own"},
		{Name, "cgroupfs", "sandbox", "", "kernel of its own"},
		{Name, "cgroupfs", "runc", "io.containerd.kata.v2", "kernel of its own"},
		{NameRootless, "none", "runc", "", "no control groups"},
		{NameRootless, "systemd", "runc", "", ""},
	} {
		info := &system.Info{CgroupDriver: test.driver, DefaultRuntime: test.byDefault, Runtimes: runtimes}
		err := newPlatform(test.platform, Options{}).freezesBy(info, platform.Setting{Runtime: test.runtime})
		refused := new(platform.Unsupported)
		switch {
		case test.refusal == "" && err == nil:
		case !errors.As(err, &refused) || refused.Platform != test.platform || test.refusal == "" || !strings.Contains(refused.Reason, test.refusal):
			t.Errorf("%+v: %v", test, err)
		}
	}
	if refused := new(platform.Unsupported); !errors.As(NewSwarm(Options{}).Freezes(t.Context(), platform.Setting{}), &refused) {
		t.Error("a swarm's tasks are frozen")
	}
}
