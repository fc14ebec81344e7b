package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"tare/platform"
	"tare/workload"
)

// Begin enters a run and its conditions, before its first trial. Trials in run
// are not kept; [Store.AddTrial] is.
func (s *Store) Begin(run Run) error {
	if err := run.fault(); err != nil {
		return err
	}
	if run.Status == "" {
		run.Status = Running
	}
	return s.change("begin "+run.ID, func(tx *sql.Tx) error { return insertRun(tx, run) })
}

// Import enters a run that was measured elsewhere, whole: its trials too, in one
// durable transaction. Its Status is Imported, whatever run has. Where the context ends
// first nothing is entered, and the error is its cause.
func (s *Store) Import(ctx context.Context, run Run) error {
	if err := run.fault(); err != nil {
		return err
	}
	run.Status = Imported
	return s.change("import "+run.ID, func(tx *sql.Tx) error { return insertWhole(ctx, tx, run) })
}

// insertWhole enters a run with its trials.
func insertWhole(ctx context.Context, tx *sql.Tx, run Run) error {
	if err := insertRun(tx, run); err != nil {
		return err
	}
	for _, t := range run.Trials {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		id, err := beginTrial(tx, run.ID, t)
		if err != nil {
			return err
		}
		if err := endTrial(tx, id, t); err != nil {
			return err
		}
	}
	return nil
}

// fault says why a run cannot be entered.
func (r Run) fault() error {
	what := fmt.Sprintf("run %q", r.ID)
	if r.ID == "" || r.ID == Latest {
		return &Invalid{What: what, Why: "not an id for a run"}
	}
	if r.Started.IsZero() {
		return &Invalid{What: what, Why: "it has no start"}
	}
	return nil
}

func insertRun(tx *sql.Tx, run Run) error {
	what := fmt.Sprintf("run %q", run.ID)
	var taken int
	if err := tx.QueryRow("SELECT count(*) FROM runs WHERE id = ?", run.ID).Scan(&taken); err != nil {
		return err
	}
	if taken != 0 {
		return &Invalid{What: what, Why: "the store has a run of that id already"}
	}
	var enc encoder
	values := []any{
		run.ID, run.Study, enc.json(what+": command", run.Command), run.Version, run.Seed,
		nanos(run.Started), nanos(run.Finished), string(run.Status), run.Reason,
		enc.json(what+": plan", run.Plan), enc.json(what+": host", run.Host),
	}
	if enc.err != nil {
		return enc.err
	}
	_, err := tx.Exec(
		`INSERT INTO runs (id, study, command_json, version, seed, started, finished, status, reason, plan_json, host_json)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		values...)
	if err != nil {
		return err
	}
	for i, c := range run.Conditions {
		if err := insertCondition(tx, run.ID, i, c); err != nil {
			return err
		}
	}
	return nil
}

func insertCondition(tx *sql.Tx, runID string, position int, c Condition) error {
	what := fmt.Sprintf("condition %q", c.ID)
	var enc encoder
	knobs := encodeSetting(c.Setting)
	if _, err := decodeSetting(knobs); err != nil {
		// What could be written but not read again would make the run unreadable.
		return &Invalid{What: what, Why: err.Error()}
	}
	var inForce any
	if c.InForce != nil {
		inForce = enc.json(what+": what is in force", c.InForce)
	}
	values := []any{
		runID, c.ID, position, c.Label, c.Workload, enc.json(what+": parameters", c.Params),
		c.Platform, c.Version, enc.json(what+": setting", knobs), c.Baseline,
		enc.json(what+": metrics", c.Metrics), c.Image, c.ImageRef, enc.json(what+": packages", c.Packages),
		inForce, c.NotRepresentative, enc.json(what+": factors", factors(c.Factors)), enc.json(what+": process", c.Process),
	}
	if enc.err != nil {
		return enc.err
	}
	_, err := tx.Exec(
		`INSERT INTO conditions (run_id, id, position, label, workload, params_json, platform, platform_version,
		setting_json, baseline, metrics_json, image, image_ref, packages_json, in_force_json, not_representative, factors_json, process_json)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, values...)
	if err != nil {
		return err
	}
	var at int
	if err := tx.QueryRow("SELECT position FROM conditions WHERE run_id = ? AND id = ?", runID, c.ID).Scan(&at); err != nil {
		return err
	}
	if at != position {
		return &Invalid{What: what, Why: "the run has two conditions of that id"}
	}
	return nil
}

