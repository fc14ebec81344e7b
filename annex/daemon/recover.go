package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"tare/annex/config"
	"tare/annex/guard"
)

// Recover puts back what a daemon of this configuration left that was killed together with its guard.
// The lines say what was put back, and what was not.
func Recover(ctx context.Context, c config.Config) (back, warnings []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var outcomes []guard.Outcome
	// Daemons before this one kept it in the state directory.
	for _, journal := range []string{filepath.Join(c.State.Directory, journalName), c.State.Journal} {
		if _, err := os.Lstat(journal); journal != c.State.Journal && err != nil {
			continue
		}
		of, recovering := guard.Recover(ctx, guard.Options{Journal: journal})
		outcomes, err = append(outcomes, of...), errors.Join(err, recovering)
	}
	warnings = unrestored(outcomes)
	damaged, err := apart(err)
	for _, one := range damaged {
		warnings = append(warnings, one.Error())
	}
	return restored(outcomes), warnings, err
}

// apart tells damages of a journal from what else went wrong: they are no reason not to start.
func apart(err error) (damaged []error, other error) {
	joined, is := err.(interface{ Unwrap() []error })
	if !is {
		if d := new(guard.Damaged); errors.As(err, &d) {
			return []error{err}, nil
		}
		return nil, err
	}
	var others []error
	for _, one := range joined.Unwrap() {
		d, o := apart(one)
		damaged, others = append(damaged, d...), append(others, o)
	}
	return damaged, errors.Join(others...)
}
