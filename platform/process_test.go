package platform

import (
	"slices"
	"strings"
	"testing"

	"tare/image"
)

// The rules of `docker run`, observed of Docker 20.10 with runc 1.1, but for a name that stands
// twice in an image beside variables of one's own.
func TestEnvironment(t *testing.T) {
	path, host := Surroundings.Env[0], Surroundings.Env[1]
	for _, test := range []struct {
		what           string
		of, own, wants []string
	}{
		{"neither", nil, nil, []string{path, host, "HOME=/h"}},
		{"own before the image's", []string{"A=1", "B=1"}, []string{"C=1", "A=2"}, []string{path, host, "C=1", "A=2", "B=1", "HOME=/h"}},
		{"the image's over the defaults", []string{"PATH=/opt", "HOME=/app", "LANG=C"}, nil, []string{"PATH=/opt", host, "HOME=/app", "LANG=C"}},
		{"later wins, at the first place", []string{"A=1", "B=1", "A=2"}, nil, []string{path, host, "A=2", "B=1", "HOME=/h"}},
		{"without = takes away", []string{"A=1", "B=1"}, []string{"A", "PATH"}, []string{host, "B=1", "HOME=/h"}},
		{"of the image, a default alone", []string{"A=1", "A", "HOSTNAME"}, nil, []string{path, "A=1", "HOME=/h"}},
		{"taken away and set", []string{"PATH", "PATH=/opt"}, nil, []string{"PATH=/opt", host, "HOME=/h"}},
		{"without a name", []string{"=x", ""}, []string{"=", "=y"}, []string{path, host, "HOME=/h"}},
		{"an empty home", []string{"HOME=", "A=1"}, nil, []string{path, host, "HOME=/h", "A=1"}},
		{"odd ones are kept", []string{"A=x\ny=2", "B=", "C==", "a b=c"}, nil, []string{path, host, "A=x\ny=2", "B=", "C==", "a b=c", "HOME=/h"}},
	} {
		if got := environment(test.of, test.own, "/h"); !slices.Equal(got, test.wants) {
			t.Errorf("%s: %q, want %q", test.what, got, test.wants)
		}
	}
}

func FuzzEnvironment(f *testing.F) {
	f.Add("A=1\x00B\x00=x", "A\x00HOME=")
	f.Fuzz(func(t *testing.T, of, own string) {
		seen := map[string]bool{}
		for _, entry := range environment(strings.Split(of, "\x00"), strings.Split(own, "\x00"), "/") {
			name := variable(entry)
			if name == "" || name == entry || seen[name] {
				t.Errorf("%q stands in the environment", entry)
			}
			seen[name] = true
		}
		if !seen["HOME"] {
			t.Error("no HOME")
		}
	})
}

// A program that an edit mounts is not in the image.
func TestProgramInAMount(t *testing.T) {
	s := Spec{Image: image.Image{Name: "x", Root: t.TempDir()}, Args: []string{"/opt/python/bin/python3"}}
	if p, err := s.Process(); err == nil {
		t.Errorf("found where it is not: %+v", p)
	}
	s.Edits.Mounts = []Mount{{Source: "/usr", Target: "/opt/python", Directory: true}}
	if p, err := s.Process(); err != nil || p.Program != s.Args[0] {
		t.Errorf("%+v, %v", p, err)
	}
	if s.Args[0] = "/opt/python3"; s.Edits.show(s.Args[0]) {
		t.Error("a name that only begins like a mount's lies in it")
	}
}
