// Package annex is the memory extension's command line: it asks the daemon, and prints.
package annex

import (
	"context"
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"tare/annex/bound"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/media"
	"tare/cli/command"
	"tare/container"
	"tare/probe"
)

// Main runs one command line and returns the exit code.
func Main(args []string) int {
	return command.Main(root(), args, exitCode)
}

// exitCode maps an error's type to the code that scripts read.
func exitCode(err error) int {
	for _, t := range []struct {
		is   bool
		code int
	}{
		{is[*control.Absent](err), command.Host},
		{is[*control.Denied](err), command.Host},
		{is[*control.Stranger](err), command.Host},
		{is[*control.Mismatch](err), command.Host},
		{is[*bound.Claimed](err), command.Host},
		{is[*probe.Missing](err), command.Host},
		{errors.Is(err, media.ErrNoMedium), command.Host},
		{is[*control.Unknown](err), command.Usage},
		{is[*container.Unknown](err), command.Usage},
		{is[*container.Ambiguous](err), command.Usage},
		{is[*container.Ended](err), command.Usage},
		{is[*container.Twice](err), command.Usage},
		{is[*config.Invalid](err), command.Usage},
		{errors.Is(err, fs.ErrNotExist), command.Usage},
	} {
		if t.is {
			return t.code
		}
	}
	return command.Failure
}

func is[T error](err error) bool {
	var t T
	return errors.As(err, &t)
}

// socketFlag is --socket, of every command that asks the daemon.
const socketFlag = "socket"

// Command is the command line, for what is made from it.
func Command() *cobra.Command { return root() }

func root() *cobra.Command {
	root := &cobra.Command{
		Use:   "annex",
		Short: "Extend memory: what annexd does with containers' memory, and why",
		Long: `annex asks annexd, which lets a host hold more containers than its memory does: it
moves the memory of those that sleep to swap, and brings it back before they wake.`,
		Example: `  annex status
  annex top
  annex explain web-1
  mkdir -p /etc/annex && annex config --example > /etc/annex/annex.toml
  annex drain --rate 50MiB/s`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().String(socketFlag, "", "the daemon's socket (default that of "+config.Path+", else "+config.Socket+")")
	root.AddCommand(
		statusCommand(),
		topCommand(),
		explainCommand(),
		drainCommand(),
		offCommand(),
		reloadCommand(),
		configCommand(),
		recordCommand(),
		traceCommand(),
		simulateCommand(),
	)
	return root
}

// ask opens a client for f.
func ask(cmd *cobra.Command, f func(ctx context.Context, c *control.Client) error) error {
	path := socket(cmd)
	if len(path) > config.LongestSocket {
		return command.UsageError("--socket: a path of %d bytes, and the address of a Unix socket has %d at most", len(path), config.LongestSocket)
	}
	c := control.Dial(path)
	defer c.Close()
	ctx := cmd.Context()
	err := f(ctx, c)
	// The cause is the signal, where there was one.
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return errors.New("stopped by the user before annexd had answered")
	}
	return err
}

// socket is the daemon's: the one that is named, or that its configuration names. A
// configuration that cannot be read says nothing: the daemon may run by an older one.
func socket(cmd *cobra.Command) string {
	if named, _ := cmd.Flags().GetString(socketFlag); named != "" {
		return named
	}
	if c, err := config.Load(config.Path); err == nil {
		return c.Control.Socket
	}
	return config.Socket
}

func jsonFlag(cmd *cobra.Command, what string) *bool {
	return cmd.Flags().Bool("json", false, "print "+what+" as JSON")
}
