package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tare/image"
	"tare/kernel/file"
	"tare/kernel/nvidia"
	"tare/lab"
	"tare/platform"
	"tare/platform/held"
	"tare/platform/rootfs"
	programs "tare/programs/gpu"
	"tare/study/gpu"
	"tare/study/kit"
	"tare/workload"
)

// gpuFlags are what the user asked for of `tare gpu`.
type gpuFlags struct {
	studyFlags
	subjects   []string
	platforms  []string
	builds     []string
	caches     []string
	memories   []string
	cross      bool
	probe      bool
	limits     bool
	share      []int
	torch      bool
	gpu        string
	sizes      []string
	iterations []string
	programs   string

	cmd     *cobra.Command
	host    nvidia.Host // where its files are looked at
	asked   gpu.Options // what the command line comes to
	found   *gpu.Found  // once somebody has looked
	scratch func(ctx context.Context, name string) (string, func() error, error)
}

// deviceHost is where files of devices are looked at: tests give a recorded tree.
var deviceHost nvidia.Host

func gpuCommand() (*cobra.Command, *subStudy) { return gpuCommandOn(deviceHost) }

// gpuCommandOn is the command on a host whose files are read elsewhere, for tests.
func gpuCommandOn(host nvidia.Host) (*cobra.Command, *subStudy) {
	f := &gpuFlags{studyFlags: studyFlags{whole: true}, host: host}
	byDefault := gpu.Default()
	cmd := &cobra.Command{
		Use:   "gpu [flags]",
		Short: "Measure what a container costs a CUDA program, by phase",
		Long: `Gpu runs four CUDA programs on bare metal and in containers with an NVIDIA device:
LU decomposition, particle filter, stencil and LeNet. It measures

  - the time from launch to end, and each phase of it: the container's start,
    compiling PTX with a cold and a warm cache, allocation, copies, kernels
  - copies from pinned and from pageable memory
  - kernels against calls of the API, by an activity probe
  - kernels as a share of the limits of the device
  - with --share, several containers with one device at once.

It requires a device and its driver. The programs are built where nvcc is, or taken
from the directory of --programs ("make gpu-programs" builds them).`,
		Example: `  tare gpu --quick
  tare gpu --platform bare,docker --program stencil,lenet-training --blocks 10
  tare gpu --programs /srv/gpu-programs --build exact,ptx --cache cold,warm
  tare gpu --share 1,2,4,8 --program stencil
  tare gpu --dry-run`,
		Args: noArguments("name programs by --program"),
	}
	f.cmd = cmd
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.subjects, "program", nil, "some of "+strings.Join(gpu.Subjects, ", ")+" (default all but inference)")
	flags.StringSliceVar(&f.platforms, "platform", byDefault.Platforms, "platforms; bare metal is always measured, and what this host lacks is left out")
	flags.StringSliceVar(&f.builds, "build", byDefault.Builds, "code for the exact device (exact), code that the driver compiles (ptx), or both in one (both); the first is the base")
	flags.StringSliceVar(&f.caches, "cache", byDefault.Caches, "the driver's cache of compiled PTX: some of "+strings.Join(gpu.Caches, ", "))
	flags.StringSliceVar(&f.memories, "memory", byDefault.Memories, "the host's memory for copies: pageable, pinned; the first is the base")
	flags.BoolVar(&f.cross, "cross", false, "measure all combinations, instead of one factor at a time around the base")
	flags.BoolVar(&f.probe, "probe", byDefault.Probe, "also measure kernels against calls, in separate trials under the activity probe")
	flags.BoolVar(&f.limits, "limits", byDefault.Limits, "also measure the limits of the device, and each kernel against them")
	flags.IntSliceVar(&f.share, "share", nil, "numbers of containers at once with one device, such as 1,2,4,8")
	flags.BoolVar(&f.torch, "torch", false, "also measure a training step and inference by PyTorch, where python3 of this host has it")
	flags.StringVar(&f.gpu, "gpu", byDefault.GPU, "devices that each program is given: all, or a `LIST` such as 0")
	flags.StringArrayVar(&f.sizes, "size", nil, "PROGRAM=N: size of a program, as in programs/gpu; may be repeated")
	flags.StringArrayVar(&f.iterations, "iterations", nil, "PROGRAM=K: timed repetitions of a program; may be repeated")
	flags.StringVar(&f.programs, "programs", "", "directory with the built programs (default: build them here with nvcc)")
	f.register(cmd, "a minute or two: stencil and LeNet, exact code and PTX with a cold cache, no probe", "all programs and combinations, also oci:crun and PyTorch where they are there, ten blocks", nil)
	must(cmd.RegisterFlagCompletionFunc("program", cobra.FixedCompletions(gpu.Subjects, cobra.ShellCompDirectiveNoFileComp)))
	return cmd, &subStudy{flags: &f.studyFlags, design: f.design, prepare: f.prepare}
}

// options reads a whole command line.
func (f *gpuFlags) options(cmd *cobra.Command) (gpu.Options, error) {
	changed := cmd.Flags().Changed
	o, plan, err := begin(&f.studyFlags, changed, gpu.Default, gpu.Quick, gpu.Full)
	if err != nil {
		return o, err
	}
	o.Plan, o.Seed, o.GPU, o.Share = plan, f.seed, f.gpu, f.share
	given(changed, "program", f.subjects, &o.Subjects)
	given(changed, "platform", f.platforms, &o.Platforms)
	given(changed, "build", f.builds, &o.Builds)
	given(changed, "cache", f.caches, &o.Caches)
	given(changed, "memory", f.memories, &o.Memories)
	if o.Platforms, err = fullNames(o.Platforms, lab.OwnPlatform); err != nil {
		return o, err
	}
	given(changed, "cross", f.cross, &o.Cross)
	given(changed, "probe", f.probe, &o.Probe)
	given(changed, "limits", f.limits, &o.Limits)
	given(changed, "torch", f.torch, &o.Torch)
	if o.Sizes, err = assigned("size", f.sizes); err != nil {
		return o, err
	}
	if o.Iterations, err = assigned("iterations", f.iterations); err != nil {
		return o, err
	}
	return o, nil
}

