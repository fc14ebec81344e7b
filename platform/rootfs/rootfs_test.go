package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tare/image"
	"tare/kernel/mount"
	"tare/platform"
)

// makeImage writes files (or directories, whose names end in a slash, or links,
// "-> target") below a new root.
func makeImage(t *testing.T, files map[string]string) image.Image {
	t.Helper()
	root := filepath.Join(t.TempDir(), "image")
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(content, "-> "); link {
			err = os.Symlink(target, path)
		} else if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return image.Image{Name: "test", Root: root}
}

func TestResolve(t *testing.T) {
	img := makeImage(t, map[string]string{
		"run/": "", "var/run": "-> /run", "var/up": "-> ../../../..", "loop": "-> loop", "deep/a": "-> b/c", "deep/b/": "", "deep/b/c": "-> /run/./x",
	})
	for in, want := range map[string]string{
		"/data":           "/data",
		"/var/run/redis":  "/run/redis",
		"/var/up/etc":     "/etc", // a link cannot lead out
		"/../../etc":      "/etc",
		"/deep/a/y":       "/run/x/y",
		"/not/there/../x": "/not/x",
	} {
		if got, err := image.Resolve(img.Root, in); got != want || err != nil {
			t.Errorf("%s is %s (%v), want %s", in, got, err, want)
		}
	}
	if _, err := image.Resolve(img.Root, "/loop/x"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a loop of links: %v", err)
	}
}

