package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Part joins the runs of one study that several nodes measured, each by a run of its own.
type Part struct {
	Study string `json:"study"` // id of the whole, of the form of [NewID]
	Node  string `json:"node"`
}

// ID is the id of the part's run. Nodes start in the same second, so that an id drawn at random
// would soon be drawn twice.
func (p Part) ID() string { return p.Study + "-" + p.Node }

// Parts gives the ids of a study's runs, by node; none where the store has none of it.
func (s *Store) Parts(study string) (ids []string, err error) {
	err = s.change("list the runs of "+study, func(tx *sql.Tx) error {
		ids = nil
		return each(tx, func(rows *sql.Rows) error {
			var id string
			err := rows.Scan(&id)
			ids = append(ids, id)
			return err
		}, "SELECT id FROM runs WHERE plan_json ->> '$.part.study' = ? ORDER BY id", study)
	})
	return ids, err
}

// CopyTo copies a run that has ended into another store, whole, in one durable transaction. A store
// that has the run already stays as it is.
func (s *Store) CopyTo(ctx context.Context, to *Store, id string) error {
	run, err := s.Run(id)
	if err != nil {
		return err
	}
	if run.Status == Running {
		return &Invalid{What: fmt.Sprintf("run %q", run.ID), Why: "it has not ended"}
	}
	if err := run.fault(); err != nil {
		return err
	}
	for _, t := range run.Trials {
		for i, a := range t.Attachments {
			if t.Attachments[i], err = s.Attachment(t.ID, a.Name); err != nil {
				return err
			}
		}
	}
	return to.change("copy "+run.ID, func(tx *sql.Tx) error {
		var known int
		err := tx.QueryRow("SELECT count(*) FROM runs WHERE id = ?", run.ID).Scan(&known)
		if err != nil || known != 0 {
			return err
		}
		return insertWhole(ctx, tx, run)
	})
}

// Remove deletes a run with its trials.
func (s *Store) Remove(id string) error {
	return s.change("remove "+id, func(tx *sql.Tx) error {
		return one(&NotFound{ID: id})(tx.Exec("DELETE FROM runs WHERE id = ?", id))
	})
}

// StatusOf gives a run's status by its whole id; the error may be *NotFound.
func (s *Store) StatusOf(id string) (st Status, err error) {
	err = s.change("read "+id, func(tx *sql.Tx) error {
		err := tx.QueryRow("SELECT status FROM runs WHERE id = ?", id).Scan(&st)
		if errors.Is(err, sql.ErrNoRows) {
			return &NotFound{ID: id}
		}
		return err
	})
	return st, err
}
