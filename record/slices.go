package record

import (
	"database/sql"
	"fmt"
	"math"
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

// scanSlice reads a row of the columns that selectTrials names.
func scanSlice(rows *sql.Rows, intern func(sql.RawBytes) string) (trialID int64, slice Slice, err error) {
	var (
		previous, part, control, taint sql.RawBytes
		started, window                int64
		cpu, load                      sql.NullInt64
		steal, foreign                 sql.NullFloat64
	)
	err = rows.Scan(
		&trialID,
		&slice.Strip,
		&slice.Position,
		&previous,
		&part,
		&control,
		&started,
		&window,
		&slice.Amount,
		&cpu,
		&slice.Worked,
		&load,
		&steal,
		&foreign,
		&taint,
		&slice.Histogram,
	)
	if err != nil {
		return 0, slice, err
	}
	slice.Previous, slice.Part, slice.Control = intern(previous), intern(part), intern(control)
	slice.Started, slice.Window = time.Unix(0, started).UTC(), time.Duration(window)
	slice.CPU, slice.Load, slice.Steal, slice.Foreign = -1, -1, math.NaN(), math.NaN()
	if cpu.Valid {
		slice.CPU = time.Duration(cpu.Int64)
	}
	if load.Valid {
		slice.Load = time.Duration(load.Int64)
	}
	if steal.Valid {
		slice.Steal = steal.Float64
	}
	if foreign.Valid {
		slice.Foreign = foreign.Float64
	}
	if string(taint) == "[]" {
		return trialID, slice, nil
	}
	dec := decoder{row: fmt.Sprintf("strip %d of trial %d", slice.Strip, trialID)}
	dec.json("taint_json", string(taint), &slice.Taint)
	return trialID, slice, dec.err
}
