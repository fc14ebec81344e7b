package cpu

import (
	"strconv"
	"time"
)

// Assumed times, by which a pass over a design is estimated: what a trial takes
// beside its load (launch, warm-up, removal), and a request of S4's service. They
// were measured with an engine on two CPUs.
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
