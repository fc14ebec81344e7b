package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare/image"
	"tare/kernel/nvidia"
	"tare/kernel/process"
	"tare/platform"
	activity "tare/probe/gpu"
	programs "tare/programs/gpu"
)

// Looking is how a host is looked at before a run.
type Looking struct {
	// Host is where files are read; the zero value is this host.
	Host nvidia.Host
	// Dir is a directory of tare's in which what is made lies; it is there.
	Dir string
	// Programs is a directory with the programs, built elsewhere as build.sh lays them out;
	// empty has them built here.
	Programs string
	Kinds    []programs.Kind // that are wanted
	Names    []string        // of the programs that are wanted; devicelimits is besides
	Probe    bool            // whether the probe's library is
	Torch    bool            // whether PyTorch is looked for
	// Progress receives the names of slow steps; it may be nil.
	Progress func(text string)
}

// Lacks says in one line why no CUDA program can run on a host, by its files alone; nil
// where nothing speaks against it. The error is a *[platform.Missing].
func Lacks(h nvidia.Host) error {
	inventory, err := h.Read()
	if err == nil {
		if err = inventory.Unfit(); err == nil {
			err = h.Permitted(inventory)
		}
	}
	return lacking(err)
}

// lacking makes what the host lacks of the errors that say so.
func lacking(err error) error {
	var unfit *nvidia.Unfit
	var failure *programs.Failure
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unfit):
		return &platform.Missing{What: "no GPU for CUDA: " + unfit.What, Mend: unfit.Mend}
	case errors.As(err, &failure) && hosts(failure.Cause):
		return &platform.Missing{What: failure.Error()}
	case errors.Is(err, programs.ErrMissing):
		return &platform.Missing{What: err.Error()}
	}
	return err
}

// hosts reports whether a cause is the host's, and not the program's or its command line's.
func hosts(c programs.Cause) bool {
	return slices.Contains([]string{
		"no-driver", "old-driver", "no-device", "no-code", "new-ptx", "no-jit", "device-memory", "busy", "mig-memory",
		"not-ready", "device-fault", "host-memory",
	}, c.Name)
}

// Look finds a host's device, has the programs built where they are not there, runs one
// to see that it works, and lays out the root that all of them run from. The error is a
// *[platform.Missing] where the host lacks something, in one line.
func Look(ctx context.Context, l Looking) (*Found, error) {
	err := Lacks(l.Host)
	if err != nil {
		return nil, err
	}
	if l.Progress == nil {
		l.Progress = func(string) {}
	}
	f := &Found{Unusable: map[string]string{}}
	if f.Libraries, err = l.libraries(); err != nil {
		return nil, err
	}
	dir, err := l.programs(ctx, f)
	if err != nil {
		return nil, lacking(err)
	}
	if err := f.preflight(ctx, dir); err != nil {
		return nil, lacking(err)
	}
	if err := l.layRoot(f, dir); err != nil {
		return nil, err
	}
	if l.Probe {
		if err := l.buildProbe(ctx, f); err != nil {
			return nil, err
		}
		if err := f.tryProbe(ctx, dir); err != nil {
			f.Library, f.NoProbe = "", oneLine(err.Error())
		}
	}
	if l.Torch {
		f.Torch, f.NoTorch = lookTorch(ctx, l.Dir)
	}
	return f, nil
}

// libraries are the directories of the driver's libraries, which need not be where the
// dynamic linker looks.
func (l Looking) libraries() (string, error) {
	inventory, err := l.Host.Read()
	if err != nil {
		return "", err
	}
	var dirs []string
	for _, library := range inventory.Libraries {
		if dir := filepath.Dir(library.Path); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, ":"), nil
}

