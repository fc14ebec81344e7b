package record

import (
	"database/sql"
	"errors"
	"fmt"
	"sort"
)

// NotEnded is the Error of a trial that was begun and whose end was not
// recorded: it runs still, or tare was killed in its midst.
const NotEnded = "its end was not recorded"

// AddTrial keeps a trial with all it yielded, in one durable transaction, and
// gives its id. t.ID is not used.
//
// A sample that is not a finite number is refused: it is a workload's mistake.
// A covariate that is not is left out: it could not be observed.
func (s *Store) AddTrial(runID string, t Trial) (int64, error) {
	var id int64
	err := s.change("keep a trial of "+t.Condition, func(tx *sql.Tx) (err error) {
		if id, err = beginTrial(tx, runID, t); err != nil {
			return err
		}
		return endTrial(tx, id, t)
	})
	return id, err
}

// BeginTrial enters a trial at its start: condition, place in the run, and
// start. What [Store.AddSamples] and [Store.AddStrip] add until
// [Store.EndTrial] survives a crash.
func (s *Store) BeginTrial(runID string, t Trial) (int64, error) {
	var id int64
	err := s.change("begin a trial of "+t.Condition, func(tx *sql.Tx) (err error) {
		id, err = beginTrial(tx, runID, t)
		return err
	})
	return id, err
}

// AddSamples adds samples to a trial.
func (s *Store) AddSamples(trialID int64, samples []Sample) error {
	return s.change("keep samples", func(tx *sql.Tx) error {
		return addSamples(tx, trialID, samples)
	})
}

// EndTrial keeps how a trial ended: elapsed time, taint, error, histograms,
// covariates, attachments, and t.Samples and t.Slices besides those that were added before.
func (s *Store) EndTrial(trialID int64, t Trial) error {
	return s.change("end a trial", func(tx *sql.Tx) error {
		return endTrial(tx, trialID, t)
	})
}

// Taint replaces the causes of a trial's taint; none clears it.
func (s *Store) Taint(trialID int64, causes []string) error {
	return s.change("taint a trial", func(tx *sql.Tx) error {
		var enc encoder
		data := enc.json("taint", list(causes))
		return one(noTrial(trialID))(tx.Exec("UPDATE trials SET taint_json = ? WHERE id = ?", data, trialID))
	})
}

func beginTrial(tx *sql.Tx, runID string, t Trial) (int64, error) {
	var workload string
	err := tx.QueryRow("SELECT workload FROM conditions WHERE run_id = ? AND id = ?", runID, t.Condition).Scan(&workload)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, &Invalid{What: fmt.Sprintf("trial of %q", t.Condition), Why: fmt.Sprintf("run %q has no such condition", runID)}
	}
	if err != nil {
		return 0, err
	}
	if t.Workload == "" {
		t.Workload = workload
	}
	if t.Started.IsZero() {
		return 0, &Invalid{What: fmt.Sprintf("trial of %q", t.Condition), Why: "it has no start"}
	}
	result, err := tx.Exec(
		`INSERT INTO trials (run_id, condition_id, workload, block, attempt, position, replicate, started, elapsed, ended, taint_json, error)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, '[]', '')`,
		runID, t.Condition, t.Workload, t.Block, t.Attempt, t.Position, t.Replicate, nanos(t.Started))
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func endTrial(tx *sql.Tx, trialID int64, t Trial) error {
	var enc encoder
	taint := enc.json("taint", list(t.Taint))
	err := one(noTrial(trialID))(tx.Exec("UPDATE trials SET elapsed = ?, ended = 1, taint_json = ?, error = ? WHERE id = ?",
		int64(t.Elapsed), taint, t.Error, trialID))
	if err != nil {
		return err
	}
	if err := addSamples(tx, trialID, t.Samples); err != nil {
		return err
	}
	if err := addSlices(tx, trialID, t.Slices...); err != nil {
		return err
	}
	for _, name := range sortedKeys(t.Histograms) {
		if _, err := tx.Exec("INSERT OR REPLACE INTO histograms (trial_id, name, data) VALUES (?, ?, ?)", trialID, name, string(t.Histograms[name])); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(t.Covariates) {
		if !finite(t.Covariates[name]) {
			continue
		}
		if _, err := tx.Exec("INSERT OR REPLACE INTO covariates (trial_id, name, value) VALUES (?, ?, ?)", trialID, name, t.Covariates[name]); err != nil {
			return err
		}
	}
	for _, a := range t.Attachments {
		if a.Name == "" || a.MediaType == "" {
			return &Invalid{What: fmt.Sprintf("attachment %q of trial %d", a.Name, trialID), Why: "it has no name, or no media type"}
		}
		data := a.Data
		if data == nil {
			data = []byte{} // nothing is not NULL
		}
		if _, err := tx.Exec("INSERT OR REPLACE INTO attachments (trial_id, name, media_type, data) VALUES (?, ?, ?, ?)", trialID, a.Name, a.MediaType, data); err != nil {
			return err
		}
	}
	return nil
}

func addSamples(tx *sql.Tx, trialID int64, samples []Sample) error {
	if len(samples) == 0 {
		return nil
	}
	var known, next int64
	err := tx.QueryRow("SELECT (SELECT count(*) FROM trials WHERE id = ?1), (SELECT coalesce(max(seq) + 1, 0) FROM samples WHERE trial_id = ?1)", trialID).
		Scan(&known, &next)
	if err != nil {
		return err
	}
	if known == 0 {
		return noTrial(trialID)
	}
	insert, err := tx.Prepare("INSERT INTO samples (trial_id, seq, metric, value) VALUES (?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer insert.Close()
	for i, sample := range samples {
		if !finite(sample.Value) {
			return &Invalid{What: fmt.Sprintf("sample of %q", sample.Metric), Why: fmt.Sprintf("%v is not a measurement", sample.Value)}
		}
		if _, err := insert.Exec(trialID, next+int64(i), sample.Metric, sample.Value); err != nil {
			return err
		}
	}
	return nil
}

func noTrial(id int64) error {
	return &Invalid{What: fmt.Sprintf("trial %d", id), Why: "the store has no such trial"}
}

// list makes nil an empty list, so that its column is never "null".
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
