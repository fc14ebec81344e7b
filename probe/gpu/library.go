package gpu

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tare/probe"
)

//go:embed library
var sources embed.FS

// flags are the compiler's. What the library calls of itself stays its own, whatever else
// is preloaded.
var (
	commonFlags   = []string{"-std=c11", "-O2", "-Wall", "-Wextra"}
	libraryFlags  = []string{"-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-Bsymbolic-functions", "-pthread"}
	librarySource = []string{"trace.c", "begin.c", "interpose.c", "functions.c", "timing.c", "image.c", "cupti.c"}
)

// Build compiles the library, libtaregpu.so, into a directory that is there, and gives its path. It
// takes a compiler (gcc, or what CC names) and the C library's headers, and
// nothing of CUDA. The error is a *[probe.Missing] where the host has no compiler.
//
// The library runs wherever the C library is glibc 2.17 or newer, of the same
// architecture: in containers too whose C library is older than the host's.
func Build(ctx context.Context, dir string) (string, error) {
	compiler, err := compiler()
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp("", "tare-gpu-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := unpack(work); err != nil {
		return "", err
	}
	library := filepath.Join(dir, "libtaregpu.so")
	args := slices.Concat(commonFlags, libraryFlags, []string{"-o", library}, librarySource, []string{"-ldl"})
	cmd := exec.CommandContext(ctx, compiler, args...)
	cmd.Dir = work
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		return "", fmt.Errorf("compiling %s with %s: %w: %s", filepath.Base(library), compiler, err, line)
	}
	return library, nil
}

func compiler() (string, error) {
	names := []string{"gcc", "cc"}
	if own := os.Getenv("CC"); own != "" {
		names = []string{own}
	}
	for _, n := range names {
		if p, err := exec.LookPath(n); err == nil {
			return p, nil
		}
	}
	return "", &probe.Missing{Probe: name, What: "this host has no C compiler (" + strings.Join(names, ", ") + "), by which the library that is loaded into CUDA programs is built", Mend: "apt-get install gcc libc6-dev"}
}

func unpack(dir string) error {
	return fs.WalkDir(sources, "library", func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sources.ReadFile(at)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, path.Base(at)), text, 0o600)
	})
}

// Probe is how a program is to be recorded. Paths are as the program sees them: into a
// container the library and the directory are bound, the latter writable by its user.
type Probe struct {
	Library string // that [Build] made
	// Dir takes the traces, one file a process; it has to be there, and its path absolute.
	Dir string
	// Method is [Auto] where it is empty.
	Method Method
	// Sample: of so many launches of a thread one is timed by events; 0 is that each is, and
	// less that none is. CUPTI records all.
	Sample int
	// Room bounds the trace of a process, in MiB; 0 is 256. Calls that find no room are
	// counted, with their time.
	Room int
	// CUPTI is its library; empty is that it is looked for by its names.
	CUPTI string
	// Eager has the driver load, and so compile, all kernels of a module when that is
	// loaded (CUDA_MODULE_LOADING). It is a change of what is measured.
	Eager bool
}

// Environment is a program's environment (KEY=value) with what loads the probe into it.
// What is preloaded already stays so, behind the library. It is an error where
// another tool is to be injected, or a path will not do.
func (p Probe) Environment(env []string) ([]string, error) {
	for what, at := range map[string]string{"the library": p.Library, "the directory of traces": p.Dir} {
		switch {
		case !path.IsAbs(at):
			return nil, fmt.Errorf("probing a CUDA program: the path of %s, %q, is not absolute: give it from the root", what, at)
		case strings.ContainsAny(at, " :\x00"):
			return nil, fmt.Errorf("probing a CUDA program: the path of %s, %q, has a space or colon, which LD_PRELOAD takes for its end: choose another", what, at)
		}
	}
	method := p.Method
	if method == "" {
		method = Auto
	}
	if !slices.Contains([]Method{Auto, CUPTI, Interposition}, method) {
		return nil, fmt.Errorf("probing a CUDA program: there is no method %q: name %s, %s or %s", method, Auto, CUPTI, Interposition)
	}
	set := map[string]string{"TARE_GPU_TRACE": p.Dir, "TARE_GPU_METHOD": string(method), "LD_PRELOAD": p.Library, "CUDA_INJECTION64_PATH": p.Library}
	if method == Interposition {
		delete(set, "CUDA_INJECTION64_PATH")
	}
	if p.Sample != 0 {
		set["TARE_GPU_SAMPLE"] = strconv.Itoa(max(0, p.Sample))
	}
	if p.Room != 0 {
		set["TARE_GPU_MIB"] = strconv.Itoa(p.Room)
	}
	if p.CUPTI != "" {
		set["TARE_GPU_CUPTI"] = p.CUPTI
	}
	if p.Eager {
		set["CUDA_MODULE_LOADING"] = "EAGER"
	}
	var out []string
	for _, kv := range env {
		key, value, _ := strings.Cut(kv, "=")
		switch {
		case key == "LD_PRELOAD" && value != "" && value != p.Library:
			set[key] = p.Library + ":" + value
		case key == "CUDA_INJECTION64_PATH" && value != "" && value != p.Library:
			return nil, fmt.Errorf("probing a CUDA program: CUDA_INJECTION64_PATH names %s already, and the driver takes one tool: unset it", value)
		}
		if _, ours := set[key]; !ours {
			out = append(out, kv)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		out = append(out, key+"="+set[key])
	}
	return out, nil
}

// Supports says why a device cannot run what was compiled for an architecture (10 *
// major + minor) alone; nil where it can: a cubin runs on devices of its major
// version and no lower minor one.
func (d Device) Supports(arch int) error {
	if arch/10 == d.Major && arch%10 <= d.Minor {
		return nil
	}
	return fmt.Errorf("%s has compute capability %d.%d, and the program is for %d.%d: build it for that, or with PTX", or(d.Name, "the device"), d.Major, d.Minor, arch/10, arch%10)
}
