package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/cli/command"
	"tare/study/imported"
	"tare/study/weigh"
)

func (a *app) resume() *cobra.Command {
	var out, json string
	var budget time.Duration
	cmd := &cobra.Command{
		Use:               "resume RUN",
		Short:             "Finish a run that was interrupted",
		Long:              "Resume goes on with a run that was stopped, or killed, with the orders that its seed\ndetermines. A time budget counts anew; --budget gives another one. A block that was\nbegun is finished. RUN is an id, its beginning, or latest.",
		Example:           "  tare resume latest\n  tare resume latest --budget 10m",
		Args:              command.ExactArgs(1),
		ValidArgsFunction: a.completeRuns,
	}
	cmd.Flags().DurationVar(&budget, "budget", 0, "time for what is left to measure (default: the run's own)")
	cmd.Flags().StringVar(&out, "out", "", "directory for the HTML report (default: reports/ in the state directory)")
	cmd.Flags().StringVar(&json, "json", "", "write the result as JSON to this file (- for standard output)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given := cmd.Flags().Changed("budget")
		if given && budget < time.Second {
			return usageError("--budget %v: want at least 1s", budget)
		}
		dir, err := a.stateDir()
		if err != nil {
			return err
		}
		run, err := a.run(args)
		if err != nil {
			return err
		}
		if run.Study == imported.Name {
			return usageError("run %s was imported: it was measured elsewhere and cannot be resumed; import more files of it as a run of its own", run.ID)
		}
		commands := commandsOf(run.Study)
		if len(commands) == 0 || len(run.Command) == 0 {
			return usageError("run %s is not one that can be resumed (study %s)", run.ID, run.Study)
		}
		if given {
			run.Plan.Budget = budget
		}
		return a.resumeSub(cmd.Context(), commands, dir, run, out, json)
	}
	return cmd
}

// commandsOf are the commands of a study, by the name that a run has of it.
func commandsOf(study string) []subStudied {
	if study == weigh.Name {
		return []subStudied{weighCommand}
	}
	return studies()[study].commands
}

// withoutHome takes the state directory off a command line: it is every
// command's flag and none's own, and whoever resumes says it anew.
func withoutHome(args []string) []string { return without(args, "--home") }

// without takes flags off a command line, each with its value.
func without(args []string, flags ...string) []string {
	var rest []string
	for i := 0; i < len(args); i++ {
		name, _, hasValue := strings.Cut(args[i], "=")
		if !strings.HasPrefix(name, "--") && len(name) > 2 {
			name, hasValue = name[:2], true // -nVALUE
		}
		switch {
		case args[i] == "--":
			return append(rest, args[i:]...)
		case !slices.Contains(flags, name):
			rest = append(rest, args[i])
		case !hasValue:
			i++ // and its value
		}
	}
	return rest
}

// storedArguments takes the program and the command's name off a stored command
// line.
func storedArguments(a *app, stored []string, command string) ([]string, error) {
	root := (&app{out: a.out, err: a.err}).root()
	found, rest, err := root.Find(stored[1:])
	if err != nil {
		return nil, err
	}
	if found.Name() != command {
		return nil, fmt.Errorf("it is a %q command", found.Name())
	}
	return withoutHome(rest), nil
}
