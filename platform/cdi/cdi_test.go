package cdi_test

import (
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"tare/kernel/nvidia"
	"tare/platform"
	"tare/platform/cdi"
	"tare/platform/ocispec"
	"tare/platform/rootfs"
)

var update = flag.Bool("update", false, "write the expected specifications anew")

// host is a recorded tree: a line a file, "path text"; \n in a text ends its line, and
// "-> target" is a link.
func host(t *testing.T, name string) *nvidia.Inventory {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || line[0] == '#' {
			continue
		}
		at, content, _ := strings.Cut(line, " ")
		path := filepath.Join(root, at)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(strings.ReplaceAll(content, `\n`, "\n")), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	v, err := nvidia.Host{Root: root}.Read()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The specifications of recorded hosts are as expected, and read back as they are.
func TestNVIDIA(t *testing.T) {
	for _, name := range []string{"two", "divided", "container"} {
		t.Run(name, func(t *testing.T) {
			s, err := cdi.NVIDIA(host(t, name))
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.JSON()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("%s differs: go test ./platform/cdi -update writes it anew\n%s", path, got)
			}
			back, err := cdi.Parse(got)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := back.JSON(); err != nil || string(again) != string(got) {
				t.Errorf("it reads back as %s, %v", again, err)
			}
		})
	}
}

func TestNVIDIAOfUnfitHosts(t *testing.T) {
	v := host(t, "two")
	v.Version = ""
	var unfit *nvidia.Unfit
	if _, err := cdi.NVIDIA(v); !errors.As(err, &unfit) {
		t.Errorf("%v", err)
	}
	v = host(t, "divided")
	v.GPUs[1].Instances[0].Nodes[0].Major = 0
	if _, err := cdi.NVIDIA(v); !errors.As(err, &unfit) || !strings.Contains(err.Error(), "nvidia-cap12 is missing") {
		t.Errorf("%v", err)
	}
	if _, err := cdi.NVIDIA(&nvidia.Inventory{WSL: true, Libraries: []nvidia.Library{{Name: "libcuda.so.1"}}}); !errors.As(err, &unfit) || !strings.Contains(err.Error(), "/dev/dxg") {
		t.Errorf("%v", err)
	}
}

// A configuration that a device was added to has what the device takes, and all that it
// had.
func TestApply(t *testing.T) {
	s, err := cdi.NVIDIA(host(t, "two"))
	if err != nil {
		t.Fatal(err)
	}
	edits, err := cdi.Resolve([]*cdi.Spec{s}, "nvidia.com/gpu=1")
	if err != nil {
		t.Fatal(err)
	}
	config, err := ocispec.Container{Process: platform.Process{Args: []string{"/lud"}, Env: []string{"LD_LIBRARY_PATH=/opt/lib:" + cdi.LibraryDir}}, Tree: rootfs.Tree{Root: "/r"}, CgroupPath: "/c"}.Config()
	if err != nil {
		t.Fatal(err)
	}
	mounts, rules := len(config.Mounts), len(config.Linux.Resources.Devices)
	if err := edits.Apply(config, nil); err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, d := range config.Linux.Devices {
		nodes = append(nodes, d.Path)
		if d.Type != "c" || *d.FileMode != 0o666 || *d.UID != 0 {
			t.Errorf("node %+v", d)
		}
	}
	if !slices.Equal(nodes, []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia1"}) {
		t.Errorf("nodes %q", nodes)
	}
	allowed := config.Linux.Resources.Devices[rules:]
	if len(allowed) != 4 || !allowed[3].Allow || *allowed[3].Major != 195 || *allowed[3].Minor != 1 || allowed[3].Access != "rw" {
		t.Errorf("rules %+v", allowed)
	}
	if first := config.Linux.Resources.Devices[0]; first.Allow {
		t.Errorf("the first rule %+v does not refuse all others", first)
	}
	if len(config.Mounts) != mounts+5 || config.Mounts[0].Destination != "/proc" {
		t.Errorf("%d mounts, and before %d: %+v", len(config.Mounts), mounts, config.Mounts)
	}
	i := slices.IndexFunc(config.Mounts, func(m specs.Mount) bool { return m.Destination == "/usr/local/nvidia/lib64/libcuda.so.1" })
	if i < 0 || config.Mounts[i].Source != "/usr/lib64/libcuda.so.550.54.15" || config.Mounts[i].Type != "bind" || !slices.Contains(config.Mounts[i].Options, "ro") {
		t.Errorf("mounts %+v", config.Mounts)
	}
	for _, kv := range []string{"LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/opt/lib", "NVIDIA_VISIBLE_DEVICES=void"} {
		if !slices.Contains(config.Process.Env, kv) {
			t.Errorf("environment %q, without %s", config.Process.Env, kv)
		}
	}
	if config.Hooks != nil {
		t.Errorf("hooks %+v", config.Hooks)
	}
	// A second time nothing is there twice but rules, which do no harm.
	if err := edits.Apply(config, nil); err != nil || len(config.Linux.Devices) != 4 || len(config.Mounts) != mounts+5 {
		t.Errorf("%d nodes, %d mounts, %v", len(config.Linux.Devices), len(config.Mounts), err)
	}
}

