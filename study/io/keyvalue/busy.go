package keyvalue

import (
	"fmt"

	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/workload"
)

// fullyBusy is the share of a CPU's time from which the server is taken for what limits
// the rate: below, the load or the way to it is narrower, and of what a place adds to a
// request only a part shows in the rate.
const fullyBusy = 0.9

// cpu is what a request takes of the server's CPU, in microseconds, by block.
func (r reading) cpu(c cell, of record.Condition) blocks {
	return r.PerBlock(of, c.metric+workload.RedisCPU)
}

// busy is the server's share of one CPU's time while it was asked; above 1 it had
// several. The making of the connections is in it.
func (r reading) busy(c cell, of record.Condition) stats.Estimate {
	return r.Mean(combine(func(v []float64) float64 { return v[0] / v[1] }, r.cpu(c, of), r.times(c, of)))
}

// idle names the reference cells in which bare metal's server had time to spare; none
// where the run does not tell.
func (r reading) idle() []string {
	var names []string
	for _, c := range r.reference() {
		if e := r.busy(c, c.base); e.N > 0 && e.Value < fullyBusy {
			names = append(names, fmt.Sprintf("%s %s %%", c.name(), report.Said(e, 100)))
		}
	}
	return names
}

// busyPart shows the server's CPU time of a request by place, which tells a cost that
// the load's own limit keeps from showing in the rate.
func (r reading) busyPart() []report.Part {
	reference := r.reference()
	t := report.Table{
		Title: "What a request takes of the server's CPU",
		Note: fmt.Sprintf("Busy is the server's share of a CPU on bare metal: below %g %% the load (or who else has that CPU), not the server, is the narrowest part of the loop, and of what a place adds only a part shows in the rate. "+
			"The places' columns are microseconds of the server's CPU more than on bare metal, as Redis counts them; what the kernel does of the network in others' time is not in it.", 100*fullyBusy),
		Columns: []report.Column{{Head: "request"}, {Head: "bare, busy %", Number: true}, {Head: "bare, us", Number: true}},
	}
	all := spots(reference)
	for i, s := range all {
		t.Columns = append(t.Columns, report.Column{Head: named(s, r.memory), Number: true, Optional: i > 0})
	}
	for _, c := range reference {
		base := r.cpu(c, c.base)
		if len(base) == 0 {
			continue
		}
		row := []report.Cell{{Text: c.name()}, report.Estimated(r.busy(c, c.base), 100), report.Estimated(r.Mean(base), 1)}
		for _, s := range all {
			p, ok := c.at(s)
			if !ok {
				row = append(row, report.Absent())
				continue
			}
			row = append(row, report.ToldFrom(0, r.difference(base, r.cpu(c, p))))
		}
		t.Rows = append(t.Rows, row)
	}
	return report.Filled(t)
}
