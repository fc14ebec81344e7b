package annex

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"tare/annex/config"
	"tare/cli/command"
	"tare/terminal"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config [FILE]",
		Short: "Check a configuration, and print it with what it leaves to defaults",
		Example: `  annex config
  mkdir -p /etc/annex && annex config --example > /etc/annex/annex.toml
  annex config new.toml > /dev/null && cp new.toml /etc/annex/annex.toml && annex reload`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.UsageError("%s takes one file, not %d", cmd.CommandPath(), len(args))
			}
			return nil
		},
	}
	example := cmd.Flags().Bool("example", false, "print a documented file of the defaults instead")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out := cmd.OutOrStdout()
		if *example {
			if len(args) > 0 {
				return command.UsageError("--example reads no file: leave %s out", args[0])
			}
			_, err := io.WriteString(out, config.Example())
			return err
		}
		path := config.Path
		if len(args) > 0 {
			path = args[0]
		}
		c, err := config.Load(path)
		var invalid *config.Invalid
		if errors.As(err, &invalid) {
			return printed(cmd, invalid)
		}
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, c.String())
		return err
	}
	return cmd
}

// printed prints each problem on a line of its own, all but the last, which is left to whoever
// prints errors.
func printed(cmd *cobra.Command, invalid *config.Invalid) error {
	lines := invalid.Lines()
	last := len(lines) - 1
	for _, line := range lines[:last] {
		terminal.Fprintln(cmd.ErrOrStderr(), "annex: "+line)
	}
	return command.UsageError("%s", lines[last])
}
