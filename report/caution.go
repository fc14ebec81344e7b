package report

import (
	"fmt"
	"slices"
	"strings"

	"tare/overhead"
	"tare/record"
)

// cautions gathers what a reader must know before the figures: that the run is
// not whole, that its host was disturbed, that a condition does not stand for
// what it is named after.
func cautions(run record.Run, rep overhead.Report) []string {
	var banners []string
	because := ""
	if run.Reason != "" {
		because = ": " + clean(run.Reason)
	}
	switch run.Status {
	case record.Interrupted:
		banners = append(banners, "interrupted: the run did not finish"+because+". What was measured stands; \"tare resume "+clean(run.ID)+"\" finishes it.")
	case record.Failed:
		banners = append(banners, "failed: nothing comparable was measured"+because+".")
	case record.Running:
		banners = append(banners, "not finished: the run is still going on, or was killed"+because+".")
	case record.Imported:
		banners = append(banners, "imported: measured elsewhere, not by tare on this host"+because+".")
	}
	for _, g := range rep.Groups {
		if n := g.StripsTainted; g.Rounds && n > 0 && float64(n) > manyStrips*float64(g.Strips) {
			text := "They are left out."
			if n == g.Strips {
				text = "The figures include them, and nothing is decided."
			}
			banners = append(banners, fmt.Sprintf("tainted: %s: %d of %d strips were disturbed from outside%s. %s",
				clean(g.Workload), n, g.Strips, taintText(run, g.Workload), text))
		}
		if g.Tainted > 0 {
			banners = append(banners, fmt.Sprintf("tainted: %s: %d of %d blocks were disturbed from outside%s. Repeating them did not help.",
				clean(g.Workload), g.Tainted, comparedBlocks(g)+g.Tainted, taintText(run, g.Workload)))
		}
	}
	return append(banners, unrepresentative(rep)...)
}

// manyStrips is the share of disturbed strips beyond which a banner names them.
const manyStrips = 0.25

// unrepresentative names conditions by their reason, each reason once.
func unrepresentative(rep overhead.Report) []string {
	byReason := map[string][]string{}
	var reasons []string
	named := map[string]bool{}
	for _, g := range rep.Groups {
		for _, m := range g.Metrics {
			for _, r := range m.Rows {
				if r.NotRepresentative == "" || named[r.Condition] {
					continue
				}
				named[r.Condition] = true
				reason := clean(r.NotRepresentative)
				if byReason[reason] == nil {
					reasons = append(reasons, reason)
				}
				if name := label(r); !slices.Contains(byReason[reason], name) {
					byReason[reason] = append(byReason[reason], name)
				}
			}
		}
	}
	var banners []string
	for _, reason := range reasons {
		banners = append(banners, "not representative: "+Listed(byReason[reason])+": "+strings.TrimSuffix(reason, ".")+".")
	}
	return banners
}

// taintText names the most frequent cause of taint of a workload's trials.
func taintText(run record.Run, workload string) string {
	counts, programs := map[string]int{}, map[string]int{}
	best, loudest := "", ""
	for _, t := range run.Trials {
		if t.Workload != workload {
			continue
		}
		causes := slices.Clone(t.Taint)
		for _, s := range t.Slices {
			causes = append(causes, s.Taint...)
		}
		for _, cause := range causes {
			if _, program, ok := strings.Cut(clean(cause), " time ("); ok {
				program = strings.TrimSuffix(program, " most)")
				if programs[program]++; programs[program] > programs[loudest] {
					loudest = program
				}
			}
			// "steal 7.1 %" and "steal 6.4 %" are one cause.
			cause, _, _ = strings.Cut(clean(cause), " ")
			counts[cause]++
			if counts[cause] > counts[best] {
				best = cause
			}
		}
	}
	switch best {
	case "":
		return ""
	case "foreign":
		if loudest != "" {
			return ", mostly by other programs (" + loudest + " the most)"
		}
		return ", mostly by other programs"
	case "steal":
		return ", mostly by steal, CPU time that the hypervisor gave to others"
	case "tasks":
		return ", mostly by a lack of memory"
	}
	return ", mostly by " + best
}
