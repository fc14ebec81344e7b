package record

import (
	"fmt"
	"time"
)

// Latest stands for the newest run wherever a run is named.
const Latest = "latest"

// NewID makes the id of a run, such as "weigh-20260102-150405-7f3a": the ids
// of one study sort by start. salt tells runs of one second apart.
func NewID(study string, started time.Time, salt uint16) string {
	return fmt.Sprintf("%s-%s-%04x", study, started.UTC().Format("20060102-150405"), salt)
}
