package guard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"tare/kernel/file"
)

// lockSuffix is of the file whose lock the daemon and its guard hold together.
const lockSuffix = ".lock"

// anewAt is the size at which a journal is made anew, of what is open alone.
const anewAt = 1 << 20

// store is a journal's file, being written. What is changed for ever is none of its
// business: a line of an entry is on the disk before append returns.
type store struct {
	path   string
	boot   string
	file   *os.File
	size   int64
	most   int64 // the size at which it is made anew
	last   uint64
	open   []Entry
	broken error // a part of a line may be in the file
}

// read reads a journal's file; one that is not there is empty. The error is an [*NoJournal]
// where it is something else.
func read(path string) (Journal, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return Journal{}, nil
	}
	if err != nil {
		return Journal{}, err
	}
	defer f.Close()
	j, err := Parse(f)
	if none := new(NoJournal); errors.As(err, &none) {
		none.File = path
	} else if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return j, err
}

// lockJournal takes the lock of a journal, and makes its directory where there is none. What a
// journal says, root writes: a directory that others decide on is refused.
func lockJournal(path string) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("the journal %s: want an absolute path", path)
	}
	if err := file.MakeDirectory(filepath.Dir(path), 0o700, file.Guarded); err != nil {
		return nil, err
	}
	return file.Lock(path + lockSuffix)
}

// create makes a journal anew, with some entries.
func create(path, boot string, last uint64, open []Entry) (*store, error) {
	s := &store{path: path, boot: boot, most: anewAt, last: last, open: open}
	return s, s.anew()
}

// anew writes the journal of what is open in the place of the one that is there: at no
// moment is there less than either.
func (s *store) anew() error {
	text, err := begin(s.boot, s.open)
	if err != nil {
		return err
	}
	next := s.path + ".next"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(next, s.path)
	}
	if err == nil {
		err = syncDirectory(filepath.Dir(s.path))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if s.file != nil {
		_ = s.file.Close()
	}
	s.file, s.size, s.broken = f, int64(len(text)), nil
	return nil
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// enter gives an entry its number and writes it down for good.
func (s *store) enter(e Entry) (Entry, []byte, error) {
	if s.broken != nil || s.size >= s.most {
		if err := s.anew(); err != nil {
			return e, nil, err
		}
	}
	e.Number = s.last + 1
	text, err := s.append(line{Number: e.Number, Open: &e})
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		return e, nil, fmt.Errorf("writing %s before %s is changed: %w", s.path, e.File, err)
	}
	s.last = e.Number
	s.open = append(s.open, e)
	return e, text, nil
}

// cross crosses an entry out. Should the line be lost, the knob is found to hold what
// it did before, and nothing comes of it: so nobody waits for the disk.
func (s *store) cross(number uint64, how Ending) ([]byte, error) {
	text, err := s.append(line{Number: number, End: how})
	if how != Failed {
		s.open = slices.DeleteFunc(s.open, func(e Entry) bool { return e.Number == number })
	}
	return text, err
}

func (s *store) append(l line) ([]byte, error) {
	text, err := l.text()
	if err != nil {
		return nil, err
	}
	if s.broken != nil {
		return nil, s.broken
	}
	n, err := s.file.Write(text)
	if err != nil {
		if n > 0 {
			if cut := s.file.Truncate(s.size); cut != nil {
				s.broken = fmt.Errorf("%s ends in a part of a line: %w", s.path, cut)
			}
		}
		return nil, err
	}
	s.size += int64(len(text))
	return text, nil
}

// resume opens a journal that another began, to cross entries out in it.
func resume(path string, j Journal) (*store, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(j.Whole); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &store{path: path, boot: j.Boot, file: f, size: j.Whole, most: anewAt, last: j.Last, open: j.Open}, nil
}

func (s *store) close() error { return s.file.Close() }

// damagedSuffix is of a journal that was put aside.
const damagedSuffix = ".damaged"

// putAside keeps a damaged journal for who wants to know what it told.
func putAside(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path+damagedSuffix, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(text))
	return errors.Join(err, f.Close())
}
