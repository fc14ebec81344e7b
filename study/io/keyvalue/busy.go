package keyvalue

import (
	"fmt"

	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/io/place"
	"tare/workload"
)

// fullyBusy is the share of a CPU's time above which the server limits the rate. Below it,
// the load or the path to the server does, and the rate shows only part of a place's cost.
const fullyBusy = 0.9

// cpu is what a request takes of the server's CPU, in microseconds, by block.
func (r reading) cpu(c cell, of record.Condition) blocks {
	return r.PerBlock(of, c.metric+workload.RedisCPU)
}

// busy is the server's share of one CPU's time under load; above 1 it used several. It
// includes the time in which connections were made.
func (r reading) busy(c cell, of record.Condition) stats.Estimate {
	return r.Mean(combine(func(v []float64) float64 { return v[0] / v[1] }, r.cpu(c, of), r.times(c, of)))
}

// idle names the reference cells in which bare metal's server had time to spare; none
// where its CPU time is not known.
func (r reading) idle() []string {
	var names []string
	for _, c := range r.reference() {
		if e := r.busy(c, c.base); e.N > 0 && e.Value < fullyBusy {
			names = append(names, c.name()+" "+place.Percent(e, 100))
		}
	}
	return names
}

// busyPart shows the server's CPU time per request by place. It shows a cost that does not
// show in the rate where the load limits it.
func (r reading) busyPart() []report.Part {
	reference := r.reference()
	t := report.Table{
		Title: "Server CPU time per request, and time added by place, µs",
		Note: fmt.Sprintf("Where the server is busy for less than %g %% of the time, the load limits the rate. "+
			"The rate then shows only part of a place's cost.", 100*fullyBusy),
		Method: "Busy is the server's share of one CPU on bare metal. CPU time is as Redis counts it. " +
			"Work for the network that the kernel does in other processes' time is not included.",
		Columns: []report.Column{
			{Head: "request"}, {Head: "bare, busy %", Number: true}, {Head: "bare, µs", Number: true},
		},
	}
	all := spots(reference)
	t.Columns = append(t.Columns, r.columns(all)...)
	for _, c := range reference {
		base := r.cpu(c, c.base)
		if len(base) == 0 {
			continue
		}
		row := []report.Cell{
			{Text: c.name()}, report.Estimated(r.busy(c, c.base), 100), report.Estimated(r.Mean(base), 1),
		}
		for _, s := range all {
			if p, ok := c.at(s); ok {
				row = append(row, effect(r.difference(base, r.cpu(c, p)), 1))
			} else {
				row = append(row, report.Absent())
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return report.Filled(t)
}
