package pagetable

import (
	"errors"
	"fmt"

	"tare/probe"
)

// Open opens the back end that knows most here: the walk of the page tables
// where it works, else pagemap; then note says why. The error is a
// [*probe.Missing] where neither works.
func Open() (t Taker, note string, err error) {
	walk, err := NewWalk()
	if err == nil {
		return walk, "", nil
	}
	if missing := new(probe.Missing); !errors.As(err, &missing) {
		return nil, "", err
	}
	files, filesErr := NewFiles()
	if filesErr != nil {
		return nil, "", filesErr
	}
	return files, fmt.Sprintf("page tables are read by pagemap, which does not show what is writable or accessed: %v", err), nil
}

// Common are the parts of an entry that both back ends know, and in which they
// agree on a process that does nothing meanwhile. FileFrame is among them only
// where flags were asked for.
const Common = Frames | Present | Swapped | Huge | Zero

// CommonFlags are those where flags were asked for.
const CommonFlags = Common | FileFrame | Anon | Active | Referenced | OnList | Unevictable | THP |
	Large | SwapCache | SwapBacked | KSM | Idle | DirtyFrame | NoFrame
