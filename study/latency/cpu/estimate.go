package cpu

import (
	"strconv"
	"time"
)

// What a trial takes beside its load: to launch, warm up, and remove; and what
// S4's service takes for a request. Assumptions by which a pass over a design is
// estimated, from an engine on two CPUs.
const (
	assumedAround  = 1500 * time.Millisecond
	assumedRequest = 200 * time.Microsecond
)

// span is how long a load takes.
func span(params map[string]string) time.Duration {
	d, err := time.ParseDuration(params["duration"])
	if err != nil {
		d = 2 * time.Second
	}
	if n, err := strconv.ParseInt(params["count"], 10, 64); err == nil && n > 0 {
		d = min(d, time.Duration(n)*assumedRequest)
	}
	return d
}