// assigned reads PROGRAM=VALUE.
func assigned(flag string, texts []string) (map[string]string, error) {
	all := map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || value == "" {
			return nil, usageError("--%s %s: want PROGRAM=N", flag, text)
		}
		all[name] = value
	}
	return all, nil
}

func (f *gpuFlags) design(cmd *cobra.Command, _ []string, host studyHost) (lab.Design, error) {
	o, err := f.options(cmd)
	if err != nil {
		return lab.Design{}, err
	}
	f.asked = o
	o.Host = gpu.Host{
		Host: kit.Host{Platform: f.withDirect(host.Platform), Check: host.Check}, Scratch: f.scratch, Found: f.found,
	}
	if f.found != nil {
		return gpu.Design(o)
	}
	d, err := gpu.Design(o) // what is wrong with the command line goes before what the host lacks
	if err != nil {
		return d, err
	}
	lacks := gpu.Lacks(f.host)
	if lacks != nil && !f.dryRun {
		return d, lacks
	}
	if lacks != nil {
		d.Plan.Notes = append(d.Plan.Notes, "this host cannot run it: "+lacks.Error())
	}
	return d, nil
}

// orAsItLies gives a directory as an image as it lies, where this host lets nobody make one
// of it (device nodes, as in a container): programs can be started from it directly, and
// from nothing else.
func orAsItLies(
	images func(context.Context, workload.Source) (image.Image, error),
) func(context.Context, workload.Source) (image.Image, error) {
	return func(ctx context.Context, src workload.Source) (image.Image, error) {
		img, err := images(ctx, src)
		if is[*image.Missing](err) && src.Rootfs != "" {
			return image.Image{
				Name:     filepath.Base(src.Rootfs),
				Root:     src.Rootfs,
				Warnings: []string{"used as it is: " + err.Error()},
			}, nil
		}
		return img, err
	}
}

// withDirect resolves platforms, and that which starts programs directly.
func (f *gpuFlags) withDirect(resolve func(string) (platform.Platform, error)) func(string) (platform.Platform, error) {
	return func(name string) (platform.Platform, error) {
		if name == gpu.Direct {
			libraries := ""
			if f.found != nil {
				libraries = f.found.Libraries
			}
			return gpu.NewDirect(libraries), nil
		}
		return resolve(name)
	}
}

// prepare finds the device, has the programs built, and tries them on every platform.
func (f *gpuFlags) prepare(ctx context.Context, m *measuring, _ *studyHost) (func() error, error) {
	if len(f.asked.Subjects) == 0 { // a run that is resumed has had no design yet
		var err error
		if f.asked, err = f.options(f.cmd); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(m.dir, gpu.Name)
	if err := file.Private(dir); err != nil {
		return nil, err
	}
	// Else each program would wait for the driver to initialize the device, and to let it go.
	release := func() error { return nil }
	if inventory, err := f.host.Read(); err == nil {
		release = f.host.Hold(inventory)
	}
	f.scratch = scratchIn(m.dir, m.session.Ledger)
	m.session.Platforms = f.withDirect(m.session.Platforms)
	m.lab.Platforms = m.session.Platforms
	looking := gpu.Looking{
		Host: f.host, Dir: dir, Programs: f.programs, Names: f.asked.Subjects,
		Probe: f.asked.Probe, Torch: f.asked.Torch, Progress: m.progress.note,
	}
	for _, b := range f.asked.Builds {
		looking.Kinds = append(looking.Kinds, programs.Kind(b))
	}
	found, err := gpu.Look(ctx, looking)
	if err != nil {
		return release, err
	}
	m.lab.Image = orAsItLies(m.lab.Image)
	img, err := m.lab.Image(ctx, workload.Source{Rootfs: found.Root})
	if err != nil {
		return release, err
	}
	name := func() string { return platform.Unique("gpu-try") }
	m.progress.note("trying the device on every platform")
	if err := found.Try(ctx, f.asked.Platforms, f.asked.GPU, m.session.Platforms, img, name); err != nil {
		return release, err
	}
	f.found = found
	return release, nil
}

// scratchIn makes directories for trials below a state directory. Each is in the ledger
// before it is made, as an instance's is, so that tare clean finds what a crash left.
func scratchIn(
	stateDir string,
	ledger platform.Ledger,
) func(ctx context.Context, name string) (string, func() error, error) {
	return func(ctx context.Context, name string) (string, func() error, error) {
		trials, dir, err := rootfs.Place(stateDir, name)
		if err != nil {
			return "", nil, err
		}
		things := held.New(ledger)
		err = things.Take(ctx, platform.Entry{Platform: gpu.Bare, Kind: held.Directory, ID: dir}, func() error {
			return os.Mkdir(dir, 0o755)
		}, func(context.Context) error { return rootfs.Remove(trials, dir) })
		if err != nil {
			return "", nil, err
		}
		return dir, func() error { return things.Drop(context.WithoutCancel(ctx)) }, nil
	}
}
