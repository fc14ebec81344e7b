package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/cli/command"
	"tare/container"
	"tare/study/diagnose"
	"tare/terminal"
)

func (a *app) explainFinding() *cobra.Command {
	f := &diagnoseFlags{}
	cmd := &cobra.Command{
		Use:   "explain CONTAINER/FINDING",
		Short: "Look again, and show what one finding rests on",
		Long: `Explain looks again, as diagnose --all does, and shows one finding: its counters, how
its cost is computed and from which source, when it is not reported, what to set, and the
command that shows more. CONTAINER/FINDING is as diagnose --json and --evidence name it.`,
		Example: "  tare diagnose explain web/throttled\n  tare diagnose explain web/noisy-neighbour:batch --for 30s",
		Args:    command.AtMostArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError("name a finding, as in web/throttled: tare diagnose --evidence lists them")
			}
			name, _, ok := diagnose.OfID(args[0])
			if !ok {
				return usageError("%s is no finding: want CONTAINER/FINDING, with one of %s", args[0], strings.Join(diagnose.Kinds(), ", "))
			}
			f.one = args[0]
			return a.runDiagnose(cmd, f, []string{name})
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.DurationVar(&f.span, "for", 10*time.Second, "how long to watch")
	flags.StringVar(&f.json, "json", "", "write the result as JSON to this file (- for standard output)")
	return cmd
}

// subjects finds the containers to diagnose. To explain a finding it finds all containers, since what
// one pays may depend on the others.
func (f *diagnoseFlags) subjects(ctx context.Context, names []string) (
	all []container.Container, notes []string, isNamed bool, err error,
) {
	if f.one != "" {
		all, notes, err = foundRunning(ctx, true, nil, nil)
		if err == nil && slices.ContainsFunc(all, func(c container.Container) bool { return c.Name == names[0] }) {
			return all, notes, false, nil
		}
	}
	all, notes, err = foundRunning(ctx, f.all, names, nil)
	if unknown := new(container.Unknown); errors.As(err, &unknown) {
		if _, _, isFinding := diagnose.OfID(unknown.Name); isFinding {
			err = fmt.Errorf("%w; it reads as a finding: tare diagnose explain %s", err, terminal.Shell(unknown.Name))
		}
	}
	return all, notes, !f.all, err
}
