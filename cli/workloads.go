package cli

import (
	"github.com/spf13/cobra"

	"tare/terminal"
	"tare/workload"
)

func (a *app) workloads() *cobra.Command {
	var jsonPath string
	cmd := &cobra.Command{
		Use:     "workloads [NAME]",
		Short:   "List the workloads, or one with its parameters and metrics",
		Example: "  tare workloads\n  tare workloads redis",
		Args:    atMostArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			all := workload.All()
			if len(args) == 1 {
				w, err := workload.Lookup(args[0])
				if err != nil {
					return err
				}
				all = []workload.Workload{w}
			}
			var list []workloadDoc
			for _, w := range all {
				d, err := describe(w)
				if err != nil {
					return err
				}
				list = append(list, d)
			}
			if jsonPath != "" {
				return a.emitJSON(jsonPath, list)
			}
			widest := 0
			for _, d := range list {
				widest = max(widest, terminal.Columns(d.Name))
			}
			for _, d := range list {
				if len(args) == 0 {
					a.hanging(terminal.Fit(d.Name, widest, false)+" ", d.Summary)
					continue
				}
				terminal.Fprintf(a.out, "%s: %s\n\nparameters (--param NAME=VALUE, --vary NAME=A,B):\n", d.Name, d.Summary)
				for _, p := range d.Params {
					terminal.Fprintf(a.out, "  %-12s %-22s %s\n", p.Name, p.Default, p.Doc)
				}
				if len(d.RoundMetrics) > 0 {
					a.listMetrics("metrics in rounds of slices", d.RoundMetrics)
					a.listMetrics("metrics in blocks", d.Metrics)
				} else {
					a.listMetrics("metrics", d.Metrics)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&jsonPath, "json", "", "write the list as JSON to this file (- for standard output)")
	return cmd
}

func (a *app) listMetrics(title string, metrics []workload.Metric) {
	terminal.Fprintf(a.out, "\n%s (with the default parameters):\n", title)
	for _, m := range metrics {
		primary := ""
		if m.Primary {
			primary = ", primary"
		}
		terminal.Fprintf(a.out, "  %-12s %-12s %s is better%s: %s\n", m.Name, m.Unit, m.Better, primary, m.Doc)
	}
}

// workloadDoc is a workload in `tare workloads --json`.
type workloadDoc struct {
	Name    string            `json:"name"`
	Summary string            `json:"summary"`
	Params  []workload.Param  `json:"params"`
	Metrics []workload.Metric `json:"metrics"`
	// RoundMetrics are those of rounds of slices, where its load can be sliced.
	RoundMetrics []workload.Metric `json:"round_metrics,omitempty"`
}

func describe(w workload.Workload) (workloadDoc, error) {
	p, err := workload.Resolve(w, nil)
	if err != nil {
		return workloadDoc{}, err
	}
	doc := workloadDoc{Name: w.Name(), Summary: w.Summary(), Params: w.Params(), Metrics: w.Metrics(p)}
	if sliced, ok := w.(workload.Sliced); ok {
		doc.RoundMetrics = sliced.SliceMetrics(p)
	}
	return doc, nil
}
