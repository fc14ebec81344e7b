package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tare/record"
	"tare/report"
	"tare/study/platforms"
)

func (a *app) predictPlatform() *cobra.Command {
	var sizes []string
	cmd := &cobra.Command{
		Use:   "platform [RUN]",
		Short: "Predict what a platform costs at sizes that were not measured",
		Long: `Platform predicts the time of a run's programs on each platform, relative to bare metal,
on numbers of CPUs that were not measured. It measures nothing. RUN is a run of
tare platforms with four sizes or more (default: the newest). Where the store has a
ladder of the same program (tare weigh PROGRAM --ladder), it predicts the cost of each
level of isolation at these sizes too.`,
		Example: `  tare platforms --workload ffmpeg --cpus 0.5,1,1.5,2
  tare predict platform --cpus 0.75,1.25`,
		Args:              atMostArgs(1),
		ValidArgsFunction: a.completeRuns,
	}
	cmd.Flags().StringSliceVar(&sizes, "cpus", nil, "numbers of CPUs, such as 0.75,1.25 (default: between those measured)")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		var cpus []float64
		for _, text := range sizes {
			n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil || !(n >= 0.001 && n <= 1<<20) {
				return usageError("--cpus %s: want numbers of CPUs, 0.001 or more", text)
			}
			if !slices.Contains(cpus, n) {
				cpus = append(cpus, n)
			}
		}
		run, ladders, err := a.ofPlatforms(args)
		if err != nil {
			return err
		}
		answer, tables, err := platforms.Predict(run, ladders, cpus)
		if err != nil {
			return err
		}
		opt := report.TerminalOptions{Width: terminalWidth(a.out), Color: isTerminal(a.out)}
		return report.Calculation(a.out, answer, platforms.PredictionAssumes, tables, opt)
	}
	return cmd
}

// ofPlatforms is the run that is predicted from, and the ladders in the store, the newest first.
func (a *app) ofPlatforms(args []string) (run record.Run, ladders []record.Run, err error) {
	store, err := a.openStore()
	if err != nil {
		return run, nil, err
	}
	defer store.Close()
	runs, err := store.Runs()
	if err != nil {
		return run, nil, err
	}
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	for _, r := range runs {
		switch {
		case r.Status != record.Complete:
		case r.Study == platforms.Name && name == "":
			name = r.ID
		case r.Plan.Ladder:
			ladder, err := store.Run(r.ID)
			if err != nil {
				return run, nil, err
			}
			ladders = append(ladders, ladder)
		}
	}
	if name == "" {
		return run, nil, usageError("there is no run to predict from: run tare platforms --workload ffmpeg --cpus 0.5,1,1.5,2")
	}
	run, err = store.Run(name)
	return run, ladders, err
}
