package simulate

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"tare/annex"
	"tare/annex/synthetic"
	"tare/annex/trace"
)

// bar is what a p99 is to stay within. A run that is asked for nothing else ends as soon as
// more has been above than one in a hundred of all that the trace has: where containers
// thrash, long before the end.
type bar struct {
	most     time.Duration
	critical bool // of critical containers' requests; or else of the others' bursts, their delays
	left     int  // how many more may be above
}

// errMissed says that a run was ended by its bar.
var errMissed = errors.New("more than one in a hundred took longer than was asked for")

// newBar counts what a mix has from the end of the warm-up on. Whatever does not end within
// the trace is counted too, so that nothing is ended early that a whole run would pass.
func newBar(ctx context.Context, m synthetic.Mix, warm, most time.Duration) (*bar, error) {
	b := &bar{most: most, critical: m.Containers(annex.Critical) > 0}
	from, err := synthetic.Make(m)
	if err != nil {
		return nil, err
	}
	containers := from.Header().Containers
	var n int
	var base annex.Moment
	for seen := 0; ; seen++ {
		if seen%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if seen == 0 {
			base = e.At
		}
		wanted := trace.Woke
		if b.critical {
			wanted = trace.Requested
		}
		if e.Kind == wanted && (containers[e.Container].Class == annex.Critical) == b.critical &&
			e.At >= base.After(warm) {
			n++
		}
	}
	b.left = n - int(math.Ceil(0.99*float64(n)))
	return b, nil
}

// took tells the bar of a request of a critical container, or of a burst of another.
func (w *world) took(critical bool, d time.Duration) {
	b := w.bar
	if b == nil || b.critical != critical || d <= b.most {
		return
	}
	if b.left--; b.left < 0 {
		w.err = errMissed
	}
}
