package vm

import (
	"errors"
	"strings"
	"testing"
)

func TestNamesAreReadAndWritten(t *testing.T) {
	for in, want := range map[string]string{
		"vm/bare":                "vm/bare",
		"vm/oci":                 "vm/oci:runc",
		"vm:tcg/oci:crun":        "vm:tcg/oci:crun",
		"vm:tcg+memory=1g/bare":  "vm:tcg+memory=1g/bare",
		"vm:kvm+cpu=host/cgroup": "vm:kvm/cgroup",
		"vm:kvm+memory=2048m+cpu=qemu64+cpus=4/oci": "vm:kvm+cpus=4+memory=2g+cpu=qemu64/oci:runc",
		"vm+cpus=2/bare":            "vm+cpus=2/bare",
		"vm:tcg+cpu=default/bare":   "vm:tcg+cpu=default/bare",
		"vm:tcg+memory=300.5m/bare": "vm:tcg+memory=300m/bare",
	} {
		n, err := ParseName(in)
		if err != nil || n.String() != want {
			t.Errorf("%s: %s, %v; want %s", in, n, err, want)
			continue
		}
		if again, err := ParseName(want); err != nil || again != n {
			t.Errorf("%s reads as %+v (%v), %s as %+v", want, again, err, in, n)
		}
		if !Is(in) {
			t.Errorf("%s is not taken for a machine's", in)
		}
	}
	for _, other := range []string{"bare", "oci:vm", "vmware/bare", ""} {
		if Is(other) {
			t.Errorf("%q is taken for a machine's", other)
		}
	}
}

func TestABadNameSaysWhichPartAndWhatIsAllowed(t *testing.T) {
	for in, says := range map[string]string{
		"vm":                             "such as vm/bare",
		"vm/":                            "such as vm/bare",
		"docker":                         "such as vm/bare",
		"host/bare":                      `"host" is not vm`,
		"vm:xen/bare":                    `"xen" is not an engine: kvm or tcg`,
		"vm:uml/bare":                    `"uml" is not an engine: kvm or tcg`,
		"vm:/bare":                       "kvm or tcg",
		"vm:tcg+cpus=0/bare":             "cpus=1 to",
		"vm:tcg+cpus=2.5/bare":           "cpus=1 to",
		"vm:tcg+cpus/bare":               "cpus=1 to",
		"vm:tcg+memory=64m/bare":         "256m or more",
		"vm:tcg+memory=x/bare":           "256m or more",
		"vm:tcg+disk=1g/bare":            "one of cpus=NUMBER",
		"vm:tcg+/bare":                   "one of cpus=NUMBER",
		"vm:tcg+cpus=1+cpus=2/bare":      "said once",
		"vm:tcg+cpu=a,b/bare":            "-cpu help",
		"vm/vm/bare":                     "machines in machines",
		"vm:tcg/vm:kvm+cpus=1/oci":       "machines in machines",
		"vm/docker":                      "bare, cgroup, oci:runc, oci:crun",
		"vm/oci:no-such":                 "bare, cgroup, oci:runc, oci:crun",
		"vm/bare/bare":                   "bare, cgroup",
		"vm:tcg+memory=99999999999g/oci": "256m or more",
	} {
		_, err := ParseName(in)
		var bad *BadName
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", in, err, says)
		}
	}
}

func FuzzParseName(f *testing.F) {
	for _, seed := range []string{"vm/bare", "vm:kvm+cpus=4+memory=2g+cpu=host/oci", "vm/vm/bare", "vm:tcg+/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		n, err := ParseName(name)
		if err != nil {
			return
		}
		if again, err := ParseName(n.String()); err != nil || again != n {
			t.Errorf("%q is %+v, written %s and read again %+v (%v)", name, n, n, again, err)
		}
		if strings.ContainsAny(n.String(), " ,\n\x00") {
			t.Errorf("%q is written %q", name, n)
		}
	})
}
