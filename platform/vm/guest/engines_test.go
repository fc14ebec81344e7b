package guest_test

import (
	"context"
	"os"
	"os/exec"
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
	podmans := `systemctl start podman.socket; export DOCKER_HOST=unix:///run/podman/podman.sock`
	debian{kernel: "6.12.", cpus: 2, phases: []phase{
		{"bare", "platform/bare", "Conformance", "", 15 * time.Minute},
		{"oci", "platform/oci", "Conformance", "", 25 * time.Minute},
		{"docker", "platform/docker", central, dockers, 40 * time.Minute},
		own("slice", 10*time.Minute),
		{"podman", "platform/docker", fewer, podmans, 20 * time.Minute},
		own("podman-containers", 10*time.Minute),
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

// podmanUnderSystemd finds podman's containers.
func podmanUnderSystemd(t *testing.T) {
	inGuestDo(t, "systemctl", "start", "podman.socket")
	id, pid := sleeper(t, "pod", []string{"podman"})
	finds(t, container.Podman, "pod", id, pid)
}
