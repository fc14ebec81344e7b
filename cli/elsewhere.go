package cli

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare/cli/command"
	"tare/lab"
	"tare/platform"
	"tare/study/density"
	"tare/study/kit"
	"tare/study/platforms"
	"tare/study/startup"
	"tare/study/weigh"
)

// Elsewhere carries studies out on other machines, in place of this one.
type Elsewhere interface {
	// Flags adds its own flags to a command line. Each takes a value.
	Flags(*pflag.FlagSet)
	// Least is the least that each of the machines has. What cannot be designed for that is refused.
	Least(ctx context.Context) (cpus int, memory int64, err error)
	// Carry carries a study out whose command line was read without a fault.
	Carry(ctx context.Context, s Study) error
}

// Study is a study for other machines.
type Study struct {
	ID   string   // joins the runs of all machines
	Args []string // its command line, without the program's name and what is for this machine
	Dir  string   // this machine's state directory
}

// StorePath is where the runs lie below a state directory.
func StorePath(dir string) string { return filepath.Join(dir, storeFile) }

// ElsewhereCommand is a command line of the studies alone, which others carry out. StateDir gives
// this machine's state directory to further commands.
func ElsewhereCommand(name string, args []string, e Elsewhere) (root *cobra.Command, stateDir func() (string, error)) {
	a := &app{elsewhere: e, args: args}
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
		root.AddCommand(study)
	}
	return root, a.stateDir
}

// studyElsewhere is the study of a command line that was read.
func (a *app) studyElsewhere(id, dir string) Study {
	return Study{ID: id, Args: without(a.args[1:], a.elsewhereFlags...), Dir: dir}
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
		Memory: memory, Platform: lab.Remover(dir),
		Check: func(platform.Platform) error { return nil }, // each machine looks for itself
	}}
	for cpu := range cpus {
		host.CPUs = append(host.CPUs, cpu)
	}
	return host, nil
}

// ExitCode maps an error's type to the code that scripts read.
func ExitCode(err error) int { return exitCode(err) }
