package cdi_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/kernel/nvidia"
	"tare/platform/cdi"
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

// The specifications of recorded hosts are as expected.
func TestNVIDIA(t *testing.T) {
	for _, name := range []string{"two", "divided", "container"} {
		t.Run(name, func(t *testing.T) {
			s, err := cdi.NVIDIA(host(t, name))
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(s, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
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

func TestResolve(t *testing.T) {
	zero, all := cdi.Edits{Nodes: []cdi.Node{{Path: "/dev/nvidia0"}}}, cdi.Edits{Nodes: []cdi.Node{{Path: "/dev/nvidia0"}, {Path: "/dev/nvidia1"}}}
	s := &cdi.Spec{Kind: cdi.Kind, Devices: []cdi.Device{{Name: "0", Edits: zero}, {Name: "all", Edits: all}}, Edits: cdi.Edits{Env: []string{"SHARED=1"}}}
	for name, says := range map[string]string{
		"0":                "vendor/class=name",
		"amd.com/gpu=0":    "no specification has devices of kind amd.com/gpu",
		"nvidia.com/gpu=7": "there are nvidia.com/gpu=0, nvidia.com/gpu=all",
	} {
		if _, err := cdi.Resolve([]*cdi.Spec{s}, name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What devices share is there once.
	if edits, err := cdi.Resolve([]*cdi.Spec{s}, "nvidia.com/gpu=0", "nvidia.com/gpu=all"); err != nil || len(edits.Nodes) != 2 || len(edits.Env) != 1 {
		t.Errorf("%+v, %v", edits, err)
	}
	// Of two specifications the later counts.
	other := *s
	other.Devices = []cdi.Device{{Name: "0", Edits: cdi.Edits{Env: []string{"OTHER=1"}}}}
	edits, err := cdi.Resolve([]*cdi.Spec{s, &other}, "nvidia.com/gpu=0")
	if err != nil || !slices.Contains(edits.Env, "OTHER=1") {
		t.Errorf("%+v, %v", edits, err)
	}
}
