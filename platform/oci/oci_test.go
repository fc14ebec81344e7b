package oci_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"tare/platform"
	"tare/platform/bare"
	"tare/platform/conformance"
	"tare/platform/crashtest"
	"tare/platform/oci"
)

func TestConformanceRunc(t *testing.T) { conform(t, "runc") }

func TestConformanceCrun(t *testing.T) { conform(t, "crun") }

func conform(t *testing.T, runtime string) {
	state := conformance.OpenDir(t)
	conformance.Run(t, func(_ *testing.T, l platform.Ledger) platform.Platform {
		return oci.New(runtime, oci.Options{StateDir: state, Ledger: l})
	}, conformance.Image(t))
}

func TestMain(m *testing.M) {
	bare.Reexec()
	if code, ours := crashtest.Main(victim); ours {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// The same program has the same surroundings on bare metal, in a cgroup and in
// a container of each runtime.
func TestSurroundingsEqualAcrossPlatforms(t *testing.T) {
	img := conformance.Image(t)
	state := t.TempDir()
	spec := platform.Spec{Name: "equal", Image: img, Args: []string{"sleep", "3600"}, Env: []string{"ADDED=1"}, Data: []string{"/data"}}
	var first *platform.InForce
	for _, p := range []platform.Platform{
		bare.New(bare.Options{StateDir: state}),
		bare.NewInCgroup(bare.Options{StateDir: state}),
		oci.New("runc", oci.Options{StateDir: state}),
		oci.New("crun", oci.Options{StateDir: state}),
	} {
		if err := p.Check(t.Context()); err != nil {
			t.Logf("left out: %v", err)
			continue
		}
		inst, err := p.Launch(t.Context(), spec)
		if err != nil {
			t.Fatalf("%s: %v", p.Name(), err)
		}
		force, err := inst.InForce()
		if err != nil {
			t.Errorf("%s: %v", p.Name(), err)
		}
		if err := inst.Stop(t.Context()); err != nil {
			t.Errorf("%s: %v", p.Name(), err)
		}
		if first == nil {
			first = &force
			continue
		}
		if diff := conformance.Difference(*first, force); diff != "" {
			t.Errorf("%s differs from bare metal (-bare +%[1]s):\n%s", p.Name(), diff)
		}
	}
	if first == nil {
		t.Skip("no platform is there to compare")
	}
}

// The image's user runs the program, everywhere with the same groups.
func TestImageUser(t *testing.T) {
	img := conformance.Image(t)
	if err := os.WriteFile(img.Root+"/etc/group", []byte("root:x:0:\naudio:x:29:weighed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(img.Root+"/etc/passwd", []byte("weighed:x:1234:4321::/:\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	img.Config.User = "weighed"
	state := t.TempDir()
	for _, p := range []platform.Platform{
		bare.New(bare.Options{StateDir: state}),
		oci.New("runc", oci.Options{StateDir: state}),
		oci.New("crun", oci.Options{StateDir: state}),
	} {
		if err := p.Check(t.Context()); err != nil {
			t.Logf("left out: %v", err)
			continue
		}
		var out bytes.Buffer
		inst, err := p.Launch(t.Context(), platform.Spec{
			Name: "user", Image: img, Args: []string{"sh", "-c", "id -u; id -g; id -G; touch /tmp/x; touch /etc/x 2>/dev/null || echo refused"}, Stdout: &out,
		})
		if err != nil {
			t.Fatalf("%s: %v", p.Name(), err)
		}
		_, waiting := inst.Wait(t.Context())
		if err := errors.Join(waiting, inst.Stop(t.Context())); err != nil {
			t.Errorf("%s: %v", p.Name(), err)
		}
		if want := "1234\n4321\n4321 29\nrefused\n"; out.String() != want {
			t.Errorf("%s: %q, want %q", p.Name(), out.String(), want)
		}
	}
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	err := oci.New("no-such-runtime", oci.Options{StateDir: t.TempDir()}).Check(t.Context())
	var missing *platform.Missing
	if !errors.As(err, &missing) || missing.Mend == "" {
		t.Errorf("%v, want a *platform.Missing with the mend", err)
	}
}
