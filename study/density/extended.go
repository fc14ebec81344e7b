package density

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tare/platform"
	"tare/report"
)

// Extended is what a memory extension did within a step, and how it stood at its end.
type Extended struct {
	CPU        time.Duration                        `json:"cpu_ns"`
	Resident   int64                                `json:"resident_bytes"` // at the end
	Contexts   int64                                `json:"contexts"`       // at the end
	Evicted    int64                                `json:"evicted_pages"`
	Fetched    int64                                `json:"fetched_pages"`
	Mapped     int64                                `json:"mapped_pages"`
	Untouched  int64                                `json:"untouched_pages"` // of those fetched, reported as such within the step
	Errors     int64                                `json:"errors"`
	Predictors map[string]platform.PredictorReading `json:"predictors,omitempty"` // at the end
}

// charge is the share that the box has of what it and the extension's own memory come to: 1 where
// there is none.
func (s Step) charge() float64 {
	if s.Extension == nil || s.Asked <= 0 || !(s.Overcommit > 0) {
		return 1
	}
	box := float64(s.Asked) / s.Overcommit
	return box / (box + float64(s.Extension.Resident))
}

// extended is what came to pass between two readings; nil where there is no extension.
func extended(before, after *platform.ExtensionReading) *Extended {
	if after == nil {
		return nil
	}
	was := platform.ExtensionReading{}
	if before != nil {
		was = *before
	}
	return &Extended{
		CPU:        after.CPU - was.CPU,
		Resident:   after.Resident,
		Contexts:   after.Contexts,
		Evicted:    after.Evicted - was.Evicted,
		Fetched:    after.Fetched - was.Fetched,
		Mapped:     after.Mapped - was.Mapped,
		Untouched:  after.Untouched - was.Untouched,
		Errors:     after.Errors - was.Errors,
		Predictors: maps.Clone(after.Predictors),
	}
}

// followed is this and another execution of the same step, as one; either may be nil.
func (e *Extended) followed(by *Extended) *Extended {
	switch {
	case e == nil:
		return by
	case by == nil:
		return e
	}
	both := &Extended{
		CPU:        e.CPU + by.CPU,
		Resident:   max(e.Resident, by.Resident),
		Contexts:   max(e.Contexts, by.Contexts),
		Evicted:    e.Evicted + by.Evicted,
		Fetched:    e.Fetched + by.Fetched,
		Mapped:     e.Mapped + by.Mapped,
		Untouched:  e.Untouched + by.Untouched,
		Errors:     e.Errors + by.Errors,
		Predictors: map[string]platform.PredictorReading{},
	}
	maps.Copy(both.Predictors, e.Predictors)
	for name, y := range by.Predictors {
		x := e.Predictors[name]
		both.Predictors[name] = pooled(x, y)
	}
	return both
}

// pooled is two readings of a predictor as one, weighted by their predictions.
func pooled(x, y platform.PredictorReading) platform.PredictorReading {
	predictions := x.Predicted + y.Predicted
	if predictions == 0 {
		return y
	}
	weight := func(a, b float64) float64 {
		return (a*float64(x.Predicted) + b*float64(y.Predicted)) / float64(predictions)
	}
	return platform.PredictorReading{
		Precision: weight(x.Precision, y.Precision), Recall: weight(x.Recall, y.Recall),
		Lead: time.Duration(weight(float64(x.Lead), float64(y.Lead))), Predicted: predictions,
	}
}

// extended reports whether any step of an arm had an extension.
func (a arm) extended() bool {
	return slices.ContainsFunc(a.sweeps, func(s sweep) bool {
		return slices.ContainsFunc(s.steps, func(s Step) bool { return s.Extension != nil })
	})
}

// extendedSteps are those of a number that have it.
func (a arm) extendedSteps(n int) []Step {
	return slices.DeleteFunc(a.has(n), func(s Step) bool { return s.Extension == nil })
}

// extensionParts are what an extension did, of each arm that had one.
func (r reading) extensionParts() []report.Part {
	var parts []report.Part
	for _, a := range r.arms {
		if !a.extended() {
			continue
		}
		parts = append(parts, r.extensionTable(a))
		if t, ok := r.predictorTable(a); ok {
			parts = append(parts, t)
		}
	}
	return parts
}

