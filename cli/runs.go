package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tare/cli/command"
	"tare/lab"
	"tare/record"
	"tare/study/kit"
	"tare/terminal"
)

func (a *app) runs() *cobra.Command {
	var jsonPath string
	cmd := &cobra.Command{
		Use:     "runs",
		Short:   "List what has been measured",
		Example: "  tare runs\n  tare runs prune --older-than 720h --keep 10",
		Args:    command.ExactArgs(0),
		RunE: func(*cobra.Command, []string) error {
			store, err := a.openStore()
			if err != nil {
				return err
			}
			defer store.Close()
			runs, err := store.Runs()
			if err != nil {
				return err
			}
			if jsonPath != "" {
				return a.emitJSON(jsonPath, runList(runs))
			}
			if len(runs) == 0 {
				terminal.Fprintln(a.out, "nothing has been measured yet: start with tare weigh redis --quick")
				return nil
			}
			measuring := lab.Measuring(lab.LockPath)
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			terminal.Fprintf(w, "RUN\tSTARTED\tTOOK\tSTATUS\tCONDITIONS\n")
			for _, r := range runs {
				took := "-"
				if !r.Finished.IsZero() {
					took = kit.Exact(r.Took().Round(time.Second))
				}
				status := string(r.Status)
				if r.Status == record.Running && !measuring {
					status = "killed"
				}
				terminal.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.ID, r.Started.Local().Format("2006-01-02 15:04"), took, status, summary(r))
			}
			return w.Flush()
		},
	}
	cmd.Flags().StringVar(&jsonPath, "json", "", "write the list as JSON to this file (- for standard output)")
	cmd.AddCommand(a.prune())
	return cmd
}

// listedRun is a run in `tare runs --json`.
type listedRun struct {
	Run        string        `json:"run"`
	Study      string        `json:"study"`
	Status     record.Status `json:"status"`
	Reason     string        `json:"reason,omitempty"`
	Started    time.Time     `json:"started"`
	Finished   *time.Time    `json:"finished"`
	Conditions []string      `json:"conditions"`
}

func runList(runs []record.Run) []listedRun {
	list := make([]listedRun, 0, len(runs))
	for _, r := range runs {
		l := listedRun{Run: r.ID, Study: r.Study, Status: r.Status, Reason: r.Reason, Started: r.Started}
		if !r.Finished.IsZero() {
			l.Finished = &r.Finished
		}
		for _, c := range r.Conditions {
			l.Conditions = append(l.Conditions, c.ID)
		}
		list = append(list, l)
	}
	return list
}

// summary says what a run compared: "redis x 3, stream x 2"; of many cells of one
// program their number: "redis in 180 cells x 3".
func summary(r record.Run) string {
	if text, ok := cellSummary(r); ok {
		return text
	}
	var text string
	for i := 0; i < len(r.Conditions); {
		w := r.Conditions[i].Workload
		n := 0
		for i < len(r.Conditions) && r.Conditions[i].Workload == w {
			n++
			i++
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s x %d", w, n)
	}
	return text
}

// cellSummary sums up a run that has more than a few cells.
func cellSummary(r record.Run) (string, bool) {
	const few = 4
	var programs []string
	cells := map[string]map[string]int{} // conditions, by program and cell
	workloads := 0
	for _, c := range r.Conditions {
		program := workloadName(c.Workload)
		if cells[program] == nil {
			cells[program] = map[string]int{}
			programs = append(programs, program)
		}
		if cells[program][c.Workload]++; cells[program][c.Workload] == 1 {
			workloads++
		}
	}
	if workloads <= few {
		return "", false
	}
	var parts []string
	for _, program := range programs {
		most := 0
		for _, n := range cells[program] {
			most = max(most, n)
		}
		if len(cells[program]) == 1 {
			parts = append(parts, fmt.Sprintf("%s x %d", program, most))
			continue
		}
		parts = append(parts, fmt.Sprintf("%s in %d cells x %d", program, len(cells[program]), most))
	}
	return strings.Join(parts, ", "), true
}

func (a *app) prune() *cobra.Command {
	var older time.Duration
	var keep int
	var dry bool
	cmd := &cobra.Command{
		Use:     "prune",
		Short:   "Delete old runs from the store",
		Example: "  tare runs prune --older-than 720h --keep 10 --dry-run",
		Args:    command.ExactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("older-than") && !cmd.Flags().Changed("keep") {
				return usageError("runs prune: say which runs: --older-than DURATION, --keep N, or both")
			}
			if older < 0 || keep < 0 {
				return usageError("runs prune: --older-than and --keep are not negative")
			}
			dir, err := a.stateDir()
			if err != nil {
				return err
			}
			if os.Geteuid() == 0 && !dry {
				// The names of pages to remove come from the store.
				if err := trustworthy(dir); err != nil {
					return err
				}
			}
			store, err := record.Open(filepath.Join(dir, storeFile))
			if err != nil {
				return err
			}
			defer store.Close()
			gone, err := store.Prune(older, keep, dry)
			if err != nil {
				return err
			}
			verb := "deleted"
			if dry {
				verb = "would delete"
			}
			for _, id := range gone {
				terminal.Fprintln(a.out, verb, id)
				if page := filepath.Join(dir, "reports", id+".html"); !dry {
					if err := os.Remove(page); err != nil && !errors.Is(err, os.ErrNotExist) {
						return err
					}
				}
			}
			if len(gone) == 0 {
				terminal.Fprintln(a.out, "nothing to delete")
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&older, "older-than", 0, "only runs that started longer ago than this, such as 720h")
	cmd.Flags().IntVar(&keep, "keep", 0, "keep the newest N in any case")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be deleted, and delete nothing")
	return cmd
}
