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
			for _, d := range list {
				if len(args) == 0 {
					terminal.Fprintf(a.out, "%-11s %s\n", d.Name, d.Summary)
					continue
				}
				terminal.Fprintf(a.out, "%s: %s\n\nparameters (--param NAME=VALUE, --vary NAME=A,B):\n", d.Name, d.Summary)
				for _, p := range d.Params {
					terminal.Fprintf(a.out, "  %-12s %-22s %s\n", p.Name, p.Default, p.Doc)
				}
				terminal.Fprintf(a.out, "\nmetrics (with the default parameters):\n")
				for _, m := range d.Metrics {
					primary := ""
					if m.Primary {
						primary = ", primary"
					}
					terminal.Fprintf(a.out, "  %-12s %-12s %s is better%s: %s\n", m.Name, m.Unit, m.Better, primary, m.Doc)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&jsonPath, "json", "", "write the list as JSON to this file (- for standard output)")
	return cmd
}

// workloadDoc is a workload in `tare workloads --json`.
type workloadDoc struct {
	Name    string            `json:"name"`
	Summary string            `json:"summary"`
	Params  []workload.Param  `json:"params"`
	Metrics []workload.Metric `json:"metrics"`
}

func describe(w workload.Workload) (workloadDoc, error) {
	p, err := workload.Resolve(w, nil)
	if err != nil {
		return workloadDoc{}, err
	}
	return workloadDoc{w.Name(), w.Summary(), w.Params(), w.Metrics(p)}, nil
}
