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
	var failAbove, smallest, jsonPath string
	var raw bool
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Judge a new run against an old one",
		Long: `Compare sets two runs of the same conditions side by side. Each condition's
overhead against the baseline of its own run is compared, so that what slowed the
whole host between them cancels; --raw compares the values as measured.

With --fail-above the exit code tells a pipeline: 0 surely not worse than that,
4 surely worse, 5 the interval holds the threshold.`,
		Example:           "  tare compare weigh-20260102 latest --fail-above 5%",
		Args:              twoRuns,
		ValidArgsFunction: a.completeRuns,
	}
	cmd.Flags().StringVar(&failAbove, "fail-above", "", "worsening that is not accepted, such as 5%")
	cmd.Flags().StringVar(&smallest, "smallest-effect", "", "smallest effect of interest (default: the new run's)")
	cmd.Flags().BoolVar(&raw, "raw", false, "compare the values as measured, not the overheads")
	cmd.Flags().StringVar(&jsonPath, "json", "", "write the comparison as JSON to this file (- for standard output)")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		opt := overhead.CompareOptions{Raw: raw}
		if failAbove != "" {
			limit, err := percent("fail-above", failAbove)
			if err != nil {
				return err
			}
			opt.FailAbove = &limit
		}
		if smallest != "" {
			effect, err := percent("smallest-effect", smallest)
			if err != nil {
				return err
			}
			opt.SmallestEffect = effect
		}
		old, err := a.run(args[:1])
		if err != nil {
			return err
		}
		latest, err := a.run(args[1:])
		if err != nil {
			return err
		}
		c, err := overhead.Compare(old, latest, opt)
		var nothing *overhead.NothingInCommon
		if errors.As(err, &nothing) {
			return &codedError{exitUsage, err}
		}
		if err != nil {
			return err
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
		if err := report.ComparisonTerminal(screen, c, report.TerminalOptions{Width: terminalWidth(screen), Color: isTerminal(screen)}); err != nil {
			return err
		}
		switch c.Status {
		case overhead.Exceeded:
			return &codedError{exitThreshold, fmt.Errorf("worse by more than %s", failAbove)}
		case overhead.Undecided:
			return &codedError{exitInconclusive, fmt.Errorf("inconclusive against %s: more blocks would narrow the interval", failAbove)}
		}
		return nil
	}
	return cmd
}

func twoRuns(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return usageError("compare takes two runs, OLD and NEW: %s", cmd.UseLine())
	}
	return nil
}

// comparedRow is a row of `tare compare --json`. Ratios; null where there is none.
type comparedRow struct {
	Condition string           `json:"condition"`
	Metric    string           `json:"metric"`
	Unit      string           `json:"unit"`
	Basis     overhead.Basis   `json:"basis"`
	Percent   *float64         `json:"percent"`
	Low       *float64         `json:"low"`
	High      *float64         `json:"high"`
	Verdict   overhead.Verdict `json:"verdict"`
	Judged    bool             `json:"judged"`
}

type comparedRuns struct {
	Schema   string        `json:"schema"`
	Old      string        `json:"old"`
	New      string        `json:"new"`
	Status   int           `json:"status"`
	Rows     []comparedRow `json:"rows"`
	Warnings []string      `json:"warnings"`
}

func comparisonDocument(c overhead.Comparison) comparedRuns {
	d := comparedRuns{Schema: "tare-comparison/1", Old: c.Old, New: c.New, Status: int(c.Status), Warnings: c.Warnings}
	for _, r := range c.Rows {
		d.Rows = append(d.Rows, comparedRow{r.Condition, r.Metric, r.Unit, r.Basis, number(r.Percent), number(r.PercentLow), number(r.PercentHigh), r.Verdict, r.Judged})
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