// build lays out a plan and removes it at the end, when the image must be as before.
func build(t *testing.T, p Plan) Tree {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	state := t.TempDir()
	trials, dir, err := Place(state, "trial")
	if err != nil {
		t.Fatal(err)
	}
	p.Dir = dir
	before := names(t, p.Image.Root)
	t.Cleanup(func() {
		for range 2 {
			if err := Remove(trials, dir); err != nil {
				t.Error(err)
			}
		}
		if points, err := mount.Below(dir); len(points) > 0 || err != nil {
			t.Errorf("still mounted: %v, %v", points, err)
		}
		if diff := cmp.Diff(before, names(t, p.Image.Root)); diff != "" {
			t.Errorf("the image changed:\n%s", diff)
		}
	})
	tree, err := p.Build()
	if err == nil {
		err = tree.Bind()
	}
	if errors.Is(err, fs.ErrPermission) {
		t.Skipf("may not mount here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Place(state, "trial"); err == nil {
		t.Error("gave a place that is taken")
	}
	return tree
}

func names(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		all = append(all, strings.TrimPrefix(path, root))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func standard(more map[string]string) map[string]string {
	files := map[string]string{"proc/": "", "sys/": "", "dev/": "", "tmp/": "", "run/": "", "var/tmp/": "", "etc/passwd": "root:x:0:0:::\n"}
	for k, v := range more {
		files[k] = v
	}
	return files
}

func TestBuild(t *testing.T) {
	whole := standard(map[string]string{"data/seed": "seed", "srv/": "", "link": "-> etc/passwd", "data/sub/deep": "deep"})
	// An image of which almost nothing can be expected.
	bare := map[string]string{"etc/passwd": "root:x:0:0:::\n", "link": "-> etc/passwd", "data/seed": "seed", "data/sub/deep": "deep", "var/lib/x": "x"}
	for _, test := range []struct {
		name  string
		files map[string]string
		plan  Plan
	}{
		{"dir", whole, Plan{}},
		{"dir of an image without places to mount on", bare, Plan{}},
		{"dir with tmpfs", bare, Plan{Storage: platform.StorageTmpfs}},
		{"overlay", whole, Plan{Kind: platform.RootOverlay}},
		{"overlay with bind", bare, Plan{Kind: platform.RootOverlay, Storage: platform.StorageBind}},
		{"overlay with tmpfs", whole, Plan{Kind: platform.RootOverlay, Storage: platform.StorageTmpfs}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.plan.Image = makeImage(t, test.files)
			test.plan.Data = []string{"/data", "/var/lib/new/place", "/data/sub/inner"}
			tree := build(t, test.plan)
			if err := tree.MountSystem(); err != nil {
				t.Fatal(err)
			}
			read := func(name, want string) {
				t.Helper()
				if b, err := os.ReadFile(filepath.Join(tree.Root, name)); string(b) != want || err != nil {
					t.Errorf("%s holds %q (%v), want %q", name, b, err, want)
				}
			}
			read("etc/passwd", "root:x:0:0:::\n")
			read("data/seed", "seed")
			read("data/sub/deep", "deep")
			for _, dir := range []string{"data", "data/sub/inner", "var/lib/new/place", "tmp", "run", "var/tmp", "dev/shm"} {
				if err := os.WriteFile(filepath.Join(tree.Root, dir, "written"), nil, 0o644); err != nil {
					t.Errorf("cannot write in %s: %v", dir, err)
				}
			}
			if info, err := os.Stat(filepath.Join(tree.Root, "tmp")); err != nil || info.Mode().Perm() != 0o755 && info.Mode()&fs.ModeSticky == 0 {
				t.Errorf("/tmp is %v, %v", info.Mode(), err)
			}
			err := os.WriteFile(filepath.Join(tree.Root, "etc/new"), nil, 0o644)
			if readOnly := errors.Is(err, syscall.EROFS); readOnly != (test.plan.Kind != platform.RootOverlay) {
				t.Errorf("writing in /etc: %v", err)
			}
			if _, err := os.Stat(filepath.Join(tree.Root, "proc/self/status")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBuildRefuses(t *testing.T) {
	img := makeImage(t, standard(nil))
	for name, plan := range map[string]Plan{
		"no image":           {Image: image.Image{Root: "/not/there"}},
		"data at the root":   {Image: img, Data: []string{"/x/.."}},
		"data with no slash": {Image: img, Data: []string{"data"}},
	} {
		plan.Dir = filepath.Join(t.TempDir(), "x")
		if _, err := plan.Build(); err == nil {
			t.Errorf("%s: built", name)
		}
	}
	for _, name := range []string{"", "..", "a/b", "A", "-x", strings.Repeat("a", 64)} {
		if _, _, err := Place(t.TempDir(), name); err == nil {
			t.Errorf("%q may be a name", name)
		}
	}
}

func TestRemoveSparesOthers(t *testing.T) {
	state := t.TempDir()
	other := filepath.Join(state, "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	trials, err := Trials(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{other, state, trials, filepath.Join(trials, "..", "other"), filepath.Join(trials, "a", "b"), "/", ""} {
		if err := Remove(trials, dir); err == nil && filepath.Clean(dir) != filepath.Join(trials, filepath.Base(dir)) {
			t.Errorf("would have removed %q", dir)
		}
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// An image store may hold roots that today's import refuses: a link where the
// kernel's file systems go, which mount(2) would follow into the host's tree.
func TestSystemPlacesThatAreLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	for _, place := range []string{"proc", "sys", "dev"} {
		for _, kind := range []platform.Root{platform.RootDir, platform.RootOverlay} {
			t.Run(place+" "+string(kind), func(t *testing.T) {
				host := t.TempDir()
				files := standard(map[string]string{place: "-> " + host})
				delete(files, place+"/")
				img := makeImage(t, files)
				trials, dir, err := Place(t.TempDir(), "trial")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					// What a failed check would leave on the host's directory.
					err := errors.Join(mount.UnmountBelow(host), Remove(trials, dir))
					if err != nil {
						t.Error(err)
					}
				})
				_, err = Plan{Dir: dir, Image: img, Kind: kind}.Build()
				if err == nil || !strings.Contains(err.Error(), "/"+place) {
					t.Errorf("built: %v", err)
				}
				// Whoever laid the root out, no mount goes through the link.
				laid := Tree{Root: img.Root}
				if err := laid.MountSystem(); err == nil || !strings.Contains(err.Error(), "/"+place) {
					t.Errorf("mounted: %v", err)
				}
				for _, below := range []string{host, img.Root} {
					if points, err := mount.Below(below); len(points) > 0 || err != nil {
						t.Errorf("mounted on %v, %v", points, err)
						_ = mount.UnmountBelow(below)
					}
				}
			})
		}
	}
}

func TestBindIsNotSteeredByLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	host := t.TempDir()
	if err := os.Mkdir(filepath.Join(host, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mount.UnmountBelow(host) })
	img := makeImage(t, standard(map[string]string{"last": "-> " + host, "srv": "-> " + host}))
	for _, target := range []string{"/last", "/srv/data"} {
		if err := (Tree{Root: img.Root, Binds: []Bind{{t.TempDir(), target}}}).Bind(); err == nil {
			t.Errorf("bound at %s", target)
		}
	}
	if points, err := mount.Below(host); len(points) > 0 || err != nil {
		t.Errorf("mounted on %v, %v", points, err)
	}
}

// A ledger names what a crash left; a link in place of the trials directory
// must not make that name another directory.
func TestTrialsThatAreALink(t *testing.T) {
	host := t.TempDir()
	victim := filepath.Join(host, "victim")
	if err := os.Mkdir(victim, 0o755); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	trials := filepath.Join(state, "trials")
	if err := os.Symlink(host, trials); err != nil {
		t.Fatal(err)
	}
	if got, err := Trials(state); err == nil || !strings.Contains(err.Error(), trials) {
		t.Errorf("gave %s: %v", got, err)
	}
	if _, _, err := Place(state, "trial"); err == nil {
		t.Error("gave a place behind a link")
	}
	if err := Remove(trials, filepath.Join(trials, "victim")); err == nil {
		t.Error("removed through a link")
	}
	if _, err := os.Stat(victim); err != nil {
		t.Error(err)
	}

	// The way to the state directory is the user's own, and may have links.
	real, link := t.TempDir(), filepath.Join(t.TempDir(), "state")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if got, err := Trials(link); err != nil || got != filepath.Join(real, "trials") {
		t.Errorf("through a link to the state directory: %s, %v", got, err)
	}
}

// The directory that a program starts in is made where the image has none, and can be
// written there; one that the image has stays as it is.
func TestWorkingDirectory(t *testing.T) {
	for _, kind := range []platform.Root{platform.RootDir, platform.RootOverlay} {
		for work, at := range map[string]string{"/app/deep": "/app/deep", "/link/made": "/srv/made", "/tmp/made": "/tmp/made", "/data/made": "/data/made"} {
			img := makeImage(t, standard(map[string]string{"link": "-> /srv", "srv/": ""}))
			tree := build(t, Plan{Image: img, Kind: kind, Data: []string{"/data"}, Storage: platform.StorageLayer, Work: work})
			dir := filepath.Join(tree.Root, at)
			if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|0o755 {
				t.Errorf("%s of %s: %v", work, kind, err)
			} else if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o644); err != nil {
				t.Errorf("%s of %s cannot be written: %v", work, kind, err)
			}
		}
	}
	img := makeImage(t, standard(map[string]string{"app/file": "x"}))
	tree := build(t, Plan{Image: img, Kind: platform.RootDir, Work: "/app"})
	if err := os.WriteFile(filepath.Join(tree.Root, "app/new"), nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("the image's own directory can be written: %v", err)
	}
}

// Whatever links an image holds, a path stays inside.
func FuzzResolve(f *testing.F) {
	f.Add("/a/b", "../../x", "/b")
	f.Add("/a/../b", "/a", "a")
	f.Fuzz(func(t *testing.T, path, one, two string) {
		root := t.TempDir()
		_ = os.Symlink(one, filepath.Join(root, "a"))
		_ = os.Symlink(two, filepath.Join(root, "b"))
		got, err := image.Resolve(root, path)
		if err != nil {
			return
		}
		if !filepath.IsAbs(got) || filepath.Clean(got) != got || strings.Contains(got+"/", "/../") {
			t.Errorf("%q became %q", path, got)
		}
	})
}
