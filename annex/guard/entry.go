package guard

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Kind is for how long a knob is changed.
type Kind string

// The kinds.
const (
	// Momentary is a change that is taken back at once: a limit that was lowered so that
	// the kernel reclaims, and what it is to reclaim by meanwhile. The guard does not wait
	// for long before it does that itself.
	Momentary Kind = "momentary"
	// Lasting is a change for as long as the daemon runs: a protection.
	Lasting Kind = "lasting"
)

// Entry is a knob that was changed, or is about to be.
type Entry struct {
	Number uint64 `json:"-"` // one after another, from 1
	Kind   Kind   `json:"kind"`
	File   string `json:"file"`
	// Identity is of the knob's directory: a group that is made again under the same name
	// is another, and is not touched.
	Identity uint64 `json:"identity,omitempty"`
	// Found is what was there, as it was spelled, and Written what was put in its place.
	Found   string `json:"found"`
	Written string `json:"written"`
	// Below is of a knob with whose value groups begin that are made below; nil of others, and
	// of entries by programs that did not write it down.
	Below *Below `json:"below,omitempty"`
}

// Below is what was so below a group before its knob was changed. Groups that are made there
// while it is begin with what was written, and would keep that for good: whoever puts the
// group's knob back puts theirs back too. On version 1 memory.swappiness is such a knob.
type Below struct {
	// Same are the identities of groups that held what was written already; neither they nor
	// groups below them are put back.
	Same []uint64 `json:"same,omitempty"`
}

// Ending is what became of a changed knob.
type Ending string

// The endings.
const (
	Restored Ending = "restored" // holds what it did before
	Already  Ending = "already"  // was not changed, or had been restored
	Foreign  Ending = "foreign"  // somebody else has set it since, and it was left
	Gone     Ending = "gone"     // its group is no more, and with it what was set
	Failed   Ending = "failed"   // the kernel refused: the error says why, and the entry stays open
	// Barred is no knob that is ever changed here: another program's, or made up. It is not
	// touched, and nothing comes of the entry any more.
	Barred Ending = "barred"
)

// Outcome is an entry with what became of it.
type Outcome struct {
	Entry
	Ending Ending
	Have   string // what a [Foreign] one holds
	Err    error  // of a [Failed] or [Barred] one
}

func (o Outcome) String() string {
	switch o.Ending {
	case Foreign:
		return fmt.Sprintf("%s holds %q, which is neither what it held before (%q) nor what was set (%q): somebody else has changed it, and it is left alone", o.File, o.Have, o.Found, o.Written)
	case Barred:
		return fmt.Sprintf("%s is said to have held %q before it was set to %q, and is no knob that is changed here: see what it holds, and set it by hand", o.File, o.Found, o.Written)
	case Failed:
		if left := new(leftBelow); errors.As(o.Err, &left) {
			return left.Error()
		}
		return fmt.Sprintf("%s holds %q instead of %q: %v: set it by hand: echo %[3]s > %[1]s", o.File, o.Written, o.Found, o.Err)
	}
	return fmt.Sprintf("%s: %s", o.File, o.Ending)
}

// failures joins what could not be put back.
func failures(all []Outcome) error {
	var errs []error
	for _, o := range all {
		if o.Ending == Failed {
			errs = append(errs, errors.New(o.String()))
		}
	}
	return errors.Join(errs...)
}

// The names of what is ever changed in control groups.
var groupKnobs = []string{limitV1, swappiness, "memory.low"}

const (
	limitV1 = "memory.limit_in_bytes"
	memsw   = "memory.memsw.limit_in_bytes"
	// swappiness is version 1's alone: groups that are made begin with that of the one above.
	swappiness = "memory.swappiness"
)

// Refused says that a knob is none of those that are ever changed: what was written
// down may have been tampered with.
type Refused struct{ File string }

func (r *Refused) Error() string {
	return fmt.Sprintf("%q is no knob of a control group's memory on this host: it is not touched", r.File)
}

// check refuses knobs that nobody here would change. roots are the directories that
// hierarchies of control groups are mounted on.
func check(name string, roots []string) error {
	within := slices.ContainsFunc(roots, func(root string) bool {
		rest, ok := strings.CutPrefix(name, root+"/")
		return ok && strings.Contains(rest, "/") // of a group, and not of the root, which is everybody's
	})
	if !within || filepath.Clean(name) != name || !slices.Contains(groupKnobs, filepath.Base(name)) {
		return &Refused{name}
	}
	return nil
}
