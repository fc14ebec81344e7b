package guest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/image"
	"tare/platform/vm/guest"
)

// A machine runs a program of a disk, and ends with it.
func TestRunTCG(t *testing.T) { testRun(t, guest.Cloud) }

func TestRunUML(t *testing.T) { testRun(t, guest.UML) }

func testRun(t *testing.T, k guest.Kernel) {
	boot := built(t, k)
	busybox := staticBusybox(t)
	root := t.TempDir()
	if err := os.Link(busybox, filepath.Join(root, "busybox")); err != nil {
		data, err := os.ReadFile(busybox)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "busybox"), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	disk := filepath.Join(t.TempDir(), "program")
	if err := guest.ImageDisk(t.Context(), image.Image{Name: "program", Root: root, Digest: "sha256:1"}, disk); err != nil {
		t.Fatal(err)
	}
	serial := guest.SerialOf("sha256:1")
	m := start(t, k, boot, guest.Order{Run: &guest.Run{
		Device: guest.Device(k, serial, 2),
		Args:   []string{guest.RunDirectory + "/busybox", "sh", "-c", script},
	}}, [2]string{serial, disk})
	m.end()
	text := m.console.String()
	t.Log(text)
	if !strings.Contains(text, guest.ExitLine+"7") {
		t.Error("the program's exit status is not told")
	}
}

const script = `B=/run/tare/program/busybox
$B uname -a; $B cat /proc/uptime; $B cat /sys/fs/cgroup/cgroup.subtree_control; $B mount; $B free -m; $B ls -l /dev | $B head -50; $B id; $B ps; runc --version; crun --version; $B df -h; $B date; ulimit -n; $B hostname
exit 7`
