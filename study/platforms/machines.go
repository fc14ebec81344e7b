package platforms

import (
	"slices"
	"strconv"
	"strings"

	"tare/lab"
	"tare/record"
	"tare/report"
)

// machinesPart is how long the machines took to boot, until their agents answered. The trial
// that a machine was booted for has the figures.
func (r reading) machinesPart() []report.Part {
	t := report.Table{
		Title: "Boot time of virtual machines",
		Note: "Ready: when the agent answers. Machines are kept from trial to trial, so this is in no figure above. " +
			"Clock: how far the guest's clock is ahead of the host's at that moment.",
		Columns: []report.Column{
			{Head: "booted for"}, {Head: "ready, s", Number: true}, {Head: "phases, s"}, {Head: "clock, ms", Number: true},
		},
	}
	labels := map[string]string{}
	for _, c := range r.Run.Conditions {
		labels[c.ID] = c.Workload + ", " + c.Label
	}
	for _, trial := range r.Run.Trials {
		ready, booted := trial.Covariates[lab.BootReady]
		if !booted {
			continue
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: labels[trial.Condition]}, report.Measured(ready), {Text: phasesOf(trial)},
			report.Measured(1000 * trial.Covariates[lab.BootClock]),
		})
	}
	return report.Filled(t)
}

// phasesOf lists the phases of a boot in their order: "engine 0.11, kernel 1.98".
func phasesOf(trial record.Trial) string {
	type phase struct {
		at   int
		text string
	}
	var phases []phase
	for name, took := range trial.Covariates {
		order, word, ok := strings.Cut(strings.TrimPrefix(name, lab.BootCovariate), "/")
		if at, err := strconv.Atoi(order); ok && err == nil && strings.HasPrefix(name, lab.BootCovariate) {
			phases = append(phases, phase{at, word + " " + strconv.FormatFloat(took, 'f', 2, 64)})
		}
	}
	slices.SortFunc(phases, func(a, b phase) int { return a.at - b.at })
	texts := make([]string, len(phases))
	for i, p := range phases {
		texts[i] = p.text
	}
	return strings.Join(texts, ", ")
}
