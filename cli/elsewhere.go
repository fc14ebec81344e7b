package cli

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare/cli/command"
	"tare/lab"
	"tare/platform"
	"tare/platform/vm"
	"tare/study/density"
	"tare/study/kit"
	"tare/study/platforms"
	"tare/study/startup"
	"tare/study/weigh"
	"tare/workload"
)

// Elsewhere carries studies out on other machines, in place of this one.
type Elsewhere interface {
	// Flags adds its own flags to a command line. Each takes a value.
	Flags(*pflag.FlagSet)
	// Least is the least that each of the machines has. What cannot be designed for that is refused.
	Least(ctx context.Context) (cpus int, memory int64, err error)
	// Check refuses a study that Carry would refuse, and makes nothing.
	Check(ctx context.Context, s Study) error
	// StateDir is where each of the machines keeps images and results.
	StateDir() string
	// Carry carries a study out whose command line was read without a fault, and that was checked.
	Carry(ctx context.Context, s Study) error
}

// Study is a study for other machines.
type Study struct {
	ID   string   // joins the runs of all machines
	Args []string // its command line, without the program's name and what is for this machine
	Dir  string   // this machine's state directory
	// Files are those of workloads on the command line: their texts, by their names there.
	Files map[string]string
	// Images are references that the programs are of.
	Images []string
	// Services are how many pods are reached through a Service of each kind at once, at most, on each machine.
	Services     map[platform.Network]int
	ServicePorts int // how many ports such a pod has at most
}

// StorePath is where the runs lie below a state directory.
func StorePath(dir string) string { return filepath.Join(dir, storeFile) }

// ElsewhereCommand is a command line of the studies alone, which others carry out. StateDir gives
// this machine's state directory to further commands.
func ElsewhereCommand(name string, args []string, e Elsewhere) (root *cobra.Command, stateDir func() (string, error)) {
	a := &app{elsewhere: e, args: args, files: map[string]string{}}
	// Before the commands have them: to define flags sets their values back.
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	e.Flags(own)
	a.elsewhereFlags = []string{"--home"}
	own.VisitAll(func(f *pflag.Flag) {
		if a.elsewhereFlags = append(a.elsewhereFlags, "--"+f.Name); f.Shorthand != "" {
			a.elsewhereFlags = append(a.elsewhereFlags, "-"+f.Shorthand)
		}
	})
	root = &cobra.Command{Use: name}
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		a.out, a.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
		workload.Away = a.readFile
		return command.Ready(cmd, args)
	}
	root.PersistentFlags().StringVar(&a.home, "home", "", "state directory (default: $TARE_HOME, or /var/lib/tare for root, or ~/.local/share/tare)")
	for _, study := range []*cobra.Command{
		a.study(weigh.Name, weighCommand),
		a.study(startup.Name, startupCommand),
		a.latency(),
		a.io(),
		a.study(platforms.Name, platformsCommand),
		a.study(density.Name, densityCommand),
	} {
		e.Flags(study.PersistentFlags())
		hideForOne(study)
		root.AddCommand(study)
	}
	return root, a.stateDir
}

// forOne are flags that say something of one machine's run, and why.
var forOne = map[string]string{
	"out":            "the runs of nodes come into the store, and tare show writes their pages",
	"json":           "the runs of nodes come into the store, and tare export writes them",
	"fail-above":     "tare show has the verdict of each node",
	"from-container": "a container of Docker on this machine is on no other",
}

// refuseForOne refuses them on a command line for other machines.
func (a *app) refuseForOne(cmd *cobra.Command) error {
	if a.elsewhere == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(forOne)) {
		if cmd.Flags().Changed(name) {
			return usageError("--%s is for one machine: %s", name, forOne[name])
		}
	}
	return nil
}

// hideForOne takes them out of the help.
func hideForOne(cmd *cobra.Command) {
	for name := range forOne {
		if f := cmd.Flags().Lookup(name); f != nil {
			f.Hidden = true
		}
	}
	for _, sub := range cmd.Commands() {
		hideForOne(sub)
	}
}

// elsewherePlatform refuses what needs this machine's own files.
func elsewherePlatform(dir string) func(name string) (platform.Platform, error) {
	find := lab.Remover(dir)
	return func(name string) (platform.Platform, error) {
		if vm.Is(name) {
			return nil, &platform.Missing{What: name + ": virtual machines do not work on nodes", Mend: "run tare on the node itself"}
		}
		return find(name)
	}
}

// readFile reads a workload's file here, for the machines that need it.
func (a *app) readFile(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		a.files[path] = string(text)
	}
	return text, err
}

// studyElsewhere is the study of a command line that was read.
func (a *app) studyElsewhere(id, dir string, d lab.Design) Study {
	s := Study{ID: id, Args: without(a.args[1:], a.elsewhereFlags...), Files: a.files, Dir: dir}
	s.Services, s.ServicePorts = podServices(d)
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			for _, from := range append(slices.Clone(c.Further), c.Source) {
				if from.Image != "" && !slices.Contains(s.Images, from.Image) {
					s.Images = append(s.Images, from.Image)
				}
			}
		}
	}
	return s
}

// podServices are the Services that the pods of a design need at once. No key is there where none is needed.
func podServices(d lab.Design) (pods map[platform.Network]int, ports int) {
	const byLayer = 5 // the whole, and without each of the layers that leave the network as it is
	pods = map[platform.Network]int{}
	for _, g := range d.Groups { // one after the other
		of := map[platform.Network]int{}
		for _, c := range g.Conditions {
			n := c.Setting.Network
			if n != platform.NetworkClusterIP && n != platform.NetworkNodePort {
				continue
			}
			if of[n]++; c.Baseline && !g.Once {
				of[n]++
			}
			if program, err := c.Program.Program(c.Params); err == nil {
				ports = max(ports, len(program.Ports))
			}
		}
		for n, count := range of {
			if d.Explain != nil {
				count = max(count, byLayer)
			}
			pods[n] = max(pods[n], count)
		}
	}
	return pods, ports
}

// checkServices refuses pods behind Services that nobody makes, and studies that start more pods than conditions.
func (a *app) checkServices(study string, d lab.Design) error {
	switch services, _ := podServices(d); {
	case len(services) == 0:
		return nil
	case study != weigh.Name && study != platforms.Name:
		return usageError("pods of tare %s are not reached through Services: kubectl tare weigh compares the ways to a pod", study)
	case a.elsewhere == nil && a.of == nil:
		return usageError("a Service is made by the API server, which tare does not ask: kubectl tare %s --nodes SELECTOR ...", study)
	}
	return nil
}

// designHost is the host that a study is designed for.
func (a *app) designHost(ctx context.Context, dir string) (studyHost, error) {
	if a.elsewhere == nil {
		return studyHostFor(ctx, lab.Remover(dir))
	}
	cpus, memory, err := a.elsewhere.Least(ctx)
	if err != nil {
		return studyHost{}, err
	}
	host := studyHost{isElsewhere: true, online: cpus, Host: kit.Host{
		Memory: memory, Platform: elsewherePlatform(dir),
		Check: func(platform.Platform) error { return nil }, // each machine looks for itself
	}}
	for cpu := range cpus {
		host.CPUs = append(host.CPUs, cpu)
	}
	return host, nil
}

// ExitCode maps an error's type to the code that scripts read.
func ExitCode(err error) int { return exitCode(err) }
