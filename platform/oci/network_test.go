package oci_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"tare/kernel/netns"
	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/oci"
)

// inOwnNetwork is set where this program runs in a network namespace of its
// own, so that devices made by a test are nobody else's.
const inOwnNetwork = "TARE_TEST_OWN_NETWORK"

// A device that has the bridge's name and is somebody else's is neither used
// nor touched, and the error names it; without it the bridge comes and goes.
func TestForeignBridgeIsLeftAlone(t *testing.T) {
	p := oci.New("runc", oci.Options{StateDir: t.TempDir()})
	if err := p.Check(t.Context()); err != nil {
		t.Skip(err)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("no ip on PATH, by which a foreign bridge is made: apt-get install iproute2")
	}
	if os.Getenv(inOwnNetwork) == "" {
		again := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestForeignBridgeIsLeftAlone$", "-test.v")
		again.Env = append(os.Environ(), inOwnNetwork+"=1")
		again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("in a network namespace: %v\n%s", err, out)
		}
		return
	}
	ip := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	spec := platform.Spec{
		Name: "bridged", Image: conformance.Image(t), Args: []string{"sleep", "3600"},
		Setting: platform.Setting{Network: platform.NetworkBridge},
	}
	refused := func(what string) {
		t.Helper()
		look := func() string { return ip("-o", "link", "show", "tare0") + ip("-o", "address", "show", "tare0") }
		before := look()
		inst, err := p.Launch(t.Context(), spec)
		if err == nil {
			t.Errorf("%s: launched", what)
			_ = inst.Stop(t.Context())
		} else if !errors.Is(err, netns.ErrForeign) || !strings.Contains(err.Error(), "ip link delete tare0") {
			t.Errorf("%s: %v, want an ErrForeign with the mend", what, err)
		}
		if after := look(); after != before {
			t.Errorf("%s: it was\n%sand is\n%s", what, before, after)
		}
	}
	ip("link", "add", "tare0", "type", "bridge")
	refused("a bridge without an address")
	ip("address", "add", "10.9.8.1/24", "dev", "tare0")
	refused("a bridge with an address")
	ip("link", "set", "tare0", "alias", "another's")
	refused("a bridge with another mark")
	ip("link", "delete", "tare0")
	ip("link", "add", "tare0", "type", "veth", "peer", "name", "other")
	ip("link", "set", "tare0", "alias", "tare")
	refused("no bridge")
	ip("link", "delete", "tare0")

	// One that was left half made, and the one made where there is none.
	ip("link", "add", "tare0", "type", "bridge")
	ip("link", "set", "tare0", "alias", "tare")
	for _, before := range []string{"half made", "none"} {
		inst, err := p.Launch(t.Context(), spec)
		if err != nil {
			t.Fatalf("%s: %v", before, err)
		}
		if _, _, ok, err := netns.FindBridge("tare0"); !ok || err != nil {
			t.Errorf("%s: the bridge made is not known for ours: %v", before, err)
		}
		if err := inst.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if there, err := netns.Exists("tare0"); there || err != nil {
			t.Errorf("%s: the bridge is left (%v)", before, err)
		}
	}
}
