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

// persistence is a table per cell with an append-only file: what each place loses of
// Redis's requests and of the disk's own writes.
func (r reading) persistence() []report.Part {
	var parts []report.Part
	for _, c := range r.persistent {
		t := report.Table{
			Title: fmt.Sprintf("Loss with an append-only file (%s): %s", c.appendOnly, c.name()),
			Note: "Where Redis and the disk lose the same, the loss is the storage's. " +
				"The disk's figures are fio's, its loss is against bare metal's disk.",
			Method: "Fio appends the most that Redis appends at a time, and syncs each write by the same call. " +
				"Requests per write: Redis's requests for each write that the disk could have done. " +
				"Above the number of the clients' requests in flight, Redis does not wait for each write.",
			Columns: []report.Column{
				{Head: "place"}, {Head: "1000 requests/s", Number: true}, {Head: "loss, %", Number: true},
				{Head: "added time, µs", Number: true, Optional: true}, {Head: "disk, writes/s", Number: true},
				{Head: "disk's loss, %", Number: true}, {Head: "requests per write", Number: true, Optional: true},
			},
		}
		bareFloor, hasFloor := c.floorOf(c.base)
		for _, p := range append([]record.Condition{c.base}, c.places...) {
			row := []report.Cell{{Text: p.Label}, report.Estimated(r.rate(c, p), 1e-3)}
			if p.ID == c.base.ID {
				row = append(row, report.Cell{Text: "baseline", Tone: report.Faint}, report.Absent())
			} else {
				row = append(row, effect(r.loss(c, p), 100), effect(r.cost(c, p), 1))
			}
			f, ok := c.floorOf(p)
			if !ok {
				t.Rows = append(t.Rows, append(row, report.Absent(), report.Absent(), report.Absent()))
				continue
			}
			row = append(row, report.Estimated(r.Value(f, floorSyncs), 1))
			if hasFloor && f.ID != bareFloor.ID {
				row = append(row, effect(r.diskLoss(bareFloor, f), 100))
			} else {
				row = append(row, report.Absent())
			}
			t.Rows = append(
				t.Rows,
				append(row, report.Estimated(r.Ratio(r.PerBlock(f, floorSyncs), r.PerBlock(p, c.metric)), 1)),
			)
		}
		parts = append(parts, t)
	}
	return parts
}

// diskLoss is the part of bare metal's disk writes that the disk of a place loses.
func (r reading) diskLoss(bare, in record.Condition) stats.Estimate {
	return lossOf(r.Ratio(r.PerBlock(bare, floorSyncs), r.PerBlock(in, floorSyncs)))
}

// stored says where the loss with an append-only file is largest, and what the disk itself
// loses there.
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
			text = fmt.Sprintf("%s, in %s", place.Percent(loss, 100), named(spotOf(p), r.persistent))
			if f, ok := c.floorOf(p); ok && hasFloor {
				if d := r.diskLoss(bareFloor, f); d.Known() {
					text += fmt.Sprintf("; the disk itself loses %s there", place.Percent(d, 100))
				}
			}
		}
		if text != "" {
			return fmt.Sprintf("With an append-only file (%s) the largest loss is %s.", c.appendOnly, text)
		}
	}
	return ""
}
