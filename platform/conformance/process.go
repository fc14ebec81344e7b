package conformance

import (
	"slices"
	"strings"
	"testing"

	"tare/image"
	"tare/platform"
)

// who is a script that prints where it runs and as whom: directory, user, group, the
// supplementary groups, sorted, and home.
const who = `pwd; id -u; id -g; echo $(sed -n 's/^Groups://p' /proc/self/status); echo "$HOME"`

// environmentOf runs env and gives what it prints, in order.
func (st *stage) environmentOf(spec platform.Spec) []string {
	st.Helper()
	spec.Args = []string{"/bin/env", "-0"}
	exit, out, complaints := st.run(spec)
	if exit.Code != 0 {
		st.Errorf("exit %+v: %s", exit, complaints)
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
}

// sameVariables compares environments, as far as the platform has their order.
func (s suite) sameVariables(got, want []string) bool {
	if s.has(AddedToImage) {
		got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	}
	return slices.Equal(got, want)
}

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// testImageProcess: what the image's configuration says holds where the spec says nothing.
func testImageProcess(t *testing.T, s suite) {
	st := s.set(t)
	img := st.configured(image.Config{
		Env:        []string{"B=first", "A=1", "PATH=/none:/bin", "B=last", "WITHOUT", "LINES=one\ntwo=2", "EMPTY=", "BYTES=\xff\xfe", "HOSTNAME=its own"},
		WorkingDir: "/made/by/whom", User: "weighed",
	})
	spec := st.shell(who)
	spec.Image = img
	if _, out, complaints := st.run(spec); out != "/made/by/whom\n1234\n4321\n29 44 4321\n/srv/seed\n" {
		t.Errorf("directory, user, group, groups, home: %q (%s)", out, complaints)
	}
	spec = st.spec()
	spec.Image = img
	got, want := st.environmentOf(spec), []string{
		"PATH=/none:/bin", "HOSTNAME=its own", marker + "=" + spec.Name, "B=last", "A=1", "LINES=one\ntwo=2", "EMPTY=", "BYTES=\ufffd\ufffd", "HOME=/srv/seed",
	}
	if !s.sameVariables(got, want) {
		t.Errorf("environment\n%q, want\n%q", got, want)
	}
}

// testSpecProcess: what the spec says stands over the image's configuration.
func testSpecProcess(t *testing.T, s suite) {
	st := s.set(t)
	img := st.configured(image.Config{Env: []string{"A=image", "GONE=image", "C=image"}, WorkingDir: "/tmp", User: "weighed"})
	spec := st.shell(who)
	spec.Image, spec.Dir, spec.User = img, "/srv/../srv/seed", "root"
	if _, out, complaints := st.run(spec); out != "/srv/seed\n0\n0\n0 29\n/root\n" {
		t.Errorf("directory, user, group, groups, home: %q (%s)", out, complaints)
	}
	spec = st.spec()
	spec.Image, spec.User = img, "0"
	spec.Env = append(spec.Env, "GONE", "A=spec")
	if s.has(AddedToImage) {
		spec.Args = []string{"/bin/env"}
		st.refused(spec, "variable GONE cannot be taken away")
		return
	}
	got, want := st.environmentOf(spec), []string{defaultPath, "HOSTNAME=tare", spec.Env[0], "A=spec", "C=image", "HOME=/root"}
	if !slices.Equal(got, want) {
		t.Errorf("environment\n%q, want\n%q", got, want)
	}
}

// testEnvironment: odd entries mean the same everywhere, and the order is the same.
func testEnvironment(t *testing.T, s suite) {
	st := s.set(t)
	for _, test := range []struct {
		env, want []string
		refused   string // by a platform that only adds
	}{
		{nil, []string{defaultPath, "HOSTNAME=tare", "MARK", "TARE_IMAGE=conformance", "LANG=C.UTF-8", "HOME=/root"}, ""},
		{
			[]string{"LANG=C", "X=1", "=nameless", "NOTHING", "X=2", "X", "TARE_IMAGE", "HOME=", "{{.Name}}={{.Name}}", "A B=c d", "Y==1"},
			[]string{defaultPath, "HOSTNAME=tare", "MARK", "LANG=C", "X=2", "HOME=/root", "{{.Name}}={{.Name}}", "A B=c d", "Y==1"},
			`variable "{{.Name}}"`,
		},
		{
			[]string{"PATH", "HOSTNAME", "HOME=/elsewhere"}, []string{"MARK", "HOME=/elsewhere", "TARE_IMAGE=conformance", "LANG=C.UTF-8"},
			"variable PATH cannot be taken away",
		},
	} {
		spec := st.spec()
		spec.Env = append(spec.Env, test.env...)
		test.want[slices.Index(test.want, "MARK")] = spec.Env[0]
		if s.has(AddedToImage) && test.refused != "" {
			spec.Args = []string{"/bin/env"}
			st.refused(spec, test.refused)
			continue
		}
		if got := st.environmentOf(spec); !s.sameVariables(got, test.want) {
			t.Errorf("%q gives\n%q, want\n%q", test.env, got, test.want)
		}
	}
	// Found by the search path that the program has, and by no other.
	spec := st.spec("busybox", "echo", "found")
	spec.Env = append(spec.Env, "PATH=/none:/bin")
	if _, out, _ := st.run(spec); out != "found\n" {
		t.Errorf("by its own search path: %q", out)
	}
}

// testWorkingDirectory: a directory that the image lacks is made, in the instance's own root.
func testWorkingDirectory(t *testing.T, s suite) {
	st := s.set(t)
	before := listing(t, s.image.Root)
	for dir, want := range map[string]string{
		"": "/", "/": "/", "/srv/seed/": "/srv/seed", "/link": "/srv/seed", "/link/made": "/srv/seed/made",
		"/made/for/it": "/made/for/it", "/tmp/made": "/tmp/made", "/dev/shm/made": "/dev/shm/made", "/data": "/data", "/data/made": "/data/made",
	} {
		for _, storage := range []platform.Storage{"", platform.StorageBind} {
			setting := platform.Setting{Storage: storage}
			if st.platform.Supports(setting) != nil {
				continue
			}
			spec := st.shell("pwd")
			if strings.HasSuffix(dir, "made") || strings.HasSuffix(dir, "it") {
				spec = st.shell("pwd; stat -c %a:%u:%g . >&2; touch new")
			}
			spec.Dir, spec.Data, spec.Setting = dir, []string{"/data"}, setting
			exit, out, complaints := st.run(spec)
			if exit.Code != 0 || out != want+"\n" || complaints != "" && complaints != "755:0:0\n" {
				t.Errorf("%q, storage %q: %q, want %s (exit %+v, %s)", dir, storage, out, want, exit, complaints)
			}
		}
	}
	if after := listing(t, s.image.Root); !slices.Equal(before, after) {
		t.Errorf("the image's root changed from\n%s\nto\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	spec := st.spec("./busybox", "pwd")
	spec.Dir = "/bin"
	if _, out, _ := st.run(spec); out != "/bin\n" {
		t.Errorf("a program named relative to its directory: %q", out)
	}
}

// testUser: users are the image's, by name and by number, with their groups.
func testUser(t *testing.T, s suite) {
	st := s.set(t)
	for user, want := range map[string]string{ // user, group, groups, home
		"":              "0 0 0 29 /root",
		"root":          "0 0 0 29 /root",
		":29":           "0 29 29 /root",
		"weighed":       "1234 4321 29 44 4321 /srv/seed",
		"weighed:":      "1234 4321 29 44 4321 /srv/seed",
		"1234":          "1234 4321 29 44 4321 /srv/seed",
		"weighed:audio": "1234 29 29 /srv/seed",
		"1234:5000":     "1234 5000 5000 /srv/seed",
		"77":            "77 0 0 /", // a number is an id, whoever is called so
		"4000:44":       "4000 44 44 /",
	} {
		spec := st.shell(who)
		spec.User = user
		_, out, complaints := st.run(spec)
		got := strings.Fields(strings.TrimPrefix(out, "/\n"))
		if s.has(AddedToImage) {
			got = slices.DeleteFunc(got, func(word string) bool { return !slices.Contains(strings.Fields(want), word) })
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q is %q, want %q (%s)", user, got, want, complaints)
		}
	}
	spec := st.shell("touch /tmp/mine && touch /etc/new 2>/dev/null || echo refused; grep CapEff /proc/self/status")
	spec.User = "weighed"
	if _, out, _ := st.run(spec); out != "refused\nCapEff:\t0000000000000000\n" {
		t.Errorf("another user than root: %q", out)
	}
	spec = st.shell("echo to output > /dev/stdout && echo to error > /dev/stderr")
	spec.User = "weighed"
	if _, out, complaints := st.run(spec); out != "to output\n" || complaints != "to error\n" {
		t.Errorf("streams opened by their names: %q, %q", out, complaints)
	}
}

// testProcessRefused: what cannot be is refused in the same words, before anything is made.
func testProcessRefused(t *testing.T, s suite) {
	st := s.set(t)
	for _, test := range []struct {
		change func(*platform.Spec)
		want   string
	}{
		{func(s *platform.Spec) { s.User = "absent" }, `user "absent": "absent" is not in /etc/passwd of the image`},
		{func(s *platform.Spec) { s.User = "root:absent" }, `"absent" is not in /etc/group of the image`},
		{func(s *platform.Spec) { s.User = "-1" }, `want an id of 0 to`},
		{func(s *platform.Spec) { s.User = "a:b:c" }, `want USER or USER:GROUP`},
		{func(s *platform.Spec) { s.Dir = "srv" }, `working directory "srv": want an absolute path`},
		{func(s *platform.Spec) { s.Dir = "/etc/passwd/x" }, `is no directory in the image`},
		{func(s *platform.Spec) { s.Env = append(s.Env, "PATH=bin:/none") }, `name it by a path`},
		{func(s *platform.Spec) { s.Env = append(s.Env, "PATH=/none") }, `file does not exist in /none`},
		{func(s *platform.Spec) { s.Env = append(s.Env, "A=\x00") }, `NUL`},
		{func(s *platform.Spec) { s.Args = nil }, `no program was named`},
	} {
		spec := st.spec("true")
		test.change(&spec)
		st.refused(spec, test.want)
	}
}

// refused launches what is refused in one line with those words, before anything is made.
func (st *stage) refused(spec platform.Spec, want string) {
	st.Helper()
	inst, err := st.platform.Launch(st.ctx, spec)
	if err == nil {
		st.stop(inst, spec.Name)
	}
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		st.Errorf("%v, want one line with %q", err, want)
	}
	st.noTraces(spec.Name)
	st.nothingEntered()
}
