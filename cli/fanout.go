package cli

import (
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"tare/model/fanout"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// assumed is what every prediction of a fan-out rests on.
var assumed = []string{
	"a request makes its calls at once and waits for all; calls are slow independently of one another, and all alike.",
	"calls that are slow together make fewer requests slow (Dean and Barroso, The Tail at Scale, 2013).",
}

func (a *app) predictFanout() *cobra.Command {
	var slow, jsonPath string
	var calls int
	cmd := &cobra.Command{
		Use:   "fanout [RUN]",
		Short: "Predict the latency of requests that wait for many calls",
		Long: `Fanout predicts requests that make --calls calls at once and wait for all of them: how
many have a slow call, where --slow is the share of slow calls, or how a run's latencies
and the effects on them grow. It measures nothing, and takes calls for independent.
RUN is an id, its beginning, or latest (the default).`,
		Example: `  tare predict fanout --slow 1% --calls 100
  tare predict fanout latest --calls 100`,
		Args:              atMostArgs(1),
		ValidArgsFunction: a.completeRuns,
	}
	cmd.Flags().IntVar(&calls, "calls", 100, "calls that a request waits for, 2 to 1000000")
	cmd.Flags().StringVar(&slow, "slow", "", "share of calls that are slow, such as 1%, in place of a run")
	cmd.Flags().StringVar(&jsonPath, "json", "", "write the prediction as JSON to this file (- for standard output)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		const most = 1_000_000
		if calls < 2 || calls > most {
			return usageError("--calls %d: want 2 to %d", calls, most)
		}
		d := fanoutJSON{
			Schema:     "tare-fanout/1",
			Calls:      calls,
			DecidesP50: fanout.Decisive(0.5, calls),
			DecidesP99: fanout.Decisive(0.99, calls),
			Latencies:  []fanoutRowJSON{},
		}
		answer, tables := "", []report.Table(nil)
		if cmd.Flags().Changed("slow") {
			share, err := percent("slow", slow)
			switch {
			case err != nil:
				return err
			case len(args) > 0:
				return usageError("--slow is in place of a run: leave out one of them")
			}
			requests := fanout.SlowRequests(share, calls)
			d.SlowCalls, d.SlowRequests = &share, &requests
			answer = fmt.Sprintf("%s %% of slow calls make %s %% of requests slow that wait for %d calls. ",
				percentOf(share), percentOf(requests), calls) + decides(calls)
		} else {
			run, err := a.run(args)
			if err != nil {
				return err
			}
			if answer, tables = predictedFanout(run, calls, &d); len(tables) == 0 {
				return usageError("%s has no latencies of single requests: give a share by --slow, or a run of a service", run.ID)
			}
		}
		screen := a.out
		if jsonPath == "-" {
			screen = a.err
		}
		if jsonPath != "" {
			if err := a.emitJSON(jsonPath, d); err != nil {
				return err
			}
		}
		opt := report.TerminalOptions{Width: terminalWidth(screen), Color: isTerminal(screen)}
		return report.Calculation(screen, answer, assumed, tables, opt)
	}
	return cmd
}

// decides says which percentiles of a call decide a request's.
func decides(calls int) string {
	return fmt.Sprintf("The p%s of a call decides the p50 of such a request, and the p%s the p99.",
		percentOf(fanout.Decisive(0.5, calls)), percentOf(fanout.Decisive(0.99, calls)))
}

// percentOf writes a share in percent to three digits, counted from whichever end it is nearer.
func percentOf(share float64) string {
	v := 100 * share
	if v <= 0 || v >= 100 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := max(0, 2-int(math.Floor(math.Log10(min(v, 100-v)))))
	return strconv.FormatFloat(math.Round(v*math.Pow10(digits))/math.Pow10(digits), 'f', -1, 64)
}

// fewestBeyond is how many recorded calls lie above a percentile that is shown.
const fewestBeyond = 10

// predictedFanout predicts requests from the latencies of single calls in a run.
func predictedFanout(run record.Run, calls int, d *fanoutJSON) (answer string, tables []report.Table) {
	latencies := overhead.Latencies(run)
	for _, l := range latencies {
		for _, q := range fanoutQuantiles {
			t := report.Table{
				Title: fmt.Sprintf("%s %s, p%g of one call and of a request of %d calls", l.Workload, l.Name, 100*q, calls),
				Columns: []report.Column{{Head: "condition"}, {Head: "calls", Number: true},
					{Head: "decided by", Number: true}, {Head: l.Unit, Number: true}, {Head: "change, %", Number: true}},
			}
			for _, c := range l.Conditions {
				fanoutRow(l, c, q, 1, d, &t)
				fanoutRow(l, c, q, calls, d, &t)
			}
			tables = append(tables, t)
		}
	}
	return grownMost(latencies, calls) + decides(calls), tables
}

var fanoutQuantiles = []float64{0.5, 0.99}

// grownMost says which established effect on requests is the largest, and what it is on one call.
func grownMost(latencies []overhead.Latency, calls int) string {
	comparisons := 0
	for _, l := range latencies {
		comparisons += 2 * len(fanoutQuantiles) * (len(l.Conditions) - 1) // of one call and of many
	}
	if comparisons == 0 {
		return ""
	}
	text, largest := "No effect on such requests is established. ", 0.0
	for _, l := range latencies {
		l = l.Together(comparisons)
		for _, c := range l.Conditions {
			for _, q := range fanoutQuantiles {
				_, one, _ := l.Quantile(c.ID, q)
				_, many, beyond := l.Quantile(c.ID, fanout.Decisive(q, calls))
				grown := math.Abs(math.Log(many.Value))
				if beyond < fewestBeyond || !many.DiffersFrom(1) || !one.Known() || grown <= largest {
					continue
				}
				largest = grown
				text = fmt.Sprintf("%s changes the p%g of one call of %s %s by %s %%, and that of a request of %d calls by %s %% "+
					"(intervals hold for all %d comparisons together). ",
					c.Label, 100*q, l.Workload, l.Name, changeText(one), calls, changeText(many), comparisons)
			}
		}
	}
	return text
}

// fanoutRow adds the row of a condition for requests of so many calls.
func fanoutRow(l overhead.Latency, c record.Condition, q float64, calls int, d *fanoutJSON, t *report.Table) {
	at := fanout.Decisive(q, calls)
	value, ratio, beyond := l.Quantile(c.ID, at)
	if beyond < fewestBeyond {
		t.Note = fmt.Sprintf(
			"Not shown: percentiles above which fewer than %d calls were recorded. Measure for longer.", fewestBeyond)
		value, ratio = stats.Absent(value.Interval.Level), stats.Absent(value.Interval.Level)
	}
	change := report.Changed(ratio)
	if c.ID == l.Baseline() {
		change = report.Cell{Text: "baseline", Tone: report.Faint}
	}
	t.Rows = append(t.Rows, []report.Cell{
		{Text: c.Label}, {Text: strconv.Itoa(calls)}, {Text: "p" + percentOf(at)}, report.Estimated(value, 1), change,
	})
	d.Latencies = append(d.Latencies, fanoutRowJSON{
		l.Workload, l.Name, c.ID, l.Unit, q, calls, at, estimateOf(value), estimateOf(ratio),
	})
}

// changeText is a ratio as a change in percent in a sentence: "+2.1 (+1.0 to +3.2)".
func changeText(ratio stats.Estimate) string {
	c := report.Changed(ratio)
	return c.Text + " (" + c.Detail + ")"
}

// fanoutJSON is what `tare predict fanout --json` writes.
type fanoutJSON struct {
	Schema       string          `json:"schema"`
	Calls        int             `json:"calls"`
	SlowCalls    *float64        `json:"slow_calls"` // shares, 0 to 1; null where a run is given
	SlowRequests *float64        `json:"slow_requests"`
	DecidesP50   float64         `json:"decides_p50"` // quantile of a call that is the p50 of requests
	DecidesP99   float64         `json:"decides_p99"`
	Latencies    []fanoutRowJSON `json:"latencies"`
}

type fanoutRowJSON struct {
	Workload  string        `json:"workload"`
	Name      string        `json:"name"`
	Condition string        `json:"condition"`
	Unit      string        `json:"unit"`
	Quantile  float64       `json:"quantile"` // of requests of so many calls
	Calls     int           `json:"calls"`
	DecidedBy float64       `json:"decided_by"` // quantile of a call
	Value     *estimateJSON `json:"value"`
	Ratio     *estimateJSON `json:"ratio"` // to the baseline
}

type estimateJSON struct {
	Value *float64 `json:"value"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
}

// estimateOf is nil for what is absent.
func estimateOf(e stats.Estimate) *estimateJSON {
	if number(e.Value) == nil {
		return nil
	}
	return &estimateJSON{number(e.Value), number(e.Interval.Low), number(e.Interval.High)}
}
