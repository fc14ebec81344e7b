package docker

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/platform"
)

func TestFindRootless(t *testing.T) {
	users, err := os.MkdirTemp("", "tare") // short: a socket's path has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(users) })
	listen := func(uid string) string {
		dir := filepath.Join(users, uid)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", filepath.Join(dir, "docker.sock"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return "unix://" + filepath.Join(dir, "docker.sock")
	}
	own, stranger := os.Geteuid(), os.Geteuid()+1
	find := func(uid int, pairs ...string) (string, *platform.Missing) {
		return findRootless(func(key string) string {
			for _, pair := range pairs {
				if name, value, _ := strings.Cut(pair, "="); name == key {
					return value
				}
			}
			return ""
		}, users, uid)
	}
	if host, missing := find(own); missing == nil || !strings.Contains(missing.Mend, rootlessHost) {
		t.Errorf("where there is none: %q, %v", host, missing)
	}
	// What is no socket is none.
	if err := os.Mkdir(filepath.Join(users, "999"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(users, "999", "docker.sock"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	first := listen("1000")
	if host, missing := find(own); host != first || missing != nil {
		t.Errorf("the user's own: %q, %v; want %s", host, missing, first)
	}
	// The only one there is another user's: it is named, and so is the user.
	whose := fmt.Sprintf("(%d)", own)
	for _, pairs := range [][]string{nil, {"XDG_RUNTIME_DIR=" + filepath.Join(users, "1000")}, {"SUDO_UID=x"}, {"SUDO_UID=-1"}} {
		host, missing := find(stranger, pairs...)
		if host != "" || missing == nil || !strings.Contains(missing.What, whose) || !strings.Contains(missing.Mend, rootlessHost+"="+first) {
			t.Errorf("another user's, %q: %q, %v", pairs, host, missing)
		}
	}
	second := listen("1001")
	for variable, want := range map[string]string{
		rootlessHost + "=unix:///elsewhere":               "unix:///elsewhere",
		"XDG_RUNTIME_DIR=" + filepath.Join(users, "1000"): first,
		"XDG_RUNTIME_DIR=" + filepath.Join(users, "1001"): second,
	} {
		if host, missing := find(own, variable); host != want || missing != nil {
			t.Errorf("%s: %q, %v; want %s", variable, host, missing, want)
		}
	}
	// A directory in which others write may hold anybody's socket, and a link may lead to one.
	if err := os.Chmod(filepath.Join(users, "1001"), 0o777); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "docker.sock")
	if err := os.Rename(filepath.Join(users, "1000", "docker.sock"), elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(users, "1000", "docker.sock")); err != nil {
		t.Fatal(err)
	}
	if host, missing := find(own); missing == nil || !strings.Contains(missing.What, "more than one user") {
		t.Errorf("in a directory that others write: %q, %v", host, missing)
	}
}

// TestRootAsksTheUserOfSudo: root takes the engine of the user who ran sudo for its own.
func TestRootAsksTheUserOfSudo(t *testing.T) {
	const person = 4242
	if os.Geteuid() != 0 {
		t.Skip("giving a socket to another user takes root")
	}
	users, err := os.MkdirTemp("", "tare")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(users) })
	dir := filepath.Join(users, fmt.Sprint(person))
	socket := filepath.Join(dir, "docker.sock")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, name := range []string{dir, socket} {
		if err := os.Chown(name, person, person); err != nil {
			t.Fatal(err)
		}
	}
	sudo := func(key string) string { return map[string]string{"SUDO_UID": fmt.Sprint(person)}[key] }
	if host, missing := findRootless(sudo, users, 0); host != "unix://"+socket || missing != nil {
		t.Errorf("by sudo: %q, %v", host, missing)
	}
	if host, missing := findRootless(func(string) string { return "" }, users, 0); missing == nil || !strings.Contains(missing.What, "user 4242") {
		t.Errorf("without sudo: %q, %v; want a refusal that names the user", host, missing)
	}
	// A socket that somebody else made in the user's directory is not the user's.
	if err := os.Chown(socket, person+1, person+1); err != nil {
		t.Fatal(err)
	}
	if host, missing := findRootless(sudo, users, 0); missing == nil {
		t.Errorf("another's socket in the user's directory: %q", host)
	}
}

const fakeRootless = `{"OSType":"linux","CgroupDriver":"none","CgroupVersion":"1","DefaultRuntime":"runc","SecurityOptions":["name=seccomp,profile=default","name=rootless"]}`

// rootlessFake is a fake engine that says of itself that it is rootless.
func rootlessFake(t *testing.T, name, about string) (*fakeEngine, *Platform, *notebook) {
	t.Helper()
	f, p, ledger := newFakeEngine(t, map[string]func(http.ResponseWriter, *http.Request){stepInfo: info(about)})
	p.name = name
	return f, p, ledger
}

