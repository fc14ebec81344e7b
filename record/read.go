package record

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"tare/nearest"
	"tare/platform"
)

// Runs lists all runs, newest first, with their conditions and without their trials.
func (s *Store) Runs() ([]Run, error) {
	var runs []Run
	err := s.change("list the runs", func(tx *sql.Tx) (err error) {
		runs, err = selectRuns(tx, "")
		return err
	})
	return runs, err
}

// Run gives a run with its trials. It is named by its id, by the beginning of
// its id where no other begins so, or as [Latest]. The error may be *NotFound
// or *Ambiguous.
func (s *Store) Run(name string) (Run, error) { return s.runOf(name, nil) }

// Figures says which figures of a run are asked for.
type Figures struct {
	Workloads []string
	Parts     []string // of slices, and names of histograms
}

// RunFigures is [Store.Run] with no more of the trials than the figures that are asked for. It has
// no covariates and no attachments, and of slices neither their order nor what the host and the
// load generator did. It is much faster where many runs are read.
func (s *Store) RunFigures(name string, of func(Run) Figures) (Run, error) { return s.runOf(name, of) }

func (s *Store) runOf(name string, of func(Run) Figures) (Run, error) {
	var run Run
	// One transaction, so that a run that is being written is seen as it was
	// at one moment.
	err := s.change("read run "+name, func(tx *sql.Tx) error {
		id, err := resolve(tx, name)
		if err != nil {
			return err
		}
		runs, err := selectRuns(tx, id)
		if err != nil {
			return err
		}
		run = runs[0]
		var only *Figures
		if of != nil {
			f := of(run)
			only = &f
		}
		run.Trials, err = selectTrials(tx, id, only)
		return err
	})
	if err != nil {
		return Run{}, err
	}
	return run, nil
}

func resolve(tx *sql.Tx, name string) (string, error) {
	ids, err := selectIDs(tx)
	if err != nil {
		return "", err
	}
	if name == Latest {
		if len(ids) == 0 {
			return "", &NotFound{ID: name}
		}
		return ids[0], nil
	}
	var matches []string
	for _, id := range ids {
		if id == name {
			return id, nil
		}
		if name != "" && strings.HasPrefix(id, name) {
			matches = append(matches, id)
		}
	}
	switch len(matches) {
	case 0:
		return "", &NotFound{ID: name, Similar: similar(name, ids)}
	case 1:
		return matches[0], nil
	}
	return "", &Ambiguous{ID: name, Matches: matches}
}

// similar picks at most three ids that a mistyped name may have meant: those
// that contain it, and those a few keystrokes from it.
func similar(name string, ids []string) []string {
	const most = 3
	return nearest.Of(ids, most, func(id string) (int, bool) {
		if name != "" && strings.Contains(id, name) {
			return 0, true
		}
		// An abbreviation is compared with as much of the id.
		d := nearest.Edits(name, id[:min(len(id), len(name))])
		return d, len(name) >= 4 && d <= 1+len(name)/6
	})
}

// selectIDs gives the ids of all runs, newest first.
func selectIDs(tx *sql.Tx) ([]string, error) {
	var ids []string
	err := each(tx, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, "SELECT id FROM runs ORDER BY started DESC, id DESC")
	return ids, err
}

