package record

import (
	"database/sql"
	"errors"
	"fmt"
)

// Attachment gives one attachment of a trial, with its bytes.
func (s *Store) Attachment(trialID int64, name string) (Attachment, error) {
	a := Attachment{Name: name}
	err := s.change("read an attachment", func(tx *sql.Tx) error {
		err := tx.QueryRow("SELECT media_type, data FROM attachments WHERE trial_id = ? AND name = ?", trialID, name).Scan(&a.MediaType, &a.Data)
		if errors.Is(err, sql.ErrNoRows) {
			return &Invalid{What: fmt.Sprintf("attachment %q", name), Why: fmt.Sprintf("trial %d has none of that name", trialID)}
		}
		return err
	})
	return a, err
}
