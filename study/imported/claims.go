package imported

import (
	"fmt"
	"slices"
	"strings"

	"tare/record"
	"tare/study/io/place"
)

// reads are the factors that a study needs to distinguish cells. All are whole numbers, and
// have the names that tare's own runs give them.
var reads = map[string][]string{
	place.Stream: {"elements", "processes"},
	place.Haccio: {"particles", "ranks"},
	place.Redis:  {"payload", "pipeline"},
}

// Unread says which factors of a study the figures lack, or do not have as whole numbers. It
// is empty where they have all, and for runs of no study.
func Unread(run record.Run) string {
	var missing []string
	for _, factor := range reads[place.Of(run)] {
		i := slices.IndexFunc(run.Conditions, func(c record.Condition) bool { return place.Number(c, factor) < 1 })
		if i < 0 {
			continue
		}
		if level, ok := run.Conditions[i].Factors[factor]; ok {
			return fmt.Sprintf("%s of %s is %q and must be a whole number: correct it by --scale %s=NUMBER or --rename '%s:OLD=NEW'",
				factor, run.Conditions[i].ID, level, factor, factor)
		}
		missing = append(missing, factor)
	}
	if len(missing) == 0 {
		return ""
	}
	flags := make([]string, len(missing))
	for i, factor := range missing {
		flags[i] = "--factor " + factor + "=NUMBER"
	}
	return fmt.Sprintf("missing in the figures: %s; if one value holds for all, give %s; "+
		"else read it from file names by --name, from headings by --columns, or rename a column by --rename OLD=%s",
		strings.Join(missing, " and "), strings.Join(flags, " "), missing[0])
}