// extensionTable is the traffic of pages, and its cost.
func (r reading) extensionTable(a arm) report.Table {
	t := report.Table{
		Title: "Page traffic and cost of the memory extension: " + r.name(a),
		Note: "Evicted pages left memory. Fetched pages came back, mapped ones into the page table as well. " +
			"Unused pages left again without having been used: a lower bound, and no share of fetched.",
		Method: "Figures are means of sweeps, rates in pages per second. That a page was unused is known only when it leaves, and it may have come back in an earlier step. " +
			"Errors are requests that the kernel refused, over all sweeps. CPU (of one CPU) and memory (at the end of a step) are those of the daemon itself.",
		Columns: []report.Column{
			{Head: neighboursHead, Number: true},
			{Head: "contexts", Number: true, Optional: true},
			{Head: "evicted, pages/s", Number: true},
			{Head: "fetched, pages/s", Number: true},
			{Head: "mapped, pages/s", Number: true, Optional: true},
			{Head: "unused, pages/s", Number: true},
			{Head: "errors", Number: true},
			{Head: "CPU, %", Number: true},
			{Head: "memory, MiB", Number: true, Optional: true},
		},
	}
	for _, n := range a.numbers {
		steps := a.extendedSteps(n)
		if len(steps) == 0 {
			continue
		}
		mean := func(of func(Extended) float64, scale float64) report.Cell {
			return brief(r.mean(values(steps, func(s Step) float64 { return of(*s.Extension) })), scale)
		}
		rate := func(of func(Extended) float64, scale float64) report.Cell {
			timed := slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s.Elapsed <= 0 })
			return brief(
				r.mean(values(timed, func(s Step) float64 { return of(*s.Extension) / s.Elapsed.Seconds() })),
				scale,
			)
		}
		errors := report.Cell{Text: "0"}
		failed := int64(0)
		for _, s := range steps {
			failed += s.Extension.Errors
		}
		if failed > 0 {
			errors = report.Cell{Text: fmt.Sprint(failed), Tone: report.Bad}
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: fmt.Sprint(n)},
			mean(func(e Extended) float64 { return float64(e.Contexts) }, 1),
			rate(func(e Extended) float64 { return float64(e.Evicted) }, 1),
			rate(func(e Extended) float64 { return float64(e.Fetched) }, 1),
			rate(func(e Extended) float64 { return float64(e.Mapped) }, 1),
			rate(func(e Extended) float64 { return float64(e.Untouched) }, 1),
			errors,
			rate(func(e Extended) float64 { return e.CPU.Seconds() }, 100),
			mean(func(e Extended) float64 { return float64(e.Resident) }, 1.0/(1<<20)),
		})
	}
	return t
}

// predictorTable is the precision and recall of each predictor; false where none predicted anything.
func (r reading) predictorTable(a arm) (report.Table, bool) {
	t := report.Table{
		Title:   "Precision and recall of the predictors: " + r.name(a),
		Note:    "Precision is the share of predictions that came true, recall the share of events that were predicted. A dash: no predictions.",
		Method:  "The daemon counts both up to the end of each step. Sweeps are weighted by their predictions.",
		Columns: []report.Column{{Head: neighboursHead, Number: true}},
	}
	at := map[int]map[string]platform.PredictorReading{}
	known := map[string]bool{}
	for _, n := range a.numbers {
		at[n] = map[string]platform.PredictorReading{}
		for _, s := range a.extendedSteps(n) {
			for name, p := range s.Extension.Predictors {
				if p.Predicted > 0 {
					at[n][name] = pooled(at[n][name], p)
					known[name] = true
				}
			}
		}
	}
	names := slices.SortedFunc(
		maps.Keys(known),
		func(x, y string) int { return cmp.Or(cmp.Compare(order(x), order(y)), strings.Compare(x, y)) },
	)
	for _, name := range names {
		t.Columns = append(t.Columns,
			report.Column{Head: name + " precision, %", Number: true},
			report.Column{Head: name + " recall, %", Number: true, Optional: true})
	}
	for _, n := range a.numbers {
		if len(at[n]) == 0 {
			continue
		}
		row := []report.Cell{{Text: fmt.Sprint(n)}}
		for _, name := range names {
			p, ok := at[n][name]
			if !ok {
				row = append(row, report.Absent(), report.Absent())
				continue
			}
			row = append(
				row,
				report.Cell{Text: fmt.Sprintf("%.0f", 100*p.Precision)},
				report.Cell{Text: fmt.Sprintf("%.0f", 100*p.Recall)},
			)
		}
		t.Rows = append(t.Rows, row)
	}
	return t, len(names) > 0
}

// order is the predictors' own: from what is used most. Runs recorded before they were deleted
// have stride and extents too.
func order(name string) int {
	known := []string{"record", "intervals", "stride", "extents", "followers"}
	if i := slices.Index(known, name); i >= 0 {
		return i
	}
	return len(known)
}
