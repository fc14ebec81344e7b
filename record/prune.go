package record

import (
	"database/sql"
	"errors"
	"time"
)

// abandoned is how long a run that is marked as running must have been silent
// before Prune takes it for killed: no trial lasts nearly as long.
const abandoned = 24 * time.Hour

// Prune removes runs that started longer than olderThan ago, but never the
// newest keep, nor one that may be running, and gives their ids, newest first.
// With dry it only tells which they would be. The file shrinks accordingly.
func (s *Store) Prune(olderThan time.Duration, keep int, dry bool) ([]string, error) {
	now := s.now()
	var old []string
	err := s.change("prune", func(tx *sql.Tx) error {
		old = nil
		err := each(tx, func(rows *sql.Rows) error {
			var id string
			err := rows.Scan(&id)
			old = append(old, id)
			return err
		}, `WITH ranked AS (
			  SELECT id, started, status, row_number() OVER (ORDER BY started DESC, id DESC) AS age,
			         max(started, coalesce((SELECT max(t.started) FROM trials t WHERE t.run_id = runs.id), 0)) AS heard
			  FROM runs)
			SELECT id FROM ranked WHERE age > ? AND started < ? AND (status <> ? OR heard < ?) ORDER BY age`,
			max(keep, 0), now.Add(-olderThan).UnixNano(), string(Running), now.Add(-abandoned).UnixNano())
		if err != nil || dry {
			return err
		}
		for _, id := range old {
			if _, err := tx.Exec("DELETE FROM runs WHERE id = ?", id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(old) > 0 && !dry {
		// Cannot be part of the transaction. It needs as much free space as the
		// store is large, and no reader: failing these, the space is used again
		// by later runs.
		err = s.alone("shrink the store", func() error { _, err := s.db.Exec("VACUUM"); return err })
		var full *DiskFull
		var busy *Busy
		if err != nil && !errors.As(err, &full) && !errors.As(err, &busy) {
			return old, err
		}
	}
	return old, nil
}
