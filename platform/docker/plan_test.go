package docker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/system"

	"tare/image"
	"tare/kernel/process"
	"tare/platform"
)

func TestPlanGrantsTheSetting(t *testing.T) {
	program := platform.Process{
		Args: []string{"redis-server", "--save", ""}, Env: []string{"PATH=/opt/bin", "REDIS=8"}, Dir: "/data",
		User: process.User{UID: 999, GID: 998, Groups: []int{998, 29}},
	}
	spec := platform.Spec{
		Ports: []int{6379},
		Image: image.Image{Reference: "tare.local/redis:1", Config: image.Config{Env: []string{"PATH=/bin", "REDIS=7", "GONE=1"}}},
		Setting: platform.Setting{
			CPUs: 1.5, CPUPeriod: 10 * time.Millisecond, CPUShares: 512, CPUSet: "0-1", Memory: 1 << 30,
			Network: platform.NetworkProxy, Seccomp: "unconfined", LSM: "unconfined", LogDriver: "none", Runtime: "crun",
		},
	}
	engine := &system.Info{CgroupDriver: "systemd", SecurityOptions: []string{"name=seccomp,profile=builtin", "name=apparmor", "name=selinux"}}
	options, err := plan{spec: spec, program: program, info: engine, name: "tare-x", mark: "m", publish: loopback}.options()
	if err != nil {
		t.Fatal(err)
	}
	c, h := options.Config, options.HostConfig
	for _, check := range []struct {
		what      string
		got, want any
	}{
		{"quota", h.CPUQuota, int64(15000)},
		{"period", h.CPUPeriod, int64(10000)},
		{"nano CPUs", h.NanoCPUs, int64(0)},
		{"shares", h.CPUShares, int64(512)},
		{"cpuset", h.CpusetCpus, "0-1"},
		{"memory", h.Memory, int64(1 << 30)},
		{"parent", h.CgroupParent, "tare.slice"},
		{"network", string(h.NetworkMode), "bridge"},
		{"log driver", h.LogConfig.Type, "none"},
		{"runtime", h.Runtime, "crun"},
		{"init", *h.Init, false},
		{"restart", string(h.RestartPolicy.Name), "no"},
		{"security", strings.Join(h.SecurityOpt, " "), "seccomp=unconfined apparmor=unconfined label=disable"},
		{"command", strings.Join(c.Entrypoint, "|"), "redis-server|--save|"},
		{"image's command", len(c.Cmd), 0},
		{"directory", c.WorkingDir, "/data"},
		{"user", c.User, "999:998"},
		{"groups besides", strings.Join(h.GroupAdd, " "), "29"},
		{"environment", strings.Join(c.Env, " "), "PATH=/opt/bin REDIS=8 HOSTNAME GONE"}, // what is withheld comes last
		{"hostname", c.Hostname, "tare"},
		{"label", c.Labels[labelLedger], "m"},
		{"published ports", len(h.PortBindings), 1},
	} {
		if check.got != check.want {
			t.Errorf("%s: %v, want %v", check.what, check.got, check.want)
		}
	}

	spec.Ports = []int{70000}
	if _, err := (plan{spec: spec, info: engine, publish: loopback}).options(); err == nil {
		t.Error("port 70000 is accepted")
	}
}

// What a program is given of the host is the engine's to show and to allow.
func TestPlanGivesEdits(t *testing.T) {
	spec := platform.Spec{Args: []string{"lu"}, Edits: platform.Edits{
		Env:     []string{"LD_LIBRARY_PATH=" + platform.DriverLibraries},
		Devices: []platform.DeviceNode{{Path: "/dev/nvidia0", Major: 195}},
		Mounts:  []platform.Mount{{Source: "/usr/lib64/libcuda.so.550.54.15", Target: platform.DriverLibraries + "/libcuda.so.1", ReadOnly: true}},
	}}
	spec, err := spec.Grant()
	if err != nil {
		t.Fatal(err)
	}
	options, err := plan{spec: spec, info: &system.Info{}, name: "tare-x", mark: "m"}.options()
	if err != nil {
		t.Fatal(err)
	}
	h := options.HostConfig
	if len(h.Devices) != 1 || h.Devices[0].PathOnHost != "/dev/nvidia0" || h.Devices[0].PathInContainer != "/dev/nvidia0" || h.Devices[0].CgroupPermissions != "rw" {
		t.Errorf("devices %+v", h.Devices)
	}
	if len(h.Mounts) != 1 || h.Mounts[0].Source != spec.Edits.Mounts[0].Source || h.Mounts[0].Target != spec.Edits.Mounts[0].Target || !h.Mounts[0].ReadOnly {
		t.Errorf("mounts %+v", h.Mounts)
	}
}

