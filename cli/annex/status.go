package annex

import (
	"context"

	"github.com/spf13/cobra"

	"tare/annex/control"
	"tare/cli/command"
	"tare/terminal"
)

func statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "How it stands: memory, swap, brake, every container",
		Example: "  annex status\n  annex status --json | jq '.contexts[] | select(.state == \"fixed\") | .name, .problem'",
		Args:    command.ExactArgs(0),
	}
	asJSON := jsonFlag(cmd, "the status")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return ask(cmd, func(ctx context.Context, c *control.Client) error {
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			if *asJSON {
				return command.WriteJSON(cmd.OutOrStdout(), s)
			}
			printStatus(cmd, s)
			return nil
		})
	}
	return cmd
}

func printStatus(cmd *cobra.Command, s control.Status) {
	out := cmd.OutOrStdout()
	for _, line := range summary(s) {
		terminal.Fprintln(out, line)
	}
	terminal.Fprintln(out)
	for _, line := range contextTable(s.Contexts, widthOf(out), 0) {
		terminal.Fprintln(out, line)
	}
	for _, c := range s.Contexts {
		if c.Problem != "" {
			terminal.Fprintf(out, "%s: %s\n", c.Name, c.Problem)
		}
	}
}
