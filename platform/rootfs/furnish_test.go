package rootfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"tare/platform"
)

// An engine's root is furnished with what the program writes and the image
// lacks, and with nothing else.
func TestFurnish(t *testing.T) {
	whole := map[string]string{"tmp/": "", "run/": "", "var/tmp/": "", "srv/": ""}
	for _, c := range []struct {
		name    string
		files   map[string]string
		storage platform.Storage
		data    []string
		lacks   bool
		made    []string
	}{
		{"an image that has them all", whole, "", []string{"/srv"}, false, nil},
		{"data in the layer", whole, platform.StorageLayer, []string{"/made/for/it"}, true, []string{"made/for/it"}},
		{"data elsewhere", whole, platform.StorageBind, []string{"/made/for/it"}, false, nil},
		{"an empty image", nil, platform.StorageTmpfs, []string{"/data"}, true, []string{"tmp", "run", "var/tmp"}},
		{"by a link", map[string]string{"tmp/": "", "run/": "", "var/tmp/": "", "srv": "-> /mnt"}, "", []string{"/srv/x"}, true, []string{"mnt/x"}},
		{"a file in the way of none", map[string]string{"tmp/": "", "run": "-> /var/run", "var/tmp/": ""}, "", nil, true, []string{"var/run"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.files == nil {
				c.files = map[string]string{"etc/": ""}
			}
			plan := Plan{Image: makeImage(t, c.files), Storage: c.storage, Data: c.data}
			if lacks, err := plan.Lacks(); lacks != c.lacks || err != nil {
				t.Errorf("it lacks some: %v, %v; want %v", lacks, err, c.lacks)
			}
			root := plan.Image.Root // stands for a layer over it
			if err := plan.Furnish(root); err != nil {
				t.Fatal(err)
			}
			for _, dir := range c.made {
				info, err := os.Stat(filepath.Join(root, dir))
				if err != nil || !info.IsDir() {
					t.Errorf("%s: %v", dir, err)
					continue
				}
				if want := modeOf("/" + dir); info.Mode().Perm()|info.Mode()&fs.ModeSticky != want {
					t.Errorf("%s has mode %v, want %v", dir, info.Mode(), want)
				}
			}
			if lacks, err := plan.Lacks(); lacks || err != nil {
				t.Errorf("afterwards it lacks some (%v)", err)
			}
			if _, err := os.Stat(filepath.Join(root, "made")); err == nil && c.storage == platform.StorageBind {
				t.Error("a directory that is bound over was made")
			}
		})
	}
}

func TestBuildData(t *testing.T) {
	img := makeImage(t, map[string]string{"srv/seed/inside": "from the image"})
	for _, storage := range []platform.Storage{"", platform.StorageLayer, platform.StorageBind} {
		plan := Plan{Dir: filepath.Join(t.TempDir(), "x"), Image: img, Storage: storage, Data: []string{"/srv/seed", "/data"}}
		tree, err := plan.BuildData()
		if err != nil {
			t.Fatal(err)
		}
		if tree.Root != "" {
			t.Errorf("%s: a root, which is the engine's to make", storage)
		}
		if storage != platform.StorageBind {
			if len(tree.Binds) > 0 {
				t.Errorf("%s: binds %v", storage, tree.Binds)
			}
			continue
		}
		if len(tree.Binds) != 2 {
			t.Fatalf("%s: binds %v", storage, tree.Binds)
		}
		for _, b := range tree.Binds {
			if b.Target != "/srv/seed" {
				continue
			}
			if text, err := os.ReadFile(filepath.Join(b.Source, "inside")); string(text) != "from the image" || err != nil {
				t.Errorf("%s holds %q (%v)", b.Source, text, err)
			}
		}
	}
	if _, err := (Plan{Dir: filepath.Join(t.TempDir(), "x"), Image: img, Data: []string{"/"}}).BuildData(); err == nil {
		t.Error("the root as a data directory")
	}
}
