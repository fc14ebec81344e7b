package lab

import (
	"errors"
	"strings"
	"testing"

	"tare/platform"
	"tare/platform/box"
	"tare/platform/held"
	"tare/platform/vm"
)

func TestCanonicalPlatform(t *testing.T) {
	for name, want := range map[string]string{
		"bare": "bare", "cgroup": "cgroup", "containerd": "containerd", "docker": "docker", "k8s": "k8s",
		"oci": "oci:runc", "oci:crun": "oci:crun",
		"docker:rootless": "docker:rootless", "docker:swarm": "docker:swarm",
		"": "", "docker:": "", "docker:podman": "", "docker:swarm:x": "", "oci:": "", "oci:a b": "", "bare:metal": "", "rootless": "",
	} {
		got, err := CanonicalPlatform(name)
		if unknown := new(UnknownPlatform); got != want || (want == "") != errors.As(err, &unknown) {
			t.Errorf("%q is %q (%v), want %q", name, got, err, want)
		}
	}
}

// Whatever help texts name can be made, and goes by that name: the ledger finds
// by it what an entry's platform can remove.
func TestPlatformsGoByTheirNames(t *testing.T) {
	make := Platforms(t.TempDir(), nil)
	for _, described := range PlatformNames {
		name := strings.NewReplacer("RUNTIME", "crun", "ENGINE", "tcg", "PLATFORM", "bare").Replace(described.Name)
		p, err := make(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p.Name() != name {
			t.Errorf("%s goes by the name %s", name, p.Name())
		}
		if again, err := make(name); err != nil || again != p {
			t.Errorf("%s is made twice (%v)", name, err)
		}
	}
}

// What boxes and pools of machines enter in a ledger is removed by those names, which no
// platform of a condition has.
func TestWhatIsEnteredByNamesOfItsOwn(t *testing.T) {
	resolve := Platforms(t.TempDir(), nil)
	for _, name := range []string{box.Entered, vm.Entered} {
		p, err := resolve(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// Of things that are gone nothing is left to do.
		if err := p.Remove(t.Context(), platform.Entry{Platform: name, Kind: held.Cgroup, ID: "/tare/nothing-of-this-name"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := CanonicalPlatform(box.Entered); err == nil {
		t.Errorf("programs can be asked to run on %q", box.Entered)
	}
}