func TestCheckTellsTheKindsOfEngineApart(t *testing.T) {
	const ordinary = `{"OSType":"linux","SecurityOptions":["name=seccomp,profile=default"]}`
	for _, c := range []struct{ name, about, mend string }{
		{Name, ordinary, ""},
		{NameRootless, fakeRootless, ""},
		{Name, fakeRootless, NameRootless},
		{NameSwarm, fakeRootless, NameRootless},
		{NameRootless, ordinary, rootlessHost},
	} {
		_, p, _ := rootlessFake(t, c.name, c.about)
		err := p.Check(t.Context())
		missing := new(platform.Missing)
		if c.mend == "" && err != nil || c.mend != "" && (!errors.As(err, &missing) || !strings.Contains(missing.Mend, c.mend)) {
			t.Errorf("%s of %s: %v, want a mend with %q", c.name, c.about, err, c.mend)
		}
	}
}

// What the engine does not control is refused by its name, and what one with
// control groups does is not.
func TestRootlessRefuses(t *testing.T) {
	const delegated = `{"OSType":"linux","CgroupDriver":"systemd","CgroupVersion":"2","MemoryLimit":true,"CPUCfsQuota":true,"CPUCfsPeriod":true,"SecurityOptions":["name=rootless","name=cgroupns"]}`
	for setting, keys := range map[string][2]string{ // of one without control groups, and with
		"cpus=0.5":              {"cpus", ""},
		"cpus=1 cpu-period=5ms": {"cpus", ""},
		"memory=64m":            {"memory", ""},
		"cpu-shares=512":        {"cpu-shares", "cpu-shares"},
		"cpuset-cpus=0":         {"cpuset-cpus", "cpuset-cpus"},
		"network=bridge":        {"network=bridge", "network=bridge"},
		"network=bridge:nat":    {"network=bridge:nat", "network=bridge:nat"},
		"network=bridge:proxy":  {},
		"network=host":          {},
		"network=none":          {},
		"storage=bind":          {},
	} {
		var s platform.Setting
		for _, pair := range strings.Fields(setting) {
			key, value, _ := strings.Cut(pair, "=")
			if err := s.Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		for n, about := range []string{fakeRootless, delegated} {
			_, p, _ := rootlessFake(t, NameRootless, about)
			err := p.Supports(s)
			refused, _ := err.(*platform.Unsupported)
			if (refused == nil) != (keys[n] == "") || refused != nil && (refused.Key != keys[n] || refused.Reason == "" || refused.Platform != NameRootless) {
				t.Errorf("%s on %s: %v, want key %q", setting, about, err, keys[n])
			}
		}
	}
}

func TestRootlessServesNothingOnItsHostNetwork(t *testing.T) {
	f, p, ledger := rootlessFake(t, NameRootless, fakeRootless)
	spec := fakeSpec(t)
	spec.Ports = []int{6379}
	_, err := p.Launch(t.Context(), spec)
	if unsupported := new(platform.Unsupported); !errors.As(err, &unsupported) || unsupported.Key != "network=host" {
		t.Errorf("Launch: %v, want that nothing reaches a port there", err)
	}
	if refused := p.Reaches(spec.Setting); refused == nil || err == nil || refused.Error() != err.Error() {
		t.Errorf("Reaches: %v, want what Launch refuses with", refused)
	}
	if err := p.Reaches(platform.Setting{Network: platform.NetworkProxy}); err != nil {
		t.Errorf("Reaches: %v of a published port", err)
	}
	for _, asked := range f.since() {
		if asked == stepCreate {
			t.Error("a container was made")
		}
	}
	if left := ledger.open(); len(left) > 0 {
		t.Errorf("left in the ledger: %v", left)
	}
	spec.Ports = nil
	inst, err := p.Launch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, inst)
	if err := inst.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// Of a container without a control group nothing is read from another's processes.
func TestGrouplessHoldsNoStranger(t *testing.T) {
	mine := os.Getpid()
	f, p, _ := newFakeEngine(t, nil)
	f.fault = map[string]func(http.ResponseWriter, *http.Request){
		stepInfo: info(fakeRootless),
		stepInspect: func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.mark == "" {
				refuse(http.StatusNotFound, "No such container")(w, r)
				return
			}
			fmt.Fprintf(w, `{"Id":%q,"State":{"Pid":%d},"Config":{"Labels":{%q:%q}}}`, f.id, mine, labelLedger, f.mark)
		},
	}
	p.name = NameRootless
	if _, err := p.Launch(t.Context(), fakeSpec(t)); err == nil || !strings.Contains(err.Error(), "none of its shim's") {
		t.Errorf("Launch of what the engine takes this test for: %v", err)
	}
}

// TestNoBus: an engine whose user has no message bus cannot start a container, and says little.
func TestNoBus(t *testing.T) {
	refused := errors.New("Error response from daemon: failed to create shim task: OCI runtime create failed: runc create failed: " +
		`unable to start unit "docker-64ed.scope" (properties [{Name:Slice Value:"user.slice"}]): Permission denied: unknown.`)
	for name, explained := range map[string]bool{NameRootless: true, Name: false} {
		got := (&Platform{name: name}).explain("start sh", refused).Error()
		if strings.Contains(got, "dbus-user-session") != explained {
			t.Errorf("%s explains %q", name, got)
		}
	}
}
