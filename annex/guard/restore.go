package guard

import (
	"context"
	"errors"
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
	if !slices.Contains(settings, file) {
		identity = k.Identity()
	}
	return k, identity, nil
}

// restore puts back what an entry changed, if that is what is there now. Raising what was
// lowered waits for nothing.
func (e Entry) restore(roots []string) Outcome {
	k, identity, err := hold(e.File, roots)
	if gone := new(knob.Gone); errors.As(err, &gone) {
		return Outcome{Entry: e, Ending: Gone}
	}
	if err != nil {
		return Outcome{Entry: e, Ending: Failed, Err: err}
	}
	defer k.Close()
	if identity != e.Identity {
		return Outcome{Entry: e, Ending: Gone}
	}
	return e.restoreIn(k)
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
		all = append(all, e.restore(roots))
	}
	return all
}
