package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare/platform"
	"tare/programs/torch"
	"tare/workload"
)

// torchTasks are what PyTorch is measured at.
var torchTasks = torch.Tasks

// Torch is what PyTorch is started from: a root with the program and nothing else, in
// which the host's directories are shown that hold the interpreter, PyTorch, and the
// libraries of both.
type Torch struct {
	Root    string // a directory, from which an image is made
	Python  string // the interpreter's path inside, as on the host
	Version string // of PyTorch
	Mounts  []platform.Mount
}

// installed is what the host's interpreter says of PyTorch.
type installed struct {
	Version    string   `json:"version"`
	CUDA       string   `json:"cuda"`
	Executable string   `json:"executable"`
	Paths      []string `json:"paths"` // prefixes, and where packages lie
}

const asking = `import json, sys
try:
    import torch
except ImportError as e:
    print("no", e); sys.exit(0)
print(json.dumps({"version": torch.__version__, "cuda": torch.version.cuda or "", "executable": sys.executable,
    "paths": [sys.prefix, sys.base_prefix, torch.__path__[0]] + [p for p in sys.path if p]}))`

// torchLimit bounds the question: importing PyTorch from a cold disk takes long.
const torchLimit = 2 * time.Minute

// lookTorch finds PyTorch on this host, and lays out what it is started from below dir;
// without it the second says why.
func lookTorch(ctx context.Context, dir string) (*Torch, string) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil, "this host has no python3: install python3 and PyTorch"
	}
	ctx, cancel := context.WithTimeout(ctx, torchLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-c", asking)
	cmd.Dir = "/" // where Python looks for modules first: of the working directory's, another user could have made some
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Sprintf("%s, asked for PyTorch: %v", python, err)
	}
	if why, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "no "); ok {
		return nil, fmt.Sprintf("%s: %s: install PyTorch, built for CUDA, there", python, why)
	}
	var has installed
	if err := json.Unmarshal(out, &has); err != nil {
		return nil, fmt.Sprintf("%s, asked for PyTorch: %v", python, err)
	}
	if has.CUDA == "" {
		return nil, fmt.Sprintf("PyTorch %s of %s is built without CUDA: install a build for CUDA", has.Version, python)
	}
	t, err := layTorch(dir, "/", has)
	if err != nil {
		return nil, err.Error()
	}
	return t, ""
}

// parts are the directories of a host's /usr, of which the driver's libraries have one of
// their own in containers; links in it are made anew.
func (t *Torch) parts(host string) ([]string, error) {
	var shown []string
	for _, dir := range []string{"/usr", "/usr/local"} {
		entries, err := os.ReadDir(filepath.Join(host, dir))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			at := filepath.Join(dir, e.Name())
			switch {
			case at == "/usr/local" || strings.HasPrefix(platform.DriverLibraries, at+"/"):
			case e.IsDir():
				shown = append(shown, at)
			case e.Type() == fs.ModeSymlink:
				target, err := os.Readlink(filepath.Join(host, at))
				if err != nil {
					return nil, err
				}
				if err := os.MkdirAll(filepath.Join(t.Root, dir), 0o755); err != nil {
					return nil, err
				}
				if err := os.Symlink(target, filepath.Join(t.Root, at)); err != nil {
					return nil, err
				}
			}
		}
	}
	return shown, nil
}

// layTorch makes the root, of a host whose own is given: the links at its top, a place for
// each directory that is shown, and the program.
func layTorch(dir, host string, has installed) (*Torch, error) {
	t := &Torch{Root: filepath.Join(dir, "torch"), Python: has.Executable, Version: has.Version}
	if err := os.RemoveAll(t.Root); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(t.Root, filepath.Dir(workload.TorchProgram)), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(t.Root, workload.TorchProgram), torch.Program, 0o644); err != nil {
		return nil, err
	}
	shown, err := t.parts(host)
	if err != nil {
		return nil, err
	}
	for _, top := range []string{"/bin", "/lib", "/lib64", "/sbin"} {
		info, err := os.Lstat(filepath.Join(host, top))
		if err != nil {
			continue
		}
		if info.Mode()&os.ModeSymlink == 0 {
			shown = append(shown, top)
			continue
		}
		target, err := os.Readlink(filepath.Join(host, top))
		if err != nil {
			return nil, err
		}
		if err := os.Symlink(target, filepath.Join(t.Root, top)); err != nil {
			return nil, err
		}
	}
	for _, p := range append(slices.Clone(has.Paths), filepath.Dir(has.Executable)) {
		if p = filepath.Clean(p); !filepath.IsAbs(p) || slices.ContainsFunc(shown, func(s string) bool {
			return p == s || strings.HasPrefix(p, s+"/")
		}) {
			continue
		}
		if info, err := os.Stat(filepath.Join(host, p)); err != nil || !info.IsDir() {
			continue // an archive of modules, or none
		}
		if p == "/usr" || p == "/usr/local" {
			continue // its parts are shown
		}
		if slices.Contains([]string{"/", "/proc", "/sys", "/dev", "/etc", "/run", "/tmp", "/var"}, p) {
			return nil, errors.New("PyTorch is in " + p + ", which containers do not get as a whole: install it elsewhere")
		}
		shown = append(shown, p)
	}
	slices.Sort(shown) // parents first
	for _, p := range shown {
		t.Mounts = append(
			t.Mounts,
			platform.Mount{Source: filepath.Join(host, p), Target: p, ReadOnly: true, Directory: true},
		)
		if err := os.MkdirAll(filepath.Join(t.Root, p), 0o755); err != nil {
			return nil, err
		}
	}
	for _, p := range Points {
		if err := os.MkdirAll(filepath.Join(t.Root, p), 0o755); err != nil {
			return nil, err
		}
	}
	return t, nil
}
