package docker

import (
	"errors"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/system"

	"tare/platform"
)

// An engine puts containers into groups that others made only where it drives the
// kernel's groups itself.
func TestGroupsByTheEnginesDriver(t *testing.T) {
	for _, test := range []struct{ platform, driver, refusal string }{
		{Name, "cgroupfs", ""},
		{Name, "systemd", "cgroupfs"}, // the mend
		{Name, "none", "no control groups"},
		{NameRootless, "cgroupfs", "rootless"},
		{NameRootless, "systemd", "rootless"},
	} {
		err := newPlatform(test.platform, Options{}).groups(&system.Info{CgroupDriver: test.driver})
		refused := new(platform.Unsupported)
		switch {
		case test.refusal == "" && err == nil:
		case !errors.As(err, &refused) || refused.Platform != test.platform || test.refusal == "" || !strings.Contains(refused.Reason, test.refusal):
			t.Errorf("%s with driver %s: %v, want a refusal with %q", test.platform, test.driver, err, test.refusal)
		}
	}
	spec := platform.Spec{Group: "box-1/idle"}
	if got := cgroupParent(spec, &system.Info{CgroupDriver: "cgroupfs"}); got != "/tare/box-1/idle" {
		t.Errorf("the container's parent is %s", got)
	}
}

// What is ended for a container is its own group, and not its keeper's beside it.
func TestWhichGroupIsTheContainers(t *testing.T) {
	id := strings.Repeat("c0", 32)
	for name, want := range map[string]bool{
		id: true, "docker-" + id + ".scope": true, "libpod-" + id + ".scope": true, "libpod-" + id: true,
		"libpod-conmon-" + id + ".scope": false, "docker-" + strings.Repeat("d0", 32) + ".scope": false,
	} {
		if got := isContainers(name, id); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
