package daemon

import (
	"fmt"
	"path/filepath"
	"slices"

	"tare/annex/guard"
)

// restored tells of each knob that a daemon which was killed had set, and that was put back:
// which, of which group, and from what to what.
func restored(outcomes []guard.Outcome) (lines []string) {
	for _, o := range outcomes {
		if o.Ending != guard.Restored {
			continue
		}
		lines = append(lines, fmt.Sprintf("put back %s of %s from %s to %s, as it was before a daemon that was killed set it",
			filepath.Base(o.File), filepath.Dir(o.File), o.Written, o.Found))
	}
	return lines
}

// unrestored tells what was not put back. Of several entries of one knob one may find foreign what another
// had set, which has put it back.
func unrestored(outcomes []guard.Outcome) (lines []string) {
	for _, o := range outcomes {
		switch o.Ending {
		case guard.Barred:
			lines = append(lines, o.String())
		case guard.Foreign, guard.Failed:
			back := func(other guard.Outcome) bool {
				return other.File == o.File && other.Identity == o.Identity &&
					(other.Ending == guard.Restored || other.Ending == guard.Already)
			}
			if o.Ending == guard.Failed || !slices.ContainsFunc(outcomes, back) {
				lines = append(lines, fmt.Sprintf("%s was changed by a daemon that was killed, and not put back (%s)", o.File, o.Ending))
			}
		}
	}
	return lines
}
