package guard

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"tare/kernel/knob"
)

// hold opens a knob that may be changed, with the identity that it is known by again.
func hold(file string, roots []string) (k *knob.Knob, identity uint64, err error) {
	if err := check(file, roots); err != nil {
		return nil, 0, err
	}
	if k, err = knob.Open(file); err != nil {
		return nil, 0, err
	}
	return k, k.Identity(), nil
}

// restore puts back what an entry changed, if that is what is there now, and what groups that
// were made below began with. Raising what was lowered waits for nothing. Of groups that have
// an entry of their own among those that are open nothing is put back here.
func (e Entry) restore(roots []string, open []Entry) Outcome {
	k, identity, err := hold(e.File, roots)
	if gone := new(knob.Gone); errors.As(err, &gone) {
		return Outcome{Entry: e, Ending: Gone}
	}
	if refused := new(Refused); errors.As(err, &refused) {
		return Outcome{Entry: e, Ending: Barred, Err: err}
	}
	if err != nil {
		return Outcome{Entry: e, Ending: Failed, Err: err}
	}
	defer k.Close()
	if identity != e.Identity {
		return Outcome{Entry: e, Ending: Gone}
	}
	return e.restoreIn(k).andBelow(roots, open)
}

func (e Entry) restoreIn(k *knob.Knob) Outcome {
	o := Outcome{Entry: e}
	var err error
	if o.Have, err = k.Read(); err == nil {
		switch {
		case equal(e.File, o.Have, e.Found):
			o.Ending = Already
			return o
		case !equal(e.File, o.Have, e.Written):
			o.Ending = Foreign
			return o
		}
		err = k.Write(context.Background(), e.Found)
		if errors.Is(err, syscall.EINVAL) && filepath.Base(e.File) == limitV1 {
			err = e.raise(k, err)
		}
	}
	gone := new(knob.Gone)
	switch {
	case err == nil:
		o.Ending = Restored
	case errors.As(err, &gone):
		o.Ending = Gone
	default:
		o.Ending, o.Err = Failed, err
	}
	return o
}

// andBelow is the outcome with that of groups below: where one was not put back it has failed,
// and is to be tried again.
func (o Outcome) andBelow(roots []string, open []Entry) Outcome {
	if o.Below == nil || o.Ending == Gone || o.Ending == Barred || o.Ending == Failed {
		return o
	}
	if err := o.restoreBelow(roots, open); err != nil {
		o.Ending, o.Err = Failed, &leftBelow{err}
	}
	return o
}

// leftBelow says what of groups below one was not put back.
type leftBelow struct{ error }

// restoreBelow puts groups back that were made below while a knob was changed, and began with
// what was written: to what was found, with which they would have begun otherwise. It is to be
// called when the knob itself is put back. What is made meanwhile begins with what it is made
// below of, which is put back before that is listed.
func (e Entry) restoreBelow(roots []string, open []Entry) error {
	if equal(e.File, e.Found, e.Written) {
		return nil
	}
	var all []error
	err := eachBelow(e.File, roots, func(k *knob.Knob, identity uint64) error {
		if slices.Contains(e.Below.Same, identity) ||
			slices.ContainsFunc(open, func(o Entry) bool { return o.File == k.File() && o.Identity == identity }) {
			return filepath.SkipDir
		}
		have, err := k.Read()
		if err == nil && equal(e.File, have, e.Written) {
			err = k.Write(context.Background(), e.Found)
		}
		if gone := new(knob.Gone); err != nil && !errors.As(err, &gone) {
			left := Outcome{Entry: Entry{File: k.File(), Found: e.Found, Written: e.Written}, Ending: Failed, Err: err}
			all = append(all, errors.New(left.String()))
		}
		return nil
	})
	return errors.Join(append(all, err)...)
}

// below looks at what is so below a group before its knob is changed; nil where groups that
// are made there do not begin with it.
func below(file, text string, roots []string) (*Below, error) {
	if filepath.Base(file) != swappiness {
		return nil, nil
	}
	b := &Below{}
	err := eachBelow(file, roots, func(k *knob.Knob, identity uint64) error {
		have, err := k.Read()
		if err == nil && equal(file, have, text) {
			b.Same = append(b.Same, identity)
			return filepath.SkipDir
		}
		if gone := new(knob.Gone); errors.As(err, &gone) {
			return nil
		}
		return err
	})
	return b, err
}

// eachBelow visits the same knob of all groups below the one of a file, each before those below
// it, which [filepath.SkipDir] leaves out. One that goes meanwhile is passed over.
func eachBelow(file string, roots []string, visit func(k *knob.Knob, identity uint64) error) error {
	top, name := filepath.Dir(file), filepath.Base(file)
	return filepath.WalkDir(top, func(dir string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENODEV):
			return nil
		case err != nil:
			return err
		case !d.IsDir() || dir == top:
			return nil
		}
		k, identity, err := hold(filepath.Join(dir, name), roots)
		if gone := new(knob.Gone); errors.As(err, &gone) {
			return nil
		}
		if err != nil {
			return err
		}
		defer k.Close()
		return visit(k, identity)
	})
}

// raise gives a group as much of its limit back as that of memory and swap together
// allows, which somebody has lowered meanwhile below what the first one was.
func (e Entry) raise(k *knob.Knob, refused error) error {
	together, err := knob.Open(filepath.Join(filepath.Dir(e.File), memsw))
	if err != nil {
		return refused
	}
	defer together.Close()
	text, err := together.Read()
	if err != nil || together.Identity() != k.Identity() {
		return refused
	}
	return k.Write(context.Background(), text)
}

// equal tells whether a knob that holds one text holds what was written as the other:
// the kernel keeps limits in whole pages, and has spellings of its own for none.
func equal(file, a, b string) bool {
	if a == b {
		return true
	}
	if filepath.Base(file) != limitV1 && filepath.Base(file) != "memory.low" {
		return false
	}
	x, known := pages(a)
	y, same := pages(b)
	return known && same && x == y
}

// pages reads a limit as the kernel does; none is the most there is.
func pages(text string) (int64, bool) {
	const none = math.MaxInt64 &^ (1<<20 - 1)
	switch text {
	case "-1", "max":
		return none, true
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 {
		return 0, false
	}
	if v >= none {
		return none, true
	}
	return v / int64(os.Getpagesize()), true
}

// restoreAll puts entries back, the youngest first.
func restoreAll(entries []Entry, roots []string) []Outcome {
	var all []Outcome
	for _, e := range slices.Backward(entries) {
		all = append(all, e.restore(roots, entries))
	}
	return all
}
