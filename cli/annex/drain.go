package annex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/annex/config"
	"tare/annex/control"
	"tare/cli/command"
	"tare/terminal"
)

func drainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Bring everything back into memory, and evict no more",
		Long: `drain brings back what is in swap, as far as it fits with the headroom kept, and waits
until it has. Ctrl-C leaves it going on. Nothing is evicted again until annex reload. Where
not everything fits, drain has not done what it is for, and fails.`,
		Example: "  annex drain\n  annex drain --rate 50MiB/s",
		Args:    command.ExactArgs(0),
	}
	rate := cmd.Flags().String("rate", "", "at most so much a second, such as 50MiB/s (default as fast as it can be read)")
	detach := cmd.Flags().Bool("detach", false, "begin, and do not wait")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		bytes, err := rateOf(*rate)
		if err != nil {
			return err
		}
		return ask(cmd, func(ctx context.Context, c *control.Client) error {
			if err := c.Drain(ctx, bytes); err != nil {
				return err
			}
			if *detach {
				return begun(cmd)
			}
			d, state, err := await(ctx, c, cmd.ErrOrStderr(), control.Drained, control.Off)
			if err != nil {
				return err
			}
			off := ""
			if state == control.Off {
				off = "; annexd is off, as somebody has said annex off meanwhile"
			}
			if d.LeftBytes > 0 {
				return fmt.Errorf("%s came back, %s did not: %s%s", sizeText(d.ReturnedBytes), sizeText(d.LeftBytes), whyLeft(d), off)
			}
			terminal.Fprintf(cmd.OutOrStdout(), "everything is back in memory: %s%s; annex reload manages again\n", sizeText(d.ReturnedBytes), off)
			return nil
		})
	}
	return cmd
}

func offCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "off",
		Short: "Bring everything back that fits, and put every setting back to what it was",
		Long: `off drains, puts back every setting that annexd changed (unless someone else has changed
it since), and waits until that is done. What does not fit stays in swap, where its
programs find it as any other: off says how much that is, and has done what it is for all
the same. The daemon stays, and does nothing until annex reload.`,
		Args: command.ExactArgs(0),
	}
	detach := cmd.Flags().Bool("detach", false, "begin, and do not wait")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return ask(cmd, func(ctx context.Context, c *control.Client) error {
			if err := c.Off(ctx); err != nil {
				return err
			}
			if *detach {
				return begun(cmd)
			}
			d, _, err := await(ctx, c, cmd.ErrOrStderr(), control.Off)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			terminal.Fprintf(out, "off: %s came back, every setting is as it was found\n", sizeText(d.ReturnedBytes))
			if d.LeftBytes > 0 {
				terminal.Fprintf(out, "%s stay in swap: %s\n", sizeText(d.LeftBytes), whyLeft(d))
			}
			return nil
		})
	}
	return cmd
}

func reloadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Read the configuration anew, and manage again after drain or off",
		Long: `reload has annexd read its configuration anew, and says what is in force. One with errors
is refused, and the one in force stays.`,
		Args: command.ExactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(cmd, func(ctx context.Context, c *control.Client) error {
				restart, err := c.Reload(ctx)
				var invalid *config.Invalid
				if errors.As(err, &invalid) && len(invalid.Problems) > 0 {
					return printed(cmd, invalid)
				}
				if err != nil {
					return err
				}
				s, err := c.Status(ctx)
				if err != nil {
					return err
				}
				text := "in force: mode " + s.Mode
				if len(restart) > 0 {
					text += ", but for " + strings.Join(restart, ", ") + ", which takes a new start (systemctl restart annexd, or end it and run annexd again)"
				}
				terminal.Fprintln(cmd.OutOrStdout(), text)
				return nil
			})
		},
	}
}

func rateOf(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	size, ok := strings.CutSuffix(text, "/s")
	bytes, err := config.ParseSize(size)
	if !ok || err != nil || bytes <= 0 {
		return 0, command.UsageError("--rate %s: want a size a second, such as 50MiB/s", text)
	}
	return bytes, nil
}

// begun tells of what is not waited for.
func begun(cmd *cobra.Command) error {
	_, err := terminal.Fprintln(cmd.OutOrStdout(), "begun: it goes on, annex status tells how far it is")
	return err
}

func whyLeft(d control.Drain) string {
	if d.Problem != "" {
		return d.Problem
	}
	return "it does not fit: end a container, or add memory"
}

// errDone ends a stream of statuses that has told all.
var errDone = errors.New("done")

// await follows a drain until the daemon is in one of some states, and tells in which.
func await(
	ctx context.Context,
	c *control.Client,
	errOut io.Writer,
	until ...control.State,
) (last control.Drain, state control.State, err error) {
	width, _, live := terminal.Size(errOut)
	drawn := false
	defer func() {
		if drawn {
			terminal.Overwrite(errOut, "", 0)
		}
	}()
	err = c.Top(ctx, 250*time.Millisecond, func(s control.Status) error {
		if s.Drain != nil {
			last = *s.Drain
		}
		state = s.State
		switch {
		case slices.Contains(until, state):
			return errDone
		case state == control.Ending:
			return io.EOF
		case state != control.Draining:
			return fmt.Errorf("annexd is %s again, as somebody has said annex reload meanwhile: %s", state, drainText(last))
		case live:
			terminal.Overwrite(errOut, drainText(last), width)
			drawn = true
		}
		return nil
	})
	switch {
	case errors.Is(err, errDone):
		return last, state, nil
	case ctx.Err() != nil:
		return last, state, errors.New("not waited for any longer: it goes on, annex status tells how far it is")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return last, state, errors.New("annexd ended meanwhile: what is in swap stays there, and is read when it is used")
	}
	return last, state, err
}
