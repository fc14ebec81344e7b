// Package command is what our command lines have in common: exit codes, errors of one line,
// flags that say what they take, the version. It knows no command.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare/kernel/mount"
	"tare/terminal"
)

// Exit codes, the same for every command.
const (
	Success      = 0
	Failure      = 1
	Usage        = 2
	Host         = 3 // the host lacks what was asked
	Threshold    = 4 // a threshold that the user set is exceeded
	Inconclusive = 5 // inconclusive against it
)

// version is set when a program is linked.
var version = ""

// Version is the program's.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// Coded is an error that knows its exit code.
type Coded struct {
	Code int
	Err  error
}

func (c *Coded) Error() string { return c.Err.Error() }
func (c *Coded) Unwrap() error { return c.Err }

// WithCode is an error with an exit code.
func WithCode(code int, err error) error { return &Coded{code, err} }

// UsageError is of a command line that says what it cannot.
func UsageError(format string, args ...any) error {
	return &Coded{Usage, fmt.Errorf(format, args...)}
}

// Main runs a command line, with the codes of errors that know none of themselves, and
// returns the exit code. The first signal ends the context.
func Main(root *cobra.Command, args []string, code func(error) int) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return Run(ctx, root, args, os.Stdout, os.Stderr, code)
}

// Run is Main with its surroundings handed in.
func Run(ctx context.Context, root *cobra.Command, args []string, out, errOut io.Writer, code func(error) int) int {
	return RunTo(ctx, root, args, terminal.To(out), terminal.To(errOut), code)
}

// RunTo is Run with the outputs that the command itself prints to.
func RunTo(
	ctx context.Context,
	root *cobra.Command,
	args []string,
	stdout, stderr *terminal.Output,
	code func(error) int,
) int {
	log.SetOutput(io.Discard) // to which net/http prints what is odd about a server's answers
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Version = Version()
	root.SetVersionTemplate(root.Name() + " {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &Coded{Usage, FlagError(cmd, err)} })
	if root.PersistentPreRunE == nil {
		root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error { return Ready(cmd, args) }
	}
	rest, whole := wholeHelp(args[1:])
	root.SetHelpFunc(help(whole))
	root.SetArgs(rest)
	defer func() { _ = stderr.End() }()
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = stdout.End()
	}
	if err == nil {
		return Success
	}
	terminal.Fprintf(stderr, "%s: %s%s\n", root.Name(), err, usedUp(err))
	var coded *Coded
	switch {
	case errors.As(err, &coded):
		return coded.Code
	case strings.HasPrefix(err.Error(), "unknown command"):
		return Usage // cobra has no type for it
	}
	return code(err)
}

// Ready refuses a command line that has a path whose file system does not answer, in place of waiting
// for it for ever; and further paths. What lies behind -- is a program's own. It refuses to begin where
// too few files can be opened or threads made, too. For root it leaves out of PATH what others could write.
func Ready(cmd *cobra.Command, args []string, paths ...string) error {
	if err := room(); err != nil {
		return err
	}
	if at := cmd.ArgsLenAtDash(); at >= 0 {
		args = args[:at]
	}
	texts := slices.Clone(args)
	cmd.Flags().VisitAll(func(f *pflag.Flag) { texts = append(texts, f.Value.String()) })
	paths = append(paths, ".")
	for _, text := range texts {
		for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("[],:= ", r) }) {
			if strings.Contains(part, "/") {
				paths = append(paths, part)
			}
		}
	}
	for _, path := range paths {
		if err := mount.Answers(cmd.Context(), path, mount.Patience); err != nil {
			return WithCode(Host, err)
		}
	}
	ownPath(cmd.Context(), cmd.ErrOrStderr())
	return nil
}

// ExactArgs refuses a wrong number of arguments as a usage error, with the command's own
// form.
func ExactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return UsageError("%s takes %s, not %d: %s", cmd.CommandPath(), arguments(n), len(args), cmd.UseLine())
		}
		return nil
	}
}

// AtMostArgs is as [ExactArgs], for arguments that may be left out.
func AtMostArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return UsageError("%s takes at most %s, not %d: %s", cmd.CommandPath(), arguments(n), len(args), cmd.UseLine())
		}
		return nil
	}
}

func arguments(n int) string {
	if n == 1 {
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", n)
}

// WriteJSON writes v for people and programs.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
