package place

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/host"
)

// Journal is what has been changed of containers and not given back: a file that
// is written, to the disk, before the first change. Whoever holds the host's
// lock may use it.
type Journal struct{ path string }

// journalFile is its name in the state directory.
const journalFile = "place.json"

// OpenJournal is the journal of a state directory.
func OpenJournal(dir string) *Journal { return &Journal{filepath.Join(dir, journalFile)} }

const journalSchema = "tare-place-journal/1"

// written is the journal as it is in its file.
type written struct {
	Schema string `json:"schema"`
	// Boot is the kernel's own id of this run of it: control groups do not outlive it.
	Boot    string  `json:"boot"`
	Entries []Entry `json:"entries"`
}

// Entry is what has been changed of one container.
type Entry struct {
	Time      time.Time      `json:"time"`
	Container string         `json:"container"`
	Kept      bool           `json:"kept"` // it helped; or else its trial was not ended
	Changes   cgroup.Changes `json:"changes"`
}

// Open are the entries, in the order in which they were made. What was written
// before the host was started anew is gone with its control groups.
func (j *Journal) Open() ([]Entry, error) {
	text, err := os.ReadFile(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the journal of what was changed: %w", err)
	}
	w, err := parseJournal(text)
	if err != nil {
		return nil, fmt.Errorf("the journal %s: %w", j.path, err)
	}
	boot, err := host.BootID()
	if err != nil {
		return nil, err
	}
	if w.Boot != boot {
		return nil, nil
	}
	return w.Entries, nil
}

func parseJournal(text []byte) (written, error) {
	var w written
	if err := json.Unmarshal(text, &w); err != nil {
		return written{}, err
	}
	if w.Schema != journalSchema {
		return written{}, fmt.Errorf("its schema is %q, not %q: it is of another version of tare, which can undo it", w.Schema, journalSchema)
	}
	return w, nil
}

// begin writes down changes that are about to be made, and returns when the disk has them.
func (j *Journal) begin(entries []Entry) error {
	open, err := j.Open()
	if err != nil {
		return err
	}
	return j.write(append(open, entries...))
}

// end marks the last n entries as kept, or crosses them out.
func (j *Journal) end(n int, kept bool) error {
	open, err := j.Open()
	if err != nil {
		return err
	}
	n = min(n, len(open))
	if !kept {
		return j.write(open[:len(open)-n])
	}
	for i := range open[len(open)-n:] {
		open[len(open)-n+i].Kept = true
	}
	return j.write(open)
}

// write replaces the file, which is whole at every moment.
func (j *Journal) write(entries []Entry) (err error) {
	if len(entries) == 0 {
		if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the journal of what was changed: %w", err)
		}
		return nil
	}
	boot, err := host.BootID()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(written{journalSchema, boot, entries}, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(j.path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("the journal of what was changed: %w", err)
	}
	file, err := os.CreateTemp(dir, journalFile+".*")
	if err != nil {
		return fmt.Errorf("the journal of what was changed: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("the journal of what was changed: %w", errors.Join(err, os.Remove(file.Name())))
		}
	}()
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), j.path); err != nil {
		return err
	}
	within, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(within.Sync(), within.Close())
}

// Undone is one change that was given back, or was not.
type Undone struct {
	Container string
	cgroup.Change
	// Err is a [*cgroup.Foreign] where somebody else has changed it since, and a
	// [*cgroup.Gone] where its container has ended: nothing was written, and both are
	// crossed out.
	Err error
}

// Which entries of a journal are given back.
type Which int

// All are those that were left set on purpose too; Unfinished are those of a
// trial that was killed.
const (
	All Which = iota
	Unfinished
)

// Undo gives back what the journal holds, the last first, and crosses it out.
// With dry it only says what it would. What cannot be given back, for another reason
// than that somebody else has changed it or that it is gone, stays in the journal.
func Undo(j *Journal, layout cgroup.Layout, which Which, dry bool) ([]Undone, error) {
	entries, err := j.Open()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		for _, c := range e.Changes {
			if err := c.Check(layout); err != nil {
				return nil, fmt.Errorf("the journal %s: of %s: %w", j.path, e.Container, err)
			}
		}
	}
	var done []Undone
	var left []Entry
	for _, e := range slices.Backward(entries) {
		if which == Unfinished && e.Kept {
			left = append(left, e)
			continue
		}
		stays := false
		for _, c := range slices.Backward(e.Changes) {
			u := Undone{Container: e.Container, Change: c}
			if !dry {
				u.Err = c.Undo()
			} else if _, err := os.Stat(c.File); errors.Is(err, fs.ErrNotExist) {
				u.Err = &cgroup.Gone{Change: c}
			}
			var foreign *cgroup.Foreign
			var gone *cgroup.Gone
			stays = stays || u.Err != nil && !errors.As(u.Err, &foreign) && !errors.As(u.Err, &gone)
			done = append(done, u)
		}
		if stays {
			left = append(left, e)
		}
	}
	if dry || len(entries) == 0 {
		return done, nil
	}
	slices.Reverse(left)
	return done, j.write(left)
}
