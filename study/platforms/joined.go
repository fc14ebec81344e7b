package platforms

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/model/size"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/kit"
)

// tasksOf is how many tasks of a program could run at once, by what it recorded or by
// the parameters that set it: x265's pool or a number of threads, times its parts; ranks;
// a server's processes. False where neither is known, as with the threads of a database.
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

// What tasks are known by.
const (
	paramWorkers = "workers"
	paramThreads = "threads"
	metricPool   = "pool-threads"
)

// joined is one fit of a column over several workloads. What input, output and tasks add
// to the cost of size is not identifiable from one workload alone.
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
		var unknown []string
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
				unknown = append(unknown, name)
			}
		}
		if len(j.workloads) < 2 {
			continue
		}
		if len(unknown) > 0 {
			j.tasksWhy = "the number of tasks of " + report.Listed(unknown) + " is unknown"
			for i := range points {
				points[i].Tasks = 1 // no point then differs in them, and nothing is made of it
			}
		}
		j.fit, j.err = size.Fit(points, size.Options{Level: r.Report.Level})
		all = append(all, j)
	}
	return all
}

// tasksKnown reports whether the number of tasks is known at every size.
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
		Title: "Effect of I/O and of tasks on the cost of size",
		Note: "I/O: the factor for each thousand wakings by interrupt per second of CPU time. " +
			"Tasks: the factor for each doubling of the tasks per CPU. –: not identifiable.",
		Method: "One fit of each platform over all programs that were watched. The factors are for each unit of the form (g of the CHR in S2). " +
			"The fit requires programs that differ in them, at four sizes or more.",
		Columns: []report.Column{
			{Head: "platform"}, {Head: "programs", Number: true},
			{Head: "I/O, times", Number: true}, {Head: "tasks, times", Number: true},
		},
	}
	var reasons, left []string
	columnsOf := map[string][]string{} // that a reason holds for
	for _, j := range all {
		row := []report.Cell{{Text: j.column.label()}, {Text: strconv.Itoa(len(j.workloads))}}
		for _, term := range []size.Term{size.IO, size.Tasks} {
			e, reason := j.term(term)
			if reason == "" {
				row = append(row, report.Estimated(size.Ratio(e), 1))
				continue
			}
			row = append(row, report.Absent())
			if columnsOf[reason] == nil {
				reasons = append(reasons, reason)
			}
			columnsOf[reason] = append(columnsOf[reason], j.column.label())
		}
		left = append(left, j.left...)
		t.Rows = append(t.Rows, row)
	}
	for i, reason := range reasons {
		if of := columnsOf[reason]; len(of) < len(all) {
			reasons[i] = report.Listed(of) + ": " + reason
		}
	}
	if reasons = append(reasons, kit.Once(left)...); len(reasons) > 0 {
		t.Note += " Reasons: " + strings.Join(reasons, "; ") + "."
	}
	return []report.Part{t}
}

// oneTask is the number of tasks of a point, 1 where it is unknown: they are then in its size
// term, and no other is fitted to them.
func oneTask(n float64, known bool) float64 {
	if !known {
		return 1
	}
	return math.Max(1, n)
}
