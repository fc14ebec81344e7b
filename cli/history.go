package cli

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"tare/overhead"
	"tare/record"
	"tare/report"
)

// compareHistory finds the changes in several runs: those that are named, or with all that of
// the one that is named and of all that are comparable with it.
func (a *app) compareHistory(names []string, all bool, failAbove float64, jsonPath string) error {
	pasts, leftOut, err := a.pasts(names, all)
	if err != nil {
		return err
	}
	h, err := overhead.NewHistory(pasts, failAbove)
	if err != nil {
		return withCode(exitUsage, err)
	}
	if failAbove > 0 && h.Unjudged != "" {
		return usageError("no verdict: %s", h.Unjudged)
	}
	screen := a.out
	if jsonPath == "-" {
		screen = a.err
	}
	if jsonPath != "" {
		if err := a.emitJSON(jsonPath, historyDocument(h, leftOut)); err != nil {
			return err
		}
	}
	opt := report.TerminalOptions{Width: terminalWidth(screen), Color: isTerminal(screen)}
	if err := report.HistoryTerminal(screen, h, leftOut, opt); err != nil {
		return err
	}
	return thresholdError(h.Threshold, historyDecider(h))
}

// pasts reads the runs of a history. leftOut has a line for each that is not comparable.
func (a *app) pasts(names []string, all bool) (pasts []overhead.Past, leftOut []string, err error) {
	store, err := a.openStore()
	if err != nil {
		return nil, nil, err
	}
	defer store.Close()
	if !all {
		named := map[string]bool{}
		for _, name := range names {
			run, err := store.Run(name)
			if err != nil {
				return nil, nil, err
			}
			if named[run.ID] {
				return nil, nil, usageError("compare: %s is named twice", run.ID)
			}
			named[run.ID] = true
			pasts = append(pasts, overhead.NewPast(run))
		}
		return pasts, nil, nil
	}
	with, err := store.Run(names[0])
	if err != nil {
		return nil, nil, err
	}
	if with.Status == record.Imported {
		return overhead.Repetitions(with), nil, nil
	}
	if why := overhead.Incomparable(with, with); why != "" {
		return nil, nil, usageError("--history %s: %s; name a run that is complete", with.ID, why)
	}
	runs, err := store.Runs()
	if err != nil {
		return nil, nil, err
	}
	slices.Reverse(runs)
	for _, run := range runs {
		if !overhead.Related(run, with) {
			continue
		}
		if why := overhead.Incomparable(run, with); why != "" {
			leftOut = append(leftOut, run.ID+": "+why)
			continue
		}
		if run, err = store.Run(run.ID); err != nil {
			return nil, nil, err
		}
		pasts = append(pasts, overhead.NewPast(run))
	}
	return pasts, leftOut, nil
}

// historyDecider says what would decide an inconclusive history.
func historyDecider(h overhead.History) string {
	for _, s := range h.Series {
		if s.Withheld != "" {
			return withheld(s.Metric, s.Condition, s.Withheld)
		}
	}
	return "measure more runs, or each for longer"
}

// manyRuns are the arguments of compare.
func manyRuns(history *bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case *history && len(args) != 1:
			return usageError("compare --history takes one run, to which the others are compared: " +
				"tare compare --history RUN")
		case !*history && len(args) < 2:
			return usageError("compare takes two runs, OLD and NEW, or more: %s", cmd.UseLine())
		}
		return nil
	}
}

// A historyJSON is what `tare compare --json` writes of a history. Effects are ratios to the
// baseline (1.02 is 2 % more), or levels in the metric's unit where against is empty; null where
// there is none. Runs are places in runs.
type historyJSON struct {
	Schema    string              `json:"schema"`
	Runs      []historyRunJSON    `json:"runs"`
	FailAbove float64             `json:"fail_above"` // 0 where there is no threshold
	Status    overhead.Status     `json:"status"`
	Series    []historySeriesJSON `json:"series"`
	Changes   []historyChangeJSON `json:"changes"`
	LeftOut   []string            `json:"left_out"`
	Warnings  []string            `json:"warnings"`
}

