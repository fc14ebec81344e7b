package swap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Setting is one file of the kernel's that holds one value and is the whole host's.
type Setting struct{ File string }

// Read gives its value, without the blanks around it.
func (s Setting) Read() (string, error) {
	b, err := os.ReadFile(s.File)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}

// Change is what gives it another value: to be written down before it is made. A
// value that it has already makes a change that changes nothing.
func (s Setting) Change(value string) (Change, error) {
	old, err := s.Read()
	if err != nil {
		return Change{}, err
	}
	return Change{File: s.File, Old: old, New: value}, nil
}

// Set gives it another value, and what puts back the one that it had: that is a
// [*Foreign] where somebody else has set it since.
func (s Setting) Set(value string) (restore func() error, err error) {
	c, err := s.Change(value)
	if err != nil {
		return nil, err
	}
	if err := c.Make(); err != nil {
		return nil, err
	}
	return c.Undo, nil
}

// Change is a setting as it was found and as it is to be. Whoever reads that can undo
// it, another program included: either way the file is written only where it holds
// what the change knows of.
type Change struct {
	File string `json:"file"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Foreign says that a setting holds neither what was there before a change nor what
// the change made of it: somebody else has set it since.
type Foreign struct {
	Change
	Have string
}

func (f *Foreign) Error() string {
	return fmt.Sprintf("%s holds %q, which was neither there before (%q) nor set since (%q): somebody else has changed it, and it is left alone", f.File, f.Have, f.Old, f.New)
}

// Ignored says that the kernel took a value and has another one in force.
type Ignored struct {
	Change
	Have string
}

func (i *Ignored) Error() string {
	return fmt.Sprintf("%s was set to %q and holds %q: the kernel does not have that value (its log may say why)", i.File, i.New, i.Have)
}

// Make makes it, from what was there; where it is made already it does nothing. The
// error is a [*Foreign] or an [*Ignored].
func (c Change) Make() error { return c.set(c.Old, c.New) }

// Undo puts back what was there, from what the change made of it. The error is a
// [*Foreign] where somebody else has set it since; a file that is gone needs nothing.
func (c Change) Undo() error {
	err := c.set(c.New, c.Old)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Made reports whether the file holds what the change makes of it.
func (c Change) Made() bool {
	have, err := Setting{c.File}.Read()
	return err == nil && have == c.New
}

func (c Change) set(from, to string) error {
	have, err := Setting{c.File}.Read()
	switch {
	case err != nil:
		return err
	case have == to:
		return nil
	case have != from:
		return &Foreign{c, have}
	}
	if err := put(c.File, to); err != nil {
		return err
	}
	if have, err = (Setting{c.File}).Read(); err != nil {
		return err
	}
	if have != to {
		return &Ignored{Change{c.File, from, to}, have}
	}
	return nil
}

// put writes one value in one call, as the kernel's files want it.
func put(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", value, err)
	}
	return nil
}

// Check refuses a change that is of none of this package's settings: what was written
// down may have been tampered with.
func (h Host) Check(c Change) error {
	if !slices.Contains(h.settings(), Setting{c.File}) {
		return fmt.Errorf("%q is no setting of the host's swap", c.File)
	}
	return nil
}

func (h Host) settings() []Setting {
	return []Setting{h.PageCluster(), h.Swappiness(), h.zswap("enabled"), h.zswap("compressor"), h.zswap("max_pool_percent")}
}

// PageCluster is vm.page-cluster: 2^n pages are read where one is wanted.
func (h Host) PageCluster() Setting { return Setting{h.path("proc/sys/vm/page-cluster")} }

// Swappiness is vm.swappiness: how gladly anonymous memory leaves, against that of
// files, from 0 to 200 where both are equal at 100. Groups may have their own.
func (h Host) Swappiness() Setting { return Setting{h.path("proc/sys/vm/swappiness")} }

func (h Host) zswap(name string) Setting {
	return Setting{filepath.Join(h.path("sys/module/zswap/parameters"), name)}
}
