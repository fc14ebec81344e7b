package containerd

import (
	"errors"
	"os/exec"
	"testing"

	"tare/platform"
)

func TestRuntimeOf(t *testing.T) {
	for setting, want := range map[string]runtime{
		"":                      {shim: "io.containerd.runc.v2", binary: "runc"},
		"io.containerd.runc.v2": {shim: "io.containerd.runc.v2", binary: "runc"},
		"sh":                    {shim: "io.containerd.runc.v2", binary: "sh"}, // any program will do here
	} {
		if got, err := runtimeOf(setting); got != want || err != nil {
			t.Errorf("%q: %+v, %v, want %+v", setting, got, err, want)
		}
	}
	for _, setting := range []string{"no-such-runtime-at-all", "io.containerd.no-such-shim.v9", "io.containerd."} {
		_, err := runtimeOf(setting)
		var unsupported *platform.Unsupported
		if !errors.As(err, &unsupported) || unsupported.Key != "runtime="+setting {
			t.Errorf("%s: %v, want a *platform.Unsupported", setting, err)
		}
	}
}

func TestShimProgram(t *testing.T) {
	for name, want := range map[string]string{
		"io.containerd.runc.v2": "containerd-shim-runc-v2",
		"io.containerd.kata.v2": "containerd-shim-kata-v2",
	} {
		if got, ok := shimProgram(name); got != want || !ok {
			t.Errorf("%s: %s, %v", name, got, ok)
		}
	}
	if got, ok := shimProgram("io.containerd."); ok {
		t.Errorf("a name without a version is %s", got)
	}
}

func TestSpecifies(t *testing.T) {
	for _, c := range []struct {
		features string
		want     bool
	}{
		{`{"ociVersionMin":"1.0.0","ociVersionMax":"1.2.0"}`, true},
		{`{"ociVersionMax":"1.1.0-rc.3"}`, true},
		{`{"ociVersionMax":"2.0"}`, true},
		{`{"ociVersionMax":"1.0.2-dev"}`, false}, // runc 1.1
		{`{"ociVersionMax":"1"}`, false},
		{`{"ociVersionMax":"one.two"}`, false},
		{`{}`, false},
		{`unknown command "features"`, false},
	} {
		if got := specifies([]byte(c.features), 1, 1); got != c.want {
			t.Errorf("%s: %v, want %v", c.features, got, c.want)
		}
	}
}

func FuzzSpecifies(f *testing.F) {
	f.Add([]byte(`{"ociVersionMax":"1.1.0-rc.3"}`))
	f.Fuzz(func(t *testing.T, features []byte) {
		if specifies(features, 1, 1) && !specifies(features, 1, 0) {
			t.Errorf("%q is of version 1.1 and not of 1.0", features)
		}
	})
}

func TestUpstream(t *testing.T) {
	for version, want := range map[string]string{"1.6.20~ds1": "1.6.20", "v2.2.1": "2.2.1", "runc 1.1.5+ds1": "runc 1.1.5", "": ""} {
		if got := upstream(version); got != want {
			t.Errorf("%q is %q, want %q", version, got, want)
		}
	}
}

// A burst is granted where the runtime knows it, and refused where it would be
// passed over in silence.
func TestBurstIsAsked(t *testing.T) {
	if _, err := exec.LookPath("runc"); err != nil {
		t.Skip("no runc on PATH: apt-get install runc")
	}
	out, _ := exec.Command("runc", "features").Output()
	err := New(Options{}).Supports(platform.Setting{CPUs: 1, CPUBurst: 1000})
	if knows := specifies(out, 1, 1); knows != (err == nil) {
		t.Errorf("it knows the burst is %v, and the setting is answered by %v", knows, err)
	}
}
