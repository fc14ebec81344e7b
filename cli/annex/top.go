package annex

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tare/annex/control"
	"tare/cli/command"
	"tare/terminal"
)

func topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "The same as status, live: q or Ctrl-C leaves",
		Long: `top shows the status anew each interval: of each context its class and state, what is
resident and extended (in swap), the share of memory that it is to have, when it is
expected to wake, how often what it wanted had been brought before, its pressure, and the
reason of the last request. Narrow screens have fewer columns. Elsewhere than on a
terminal it prints one status.`,
		Example: "  annex top\n  annex top --interval 200ms\n  annex top --json | jq .memory.free_bytes",
		Args:    command.ExactArgs(0),
	}
	every := cmd.Flags().Duration("interval", time.Second, "how often")
	asJSON := jsonFlag(cmd, "a status each interval, a line each,")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *every < 50*time.Millisecond || *every > time.Hour {
			return command.UsageError("--interval %v: want 50ms to 1h", *every)
		}
		return ask(cmd, func(ctx context.Context, c *control.Client) error {
			switch _, live := terminal.Behind(cmd.OutOrStdout()); {
			case *asJSON:
				return streamed(ctx, c.Top(ctx, *every, func(s control.Status) error {
					return jsonLine(cmd.OutOrStdout(), s)
				}))
			case !live:
				s, err := c.Status(ctx)
				if err != nil {
					return err
				}
				printStatus(cmd, s)
				return nil
			}
			return live(ctx, c, *every, cmd.OutOrStdout())
		})
	}
	return cmd
}

func jsonLine(w io.Writer, s control.Status) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(s)
}

// streamed is how a stream ended: that its reader left is no failure.
func streamed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil, errors.Is(err, errDone), errors.Is(err, syscall.EPIPE):
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("annexd ended")
	}
	return err
}

// live is top on a terminal.
func live(ctx context.Context, c *control.Client, every time.Duration, out io.Writer) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	statuses := make(chan control.Status)
	ended := make(chan error, 1)
	go func() {
		defer close(statuses)
		ended <- c.Top(ctx, every, func(s control.Status) error {
			select {
			case statuses <- s:
				return nil
			case <-ctx.Done():
				return errDone
			}
		})
	}()
	if err := terminal.Show(ctx, leave, out, statuses, screenOf); err != nil {
		return err
	}
	return streamed(ctx, <-ended)
}

// screenOf is a status as a screen.
func screenOf(s control.Status, width, height int) []terminal.Row {
	lines := summary(s)
	// The table gets two lines in three at least.
	if most := max(1, height/3); len(lines) > most {
		lines = shorten(lines, len(s.Warnings), most)
	}
	lines = append(lines, "")
	return terminal.Rows(append(lines, contextTable(s.Contexts, width, max(2, height-len(lines)-1))...))
}

// shorten is the first of a summary's lines. Warnings, which end it, are counted where they
// do not show.
func shorten(lines []string, warnings, most int) []string {
	kept := slices.Clone(lines[:most])
	if warnings == 0 {
		return kept
	}
	hidden := plural(int64(min(warnings, len(lines)-most+1)), "warning")
	if most == 1 {
		return []string{hidden + "; " + lines[0]}
	}
	kept[most-1] = hidden + ": annex status tells"
	return kept
}
