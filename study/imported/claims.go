package imported

import (
	"fmt"
	"slices"
	"strings"

	"tare/record"
	"tare/study/io/place"
)

// reads are the factors without which no cell of a study is told from another, whole
// numbers all, in the names that tare's own runs give them.
var reads = map[string][]string{
	place.Stream: {"elements", "processes"},
	place.Haccio: {"particles", "ranks"},
	place.Redis:  {"payload", "pipeline"},
}

// Unread says which factors that a study reads the figures do not have, or not as whole
// numbers; empty where it can read them. Runs of no study are read by none.
func Unread(run record.Run) string {
	var missing []string
	for _, factor := range reads[place.Of(run)] {
		i := slices.IndexFunc(run.Conditions, func(c record.Condition) bool { return place.Number(c, factor) < 1 })
		if i < 0 {
			continue
		}
		if level, ok := run.Conditions[i].Factors[factor]; ok {
			return fmt.Sprintf("%s of %s is %q and must be a whole number: mend it by --scale %s=NUMBER or --rename '%s:OLD=NEW'", factor, run.Conditions[i].ID, level, factor, factor)
		}
		missing = append(missing, factor)
	}
	if len(missing) == 0 {
		return ""
	}
	said := make([]string, len(missing))
	for i, factor := range missing {
		said[i] = "--factor " + factor + "=NUMBER"
	}
	return fmt.Sprintf("the figures do not tell %s: say what is the same for all by %s, read it out of file names by --name or of headings by --columns, or give a column that name by --rename OLD=%s", strings.Join(missing, " and "), strings.Join(said, " "), missing[0])
}
