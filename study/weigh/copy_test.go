package weigh

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/container"
	"tare/kernel/file"
	"tare/platform"
	"tare/study/kit"
	"tare/workload"
)

func TestMountsOfACopy(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "conf")
	if err := os.WriteFile(file, []byte("1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, MostCopied+1); err != nil {
		t.Fatal(err)
	}
	mount := func(kind, source, target string, readOnly bool) platform.OriginalMount {
		return platform.OriginalMount{Kind: kind, Name: "vol", Source: source, Target: target, ReadOnly: readOnly}
	}
	for _, c := range []struct {
		of                   platform.OriginalMount
		note, refused        string
		shown, data, storage string
	}{
		{of: mount("bind", dir, "/ro", true), note: "/ro is the original's, read-only", shown: "/ro"},
		{of: mount("bind", file, "/etc/conf", false), note: "/etc/conf is the original's, read-only", shown: "/etc/conf"},
		{of: mount("bind", dir, "/rw", false), note: "/rw is a copy of 4B as it is now", data: "/rw", storage: "bind"},
		{of: mount("volume", dir, "/vol", false), note: "/vol is a copy of 4B as it is now", data: "/vol", storage: "volume"},
		{of: mount("bind", "/dev/null", "/null", false), note: "not copied: /null is neither a directory nor a file"},
		{of: mount("tmpfs", "", "/scratch", false), note: "/scratch is an empty directory instead of a tmpfs"},
		{of: mount("bind", filepath.Join(dir, "gone"), "/gone", true), refused: "web cannot be copied: mount /gone: " + filepath.Join(dir, "gone") + " is gone"},
		{of: mount("bind", dir, "/swapped", true), refused: "web cannot be copied: mount /swapped: " + dir + " is not what the container has there any more: start the container again"},
		{of: mount("volume", "", "/far", false), refused: "web cannot be copied: mount /far: volume vol lies in no directory of this host"},
		{of: mount("bind", filepath.Dir(large), "/big", false),
			refused: "web cannot be copied: mount /big: its files and those of earlier mounts take more than 1GiB, which tare does not copy"},
	} {
		var made Copy
		var program workload.Program
		var source workload.Source
		has := func(target string, _ fs.FileInfo) bool { return target != "/swapped" }
		err := made.mounts("web", has, []platform.OriginalMount{c.of}, &program, &source)
		if c.refused != "" {
			if err == nil || err.Error() != c.refused {
				t.Errorf("%s: %v, want %q", c.of.Target, err, c.refused)
			}
			continue
		}
		shown := ""
		if len(program.Shown) > 0 {
			shown = program.Shown[0].Target
		}
		if err != nil || strings.Join(made.Notes, "; ") != c.note || shown != c.shown ||
			strings.Join(program.Data, " ") != c.data || string(made.Base.Storage) != c.storage || (source.Given != nil) != (c.data != "") {
			t.Errorf("%s: %v, %q, %+v, %+v", c.of.Target, err, made.Notes, program, made.Base)
		}
	}
}

// A container decides how many files it has, and where its links lead.
func TestSizeOfAVolume(t *testing.T) {
	dir := t.TempDir()
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "a/b"), 0o755), os.WriteFile(filepath.Join(dir, "a/b/file"), []byte("1234"), 0o600),
		os.WriteFile(filepath.Join(dir, "a/file"), []byte("12"), 0o600), os.Symlink("/usr", filepath.Join(dir, "link")))
	if err != nil {
		t.Fatal(err)
	}
	if sum, err := sizeOf(dir, 100); sum != 6 || err != nil {
		t.Errorf("%d bytes, %v: want 6", sum, err)
	}
	if sum, err := sizeOf(dir, 3); sum < 4 || err != nil {
		t.Errorf("%d bytes, %v: want more than 3", sum, err)
	}
	top, err := file.Pin(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	for entries, want := range map[int]bool{4: false, 5: true} { // a, a/b, a/b/file, a/file, link
		s := sizing{most: 100, entries: entries}
		if err := s.directory(top); (err == nil) != want {
			t.Errorf("of %d entries: %v", entries, err)
		}
	}
}

