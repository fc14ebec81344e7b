package cli

import (
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"tare/overhead"
	"tare/report"
)

func (a *app) compare() *cobra.Command {
	var failAbove, drift, jsonPath string
	var history bool
	cmd := &cobra.Command{
		Use:   "compare OLD NEW | RUN RUN RUN... | --history RUN",
		Short: "Judge a new run against an old one, or find changes in many",
		Long: `Compare sets two runs side by side and judges the change of each primary metric
under each condition, the baseline included. The host may have changed between the
runs. --drift says by how much; each interval is widened by that before it is judged.
To find the value for your host, compare runs of the same version, made hours or days
apart, and take the largest change.

With --fail-above the exit code is for a pipeline: 0 if every interval lies at or below
that, 4 if one lies above it, 5 otherwise. A condition that fails in a larger share of its
trials than before does not pass. Below the drift only a clear improvement passes.
It is better to weigh both versions in one run, where no drift lies between them:
tare weigh --image OLD --image NEW --platform docker --fail-above 2% -- COMMAND

Of three runs or more it finds where the effect of each condition on each primary metric
changed, against the baseline of the same run, and what else changed there: kernel,
engine, image. --history RUN takes all runs on this host that have the conditions,
baseline and metrics of RUN, the oldest first. Of an imported run it takes the
repetitions. A change needs three runs: single runs that lie far off are none. With
--fail-above, 4 is that the newest segment is worse than the oldest by more than that.`,
		Example:           "  tare compare weigh-20260102 latest --fail-above 20%\n  tare compare --history latest --fail-above 5%",
		Args:              manyRuns(&history),
		ValidArgsFunction: a.completeRuns,
	}
	cmd.Flags().StringVar(&failAbove, "fail-above", "", "worsening that is not accepted, such as 20%")
	cmd.Flags().StringVar(&drift, "drift", fmt.Sprintf("%s%%", report.Rounded(100*overhead.DefaultDrift, 3)), "change of the host between the runs that is allowed for")
	cmd.Flags().BoolVar(&history, "history", false, "find changes in all runs that are comparable with RUN")
	cmd.Flags().StringVar(&jsonPath, "json", "", "write the comparison as JSON to this file (- for standard output)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var opt overhead.CompareOptions
		var err error
		if cmd.Flags().Changed("fail-above") {
			if opt.FailAbove, err = percent("fail-above", failAbove); err != nil {
				return err
			}
		}
		if history || len(args) > 2 {
			if cmd.Flags().Changed("drift") {
				return usageError("--drift is of two runs: a history compares effects, in which the host's drift cancels")
			}
			return a.compareHistory(args, history, opt.FailAbove, jsonPath)
		}
		if opt.Drift, err = percent("drift", drift); err != nil {
			return err
		}
		old, err := a.run(args[:1])
		if err != nil {
			return err
		}
		latest, err := a.run(args[1:])
		if err != nil {
			return err
		}
		if old.ID == latest.ID {
			return usageError("%s and %s are one run, %s: name two", args[0], args[1], old.ID)
		}
		c, err := overhead.Compare(old, latest, opt)
		var nothing *overhead.NothingInCommon
		if errors.As(err, &nothing) {
			return withCode(exitUsage, err)
		}
		if err != nil {
			return err
		}
		if opt.FailAbove > 0 && c.Unjudged != "" {
			return usageError("no verdict: %s", c.Unjudged)
		}
		screen := a.out
		if jsonPath == "-" {
			screen = a.err
		}
		if jsonPath != "" {
			if err := a.emitJSON(jsonPath, comparisonDocument(c)); err != nil {
				return err
			}
		}
		show := report.TerminalOptions{Width: terminalWidth(screen), Color: isTerminal(screen)}
		if c.Threshold.Status == overhead.Undecided {
			show.Next = a.again("tare weigh --image OLD --image NEW --platform docker --fail-above " + failAbove + " -- COMMAND")
		}
		if err := report.ComparisonTerminal(screen, c, show); err != nil {
			return err
		}
		return thresholdError(c.Threshold, decider(c))
	}
	return cmd
}

// decider says what would decide an inconclusive comparison.
func decider(c overhead.Comparison) string {
	if len(c.Missing) > 0 {
		return c.Missing[0] + "; measure both runs with the same conditions"
	}
	for _, r := range c.Rows {
		if r.Withheld != "" {
			return withheld(r.Metric, r.Condition, r.Withheld)
		}
		if r.Judged && !r.Change.Known() {
			return fmt.Sprintf("%s of %s has no interval; measure it again, with more blocks", r.Metric, r.Condition)
		}
	}
	return "weigh both versions in one run"
}

// comparedRow is a row of `tare compare --json`. Percent, positive where the new run
// is worse; null where there is none.
type comparedRow struct {
	Condition string           `json:"condition"`
	Metric    string           `json:"metric"`
	Unit      string           `json:"unit"`
	Percent   *float64         `json:"percent"`
	Low       *float64         `json:"low"`
	High      *float64         `json:"high"`
	DriftLow  *float64         `json:"drift_low"` // the interval widened by the drift
	DriftHigh *float64         `json:"drift_high"`
	Verdict   overhead.Verdict `json:"verdict"`
	Status    overhead.Status  `json:"status"`
	Withheld  string           `json:"withheld"` // why the status is not passed though the interval is
}

type comparedRuns struct {
	Schema    string          `json:"schema"`
	Old       string          `json:"old"`
	New       string          `json:"new"`
	Drift     float64         `json:"drift"`
	FailAbove float64         `json:"fail_above"` // 0 where there is no threshold
	Status    overhead.Status `json:"status"`
	Unjudged  string          `json:"unjudged"` // why there is no verdict
	Rows      []comparedRow   `json:"rows"`
	Missing   []string        `json:"missing"`
	Warnings  []string        `json:"warnings"`
}

func comparisonDocument(c overhead.Comparison) comparedRuns {
	d := comparedRuns{Schema: "tare-comparison/2", Old: c.Old, New: c.New, Drift: c.Drift, FailAbove: c.Threshold.FailAbove,
		Status: c.Threshold.Status, Unjudged: c.Unjudged, Missing: c.Missing, Warnings: c.Warnings}
	for _, r := range c.Rows {
		d.Rows = append(
			d.Rows,
			comparedRow{r.Condition, r.Metric, r.Unit, number(r.Percent), number(r.PercentLow), number(r.PercentHigh),
				number(r.DriftLow), number(r.DriftHigh), r.Verdict, r.Status, r.Withheld},
		)
	}
	return d
}

// number keeps what JSON cannot say out of it.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
