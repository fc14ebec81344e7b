package kit

import (
	"fmt"
	"slices"

	"tare/record"
)

// Attachments gives an attachment of one of a run's trials.
type Attachments func(trialID int64, name string) ([]byte, error)

// Of reads a trial's attachment of a name; nil where it has none, or nobody can read any.
func (a Attachments) Of(t record.Trial, name string) ([]byte, error) {
	if a == nil || !slices.ContainsFunc(t.Attachments, func(has record.Attachment) bool { return has.Name == name }) {
		return nil, nil
	}
	data, err := a(t.ID, name)
	if err != nil {
		return nil, fmt.Errorf("%s of trial %d cannot be read: %w", name, t.ID, err)
	}
	return data, nil
}
