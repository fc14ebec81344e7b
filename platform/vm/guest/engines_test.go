package guest_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/container"
	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/docker"
)

// central are the cases of the platforms' suite in which an engine's driver of control groups has a
// part: limits, pins, ends, freezing, and what is left.
const central = "^TestConformance$/^(Name|ExitStatus|Signal|Stop|SettingsInForce|Usage|OutOfMemory|Group|Concurrent|" +
	"Crash|RemoveSparesOthers|FrozenStandsStill|FrozenStopped|FrozenCrash|FreezeEnded)$"

// fewer are those that podman, which takes thrice as long, does within the suite's bound.
const fewer = "^TestConformance$/^(Name|Signal|Stop|OutOfMemory|FrozenStandsStill)$"

// Platforms and engines as the distribution sets them up: systemd is the first process and Docker's
// and podman's driver of control groups, which are of version 2 alone.
func TestDebianEngines(t *testing.T) {
	if os.Getenv(wholeVariable) == "" {
		t.Skip("takes an hour where it is emulated: set " + wholeVariable + "=1")
	}
	dockers := `mkdir -p /etc/docker
echo '{"exec-opts": ["native.cgroupdriver=systemd"]}' >/etc/docker/daemon.json
systemctl start docker`
	podmans := `systemctl start dbus podman.socket; podman info >/dev/null; export DOCKER_HOST=unix:///run/podman/podman.sock`
	rootless := `export TARE_TEST_ALL=1 DOCKER_ROOTLESS_HOST=unix://` + personsRun + `/docker.sock`
	debian{kernel: "6.12.", cpus: 2, phases: []phase{
		{"bare", "platform/bare", "Conformance", "", 15 * time.Minute},
		{"oci", "platform/oci", "Conformance", "", 25 * time.Minute},
		{"docker", "platform/docker", central, dockers, 40 * time.Minute},
		own("slice", 10*time.Minute),
		own("mapped-users", 10*time.Minute),
		{"podman", "platform/docker", fewer, podmans, 20 * time.Minute},
		own("podman-containers", 10*time.Minute),
		own("rootless", 20*time.Minute),
		{"docker:rootless", "platform/docker", "^TestRootlessOfHost$" + strings.TrimPrefix(fewer, "^TestConformance$"), rootless, 20 * time.Minute},
	}}.run(t)
}

// inGuestDo runs a program, and gives its output.
func inGuestDo(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*bound)
	defer cancel()
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// sleeper starts a container by an engine's own client, without a network, and gives its id and first
// process. client is its command, with options.
func sleeper(t *testing.T, name string, client []string, options ...string) (id string, pid int) {
	t.Helper()
	inGuestDo(t, "sh", "-c", "busybox tar c -C "+programsAt+"/rootfs . | "+strings.Join(client, " ")+" import - sleeper:1")
	run := append([]string{"run", "--detach", "--name", name, "--network", "none"}, options...)
	inGuestDo(t, slices.Concat(client, run, []string{"sleeper:1", "/bin/busybox", "sleep", "36000"})...)
	t.Cleanup(func() { inGuestDo(t, slices.Concat(client, []string{"rm", "--force", name})...) })
	inspect := slices.Concat(client, []string{"inspect", "--format", "{{.Id}} {{.State.Pid}}", name})
	said := strings.Fields(inGuestDo(t, inspect...))
	if len(said) != 2 {
		t.Fatalf("inspect says %q", said)
	}
	pid, err := strconv.Atoi(said[1])
	if err != nil {
		t.Fatal(err)
	}
	return said[0], pid
}

// finds holds that a container is found by its name at an engine's socket, and by its group alone.
func finds(t *testing.T, engine container.Engine, name, id string, pid int) {
	t.Helper()
	for asked, o := range map[string]container.Options{
		name:   {Patience: bound},
		id[:6]: {Docker: []string{}, Containerd: []string{}},
	} {
		c, err := container.Open(o).Find(t.Context(), asked)
		if err != nil || c.Engine != engine || c.ID != id || c.PID != pid {
			t.Errorf("%s is %s %s, process %d, %v; want %s %s, process %d", asked, c.Engine, c.ID, c.PID, err, engine, id, pid)
			continue
		}
		if pids, err := c.Processes(); err != nil || !slices.Equal(pids, []int{pid}) {
			t.Errorf("the processes of %s are %v, %v; want %d", asked, pids, err, pid)
		}
	}
}

