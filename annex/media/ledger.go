package media

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ledger is what a budget's file holds.
type ledger struct {
	Day     string `json:"day"` // UTC
	Written int64  `json:"written_bytes"`
	Total   int64  `json:"total_bytes"` // since it was begun
}

// Corrupt says that a budget's file was not one, and where it was put.
type Corrupt struct {
	File, Aside string
	Err         error
}

func (c *Corrupt) Error() string {
	return fmt.Sprintf("%s is no account of what was written (%v): it was put aside as %s, and today's budget counts as spent in proportion to the time of day", c.File, c.Err, c.Aside)
}

func (c *Corrupt) Unwrap() error { return c.Err }

// readLedger reads an account; of a file that is not there, an empty one. The error is a
// [*Corrupt] where it is none, and the file has another name then.
func readLedger(file string) (ledger, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return ledger{}, nil
	}
	if err != nil {
		return ledger{}, fmt.Errorf("the account of what was written: %w", err)
	}
	l, err := parseLedger(b)
	if err == nil {
		return l, nil
	}
	aside := file + ".corrupt"
	if err := os.Rename(file, aside); err != nil {
		return ledger{}, fmt.Errorf("putting a broken account aside: %w", err)
	}
	return ledger{}, &Corrupt{file, aside, err}
}

func parseLedger(b []byte) (ledger, error) {
	var l ledger
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return ledger{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return ledger{}, errors.New("more follows after the account")
	}
	if at, err := time.Parse(time.DateOnly, l.Day); err != nil || day(at) != l.Day {
		return ledger{}, fmt.Errorf("day %q is none", l.Day)
	}
	if l.Written < 0 || l.Total < l.Written || l.Total > 1<<60 {
		return ledger{}, fmt.Errorf("%d bytes a day and %d in all cannot be", l.Written, l.Total)
	}
	return l, nil
}

// writeLedger puts an account in the place of the one before: a program that is killed,
// or a host that loses power, leaves one or the other.
func writeLedger(file string, l ledger) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("keeping the account of what was written: %w", err)
		}
	}()
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".next")
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	return os.Rename(next, file)
}
