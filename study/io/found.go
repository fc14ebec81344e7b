package io

import (
	"tare/record"
	"tare/report"
)

// Found is what the study that a run is of reads in it: a sentence and tables, for
// the page of a run that was measured elsewhere. Advice is left out: nothing says
// that it is good for this host. Empty where the run is of none of these studies.
func Found(run record.Run) (answer string, parts []report.Part) {
	k := of(run)
	if k.parts == nil {
		return "", nil
	}
	return k.answer(run), k.parts(run)
}
