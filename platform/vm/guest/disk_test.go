package guest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/continuity/devices"
	"github.com/containerd/continuity/sysx"

	"tare/image"
)

// A disk has all of a root: owners, modes, attributes, nodes, links, and what is large.
func TestImageDisk(t *testing.T) {
	debugfs, err := exec.LookPath("debugfs")
	if err != nil {
		t.Skip("no debugfs: apt-get install e2fsprogs")
	}
	if os.Geteuid() != 0 {
		t.Skip("giving files their owners needs root")
	}
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(root, "setuid")
	must(os.WriteFile(file, []byte("x"), 0o755))
	must(os.Chown(file, 1234, 4321))
	must(os.Chmod(file, 0o755|os.ModeSetuid))
	capability := []byte("\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	must(sysx.LSetxattr(file, "security.capability", capability, 0))
	must(os.Link(file, filepath.Join(root, "linked")))
	must(os.Symlink("/no/where", filepath.Join(root, "symlink")))
	must(devices.Mknod(filepath.Join(root, "null"), os.ModeDevice|os.ModeCharDevice|0o666, 1, 3))
	must(os.Mkdir(filepath.Join(root, "many"), 0o700))
	for i := range 500 {
		must(os.WriteFile(filepath.Join(root, "many", strings.Repeat("n", 1+i%200)+string(rune('a'+i/200))), nil, 0o600))
	}
	must(os.WriteFile(filepath.Join(root, "large"), make([]byte, 40<<20), 0o644))

	path := filepath.Join(t.TempDir(), "disk")
	img := image.Image{Name: "odd", Root: root, Digest: "sha256:odd"}
	must(ImageDisk(t.Context(), img, path))
	stat := func(name string) string {
		out, err := exec.Command(debugfs, "-R", "stat "+name, path).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(string(out)), " ")
	}
	for name, wants := range map[string][]string{
		"/setuid":  {"Mode: 04755", "User: 1234 Group: 4321", "Links: 2", "security.capability"},
		"/linked":  {"Mode: 04755", "Links: 2"},
		"/symlink": {"Type: symlink", `"/no/where"`},
		"/null":    {"Type: character special", "01:03"},
		"/many":    {"Mode: 0700"},
		"/large":   {"Size: 41943040"},
	} {
		for _, want := range wants {
			if got := stat(name); !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %s", name, want, got)
			}
		}
	}
	uuid, err := readUUID(path)
	if err != nil || uuid != uuidOf(img.Digest) || uuid == uuidOf("sha256:even") {
		t.Errorf("UUID %s, %v", uuid, err)
	}

	// One that is there is kept, and nothing is left of the making.
	before, err := os.Stat(path)
	must(err)
	must(ImageDisk(t.Context(), img, path))
	after, err := os.Stat(path)
	must(err)
	if !os.SameFile(before, after) {
		t.Error("the disk was made again")
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	must(err)
	if len(entries) != 1 {
		t.Errorf("beside the disk there is %v", entries)
	}
}

func TestImageDiskLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := ImageDisk(t.Context(), image.Image{Root: filepath.Join(dir, "none")}, filepath.Join(dir, "disk")); err == nil {
		t.Error("a disk was made of nothing")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
}

// A scratch disk takes of the host what is written to it, not its size.
func TestScratchDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scratch")
	const size = 8 << 30
	if err := ScratchDisk(t.Context(), path, size); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	taken := info.Sys().(*syscall.Stat_t).Blocks * 512
	if info.Size() != size || taken > size/50 {
		t.Errorf("size %d, of which %d are taken", info.Size(), taken)
	}
	if _, err := readUUID(path); err != nil {
		t.Error(err)
	}
	if err := ScratchDisk(t.Context(), path, size); err == nil {
		t.Error("a disk that was there was made anew")
	}
	if err := ScratchDisk(t.Context(), filepath.Join(t.TempDir(), "tiny"), 1000); err == nil {
		t.Error("a file system was made in 1000 bytes")
	}
}

func TestReadUUIDRefuses(t *testing.T) {
	for name, content := range map[string][]byte{"nothing": nil, "zeros": make([]byte, 1<<20)} {
		path := filepath.Join(t.TempDir(), "disk")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if uuid, err := readUUID(path); err == nil {
			t.Errorf("%s has UUID %s", name, uuid)
		}
	}
}