func TestSupports(t *testing.T) {
	p := New(Options{StateDir: t.TempDir(), Ledger: &notebook{}})
	engine := &system.Info{Driver: "btrfs", Runtimes: map[string]system.RuntimeWithStatus{"runc": {}}, Plugins: system.PluginsInfo{Log: []string{"json-file"}}}
	for setting, wantKey := range map[string]string{
		"aslr=off":              "aslr=off",
		"aslr=on":               "",
		"cpus=1":                "",
		"cpus=1 cpu-burst=10ms": "",
		"cpu-period=10ms":       "cpu-period",
		"root=dir":              "root=dir",
		"root=overlay":          "root=overlay",
		"runtime=kata":          "runtime=kata",
		"runtime=runc":          "",
		"log-driver=local":      "log-driver=local",
		"log-driver=none":       "",
		"storage=volume":        "",
		"network=bridge:nat":    "",
	} {
		var s platform.Setting
		for _, pair := range strings.Fields(setting) {
			key, value, _ := strings.Cut(pair, "=")
			if err := s.Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		err := p.Supports(s)
		if err == nil {
			err = p.suits(s, engine)
		}
		refused, _ := err.(*platform.Unsupported)
		if (refused == nil) != (wantKey == "") || refused != nil && (refused.Key != wantKey || refused.Reason == "") {
			t.Errorf("%s: %v, want key %q", setting, err, wantKey)
		}
	}
}

// An engine that maps users shares no network of the host, and none of its files.
func TestSuitsRemappedUsers(t *testing.T) {
	p := New(Options{StateDir: t.TempDir(), Ledger: &notebook{}})
	engine := &system.Info{SecurityOptions: []string{"name=seccomp,profile=default", "name=userns"}}
	for _, c := range []struct {
		setting platform.Setting
		key     string
	}{
		{platform.Setting{}, "network=host"},
		{platform.Setting{Network: platform.NetworkHost}, "network=host"},
		{platform.Setting{Network: platform.NetworkNAT, Storage: platform.StorageBind}, "storage=bind"},
		{platform.Setting{Network: platform.NetworkNAT, Storage: platform.StorageVolume}, ""},
		{platform.Setting{Network: platform.NetworkNone}, ""},
	} {
		err := p.suits(c.setting, engine)
		refused := new(platform.Unsupported)
		if errors.As(err, &refused) != (c.key != "") || refused.Key != c.key {
			t.Errorf("%v: %v, want a refusal of %q", c.setting, err, c.key)
		}
	}
}

func TestCopyInKeepsToTheImage(t *testing.T) {
	outside, root := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("the host's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "data")); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "copy")
	err := copyIn(root, "/data", target, ids{})
	if _, serr := os.Stat(filepath.Join(target, "secret")); err == nil || serr == nil {
		t.Errorf("a link led out of the image: %v", err)
	}
}

func TestCopyIn(t *testing.T) {
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(root, "var/db/sub"), 0o700))
	must(os.WriteFile(filepath.Join(root, "var/db/sub/file"), []byte("content"), 0o640))
	must(os.Symlink("sub/file", filepath.Join(root, "var/db/link")))
	must(os.Chmod(filepath.Join(root, "var/db"), os.ModeSticky|0o777))
	target := filepath.Join(t.TempDir(), "copy")
	must(copyIn(root, "/var/db/", target, ids{}))
	content, err := os.ReadFile(filepath.Join(target, "link"))
	must(err)
	if string(content) != "content" {
		t.Errorf("content %q", content)
	}
	for name, want := range map[string]os.FileMode{".": os.ModeDir | os.ModeSticky | 0o777, "sub": os.ModeDir | 0o700, "sub/file": 0o640} {
		info, err := os.Stat(filepath.Join(target, name))
		must(err)
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}

	empty := filepath.Join(t.TempDir(), "empty")
	must(copyIn(root, "/not/there", empty, ids{}))
	entries, err := os.ReadDir(empty)
	must(err)
	if len(entries) != 0 {
		t.Errorf("a directory that the image lacks starts with %v", entries)
	}
	missing, err := missingIn(root, []string{"/var/db", "/var/log/x", "/data"})
	must(err)
	if want := []string{"var/log", "var/log/x", "data"}; !slices.Equal(missing, want) {
		t.Errorf("missing %v, want %v", missing, want)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"redis:7", "redis:6", "registry.example:5000/team/redis:dev", "postgres:16", "tare.local/redis:0123", "<none>:<none>"}
	for asked, want := range map[string][]string{
		"redis:8": {"redis:6", "redis:7", "registry.example:5000/team/redis:dev"},
		"rediss":  {"redis:6", "redis:7", "registry.example:5000/team/redis:dev"},
		"postgre": {"postgres:16"},
		"nginx":   nil,
	} {
		got := like(asked, known)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("nearest to %s: %v, want %v", asked, got, want)
		}
	}
}

func FuzzLoadAnswer(f *testing.F) {
	f.Add([]byte(`{"stream":"Loaded image: x\n"}`))
	f.Add([]byte(`{"status":"Loading layer","progressDetail":{"current":1,"total":2}}` + "\n" + `{"errorDetail":{"message":"no space"},"error":"no space"}`))
	f.Add([]byte("plain words"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		err := loadAnswer(strings.NewReader(string(answer)))
		if err != nil && err.Error() == "" {
			// An engine's error may have an empty message; what is shown must say more.
			p := &Platform{}
			if shown := p.explain("load image", err).Error(); !strings.HasPrefix(shown, "load image") {
				t.Errorf("shown as %q", shown)
			}
		}
	})
}
