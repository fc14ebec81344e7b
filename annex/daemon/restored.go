package daemon

import (
	"fmt"
	"path/filepath"

	"tare/annex/guard"
)

// restored tells of each knob that a daemon which was killed had set, and that was put back:
// which, of which group, and from what to what.
func restored(outcomes []guard.Outcome) (told []string) {
	for _, o := range outcomes {
		if o.Ending != guard.Restored {
			continue
		}
		told = append(told, fmt.Sprintf("put back %s of %s from %s to %s, as it was before a daemon that was killed set it",
			filepath.Base(o.File), filepath.Dir(o.File), o.Written, o.Found))
	}
	return told
}