// selectRuns gives one run, or all where id is empty, newest first.
func selectRuns(tx *sql.Tx, id string) ([]Run, error) {
	var runs []Run
	var args []any
	of := func(string) string { return "" }
	if id != "" { // by the index: plans are long, and a store may have thousands
		args, of = []any{id}, func(column string) string { return " WHERE " + column + " = ?" }
	}
	at := map[string]int{}
	err := each(tx, func(rows *sql.Rows) error {
		var (
			r                   Run
			command, plan, host string
			started, finished   sql.NullInt64
		)
		err := rows.Scan(
			&r.ID,
			&r.Study,
			&command,
			&r.Version,
			&r.Seed,
			&started,
			&finished,
			&r.Status,
			&r.Reason,
			&plan,
			&host,
		)
		if err != nil {
			return err
		}
		r.Started, r.Finished = fromNanos(started), fromNanos(finished)
		dec := decoder{row: "run " + r.ID}
		dec.json("command_json", command, &r.Command)
		dec.json("plan_json", plan, &r.Plan)
		dec.json("host_json", host, &r.Host)
		at[r.ID] = len(runs)
		runs = append(runs, r)
		return dec.err
	}, `SELECT id, study, command_json, version, seed, started, finished, status, reason, plan_json, host_json
		FROM runs`+of("id")+" ORDER BY started DESC, id DESC", args...)
	if err != nil {
		return nil, err
	}
	err = each(tx, func(rows *sql.Rows) error {
		runID, c, err := scanCondition(rows)
		if err != nil {
			return err
		}
		if i, ok := at[runID]; ok {
			runs[i].Conditions = append(runs[i].Conditions, c)
		}
		return nil
	}, `SELECT run_id, id, label, workload, params_json, platform, platform_version, setting_json, baseline, metrics_json,
		image, image_ref, packages_json, in_force_json, not_representative, factors_json, process_json
		FROM conditions`+of("run_id")+" ORDER BY run_id, position", args...)
	return runs, err
}

func scanCondition(rows *sql.Rows) (runID string, c Condition, err error) {
	var (
		params, setting, metrics, packages, levels, process string
		inForce                                             sql.NullString
	)
	err = rows.Scan(
		&runID,
		&c.ID,
		&c.Label,
		&c.Workload,
		&params,
		&c.Platform,
		&c.Version,
		&setting,
		&c.Baseline,
		&metrics,
		&c.Image,
		&c.ImageRef,
		&packages,
		&inForce,
		&c.NotRepresentative,
		&levels,
		&process,
	)
	if err != nil {
		return "", c, err
	}
	dec := decoder{row: fmt.Sprintf("condition %q of run %s", c.ID, runID)}
	knobs := map[string]string{}
	dec.json("params_json", params, &c.Params)
	dec.json("setting_json", setting, &knobs)
	dec.json("metrics_json", metrics, &c.Metrics)
	dec.json("packages_json", packages, &c.Packages)
	dec.json("factors_json", levels, &c.Factors)
	dec.json("process_json", process, &c.Process)
	if len(c.Factors) == 0 {
		c.Factors = nil
	}
	if inForce.Valid {
		c.InForce = new(platform.InForce)
		dec.json("in_force_json", inForce.String, c.InForce)
	}
	if dec.err != nil {
		return "", c, dec.err
	}
	if c.Setting, err = decodeSetting(knobs); err != nil {
		return "", c, fmt.Errorf("%s: column setting_json: %w", dec.row, err)
	}
	return runID, c, nil
}

// ofTrials chooses the rows of a run's trials. ?2 lists workloads, and ?3 parts; NULL is all.
const (
	ofTrials    = " WHERE trial_id IN (SELECT id FROM trials WHERE run_id = ?1 AND " + inWorkloads + ") "
	inWorkloads = "(?2 IS NULL OR workload IN (SELECT value FROM json_each(?2)))"
	inParts     = "(?3 IS NULL OR %s IN (SELECT value FROM json_each(?3)))"
)

