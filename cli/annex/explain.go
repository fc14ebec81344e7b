package annex

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tare/annex/control"
	"tare/cli/command"
	"tare/terminal"
)

func explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "explain CONTAINER",
		Short:   "Why a container's memory left or came back",
		Example: "  annex explain web-1",
		Args:    command.ExactArgs(1),
	}
	asJSON := jsonFlag(cmd, "the explanation")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if strings.TrimSpace(args[0]) == "" {
			return command.UsageError("%s wants a container's name or id: annex status lists them", cmd.CommandPath())
		}
		return ask(cmd, func(ctx context.Context, c *control.Client) error {
			e, err := c.Explain(ctx, args[0])
			if err != nil {
				return err
			}
			if *asJSON {
				return command.WriteJSON(cmd.OutOrStdout(), e)
			}
			printExplanation(cmd.OutOrStdout(), e)
			return nil
		})
	}
	return cmd
}

func printExplanation(out io.Writer, e control.Explanation) {
	c := e.Context
	terminal.Fprintf(out, "%s (%s, %s): %s resident, %s extended, share %s\n",
		c.Name, c.Class, c.State, sizeText(c.ResidentBytes), sizeText(c.ExtendedBytes), sizeText(c.ShareBytes))
	if c.Problem != "" {
		terminal.Fprintln(out, c.Problem)
	}
	if n := c.Next; n != nil {
		terminal.Fprintf(
			out,
			"expected to wake in %s (%s to %s)\n",
			spanText(seconds(n.LikelySeconds)),
			spanText(seconds(n.EarliestSeconds)),
			spanText(seconds(n.LatestSeconds)),
		)
	}
	for _, s := range e.Sentences {
		terminal.Fprintln(out, s)
	}
	if a := c.Activity; a != nil {
		terminal.Fprintf(out, "woke %s for work; waited for %s\n", times(a.Activations), plural(a.DemandPages, "page"))
		if a.Probes > 0 {
			terminal.Fprintf(out, "woke %s more, which was taken for health probes: it used less CPU time than activity.probe_cpu, and fewer pages than activity.probe_pages\n", times(a.Probes))
		}
	}
	if len(c.Predictors) > 0 {
		terminal.Fprintf(out, "\n%-10s %9s %7s %6s %7s  %s\n", "PREDICTOR", "PRECISION", "RECALL", "LEAD", "TOLD", "STATE")
		for _, p := range c.Predictors {
			state := "silent: below its threshold"
			if p.On {
				state = "listened to"
			}
			if p.Predictions == 0 {
				if p.On {
					state = "has said nothing yet"
				}
				terminal.Fprintf(out, "%-10s %9s %7s %6s %7d  %s\n", p.Kind, "-", "-", "-", 0, state)
				continue
			}
			precision, recall := p.PrecisionShare, p.RecallShare
			terminal.Fprintf(
				out,
				"%-10s %9s %7s %6s %7d  %s\n",
				p.Kind,
				shareText(&precision),
				shareText(&recall),
				spanText(seconds(p.LeadSeconds)),
				p.Predictions,
				state,
			)
		}
	}
	if len(e.Decisions) == 0 {
		terminal.Fprintf(out, "\nnothing was decided about it yet\n")
		return
	}
	terminal.Fprintf(out, "\n%-8s  %-5s  %-9s  %6s  %6s  %6s\n", "AT", "WHAT", "WHY", "ASKED", "MOVED", "TOOK")
	for _, d := range e.Decisions {
		line := fmt.Sprintf("%-8s  %-5s  %-9s  %6d  %6d  %6s", d.At.Local().Format("15:04:05"), d.Op, d.Why, d.Asked, d.Moved, spanText(seconds(d.Seconds)))
		for _, more := range []string{d.Detail, d.Problem} {
			if more != "" {
				line += "  " + more
			}
		}
		if d.Observed {
			line += "  (observed: nothing moved)"
		}
		terminal.Fprintln(out, line)
	}
}
