package annex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

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

// live is top on a terminal: an alternate screen, keys as they are struck, and everything
// as it was when it is left, however that is.
func live(ctx context.Context, c *control.Client, every time.Duration, out io.Writer) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	if fd, ok := terminal.Behind(os.Stdin); ok {
		before, err := term.MakeRaw(fd)
		if err != nil {
			return fmt.Errorf("read keys: %w", err)
		}
		defer func() { _ = term.Restore(fd, before) }()
		go keys(os.Stdin, leave)
	}
	terminal.EnterScreen.Print(out)
	defer terminal.LeaveScreen.Print(out)

	statuses := make(chan control.Status)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Top(ctx, every, func(s control.Status) error {
			select {
			case statuses <- s:
				return nil
			case <-ctx.Done():
				return errDone
			}
		})
	}()
	var last *control.Status
	for {
		select {
		case s := <-statuses:
			last = &s
		case <-resized:
		case err := <-ended:
			return streamed(ctx, err)
		case <-ctx.Done():
			return nil
		}
		if last != nil {
			width, height, _ := sizeOf(out)
			_ = frame(*last, width, height).Print(out)
		}
	}
}

// frame draws a status over what was there, so that nothing flickers, and no line wraps.
func frame(s control.Status, width, height int) *terminal.Text {
	lines := summary(s)
	// The table gets two lines in three at least.
	if most := max(1, height/3); len(lines) > most {
		lines = shorten(lines, len(s.Warnings), most)
	}
	lines = append(lines, "")
	lines = append(lines, contextTable(s.Contexts, width, max(2, height-len(lines)-1))...)
	if len(lines) > height {
		lines = lines[:height]
	}
	screen := &terminal.Text{}
	screen.Control(terminal.Home)
	for i, line := range lines {
		if i > 0 {
			screen.Control(terminal.NextLine)
		}
		if columns(line) > width {
			line = fit(line, width, false)
		}
		screen.Words(terminal.Plain, line)
		// In the last column a terminal stands before its wrap: clearing there would take
		// the character itself.
		if columns(line) < width {
			screen.Control(terminal.ClearRight)
		}
	}
	if len(lines) < height {
		screen.Control(terminal.NextLine)
		screen.Control(terminal.ClearBelow)
	}
	return screen
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

// keys leaves when told to: q, Q, Ctrl-C, Ctrl-D, or that there are no more keys.
func keys(in io.Reader, leave func()) {
	defer leave()
	var key [16]byte
	for {
		n, err := in.Read(key[:])
		for _, k := range key[:n] {
			switch k {
			case 'q', 'Q', 3, 4:
				return
			}
		}
		if err != nil {
			return
		}
	}
}