// selectTrials gives a run's trials in order of start: all of them, or only figures.
func selectTrials(tx *sql.Tx, runID string, only *Figures) ([]Trial, error) {
	var trials []Trial
	var workloads, parts any
	if only != nil {
		var enc encoder
		workloads, parts = enc.json("workloads", list(only.Workloads)), enc.json("parts", list(only.Parts))
		if enc.err != nil {
			return nil, enc.err
		}
	}
	at := map[int64]int{}
	err := each(tx, func(rows *sql.Rows) error {
		var (
			t              Trial
			started, ended int64
			taint          string
		)
		err := rows.Scan(
			&t.ID,
			&t.Condition,
			&t.Workload,
			&t.Block,
			&t.Attempt,
			&t.Position,
			&t.Replicate,
			&started,
			&t.Elapsed,
			&ended,
			&taint,
			&t.Error,
		)
		if err != nil {
			return err
		}
		t.Started = time.Unix(0, started).UTC()
		if ended == 0 {
			t.Error = NotEnded
		}
		dec := decoder{row: fmt.Sprintf("trial %d", t.ID)}
		dec.json("taint_json", taint, &t.Taint)
		if len(t.Taint) == 0 {
			t.Taint = nil
		}
		at[t.ID] = len(trials)
		trials = append(trials, t)
		return dec.err
	}, `SELECT id, condition_id, workload, block, attempt, position, replicate, started, elapsed, ended, taint_json, error
		FROM trials WHERE run_id = ?1 AND `+inWorkloads+" ORDER BY started, id", runID, workloads)
	if err != nil {
		return nil, err
	}

	var (
		id   int64
		last = int64(-1)
		to   int
		name sql.RawBytes
		// A run has a handful of names and a hundred thousand samples.
		names = map[string]string{}
	)
	intern := func(name sql.RawBytes) string {
		known, ok := names[string(name)]
		if !ok {
			known = string(name)
			names[known] = known
		}
		return known
	}
	seek := func() {
		if id != last {
			to, last = at[id], id
		}
	}
	err = each(tx, func(rows *sql.Rows) error {
		var value float64
		if err := rows.Scan(&id, &name, &value); err != nil {
			return err
		}
		seek()
		trials[to].Samples = append(trials[to].Samples, Sample{Metric: intern(name), Value: value})
		return nil
	}, "SELECT trial_id, metric, value FROM samples"+ofTrials+"ORDER BY trial_id, seq", runID, workloads)
	if err != nil {
		return nil, err
	}
	err = each(tx, func(rows *sql.Rows) error {
		var data string
		if err := rows.Scan(&id, &name, &data); err != nil {
			return err
		}
		seek()
		if trials[to].Histograms == nil {
			trials[to].Histograms = map[string]Histogram{}
		}
		trials[to].Histograms[intern(name)] = Histogram(data)
		return nil
	}, "SELECT trial_id, name, data FROM histograms"+ofTrials+"AND "+fmt.Sprintf(inParts, "name")+" ORDER BY trial_id",
		runID, workloads, parts)
	if err != nil {
		return nil, err
	}
	var row sliceRow
	columns, into := row.columns(only == nil)
	err = each(tx, func(rows *sql.Rows) error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		slice, err := row.slice(intern)
		id = row.trial
		seek()
		trials[to].Slices = append(trials[to].Slices, slice)
		return err
	}, "SELECT "+columns+" FROM slices"+ofTrials+"AND (control != '' OR "+fmt.Sprintf(inParts, "part")+
		") ORDER BY trial_id, seq", runID, workloads, parts)
	if err != nil || only != nil {
		return trials, err
	}
	err = each(tx, func(rows *sql.Rows) error {
		var value float64
		if err := rows.Scan(&id, &name, &value); err != nil {
			return err
		}
		seek()
		if trials[to].Covariates == nil {
			trials[to].Covariates = map[string]float64{}
		}
		trials[to].Covariates[intern(name)] = value
		return nil
	}, "SELECT trial_id, name, value FROM covariates"+ofTrials+"ORDER BY trial_id", runID, workloads)
	if err != nil {
		return nil, err
	}
	err = each(tx, func(rows *sql.Rows) error {
		var a Attachment
		if err := rows.Scan(&id, &a.Name, &a.MediaType); err != nil {
			return err
		}
		seek()
		trials[to].Attachments = append(trials[to].Attachments, a)
		return nil
	}, "SELECT trial_id, name, media_type FROM attachments"+ofTrials+"ORDER BY trial_id, name", runID, workloads)
	return trials, err
}

// each runs f on every row of a query.
func each(tx *sql.Tx, f func(*sql.Rows) error, query string, args ...any) error {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := f(rows); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}