type historyRunJSON struct {
	Run     string     `json:"run"`
	Started *time.Time `json:"started"` // null for a repetition of an imported run
}

type historySeriesJSON struct {
	Workload       string               `json:"workload"`
	Condition      string               `json:"condition"`
	Metric         string               `json:"metric"`
	Unit           string               `json:"unit"`
	HigherIsBetter bool                 `json:"higher_is_better"`
	Against        string               `json:"against"`
	Points         []historyPointJSON   `json:"points"`
	Segments       []historySegmentJSON `json:"segments"`
	Percent        *float64             `json:"percent"` // newest segment against the oldest, positive where worse
	Low            *float64             `json:"low"`
	High           *float64             `json:"high"`
	Status         overhead.Status      `json:"status"`
	Withheld       string               `json:"withheld"`
}

type historyPointJSON struct {
	Run       int      `json:"run"`
	Effect    *float64 `json:"effect"`
	Low       *float64 `json:"low"`
	High      *float64 `json:"high"`
	Level     *float64 `json:"level"`
	BaseLevel *float64 `json:"base_level"`
}

type historySegmentJSON struct {
	First  int      `json:"first"`
	Last   int      `json:"last"`
	Effect *float64 `json:"effect"`
	Low    *float64 `json:"low"`
	High   *float64 `json:"high"`
	// Of the change that it begins with, percent positive where worse.
	ChangePercent *float64 `json:"change_percent"`
	ChangeLow     *float64 `json:"change_low"`
	ChangeHigh    *float64 `json:"change_high"`
	P             *float64 `json:"p"`
}

type historyChangeJSON struct {
	Before      int      `json:"before"`
	After       int      `json:"after"`
	Series      []int    `json:"series"`
	Differences []string `json:"differences"`
}

func historyDocument(h overhead.History, leftOut []string) historyJSON {
	d := historyJSON{Schema: "tare-history/1", FailAbove: h.Threshold.FailAbove, Status: h.Threshold.Status,
		Changes: []historyChangeJSON{}, LeftOut: leftOut, Warnings: h.Warnings}
	for _, r := range h.Runs {
		run := historyRunJSON{Run: r.ID}
		if !h.Imported {
			run.Started = &r.Started
		}
		d.Runs = append(d.Runs, run)
	}
	for _, s := range h.Series {
		one := historySeriesJSON{Workload: s.Workload, Condition: s.Condition, Metric: s.Metric, Unit: s.Unit,
			HigherIsBetter: s.HigherIsBetter, Against: s.Against, Percent: number(s.Percent),
			Low: number(s.PercentLow), High: number(s.PercentHigh), Status: s.Status, Withheld: s.Withheld}
		for _, p := range s.Points {
			one.Points = append(
				one.Points,
				historyPointJSON{p.Run, number(p.Effect.Value), number(p.Effect.Interval.Low),
					number(p.Effect.Interval.High), number(p.Level), number(p.BaseLevel)},
			)
		}
		for i, g := range s.Segments {
			segment := historySegmentJSON{First: g.First, Last: g.Last, Effect: number(g.Effect.Value),
				Low: number(g.Effect.Interval.Low), High: number(g.Effect.Interval.High), P: number(g.P)}
			if i > 0 {
				segment.ChangePercent = number(g.Percent)
				segment.ChangeLow, segment.ChangeHigh = number(g.PercentLow), number(g.PercentHigh)
			}
			one.Segments = append(one.Segments, segment)
		}
		d.Series = append(d.Series, one)
	}
	for _, c := range h.Changes {
		d.Changes = append(d.Changes, historyChangeJSON{c.Before, c.After, c.Series, c.Differences})
	}
	return d
}