// What lies at a mount's source now may be another thing than what the container was given.
func TestMountsAreTheContainers(t *testing.T) {
	mounted, other := t.TempDir(), t.TempDir()
	was, err := os.Stat(mounted)
	if err != nil {
		t.Fatal(err)
	}
	c := container.Container{PID: os.Getpid()}
	if !isMounted(c, mounted, was) {
		t.Errorf("%s is not there", mounted)
	}
	if isMounted(c, other, was) || isMounted(c, filepath.Join(other, "none"), was) {
		t.Errorf("%s is at %s", mounted, other)
	}
}

// Of what another engine runs, one line says what to weigh instead.
func TestOthersThanDockersAreNotCopied(t *testing.T) {
	for _, c := range []struct {
		of   container.Container
		want string
	}{
		{container.Container{Engine: container.Docker, Name: "web"}, ""},
		{container.Container{Engine: container.Podman, Name: "web", Image: "docker.io/library/nginx:1"},
			"web cannot be copied: podman runs it, and tare copies containers of Docker alone; " +
				"weigh its image: tare weigh --image docker.io/library/nginx:1"},
		{container.Container{Engine: container.Containerd, Name: "web", Image: "a;id"},
			"web cannot be copied: containerd runs it, and tare copies containers of Docker alone; " +
				"weigh its image: tare weigh --image 'a;id'"},
		{container.Container{Engine: container.Cgroup, Name: "web.service"},
			"web.service cannot be copied: it is a control group of no engine that answers, and tare copies " +
				"containers of Docker alone; weigh its program: tare weigh --rootfs DIR -- COMMAND"},
	} {
		err := Uncopyable(c.of)
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s: %v, want %q", c.of.Engine, err, c.want)
		}
		if c.want == "" {
			continue
		}
		if _, err := CopyOf(t.Context(), c.of, CopyLoad{}, kit.Host{}); err == nil || err.Error() != c.want {
			t.Errorf("%s: the copy fails with %v, want %q", c.of.Engine, err, c.want)
		}
	}
}

func TestWhatSuitsACopy(t *testing.T) {
	made := Copy{Subject: Subject{Workload: workload.FromContainer(workload.Copied{Label: "copy-of-web", Port: 80})}}
	base := platform.Setting{Network: platform.NetworkBridge}
	for _, c := range []struct {
		vary Factor
		want string
	}{
		{Factor{Key: "cpus", Values: []string{"1"}}, ""},
		{Factor{Key: "network", Values: []string{"bridge:nat"}}, ""},
		{Factor{Key: "network", Values: []string{"host"}}, "network=host: a copy has a network of its own"},
		{Factor{Key: "network", Values: []string{"none"}}, "network=none: a copy has a network of its own"},
		{Factor{Key: "storage", Values: []string{"volume"}}, "storage: the container writes no mount"},
	} {
		err := made.Suits(Options{Base: base, Vary: []Factor{c.vary}})
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.vary, err, c.want)
		}
	}
}

// What is weighed beside the base is weighed on its platform, and compared with the base.
func TestFurtherSettingsStandBesideTheBase(t *testing.T) {
	o := options(Options{
		Platforms: []string{"docker"}, Baseline: "docker",
		Base: platform.Setting{CPUs: 0.5}, Also: []platform.Setting{{CPUs: 1, Seccomp: "unconfined"}},
	})
	d, err := Design(o)
	if err != nil {
		t.Fatal(err)
	}
	c := d.Groups[0].Conditions
	if len(c) != 2 || !c[0].Baseline || c[0].Setting.CPUs != 0.5 || c[1].Setting != o.Also[0] {
		t.Errorf("%+v", c)
	}
}