// wanted are the programs that a run takes: those named, and what measures the device.
func (l Looking) wanted() []string {
	all := []string{programs.DeviceLimits}
	for _, n := range l.Names {
		if n = programOf(n); !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// programs gives the directory that the programs lie in, and which kinds there are.
func (l Looking) programs(ctx context.Context, f *Found) (string, error) {
	dir := l.Programs
	if dir == "" {
		dir = filepath.Join(l.Dir, "programs")
		l.Progress("building the CUDA programs")
		options := programs.CompileOptions{Kinds: l.Kinds, Programs: l.wanted()}
		if err := programs.Compile(ctx, dir, options); err != nil {
			return "", err
		}
	}
	for _, kind := range l.Kinds {
		have := true
		for _, name := range l.wanted() {
			if info, err := os.Stat(programs.Binary(dir, kind, name)); err != nil || !info.Mode().IsRegular() {
				have = false
			}
		}
		if have {
			f.Kinds = append(f.Kinds, kind)
		}
	}
	if len(f.Kinds) == 0 {
		return "", &platform.Missing{
			What: fmt.Sprintf("%s lacks some of the CUDA programs %s in each of the builds %s",
				dir, strings.Join(l.wanted(), ", "), kindsText(l.Kinds)),
			Mend: "run `make gpu-programs` where nvcc is, and name the directory with --programs",
		}
	}
	return dir, nil
}

// preflight runs a small program of each build directly: what keeps a CUDA program from
// running here is found out before anything else is made, and reported in its own line. Where
// the first build runs, another that does not is left out, since it would end the run: PTX
// that is newer than the driver.
func (f *Found) preflight(ctx context.Context, dir string) error {
	wanted := f.Kinds
	f.Kinds, f.NoKind = nil, map[programs.Kind]string{}
	for i, kind := range wanted {
		// What is compiled here is left in nobody's cache.
		result, err := run(
			ctx,
			f.Libraries,
			[]string{"CUDA_CACHE_DISABLE=1"},
			programs.Binary(dir, kind, programs.DeviceLimits),
			small()...)
		switch {
		case err != nil && i == 0:
			return err
		case err != nil:
			f.NoKind[kind] = oneLine(err.Error())
			continue
		case i == 0:
			f.Device, f.Versions = result.Device, result.Versions
		}
		f.Kinds = append(f.Kinds, kind)
	}
	return nil
}

// small is the command line of a run of devicelimits that only has to work.
func small() []string {
	none := 0
	return programs.Options{Size: []int64{1 << 16}, Iterations: 1, Warmup: &none}.Arguments()
}

// preflightLimit bounds a run that only has to work: making a first context can take a
// while where nobody keeps the driver loaded.
const preflightLimit = time.Minute

func run(ctx context.Context, libraries string, env []string, program string, args ...string) (programs.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, preflightLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = slices.Concat(os.Environ(), searched(libraries), env)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if ctx.Err() != nil {
		return programs.Result{}, fmt.Errorf("%s had not ended after %v: stop what else uses the device", filepath.Base(program), preflightLimit)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return programs.Result{}, fmt.Errorf("start %s: %w", program, err)
	}
	return programs.Read(filepath.Base(program), cmd.ProcessState.ExitCode(), out.Bytes(), said.Bytes())
}

// layRoot lays out the root that all programs run from: they, and the host's own C library,
// which the driver's libraries were made for.
func (l Looking) layRoot(f *Found, dir string) error {
	inventory, err := l.Host.Read()
	if err != nil {
		return err
	}
	root := image.HostRoot{Programs: map[string]string{}, Directories: Points}
	for _, kind := range f.Kinds {
		for _, name := range l.wanted() {
			from, err := filepath.Abs(programs.Binary(dir, kind, name))
			if err != nil {
				return err
			}
			root.Programs[path.Join("/gpu", string(kind), name)] = from
		}
	}
	for _, library := range inventory.Libraries {
		root.Libraries = append(root.Libraries, library.Path)
	}
	f.Root = filepath.Join(l.Dir, "cuda")
	if err := os.RemoveAll(f.Root); err != nil {
		return err
	}
	if err := os.Mkdir(f.Root, 0o755); err != nil {
		return err
	}
	if err := root.Lay(f.Root); err != nil {
		return fmt.Errorf("lay out the root of the CUDA programs: %w", err)
	}
	return nil
}

// buildProbe compiles the probe's library; a host that cannot does without.
func (l Looking) buildProbe(ctx context.Context, f *Found) error {
	dir := filepath.Join(l.Dir, "probe")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if info, err := os.Stat(filepath.Join(l.Programs, "probe", library)); l.Programs != "" && err == nil &&
		info.Mode().IsRegular() {
		// It was built with the programs, elsewhere.
		if f.Library, err = filepath.Abs(filepath.Join(l.Programs, "probe")); err != nil {
			return err
		}
		return nil
	}
	if _, err := activity.Build(ctx, dir); err != nil {
		f.NoProbe = oneLine(err.Error())
		return nil
	}
	f.Library = dir
	return nil
}

// tryProbe runs a small program directly under the probe: one that leaves no trace of it
// would end the run.
func (f *Found) tryProbe(ctx context.Context, dir string) error {
	if f.Library == "" {
		return errors.New(f.NoProbe)
	}
	traces, err := os.MkdirTemp("", "tare-gpu-trace-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(traces)
	p := activity.Probe{Library: filepath.Join(f.Library, library), Dir: traces}
	if strings.ContainsAny(p.Library+p.Dir, " :") {
		return nil // such a path cannot be preloaded; inside, it has another
	}
	env, err := p.Environment(nil)
	if err != nil {
		return err
	}
	binary := programs.Binary(dir, f.Kinds[0], programs.DeviceLimits)
	if _, err := run(ctx, f.Libraries, env, binary, small()...); err != nil {
		return fmt.Errorf("under the activity probe: %w", err)
	}
	_, err = activityOf(traces)
	return err
}

// Try runs a small program on each platform, as trials will, and notes on which the device
// cannot be used and why. Where bare metal is among those, everything is measured directly.
func (f *Found) Try(
	ctx context.Context, names []string, gpu string,
	resolve func(string) (platform.Platform, error), img image.Image, name func() string,
) error {
	wanted := append([]string{Bare}, slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		return n == Bare || n == Direct
	})...)
	for _, n := range wanted {
		p, err := resolve(n)
		if err != nil {
			return err
		}
		if err = p.Check(ctx); err == nil {
			err = f.try(ctx, p, gpu, img, name())
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			f.Unusable[n] = oneLine(err.Error())
		}
	}
	f.Direct = f.Unusable[Bare] != ""
	return nil
}

func (f *Found) try(ctx context.Context, p platform.Platform, gpu string, img image.Image, name string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, preflightLimit)
	defer cancel()
	setting := platform.Setting{GPU: gpu}
	if err := p.Supports(setting); err != nil {
		return err
	}
	if err := p.Prepare(ctx, img); err != nil {
		return err
	}
	out, said := process.Tail{Most: outputKept}, process.Tail{}
	inst, err := p.Launch(ctx, platform.Spec{
		Name: name, Image: img, Setting: setting, Stdout: &out, Stderr: &said,
		Args: append([]string{path.Join("/gpu", string(f.Kinds[0]), programs.DeviceLimits)}, small()...),
	})
	if err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		err = errors.Join(err, inst.Stop(stopping))
	}()
	exit, err := inst.Wait(ctx)
	if err != nil {
		return err
	}
	result, err := programs.Read(programs.DeviceLimits, exit.Code, out.Bytes(), said.Bytes())
	if err != nil {
		return err
	}
	if result.Device.UUID != f.Device.UUID {
		return fmt.Errorf("the program saw %s (%s) in the container, and %s (%s) outside", result.Device.Name, result.Device.UUID, f.Device.Name, f.Device.UUID)
	}
	return nil
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
