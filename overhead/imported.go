package overhead

import (
	"fmt"
	"strings"

	"tare/record"
)

// Lacks says what a run that was measured elsewhere lacks of a design that would
// bear its figures: a line each, "head: text", for every page that shows them. None
// of a run that tare measured.
func Lacks(run record.Run) []string {
	imported := run.Plan.Imported
	if imported == nil {
		return nil
	}
	var all []string
	if imported.Unjudged != "" {
		all = append(all, "no verdict: "+imported.Unjudged)
	}
	all = append(all, fmt.Sprintf(
		"imported: measured elsewhere, not by tare, and read from %s (%s); what its makers left out of the design no analysis adds", counted(len(imported.Sources), "file"), imported.Format))
	if imported.Paired {
		all = append(all, "paired: by its importer's word, who said that what has one number belongs together under all conditions; whether it was measured interleaved, nobody says")
	} else {
		all = append(all, "not interleaved: nobody says that the repetitions of two conditions were made together, so they are compared as two samples (Welch), and whatever changed between them on that host is in the difference")
	}
	if imported.Order != "" {
		all = append(all, "order: "+imported.Order+", as reported: what changes with time (warmth, other work, the state of a disk) cannot be separated from the condition")
	} else {
		all = append(all, "order: unknown: what changes with time (warmth, other work, the state of a disk) cannot be separated from the condition")
	}
	all = append(all, "no A/A: the baseline was not measured against itself, so nothing tells what this procedure finds where there is nothing", repetitions(run))
	if imported.Host != "" {
		all = append(all, "host, as reported: "+imported.Host+"; it is not this one")
	} else {
		all = append(all, "host: unknown; nothing says that the figures carry over to this one")
	}
	return all
}

// repetitions says how often each condition was measured.
func repetitions(run record.Run) string {
	times := map[string]int{}
	for _, t := range run.Trials {
		if t.Error == "" {
			times[t.Condition]++
		}
	}
	var least, most int
	for i, c := range run.Conditions {
		n := times[c.ID]
		if i == 0 || n < least {
			least = n
		}
		most = max(most, n)
	}
	few := ""
	if least < fewestBlocks {
		few = fmt.Sprintf("; below %d, nothing has been simulated of how often an interval holds", fewestBlocks)
	}
	switch {
	case most <= 1:
		return "repetitions: one run a cell: no spread, so no interval, and nothing is decided"
	case least == most:
		return fmt.Sprintf("repetitions: %d runs a cell", most) + few
	}
	text := fmt.Sprintf("repetitions: %d to %d runs a cell", least, most)
	if least <= 1 {
		text += "; cells of one run have no interval"
	}
	return text + few
}

func counted(n int, noun string) string {
	if n != 1 {
		noun = strings.TrimSuffix(noun, "s") + "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