// theirs is a specification as the vendor's tool writes them: nodes without numbers, and
// hooks.
const theirs = `
cdiVersion: 0.5.0
kind: nvidia.com/gpu
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void]
  deviceNodes:
  - path: /dev/nvidiactl
  hooks:
  - hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
    args: [nvidia-cdi-hook, update-ldcache, --folder, /usr/lib/x86_64-linux-gnu]
  mounts:
  - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15
    containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15
    options: [ro, nosuid, nodev, bind]
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/dri/card1
      hostPath: /dev/dri/card0
      permissions: r
- name: all
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    additionalGids: [44]
`

func TestApplyTheirs(t *testing.T) {
	s, err := cdi.Parse([]byte(theirs))
	if err != nil {
		t.Fatal(err)
	}
	edits, err := cdi.Resolve([]*cdi.Spec{s}, "nvidia.com/gpu=0", "nvidia.com/gpu=all")
	if err != nil {
		t.Fatal(err)
	}
	blank := func() *specs.Spec { return &specs.Spec{Process: &specs.Process{}, Linux: &specs.Linux{}} }
	if err := edits.Apply(blank(), nil); err == nil || !strings.Contains(err.Error(), "/dev/nvidiactl") {
		t.Errorf("%v", err)
	}
	if err := edits.Apply(&specs.Spec{}, nil); err == nil {
		t.Error("a configuration without a process takes devices")
	}
	config := blank()
	mode := fs.FileMode(0o660)
	var asked []string
	stat := func(path string) (cdi.Node, error) {
		asked = append(asked, path)
		return cdi.Node{Type: "c", Major: 195, Minor: int64(len(asked)), FileMode: &mode}, nil
	}
	if err := edits.Apply(config, stat); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(asked, []string{"/dev/nvidiactl", "/dev/nvidia0", "/dev/dri/card0"}) || len(config.Linux.Devices) != 3 || config.Linux.Devices[2].Path != "/dev/dri/card1" {
		t.Errorf("asked for %q, nodes %+v", asked, config.Linux.Devices)
	}
	if r := config.Linux.Resources.Devices; r[2].Access != "r" || r[0].Access != "rwm" {
		t.Errorf("rules %+v", r)
	}
	if config.Hooks == nil || len(config.Hooks.CreateContainer) != 1 || config.Hooks.CreateContainer[0].Args[1] != "update-ldcache" {
		t.Errorf("hooks %+v", config.Hooks)
	}
	if !slices.Equal(config.Process.User.AdditionalGids, []uint32{44}) {
		t.Errorf("groups %v", config.Process.User.AdditionalGids)
	}
	stat = func(string) (cdi.Node, error) { return cdi.Node{}, fs.ErrNotExist }
	if err := edits.Apply(blank(), stat); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestResolve(t *testing.T) {
	s, err := cdi.Parse([]byte(theirs))
	if err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		"0":                "vendor/class=name",
		"amd.com/gpu=0":    "no specification has devices of kind amd.com/gpu",
		"nvidia.com/gpu=7": "there are nvidia.com/gpu=0, nvidia.com/gpu=all",
	} {
		if _, err := cdi.Resolve([]*cdi.Spec{s}, name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Of two specifications the later counts.
	other := *s
	other.Devices = []cdi.Device{{Name: "0", Edits: cdi.Edits{Env: []string{"OTHER=1"}}}}
	edits, err := cdi.Resolve([]*cdi.Spec{s, &other}, "nvidia.com/gpu=0")
	if err != nil || !slices.Contains(edits.Env, "OTHER=1") {
		t.Errorf("%+v, %v", edits, err)
	}
}

func TestParseRefuses(t *testing.T) {
	good := `{"cdiVersion":"0.6.0","kind":"nvidia.com/gpu","devices":[{"name":"0","containerEdits":{"env":["A=1"]}}]}`
	if _, err := cdi.Parse([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for old, c := range map[string][2]string{
		`0.6.0`:                             {`9.0.0`, "version"},
		`nvidia.com/gpu`:                    {`gpu`, "vendor/class"},
		`"name":"0"`:                        {`"name":"-"`, "called"},
		`{"env":["A=1"]}`:                   {`{}`, "takes nothing"},
		`["A=1"]`:                           {`["A"]`, "not KEY=value"},
		`"env":["A=1"]`:                     {`"deviceNodes":[{"path":"dev"}]`, "not absolute"},
		`"env":["A=1"]}`:                    {`"deviceNodes":[{"path":"/dev/x","type":"z"}]}`, "type"},
		`{"env":["A=1"]}}`:                  {`{"deviceNodes":[{"path":"/dev/x","permissions":"x"}]}}`, "permissions"},
		`:{"env":["A=1"]}`:                  {`:{"mounts":[{"hostPath":"/a","containerPath":"b"}]}`, "mount"},
		`"containerEdits":{"env":["A=1"]}`:  {`"containerEdits":{"hooks":[{"hookName":"never","path":"/a"}]}`, "hook"},
		`"containerEdits":{"env":["A=1"]}}`: {`"containerEdits":{"hooks":[{"hookName":"poststop","path":"a"}]}}`, "path of hook"},
		`[{"name":"0","containerEdits":{"env":["A=1"]}}]`: {`[]`, "without devices"},
		`"devices":[`: {`"devices":[{"name":"0","containerEdits":{"env":["A=1"]}},`, "two devices"},
		`{"cdi`:       {`cdi`, "no specification"},
	} {
		_, err := cdi.Parse([]byte(strings.Replace(good, old, c[0], 1)))
		if err == nil || !strings.Contains(err.Error(), c[1]) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s instead of %s: %v", c[0], old, err)
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"nvidia.yaml": theirs, "bad.json": "{", "notes.txt": "no"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := cdi.Find(filepath.Join(dir, "absent"), dir)
	if len(all) != 1 || err == nil || !strings.Contains(err.Error(), "bad.json") {
		t.Errorf("%d specifications, %v", len(all), err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(theirs))
	f.Add([]byte(`{"cdiVersion":"0.6.0","kind":"nvidia.com/gpu","devices":[{"name":"0","containerEdits":{"env":["A=1"]}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := cdi.Parse(text)
		if err != nil {
			return
		}
		out, err := s.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var back cdi.Spec
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if err := back.Validate(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		edits, err := cdi.Resolve([]*cdi.Spec{s}, s.Kind+"="+s.Devices[0].Name)
		if err != nil {
			t.Fatal(err)
		}
		_ = edits.Apply(&specs.Spec{Process: &specs.Process{}, Linux: &specs.Linux{}}, nil)
	})
}
