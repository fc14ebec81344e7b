package platforms

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/model/size"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// tasksOf is how many tasks of a program could run at once, by what it recorded or by
// the parameters that set it: x265's pool or a number of threads, times its parts; ranks;
// a server's processes. False where neither tells, as with the threads of a database.
func (r reading) tasksOf(c record.Condition) (float64, bool) {
	for _, name := range []string{paramRanks, paramWorkers} {
		if n, err := strconv.ParseFloat(c.Params[name], 64); err == nil && n >= 1 {
			return n, true
		}
	}
	parts, err := strconv.ParseFloat(c.Params[paramTasks], 64)
	if err != nil || !(parts >= 1) {
		return 0, false
	}
	if pool := r.PerBlock(c, metricPool); len(pool) > 0 {
		if n := r.Mean(pool).Value; n >= 1 {
			return parts * n, true
		}
	}
	if n, err := strconv.ParseFloat(c.Params[paramThreads], 64); err == nil && n >= 1 {
		return parts * n, true
	}
	return 0, false
}

// What tells of tasks.
const (
	paramWorkers = "workers"
	paramThreads = "threads"
	metricPool   = "pool-threads"
)

// joined is one fit of a column over several workloads: what input, output and tasks add
// to the cost of size, no workload alone can tell.
type joined struct {
	column    column
	workloads []string // that took part
	left      []string // each with why it did not
	fit       size.Fitted
	err       error
	// tasksWhy says whose tasks are not known; the term is not fitted then.
	tasksWhy string
}

// joint fits each column over the workloads whose intensity is known.
func (r reading) joint() (all []joined) {
	for _, col := range r.columns(matrix) {
		j := joined{column: col}
		var points []size.Point
		var untold []string
		for _, name := range r.names(matrix) {
			of := r.points(name, col)
			if len(of) == 0 {
				continue
			}
			if _, known := r.intensity(name); !known {
				j.left = append(j.left, name+" was not watched")
				continue
			}
			j.workloads = append(j.workloads, name)
			points = append(points, of...)
			if !r.tasksKnown(name, col) {
				untold = append(untold, name)
			}
		}
		if len(j.workloads) < 2 {
			continue
		}
		if len(untold) > 0 {
			j.tasksWhy = "how many tasks " + strings.Join(untold, ", ") + " has at once is not known"
			for i := range points {
				points[i].Tasks = 1 // no point then differs in them, and nothing is made of it
			}
		}
		j.fit, j.err = size.Fit(points, size.Options{Level: r.Report.Level})
		all = append(all, j)
	}
	return all
}

// tasksKnown tells that they are at every size.
func (r reading) tasksKnown(name string, col column) bool {
	return !slices.ContainsFunc(r.of(matrix, name), func(s spot) bool {
		c, ok := s.at(col)
		if !ok {
			return false
		}
		_, known := r.tasksOf(c)
		return !known
	})
}

// term is one of the two that set workloads apart: an estimate, or why there is none.
func (j joined) term(t size.Term) (stats.Estimate, string) {
	switch {
	case j.err != nil:
		return stats.Estimate{}, j.err.Error()
	case t == size.Tasks && j.tasksWhy != "":
		return stats.Estimate{}, j.tasksWhy
	}
	if err := j.fit.Identifiable(t); err != nil {
		return stats.Estimate{}, err.Error()
	}
	if t == size.Tasks {
		return j.fit.Tasks, ""
	}
	return j.fit.IO, ""
}

// jointPart is what input, output and tasks add to the cost of size.
func (r reading) jointPart() []report.Part {
	all := r.joint()
	if len(all) == 0 {
		return nil
	}
	t := report.Table{
		Title: "What input, output and tasks add to the cost of size",
		Note: "One fit of each platform over all programs that were watched: by how many times the cost grows for each unit of the form (S2's g of the CHR), with each thousand wakings by interrupt in a second of CPU time, and with each doubling of the tasks that a CPU has. " +
			"It takes programs that differ in them at four sizes or more.",
		Columns: []report.Column{{Head: "where"}, {Head: "programs", Number: true}, {Head: "in- and output, times", Number: true}, {Head: "tasks, times", Number: true}},
	}
	var why []string
	for _, j := range all {
		row := []report.Cell{{Text: j.column.label()}, {Text: strconv.Itoa(len(j.workloads))}}
		for _, term := range []size.Term{size.IO, size.Tasks} {
			e, reason := j.term(term)
			if reason == "" {
				row = append(row, report.Estimated(size.Ratio(e), 1))
				continue
			}
			row = append(row, report.Cell{Text: "not identifiable", Tone: report.Faint})
			if text := fmt.Sprintf("%s: %s", j.column.label(), reason); !slices.Contains(why, text) {
				why = append(why, text)
			}
		}
		for _, left := range j.left {
			if !slices.Contains(why, left) {
				why = append(why, left)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	if len(why) > 0 {
		t.Note += " Not told: " + strings.Join(why, "; ") + "."
	}
	return []report.Part{t}
}

// oneTask is the tasks of a point where nothing tells them: they are then in its size
// term, and no other is fitted to them.
func oneTask(n float64, known bool) float64 {
	if !known {
		return 1
	}
	return math.Max(1, n)
}
