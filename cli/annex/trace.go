package annex

import (
	"bufio"
	"errors"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"tare/annex/trace"
	"tare/cli/command"
)

func traceCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "trace FILE",
		Short: "Print an access trace as text, one event a line",
		Long: `trace prints what annex record wrote. A trace that was cut is printed up to the cut, which
is then the error. docs/annex-trace.md has the format.`,
		Example: "  annex trace web.trace | head",
		Args:    command.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, done, err := openTrace(args[0])
			if err != nil {
				return err
			}
			defer done()
			return trace.Text(cmd.OutOrStdout(), from)
		},
	}
}

// openTrace begins to read a trace; done closes the file.
func openTrace(path string) (from trace.Source, done func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, command.UsageError("%s: %v: annex record writes a trace", path, reasonOf(err))
	}
	r, err := trace.NewReader(bufio.NewReader(f))
	if err != nil {
		f.Close()
		var cut *trace.Cut
		if errors.Is(err, trace.ErrFormat) || errors.As(err, &cut) || errors.Is(err, syscall.EISDIR) {
			return nil, nil, command.UsageError("%s: %v", path, reasonOf(err))
		}
		return nil, nil, err
	}
	return r, func() { f.Close() }, nil
}

// reasonOf is what is wrong with a file, without the file, which whoever tells it names.
func reasonOf(err error) error {
	if at := new(os.PathError); errors.As(err, &at) {
		return at.Err
	}
	return err
}