// factors makes none an empty object, so that its column is never "null".
func factors(f map[string]string) map[string]string {
	if f == nil {
		return map[string]string{}
	}
	return f
}

// SetInForce keeps what the kernel reported for a condition.
func (s *Store) SetInForce(runID, conditionID string, f platform.InForce) error {
	what := fmt.Sprintf("condition %q of run %q", conditionID, runID)
	var enc encoder
	data := enc.json(what, f)
	if enc.err != nil {
		return enc.err
	}
	return s.change("keep what is in force for "+conditionID, func(tx *sql.Tx) error {
		return one(&Invalid{What: what, Why: "the store has no such condition"})(
			tx.Exec("UPDATE conditions SET in_force_json = ? WHERE run_id = ? AND id = ?", data, runID, conditionID))
	})
}

// Extend gives a run further conditions, after those that it has, and the plan that they are
// part of, in one transaction.
func (s *Store) Extend(runID string, conditions []Condition, p Plan) error {
	return s.change("extend run "+runID, func(tx *sql.Tx) error {
		if err := setPlan(tx, runID, p); err != nil {
			return err
		}
		var position int
		if err := tx.QueryRow("SELECT coalesce(max(position) + 1, 0) FROM conditions WHERE run_id = ?", runID).Scan(&position); err != nil {
			return err
		}
		for i, c := range conditions {
			if err := insertCondition(tx, runID, position+i, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// SetMetrics replaces what a condition yields, as when its workload turns out to be
// measured by another design.
func (s *Store) SetMetrics(runID, conditionID string, metrics []workload.Metric) error {
	what := fmt.Sprintf("condition %q of run %q", conditionID, runID)
	var enc encoder
	data := enc.json(what, metrics)
	if enc.err != nil {
		return enc.err
	}
	return s.change("replace the metrics of "+conditionID, func(tx *sql.Tx) error {
		return one(&Invalid{What: what, Why: "the store has no such condition"})(
			tx.Exec("UPDATE conditions SET metrics_json = ? WHERE run_id = ? AND id = ?", data, runID, conditionID))
	})
}

// SetPlan replaces a run's plan, as when a pilot has shown how many blocks it takes.
func (s *Store) SetPlan(runID string, p Plan) error {
	return s.change("keep the plan of "+runID, func(tx *sql.Tx) error { return setPlan(tx, runID, p) })
}

func setPlan(tx *sql.Tx, runID string, p Plan) error {
	var enc encoder
	data := enc.json(fmt.Sprintf("plan of run %q", runID), p)
	if enc.err != nil {
		return enc.err
	}
	return one(&NotFound{ID: runID})(tx.Exec("UPDATE runs SET plan_json = ? WHERE id = ?", data, runID))
}

// Finish says how a run ended, and when: now.
func (s *Store) Finish(runID string, st Status, reason string) error {
	return s.change("finish "+runID, func(tx *sql.Tx) error {
		return one(&NotFound{ID: runID})(
			tx.Exec("UPDATE runs SET status = ?, reason = ?, finished = ? WHERE id = ?", string(st), reason, nanos(s.now()), runID))
	})
}

// Resume marks a run as running again. Only one that was interrupted, or whose
// process was killed, can be; that no live process holds it is the caller's to
// know.
func (s *Store) Resume(runID string) error {
	return s.change("resume "+runID, func(tx *sql.Tx) error {
		var status Status
		err := tx.QueryRow("SELECT status FROM runs WHERE id = ?", runID).Scan(&status)
		if errors.Is(err, sql.ErrNoRows) {
			return &NotFound{ID: runID}
		}
		if err != nil {
			return err
		}
		if status != Interrupted && status != Running {
			return &Invalid{What: fmt.Sprintf("run %q", runID), Why: fmt.Sprintf("it is %s: only an interrupted one can be resumed", status)}
		}
		_, err = tx.Exec("UPDATE runs SET status = ?, reason = '', finished = NULL WHERE id = ?", string(Running), runID)
		return err
	})
}

// one gives a check that a statement changed something, and missing where it
// did not.
func one(missing error) func(sql.Result, error) error {
	return func(result sql.Result, err error) error {
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err == nil && n == 0 {
			err = missing
		}
		return err
	}
}