// sliceUnderSystemd holds that tare's slice goes with its last container, and only then.
func sliceUnderSystemd(t *testing.T) {
	const slice = "/sys/fs/cgroup/tare.slice"
	there := func() bool {
		t.Helper()
		_, err := os.Stat(slice)
		units := inGuestDo(t, "systemctl", "list-units", "--all", "--no-legend", "tare*.slice")
		if (err == nil) != (units != "") {
			t.Errorf("%s: %v, and systemd has the units %q", slice, err, units)
		}
		return err == nil
	}
	if there() {
		t.Errorf("%s is left of other tests", slice)
	}
	img, p := conformance.Image(t), docker.New(docker.Options{StateDir: t.TempDir()})
	launch := func() {
		t.Helper()
		inst, err := p.Launch(t.Context(), platform.Spec{Name: "last", Image: img, Args: []string{"true"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := inst.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Release(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Run("beside another's", func(t *testing.T) {
		id, pid := sleeper(t, "other", []string{"docker"}, "--cgroup-parent", "tare.slice")
		launch()
		finds(t, container.Docker, "other", id, pid)
	})
	launch()
	if there() {
		t.Errorf("%s outlives its last container", slice)
	}
}

// mappedUsers holds that tare refuses by name what an engine with userns-remap cannot do, and that the
// rest works.
func mappedUsers(t *testing.T) {
	const configuration = "/etc/docker/daemon.json"
	was, err := os.ReadFile(configuration)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	restart := func(text string) {
		t.Helper()
		if err := os.WriteFile(configuration, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		inGuestDo(t, "systemctl", "restart", "docker")
	}
	if err := os.MkdirAll(filepath.Dir(configuration), 0o755); err != nil {
		t.Fatal(err)
	}
	restart(`{"exec-opts": ["native.cgroupdriver=systemd"], "userns-remap": "default"}`)
	t.Cleanup(func() { restart(cmp.Or(string(was), "{}")) })
	img, p := conformance.Image(t), docker.New(docker.Options{StateDir: t.TempDir()})
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Release(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		setting platform.Setting
		refused string // by this name
	}{
		{platform.Setting{}, "network=host"},
		{platform.Setting{Network: platform.NetworkNone, Storage: platform.StorageBind}, "storage=bind"},
		{platform.Setting{Network: platform.NetworkNone, Storage: platform.StorageVolume, Memory: 64 << 20}, ""},
	} {
		inst, err := p.Launch(t.Context(), platform.Spec{
			Name: "mapped", Image: img, Args: []string{"sh", "-c", "echo 1 >/data/written"}, Data: []string{"/data"}, Setting: c.setting,
		})
		unsupported := new(platform.Unsupported)
		switch {
		case c.refused != "":
			if !errors.As(err, &unsupported) || unsupported.Key != c.refused || !strings.Contains(unsupported.Reason, "userns-remap") {
				t.Errorf("%v: %v, want a refusal of %s", c.setting, err, c.refused)
			}
		case err != nil:
			t.Error(err)
		default:
			if exit, err := inst.Wait(t.Context()); err != nil || exit.Code != 0 {
				t.Errorf("it ended with %+v, %v", exit, err)
			}
			if err := inst.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// podmanUnderSystemd finds podman's containers.
func podmanUnderSystemd(t *testing.T) {
	inGuestDo(t, "systemctl", "start", "dbus", "podman.socket") // crun asks systemd by D-Bus
	id, pid := sleeper(t, "pod", []string{"podman"})
	finds(t, container.Podman, "pod", id, pid)
}

// The distribution's person, whose engines are rootless ones.
const (
	person     = "1000"
	personsRun = "/run/user/" + person
)

// asPerson is the beginning of a command line that runs as the person, beside the person's systemd.
var asPerson = []string{
	"setpriv", "--reuid=" + person, "--regid=" + person, "--init-groups", "env", "HOME=/var/lib/person",
	"XDG_RUNTIME_DIR=" + personsRun, "DBUS_SESSION_BUS_ADDRESS=unix:path=" + personsRun + "/bus",
}

// rootlessUnderSystemd finds the containers of rootless engines, and holds that tare says what it needs of
// the person's session.
func rootlessUnderSystemd(t *testing.T) {
	// The guest has no PAM, which gives a session its directory.
	dropIn := "/etc/systemd/system/user@.service.d/no-pam.conf"
	text := "[Service]\nPAMName=\nEnvironment=XDG_RUNTIME_DIR=/run/user/%i\n"
	if err := errors.Join(os.MkdirAll(filepath.Dir(dropIn), 0o755), os.WriteFile(dropIn, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	inGuestDo(t, "systemctl", "daemon-reload")
	// Who makes the person's run-time directory asks logind how large it is to be.
	inGuestDo(t, "systemctl", "start", "dbus", "systemd-logind", "user@"+person)
	as := func(args ...string) { t.Helper(); inGuestDo(t, slices.Concat(asPerson, args)...) }
	as("systemd-run", "--user", "--quiet", "--unit=docker", "--property=Delegate=yes", "--setenv=PATH="+os.Getenv("PATH"),
		"/usr/share/docker.io/contrib/dockerd-rootless.sh")
	as("systemctl", "--user", "start", "podman.socket")
	host := "unix://" + personsRun + "/docker.sock"
	p := docker.NewRootless(docker.Options{Host: host, StateDir: t.TempDir()})
	underSystemd{t}.until("the rootless engine answers", func() bool { return p.Check(t.Context()) == nil })

	as("systemctl", "--user", "stop", "dbus.socket", "dbus")
	img := conformance.Image(t)
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	_, err := p.Launch(t.Context(), platform.Spec{
		Name: "no-bus", Image: img, Args: []string{"true"}, Setting: platform.Setting{Network: platform.NetworkNone},
	})
	if err == nil || !strings.Contains(err.Error(), "dbus-user-session") {
		t.Errorf("without the person's bus: %v", err)
	}
	as("systemctl", "--user", "start", "dbus.socket")

	id, pid := sleeper(t, "theirs", []string{"docker", "--host", host})
	finds(t, container.Docker, "theirs", id, pid)
	id, pid = sleeper(t, "their-pod", slices.Concat(asPerson, []string{"podman"}))
	finds(t, container.Podman, "their-pod", id, pid)
}
