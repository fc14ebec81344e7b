package startup

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/stats"
)

// timing is what became of one start. Times count from the first start's
// intended moment; one that did not come is below 0.
type timing struct {
	Intended time.Duration
	Sent     time.Duration
	Answered time.Duration
	First    time.Duration
	Ready    time.Duration
	Failed   string // why, empty where it did not
	// Over is when it was known that it failed; never where it did not.
	Over time.Duration
}

// due is a start that nothing has come of yet.
func due(intended time.Duration) timing {
	return timing{Intended: intended, Sent: intended, Answered: never, First: never, Ready: never, Over: never}
}

// left is when a start was no longer waited for: its answer came, or it failed
// before.
func (t timing) left() time.Duration {
	if t.Answered >= 0 {
		return t.Answered
	}
	return t.Over
}

// never is a moment that did not come.
const never = time.Duration(-1)

// until gives the moment of one of the latencies, below 0 where it has none.
func (t timing) until(name string) time.Duration {
	switch name {
	case answer:
		return t.Answered
	case first:
		return t.First
	}
	return t.Ready
}

// latencyOf collects a latency over all starts that did not fail.
func latencyOf(timings []timing, name string) []time.Duration {
	var all []time.Duration
	for _, t := range timings {
		if at := t.until(name); t.Failed == "" && at >= 0 {
			all = append(all, at-t.Intended)
		}
	}
	return all
}

// latencyHistogram holds what it is given in microseconds, to three digits, up
// to ten minutes.
func latencyHistogram(values []time.Duration) *hdrhistogram.Histogram {
	h := hdrhistogram.New(1, (10 * time.Minute).Microseconds(), 3)
	for _, v := range values {
		// Whatever is above is counted at the bound; below a microsecond, at it.
		_ = h.RecordValue(min(max(v.Microseconds(), 1), h.HighestTrackableValue()))
	}
	return h
}

func meanMicros(values []time.Duration) float64 {
	var sum float64
	for _, v := range values {
		sum += float64(v) / float64(time.Microsecond)
	}
	return sum / float64(len(values))
}

// fewestForGrowth is the least number of starts from which the growth of the
// backlog is estimated.
const fewestForGrowth = 8

// growthOf estimates which share of the arrivals piles up: the slope of the number
// of starts that are due and not answered, seen at each arrival, over the
// arrivals so far. Where the platform keeps up it is 0, whatever the length of
// the queue; where it does not, at arrival rate r and capacity c, it is 1 - c/r
// in the long run, and nearer to 1 as long as nothing has been finished. That
// holds for every discipline, one after another or all at once, since it counts
// and does not ask who waited: latencies show a queue that is served in turn,
// and mislead where starts share the CPUs, because the last ones have the CPUs to
// themselves. The first quarter is left out, and whatever was due before the
// first answer: the queue fills then, however fast the platform is. Where starts
// take so long that little is left after, only the quarter is. Slow starts are
// then indistinguishable from a rate that is not sustained, and count as that.
func growthOf(timings []timing, level float64) stats.Estimate {
	if len(timings) < fewestForGrowth {
		return stats.Estimate{
			Value:    math.NaN(),
			Interval: stats.Interval{Low: math.NaN(), High: math.NaN(), Level: level},
			N:        len(timings),
			Warnings: []string{fmt.Sprintf("growth of the backlog: need at least %d starts, have %d", fewestForGrowth, len(timings))},
		}
	}
	answered := slices.MinFunc(timings, func(a, b timing) int {
		return cmp.Compare(cmp.Or(max(a.left(), 0), math.MaxInt64), cmp.Or(max(b.left(), 0), math.MaxInt64))
	}).left()
	filling := 0
	for filling < len(timings) && (answered < 0 || timings[filling].Intended <= answered) {
		filling++
	}
	if len(timings)-filling < fewestForGrowth {
		filling = 0
	}
	var x, y []float64
	for i, t := range timings {
		if i < max(len(timings)/4, filling) {
			continue
		}
		waiting := 0
		for _, before := range timings[:i] {
			if left := before.left(); left < 0 || left > t.Intended {
				waiting++
			}
		}
		x, y = append(x, float64(i)), append(y, float64(waiting))
	}
	return stats.Slope(x, y, level)
}

// throughputOf is the starts answered in each second, from the first's moment
// to the last's answer.
func throughputOf(timings []timing) float64 {
	n, last := 0, time.Duration(0)
	for _, t := range timings {
		if t.Failed == "" && t.Answered > 0 {
			n++
			last = max(last, t.Answered)
		}
	}
	if n == 0 {
		return 0
	}
	return float64(n) / last.Seconds()
}

// step is how many starts were due and not answered, from a moment on.
type step struct {
	at      time.Duration
	waiting int
}

// backlogOf counts the starts that were due and neither answered nor given up, at
// every moment at which that changed.
func backlogOf(timings []timing) []step {
	type change struct {
		at time.Duration
		by int
	}
	var changes []change
	for _, t := range timings {
		changes = append(changes, change{t.Intended, 1})
		if left := t.left(); left >= 0 {
			changes = append(changes, change{left, -1})
		}
	}
	// An answer before an arrival of the same moment: nobody waited twice.
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	var steps []step
	waiting := 0
	for _, c := range changes {
		waiting += c.by
		if n := len(steps); n > 0 && steps[n-1].at == c.at {
			steps[n-1].waiting = waiting
			continue
		}
		steps = append(steps, step{c.at, waiting})
	}
	return steps
}

func mostWaiting(steps []step) int {
	most := 0
	for _, s := range steps {
		most = max(most, s.waiting)
	}
	return most
}

// The attachment that holds every start of a trial.
const (
	startsAttachment = "starts.json"
	jsonType         = "application/json"
)

// storedTiming is a timing in the attachment: microseconds; absent where the
// moment did not come.
type storedTiming struct {
	Intended float64  `json:"intended_us"`
	Sent     float64  `json:"sent_us"`
	Answered *float64 `json:"answered_us,omitempty"`
	First    *float64 `json:"first_us,omitempty"`
	Ready    *float64 `json:"ready_us,omitempty"`
	Failed   string   `json:"failed,omitempty"`
	Over     *float64 `json:"failed_us,omitempty"`
}

func encodeTimings(timings []timing) ([]byte, error) {
	stored := make([]storedTiming, len(timings))
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	moment := func(d time.Duration) *float64 {
		if d < 0 {
			return nil
		}
		us := micros(d)
		return &us
	}
	for i, t := range timings {
		stored[i] = storedTiming{
			Intended: micros(t.Intended),
			Sent:     micros(t.Sent),
			Answered: moment(t.Answered),
			First:    moment(t.First),
			Ready:    moment(t.Ready),
			Failed:   t.Failed,
			Over:     moment(t.Over),
		}
	}
	return json.Marshal(stored)
}

func decodeTimings(data []byte) ([]timing, error) {
	var stored []storedTiming
	if err := json.Unmarshal(data, &stored); err != nil {
		return nil, fmt.Errorf("%s: %w", startsAttachment, err)
	}
	timings := make([]timing, len(stored))
	duration := func(us float64) time.Duration { return time.Duration(us * float64(time.Microsecond)) }
	moment := func(us *float64) time.Duration {
		if us == nil {
			return never
		}
		return duration(*us)
	}
	for i, s := range stored {
		timings[i] = timing{
			Intended: duration(s.Intended),
			Sent:     duration(s.Sent),
			Answered: moment(s.Answered),
			First:    moment(s.First),
			Ready:    moment(s.Ready),
			Failed:   s.Failed,
			Over:     moment(s.Over),
		}
	}
	return timings, nil
}
