// Package cli is tare's command line: one file a command, which parses its
// flags, calls the packages below, and prints. It decides nothing about
// measuring.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"tare/claim"
	"tare/cli/command"
	"tare/container"
	"tare/image"
	"tare/kernel/file"
	"tare/lab"
	"tare/platform"
	"tare/platform/agent"
	"tare/platform/box"
	"tare/platform/docker"
	"tare/platform/k8s"
	"tare/platform/vm"
	"tare/probe"
	"tare/record"
	"tare/record/foreign"
	"tare/study/density"
	"tare/study/gpu"
	"tare/study/kit"
	"tare/study/pages"
	"tare/study/platforms"
	"tare/study/startup"
	"tare/study/weigh"
	"tare/terminal"
	"tare/workload"
)

// Exit codes, the same for every command.
const (
	exitSuccess      = command.Success
	exitFailure      = command.Failure
	exitUsage        = command.Usage
	exitHost         = command.Host
	exitThreshold    = command.Threshold
	exitInconclusive = command.Inconclusive
)

func versionText() string { return command.Version() }

// codedError is an error that knows its exit code.
type codedError = command.Coded

func withCode(code int, err error) error { return command.WithCode(code, err) }

// usageError is of a command line that says what it cannot.
func usageError(format string, args ...any) error { return command.UsageError(format, args...) }

// Main runs one command line and returns the exit code.
func Main(args []string) int {
	ctx, stop := withSignals(context.Background())
	defer stop()
	return run(ctx, args, os.Stdout, os.Stderr)
}

// run is Main with its surroundings handed in.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	stdout, stderr := terminal.To(out), terminal.To(errOut)
	app := &app{out: stdout, err: stderr, args: args}
	return command.RunTo(ctx, app.root(), args, stdout, stderr, exitCode)
}

// exitCode maps an error's type to the code that scripts read.
func exitCode(err error) int {
	if err == nil {
		return exitSuccess
	}
	var coded *codedError
	if errors.As(err, &coded) {
		return coded.Code
	}
	for _, t := range []struct {
		is   bool
		code int
	}{
		{is[*kit.Usage](err), exitUsage},
		{is[*probe.Missing](err), exitHost},
		{is[*workload.Unknown](err), exitUsage},
		{is[*lab.UnknownPlatform](err), exitUsage},
		{is[*lab.Elsewhere](err), exitUsage},
		{is[*vm.BadName](err), exitUsage},
		{is[*lab.Unfit](err), exitUsage},
		{is[*file.Exposed](err), exitUsage},
		{is[*record.NotFound](err), exitUsage},
		{is[*record.Ambiguous](err), exitUsage},
		{is[*claim.Unknown](err), exitUsage},
		{is[*foreign.Wanted](err), exitUsage},
		{is[*foreign.Malformed](err), exitUsage},
		{is[*container.Unknown](err), exitUsage},
		{is[*container.Ambiguous](err), exitUsage},
		{is[*container.Twice](err), exitUsage},
		{is[*platform.Missing](err), exitHost},
		{is[*box.Invalid](err), exitUsage},
		{is[*agent.Mismatch](err), exitHost},
		{is[*platform.Unsupported](err), exitHost},
		{is[*docker.UnknownImage](err), exitUsage},
		{is[*image.Refused](err), exitUsage},
		{is[*image.Missing](err), exitHost},
		{is[*lab.Busy](err), exitHost},
	} {
		if t.is {
			return t.code
		}
	}
	return exitFailure
}

func is[T error](err error) bool {
	var t T
	return errors.As(err, &t)
}

// app is one invocation.
type app struct {
	out, err io.Writer
	args     []string
	home     string // --home
	part     bool   // one step of a command that shows all at its end: no table while it runs

	elsewhere      Elsewhere         // carries studies out in place of this machine; nil: this machine does
	elsewhereFlags []string          // which are not passed on
	files          map[string]string // of workloads that are carried out elsewhere: their texts, by name
	of             *record.Part      // the part of a study over several nodes that is measured; nil of others
	services       []k8s.Service     // for pods of that part
}

// Command is the command line, for what is made from it.
func Command() *cobra.Command { return (&app{}).root() }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tare",
		Short: "Weigh what a container costs the program inside it",
		Long: `tare weighs what a container costs the program inside it: on this machine, against
bare metal or another setting. It runs the program under each condition side by
side, and gives each change with an interval and a verdict.`,
		Example: "  tare weigh redis --quick\n  tare weigh --rootfs /srv/app --platform bare,docker -- /bin/app --once",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.overview(cmd.Context()) },
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		homes := []string{os.Getenv("TARE_HOME"), "/var/lib/tare"}
		if os.Geteuid() != 0 {
			homes = append(homes, os.Getenv("HOME"))
		}
		return command.Ready(cmd, args, homes...)
	}
	root.PersistentFlags().StringVar(&a.home, "home", "", "state directory (default: $TARE_HOME, or /var/lib/tare for root, or ~/.local/share/tare; an ordinary user who has none reads root's)")
	root.AddCommand(
		a.study(weigh.Name, weighCommand),
		a.study(startup.Name, startupCommand),
		a.study(pages.Name, pagesCommand),
		a.study(pages.Name, faultsCommand),
		a.latency(),
		a.io(),
		a.study(platforms.Name, platformsCommand),
		a.study(density.Name, densityCommand),
		a.study(gpu.Name, gpuCommand),
		a.predict(),
		a.resume(),
		a.show(),
		a.runs(),
		a.export(),
		a.importing(),
		a.compare(),
		a.clean(),
		a.doctor(),
		a.workloads(),
		a.claims(),
		a.diagnose(),
		a.advise(),
		a.reproduce(),
		a.place(),
		a.causes(),
	)
	arrange(root)
	return root
}

// stateDir is where runs, images and ledgers lie. Root takes none in which another user could write or replace what
// lies there: what a store, a ledger or a journal there says, root carries out.
func (a *app) stateDir() (string, error) {
	dir, err := a.namedStateDir()
	if err != nil || !command.IsHostsRoot() {
		return dir, err
	}
	if err := guarded(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return dir, nil
}

func (a *app) namedStateDir() (string, error) {
	if a.home != "" {
		return filepath.Abs(a.home)
	}
	if env := os.Getenv("TARE_HOME"); env != "" {
		return filepath.Abs(env)
	}
	if os.Geteuid() == 0 {
		return "/var/lib/tare", nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no state directory: %w; set TARE_HOME", err)
	}
	own := filepath.Join(home, ".local", "share", "tare")
	// What root has measured, others may read.
	if _, err := os.Stat(filepath.Join(own, storeFile)); err != nil {
		if _, err := os.Stat(filepath.Join("/var/lib/tare", storeFile)); err == nil {
			return "/var/lib/tare", nil
		}
	}
	return own, nil
}

const storeFile = "tare.db"

// openStore opens the store for reading.
func (a *app) openStore() (*record.Store, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, storeFile)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, withCode(exitFailure, fmt.Errorf("nothing has been measured yet (no store at %s): start with tare weigh redis --quick", path))
	}
	store, err := record.OpenReadOnly(path)
	if is[*record.Older](err) || is[*record.Unsettled](err) {
		// What an older tare wrote, or a killed one left half-written, is put
		// right by whoever may write it.
		if writable, werr := record.Open(path); werr == nil {
			return writable, nil
		}
	}
	return store, err
}
