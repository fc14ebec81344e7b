package keyvalue

import (
	"fmt"
	"math"

	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/io/place"
)

// floorOf is the disk floor in a place; ok is false where there is none.
func (c cell) floorOf(p record.Condition) (record.Condition, bool) {
	for _, f := range c.floors {
		if spotOf(f) == spotOf(p) {
			return f, true
		}
	}
	return record.Condition{}, false
}

// persistence is what each place takes of requests that are written to an append-only
// file, beside what the disk itself gives there: a table a cell.
func (r reading) persistence() []report.Part {
	var parts []report.Part
	for _, c := range r.persistent {
		t := report.Table{
			Title: fmt.Sprintf("With an append-only file (%s): %s", c.appendOnly, c.name()),
			Note: "Here storage matters. The disk is fio's: it appends what Redis appends at most at a time, and brings each write to the disk by the same call; its loss is against bare metal's disk. " +
				"Requests a write: how many requests of Redis there were for each that the disk could have done; above the number of clients' requests, Redis does not wait for each.",
			Columns: []report.Column{{Head: "place"}, {Head: "1000 requests/s", Number: true}, {Head: "loss, %", Number: true}, {Head: "cost, us", Number: true, Optional: true},
				{Head: "disk, writes/s", Number: true}, {Head: "disk's loss, %", Number: true}, {Head: "requests a write", Number: true, Optional: true}},
		}
		bareFloor, hasFloor := c.floorOf(c.base)
		for _, p := range append([]record.Condition{c.base}, c.places...) {
			row := []report.Cell{{Text: p.Label}, report.Estimated(r.rate(c, p), 1e-3)}
			if p.ID == c.base.ID {
				row = append(row, report.Cell{Text: "baseline", Tone: report.Faint}, report.Absent())
			} else {
				row = append(row, toldIn(r.loss(c, p), 100), report.ToldFrom(0, r.cost(c, p)))
			}
			f, ok := c.floorOf(p)
			if !ok {
				t.Rows = append(t.Rows, append(row, report.Absent(), report.Absent(), report.Absent()))
				continue
			}
			row = append(row, report.Estimated(r.Value(f, floorSyncs), 1))
			if hasFloor && f.ID != bareFloor.ID {
				row = append(row, toldIn(r.diskLoss(bareFloor, f), 100))
			} else {
				row = append(row, report.Absent())
			}
			t.Rows = append(t.Rows, append(row, report.Estimated(r.Ratio(r.PerBlock(f, floorSyncs), r.PerBlock(p, c.metric)), 1)))
		}
		parts = append(parts, t)
	}
	return parts
}

func toldIn(e stats.Estimate, scale float64) report.Cell {
	c := report.Estimated(e, scale)
	if !e.ToldFrom(0) {
		c.Tone = report.Faint
	}
	return c
}

// diskLoss is the part of the writes that the disk of one place gives which another's
// does not.
func (r reading) diskLoss(bare, in record.Condition) stats.Estimate {
	return lossOf(r.Ratio(r.PerBlock(bare, floorSyncs), r.PerBlock(in, floorSyncs)))
}

// stored says what storage takes where it matters, and whether that is the disk's
// own.
func (r reading) stored() string {
	for _, c := range r.persistent {
		bareFloor, hasFloor := c.floorOf(c.base)
		text, most := "", math.Inf(-1)
		for _, p := range c.places {
			loss := r.loss(c, p)
			if !loss.Known() || p.Factors[place.FactorStorage] == string(platform.StorageTmpfs) || loss.Value <= most {
				continue
			}
			most = loss.Value
			text = fmt.Sprintf("%s %s %%", named(spotOf(p), r.persistent), report.Said(loss, 100))
			if f, ok := c.floorOf(p); ok && hasFloor {
				if d := r.diskLoss(bareFloor, f); d.Known() {
					text += fmt.Sprintf(" (the disk itself gives %s %% less there)", report.Said(d, 100))
				}
			}
		}
		if text != "" {
			return fmt.Sprintf("With an append-only file, %s, storage takes at most: %s.", c.appendOnly, text)
		}
	}
	return ""
}
