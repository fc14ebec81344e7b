package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"tare/platform"
)

// What is given of the host shows inside, whatever the image has, and what is read-only
// is.
func TestGive(t *testing.T) {
	library := filepath.Join(t.TempDir(), "libcuda.so.550.54.15")
	if err := os.WriteFile(library, []byte("library"), 0o644); err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	edits := platform.Edits{
		Devices: []platform.DeviceNode{{Path: "/dev/full", Major: 1, Minor: 7}},
		Mounts: []platform.Mount{
			{Source: library, Target: platform.DriverLibraries + "/libcuda.so.1", ReadOnly: true},
			{Source: scratch, Target: "/scratch", Directory: true},
			{Source: library, Target: "/lib/firmware/gsp.bin", ReadOnly: true},
			{Source: library, Target: "/run/daemon/socket"},
		},
	}
	if got := PointsOf(edits); !slices.Equal(got, []string{platform.DriverLibraries, "/scratch", "/lib/firmware", "/run/daemon"}) {
		t.Fatalf("mounted at %q", got)
	}
	for _, kind := range []platform.Root{platform.RootDir, platform.RootOverlay} {
		t.Run(string(kind), func(t *testing.T) {
			tree := build(t, Plan{Kind: kind, Image: makeImage(t, map[string]string{"etc/passwd": "root:x:0:0:::\n", "usr/lib/": "", "lib": "-> usr/lib"}), Points: PointsOf(edits)})
			if err := tree.Bind(); err != nil {
				t.Fatal(err)
			}
			if err := tree.MountSystem(); err != nil {
				t.Fatal(err)
			}
			// A node that every container has, so that the host has it too.
			if err := os.Remove(filepath.Join(tree.Root, "dev/full")); err != nil {
				t.Fatal(err)
			}
			if err := tree.Give(edits); err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(tree.Root, platform.DriverLibraries, "libcuda.so.1")
			if b, err := os.ReadFile(at); string(b) != "library" || err != nil {
				t.Errorf("%q, %v", b, err)
			}
			// Through a link, and in what was bound there.
			for _, name := range []string{"usr/lib/firmware/gsp.bin", "run/daemon/socket"} {
				if b, err := os.ReadFile(filepath.Join(tree.Root, name)); string(b) != "library" || err != nil {
					t.Errorf("%s is %q, %v", name, b, err)
				}
			}
			if err := os.WriteFile(at, nil, 0o644); !errors.Is(err, syscall.EROFS) {
				t.Errorf("writing to the host's library: %v", err)
			}
			if err := os.WriteFile(filepath.Join(tree.Root, "scratch", string("from-"+kind)), nil, 0o644); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(scratch, string("from-"+kind))); err != nil {
				t.Errorf("what was written inside is not outside: %v", err)
			}
			if info, err := os.Stat(filepath.Join(tree.Root, "dev/full")); err != nil || info.Mode()&os.ModeCharDevice == 0 {
				t.Errorf("the node is %v, %v", info, err)
			}
		})
	}
	tree := build(t, Plan{Kind: platform.RootOverlay, Image: makeImage(t, map[string]string{"etc/passwd": "root:x:0:0:::\n"})})
	if err := tree.Give(platform.Edits{Devices: []platform.DeviceNode{{Path: "/etc/passwd"}}}); err == nil {
		t.Error("a node outside of /dev is given")
	}
}
