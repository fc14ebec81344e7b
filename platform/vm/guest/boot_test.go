package guest_test

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/image"
	"tare/platform"
	"tare/platform/agent"
	"tare/platform/conformance"
	"tare/platform/vm/guest"
)

// A machine runs a program of a disk, tells its exit status and ends with it.
func TestRun(t *testing.T) {
	boot := built(t)
	root := t.TempDir()
	install(t, staticBusybox(t), filepath.Join(root, "busybox"))
	if err := os.WriteFile(filepath.Join(root, "script"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	disk, device := programDisk(t, root)
	order := guest.Order{
		Hostname: "weighed",
		Address:  netip.MustParsePrefix("10.0.2.15/24"), Gateway: netip.MustParseAddr("10.0.2.2"), MAC: "52:54:00:12:34:56",
		Run: &guest.Run{
			Device: device,
			Args:   []string{guest.RunDirectory + "/busybox", "sh", guest.RunDirectory + "/script"},
		},
	}
	m := start(t, boot, order, disk)
	m.end(bound)
	text := m.console.String()
	for _, want := range []string{
		guest.ExitLine + "7",
		"release " + boot.Release,
		"host weighed",
		"address 10.0.2.15/24",
		"route 10.0.2.2",
		"files 1048576",
		"runc version",
		"crun version",
		"orphan reaped",
		"state ext4",
		"overlay mounted",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the console does not show %q", want)
		}
	}
	_, handed, _ := strings.Cut(text, "controllers ")
	handed, _, _ = strings.Cut(handed, "\n")
	for _, c := range []string{"cpu", "cpuset", "io", "memory", "pids"} {
		if !slices.Contains(strings.Fields(handed), c) {
			t.Errorf("controllers handed down: %q, without %s", handed, c)
		}
	}
}

// The orphan's parent ends at once; the machine's first process is its next one, and
// must take its status, or it stays a zombie for ever.
const script = `B=/run/tare/program/busybox
echo release $($B uname -r)
echo host $($B hostname)
echo files $(ulimit -n)
echo controllers $($B cat /sys/fs/cgroup/cgroup.subtree_control)
echo state $($B awk '$2=="/var/lib/tare"{print $3}' /proc/mounts)
echo address $($B ip -4 -o addr show eth0 | $B awk '{print $4}')
echo route $($B ip route | $B awk '$1=="default"{print $3}')
runc --version; crun --version
$B sh -c "($B sleep 0 & echo \$! >/tmp/orphan)"
orphan=$($B cat /tmp/orphan); n=0
while [ -e /proc/$orphan ] && [ $n -lt 200 ]; do $B usleep 10000; n=$((n+1)); done
[ -e /proc/$orphan ] || echo orphan reaped
$B mkdir /tmp/u /tmp/w /tmp/m && $B mount -t overlay -o lowerdir=/usr,upperdir=/tmp/u,workdir=/tmp/w none /tmp/m && echo overlay mounted
exit 7`

// A machine boots to its agent, which answers for platforms, and is switched off.
func TestAgent(t *testing.T) {
	boot := built(t)
	img := conformance.Image(t)
	disk := filepath.Join(t.TempDir(), "image")
	if err := guest.ImageDisk(t.Context(), img, disk); err != nil {
		t.Fatal(err)
	}
	serial := guest.SerialOf(img.Digest)
	m := start(t, boot, guest.Order{Version: "test"}, [2]string{serial, disk})
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	client, err := agent.Connect(ctx, m.conn, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	hello := client.Hello()
	t.Logf("%+v", hello)
	if hello.Kernel != boot.Release || hello.Cgroup != "v2" {
		t.Errorf("the agent says %+v, want kernel %s and control groups v2", hello, boot.Release)
	}
	var names []string
	for _, p := range hello.Phases {
		names = append(names, p.Name)
		if p.Took <= 0 {
			t.Errorf("phase %s took %s", p.Name, p.Took)
		}
	}
	want := []string{"kernel", "root", "file systems", "modules", "disks", "network", "agent"}
	if !slices.Equal(names, want) {
		t.Errorf("phases %v, want %v", names, want)
	}
	if err := client.Attach(ctx, img.Digest, guest.Device(serial)); err != nil {
		t.Fatal(err)
	}
	// The disk is held to the digest that it is said to be of.
	if err := client.Attach(ctx, "sha256:"+strings.Repeat("0", 64), guest.Device(serial)); err == nil {
		t.Error("a disk was taken for another image's")
	}
	for _, name := range []string{"bare", "cgroup", "oci:runc", "oci:crun"} {
		t.Run(name, func(t *testing.T) { weigh(t, client.Platform(name), img) })
	}
	if err := client.PowerOff(ctx); err != nil {
		t.Error(err)
	}
	m.end(bound)
	if text := m.console.String(); strings.Contains(text, "tare: ") {
		t.Errorf("the console complains: %s", text)
	}
}

// weigh launches one program on a platform of the machine's.
func weigh(t *testing.T, p platform.Platform, img image.Image) {
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	if err := p.Check(ctx); err != nil {
		t.Skip(err)
	}
	if err := p.Prepare(ctx, img); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	inst, err := p.Launch(ctx, platform.Spec{
		Name: "hello", Image: img, Args: []string{"sh", "-c", "cat /srv/seed/inside; exit 3"}, Stdout: &out,
	})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := inst.Wait(ctx)
	if err != nil || exit.Code != 3 || out.String() != "from the image\n" {
		t.Errorf("%+v, %v, %q", exit, err, out.String())
	}
	if err := inst.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// A machine that cannot be what it is asked to be switches itself off, and says why.
func TestMachineSaysWhyItEnds(t *testing.T) {
	if os.Getenv("TARE_TEST_VM") == "" {
		t.Skip("boots machines that fail, which takes half a minute: set TARE_TEST_VM=1")
	}
	boot := built(t)
	lost, err := guest.Order{Channel: "virtio:none"}.Argument()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		word  string
		wants []string
	}{
		"an order that asks nothing": {"tare.order=e30", []string{"tare: the machine's channel"}},
		"no order":                   {"quiet", []string{"tare: the kernel's command line holds no order"}},
		// The agent is another process than the one that switches the machine off.
		"a channel that is not there": {lost, []string{"tare: the channel to the host: no virtio-serial port is named none", "tare: the agent ended with exit status 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, _ := emulate(t, 2, boot, &guest.Order{Run: &guest.Run{}}, [][2]string{{guest.RootSerial, boot.Root}}, "")
			tell(cmd, c.word)
			said := newConsole(t)
			cmd.Stdout, cmd.Stderr = said.File, said.File
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
			defer stop()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v, its console: %s", err, said.String())
			}
			for _, want := range c.wants {
				if !strings.Contains(said.String(), want) {
					t.Errorf("no %q on the console: %s", want, said.String())
				}
			}
		})
	}
}

// A machine whose host goes away without a word, as one that crashed, ends by itself.
func TestHostGoesAway(t *testing.T) {
	m := start(t, built(t), guest.Order{Version: "test"})
	client, err := connected(t, m, bound/2)
	if err != nil && m.console.String() == "" {
		// An emulator that never began: seen once, on a host that was short of CPU time. What
		// a machine does that boots is what is asked here.
		t.Logf("begun anew: %v", err)
		m = start(t, built(t), guest.Order{Version: "test"})
		client, err = connected(t, m, bound)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = m.conn.Close()
	m.end(bound)
	_ = client.Close()
}

func connected(t *testing.T, m *machine, within time.Duration) (*agent.Client, error) {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return agent.Connect(ctx, m.conn, "test")
}
