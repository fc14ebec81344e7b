package record

import (
	"database/sql"
	"fmt"
	"math"
	"strings"
	"time"
)

// AddStrip keeps slices, those of one strip, in one durable transaction: all or none.
// Those of one trial keep the order in which they are given, after those that it has.
//
// A slice that has no start or no window, or whose amounts are no finite numbers from 0
// on, is refused: it is a mistake of whoever measured it.
func (s *Store) AddStrip(slices []TrialSlice) error {
	return s.change("keep a strip", func(tx *sql.Tx) error {
		for _, of := range slices {
			if err := addSlices(tx, of.Trial, of.Slice); err != nil {
				return err
			}
		}
		return nil
	})
}

func addSlices(tx *sql.Tx, trialID int64, slices ...Slice) error {
	if len(slices) == 0 {
		return nil
	}
	var known, next int64
	err := tx.QueryRow("SELECT (SELECT count(*) FROM trials WHERE id = ?1), (SELECT coalesce(max(seq) + 1, 0) FROM slices WHERE trial_id = ?1)", trialID).
		Scan(&known, &next)
	if err != nil {
		return err
	}
	if known == 0 {
		return noTrial(trialID)
	}
	insert, err := tx.Prepare(
		`INSERT INTO slices (trial_id, seq, strip, position, previous, part, control, started, window, amount,
		cpu, worked, load, steal, "foreign", taint_json, histogram) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer insert.Close()
	for i, slice := range slices {
		if why := slice.fault(); why != "" {
			return &Invalid{What: fmt.Sprintf("slice of %q in strip %d of trial %d", slice.Part, slice.Strip, trialID), Why: why}
		}
		var enc encoder
		taint := enc.json("taint", list(slice.Taint))
		_, err := insert.Exec(
			trialID,
			next+int64(i),
			slice.Strip,
			slice.Position,
			slice.Previous,
			slice.Part,
			slice.Control,
			nanos(slice.Started),
			int64(slice.Window),
			slice.Amount,
			timeOrNull(slice.CPU),
			slice.Worked,
			timeOrNull(slice.Load),
			shareOrNull(slice.Steal),
			shareOrNull(slice.Foreign),
			taint,
			string(slice.Histogram),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// fault says why a slice cannot be kept; empty where it can.
func (s Slice) fault() string {
	countable := func(v float64) bool { return finite(v) && v >= 0 }
	switch {
	case s.Strip < 1:
		return "strips count from 1"
	case s.Position < 0:
		return fmt.Sprintf("%d is no position", s.Position)
	case s.Started.IsZero():
		return "it has no start"
	case s.Window <= 0:
		return fmt.Sprintf("a window of %v holds nothing", s.Window)
	case !countable(s.Amount):
		return fmt.Sprintf("an amount of %v is not a measurement", s.Amount)
	case !countable(s.Worked):
		return fmt.Sprintf("%v operations worked are not a measurement", s.Worked)
	}
	return ""
}

func timeOrNull(d time.Duration) sql.NullInt64 { return sql.NullInt64{Int64: int64(d), Valid: d >= 0} }

func shareOrNull(v float64) sql.NullFloat64 { return sql.NullFloat64{Float64: v, Valid: finite(v)} }

// sliceRow is where rows of slices are read into, one after another.
type sliceRow struct {
	trial, strip, position, started, window   int64
	previous, part, control, taint, histogram sql.RawBytes
	amount, worked                            float64
	cpu, load                                 sql.NullInt64
	steal, foreign                            sql.NullFloat64
}

// columns names the columns to read, and says where each goes: all of a slice, or its figures.
func (r *sliceRow) columns(all bool) (names string, to []any) {
	some := []string{"trial_id", "strip", "part", "window", "amount", "cpu", "worked",
		// Most rows have none of these, and NULL is read faster than text.
		"nullif(control, '')", "nullif(taint_json, '[]')", "nullif(histogram, '')"}
	to = []any{
		&r.trial, &r.strip, &r.part, &r.window, &r.amount, &r.cpu, &r.worked, &r.control, &r.taint, &r.histogram,
	}
	if all {
		some = append(some, "position", "previous", "started", "load", "steal", `"foreign"`)
		to = append(to, &r.position, &r.previous, &r.started, &r.load, &r.steal, &r.foreign)
	}
	return strings.Join(some, ", "), to
}

// slice is what the row says.
func (r *sliceRow) slice(intern func(sql.RawBytes) string) (Slice, error) {
	slice := Slice{
		Strip: int(r.strip), Position: int(r.position),
		Previous: intern(r.previous), Part: intern(r.part), Control: intern(r.control),
		Started: time.Unix(0, r.started).UTC(), Window: time.Duration(r.window),
		Amount: r.amount, CPU: -1, Worked: r.worked, Load: -1, Steal: math.NaN(), Foreign: math.NaN(),
		Histogram: Histogram(r.histogram),
	}
	if r.cpu.Valid {
		slice.CPU = time.Duration(r.cpu.Int64)
	}
	if r.load.Valid {
		slice.Load = time.Duration(r.load.Int64)
	}
	if r.steal.Valid {
		slice.Steal = r.steal.Float64
	}
	if r.foreign.Valid {
		slice.Foreign = r.foreign.Float64
	}
	if r.taint == nil {
		return slice, nil
	}
	dec := decoder{row: fmt.Sprintf("strip %d of trial %d", slice.Strip, r.trial)}
	dec.json("taint_json", string(r.taint), &slice.Taint)
	return slice, dec.err
}
