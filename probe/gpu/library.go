package gpu

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
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

// flags are the compiler's, for the library and what asks the driver. What the library
// calls of itself stays its own, whatever else is preloaded.
var (
	commonFlags   = []string{"-std=c11", "-O2", "-Wall", "-Wextra"}
	libraryFlags  = []string{"-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-Bsymbolic-functions", "-pthread"}
	librarySource = []string{"trace.c", "begin.c", "interpose.c", "functions.c", "timing.c", "image.c", "cupti.c"}
)

// Built is what [Build] made.
type Built struct {
	Library string // libtaregpu.so, which is loaded into programs
	Ask     string // a program that asks the driver for its devices; see [Ask]
}

// Build compiles the library, and the program that asks the driver, into a directory that
// is there. It takes a compiler (gcc, or what CC names) and the C library's headers, and
// nothing of CUDA. The error is a *[probe.Missing] where the host has no compiler.
//
// The library runs wherever the C library is glibc 2.17 or newer, of the same
// architecture: in containers too whose C library is older than the host's.
func Build(ctx context.Context, dir string) (Built, error) {
	compiler, err := compiler()
	if err != nil {
		return Built{}, err
	}
	work, err := os.MkdirTemp("", "tare-gpu-")
	if err != nil {
		return Built{}, err
	}
	defer os.RemoveAll(work)
	if err := unpack(work); err != nil {
		return Built{}, err
	}
	built := Built{Library: filepath.Join(dir, "libtaregpu.so"), Ask: filepath.Join(dir, "tare-gpu-ask")}
	for _, c := range []struct {
		to      string
		flags   []string
		sources []string
	}{
		{built.Library, libraryFlags, librarySource},
		{built.Ask, nil, []string{"ask.c"}},
	} {
		args := slices.Concat(commonFlags, c.flags, []string{"-o", c.to}, c.sources, []string{"-ldl"})
		cmd := exec.CommandContext(ctx, compiler, args...)
		cmd.Dir = work
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Run(); err != nil {
			line, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
			return Built{}, fmt.Errorf("compiling %s with %s: %w: %s", filepath.Base(c.to), compiler, err, line)
		}
	}
	return built, nil
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

// Driver is what the driver says of itself, in the process that asks.
type Driver struct {
	// Version is the newest CUDA version that it serves: 12040 is 12.4.
	Version int
	Devices []Device
}

// Refused is that the driver serves no device to a process here.
type Refused struct {
	Status int // what cuInit returned; 0 where its library cannot be opened
	What   string
	Mend   string
}

func (r *Refused) Error() string {
	if r.Mend == "" {
		return "no CUDA: " + r.What
	}
	return "no CUDA: " + r.What + ": " + r.Mend
}

// refusals are the results of cuInit that name a cause (CUresult in the CUDA Driver API's
// reference).
var refusals = map[int][2]string{
	3:   {"the driver is not initialized", "look for NVRM and Xid lines in dmesg"},
	34:  {"the library is a stub of the toolkit's", "take its directory out of LD_LIBRARY_PATH"},
	46:  {"a device is busy, exclusive or prohibited", "end the other process, or nvidia-smi -c DEFAULT"},
	100: {"the driver finds no device", "give the process one: /dev/nvidia0, /dev/nvidiactl and /dev/nvidia-uvm, and a CUDA_VISIBLE_DEVICES that is not empty"},
	101: {"a device is not valid", "see that CUDA_VISIBLE_DEVICES names what is there"},
	304: {"an operating system call failed", "see that /dev/nvidiactl and /dev/nvidia-uvm may be opened"},
	802: {"the system is not ready", "start nvidia-fabricmanager, or wait for it"},
	803: {"the library and the kernel's module are of different versions", "load the module of the library's version, or bind the module's library into the container"},
	804: {"the compatibility library does not serve this device", "take the driver's own library"},
	805: {"the MPS daemon does not answer", "start nvidia-cuda-mps-control, or unset CUDA_MPS_PIPE_DIRECTORY"},
	807: {"the MPS daemon is not ready", "wait for it"},
	999: {"the driver failed for an unknown reason", "load the module nvidia_uvm (modprobe nvidia-uvm), and look for Xid lines in dmesg"},
}

// Ask runs the program that [Build] made, and has the driver report its version and
// devices. No memory of a device is taken. The error is a *[Refused] where there is no
// library, or the driver serves no device.
func Ask(ctx context.Context, ask string, env []string) (Driver, error) {
	cmd := exec.CommandContext(ctx, ask)
	cmd.Env = env
	out, err := cmd.Output()
	if err != nil {
		return Driver{}, fmt.Errorf("asking the driver for its devices: %w", err)
	}
	return parseAnswer(out)
}

func parseAnswer(out []byte) (Driver, error) {
	var a struct {
		Library string `json:"library"`
		Init    int    `json:"init"`
		Driver  int    `json:"driver"`
		Devices []struct {
			Ordinal         int    `json:"ordinal"`
			Name            string `json:"name"`
			UUID            string `json:"uuid"`
			Major           int    `json:"major"`
			Minor           int    `json:"minor"`
			Multiprocessors int    `json:"multiprocessors"`
			ComputeMode     int    `json:"compute_mode"`
			Memory          int64  `json:"memory"`
			MIG             bool   `json:"mig"`
		} `json:"devices"`
	}
	if err := json.Unmarshal(out, &a); err != nil {
		return Driver{}, fmt.Errorf("asking the driver for its devices: its answer is not JSON: %w", err)
	}
	if a.Library != "" {
		return Driver{}, &Refused{What: a.Library, Mend: "install NVIDIA's driver, or give its library to the container"}
	}
	if a.Init != 0 {
		why, ok := refusals[a.Init]
		if !ok {
			why = [2]string{"cuInit returned " + strconv.Itoa(a.Init), "look it up as CUresult in the CUDA Driver API's reference"}
		}
		return Driver{}, &Refused{Status: a.Init, What: fmt.Sprintf("%s (%d)", why[0], a.Init), Mend: why[1]}
	}
	d := Driver{Version: a.Driver}
	for _, g := range a.Devices {
		kind := "GPU-"
		if g.MIG {
			kind = "MIG-"
		}
		d.Devices = append(d.Devices, Device{
			Ordinal: g.Ordinal, Name: g.Name, UUID: kind + g.UUID, Major: g.Major, Minor: g.Minor,
			Multiprocessors: g.Multiprocessors, ComputeMode: g.ComputeMode, Memory: g.Memory,
		})
	}
	if len(d.Devices) == 0 {
		return Driver{}, &Refused{Status: 100, What: refusals[100][0], Mend: refusals[100][1]}
	}
	return d, nil
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
