package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Range and resolution of the histograms, in microseconds.
const (
	lowestMicros  = 1
	highestMicros = int64(time.Hour / time.Microsecond)
	digits        = 3
)

// NewHistogram makes an empty latency histogram: 1 us to 1 h, three
// significant digits, values in microseconds.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(lowestMicros, highestMicros, digits)
}

// Result is what a load yielded, the warm-up left out.
type Result struct {
	// Latencies of the requests that were answered rightly, in microseconds;
	// what is above an hour is recorded as an hour.
	Corrected, Uncorrected *hdrhistogram.Histogram
	// Lateness and Queued are how much later than intended a request was sent,
	// in microseconds: where a connection stood ready, and where all were busy.
	// Both are empty for a closed loop.
	Lateness, Queued *hdrhistogram.Histogram
	// Requests were answered rightly.
	Requests int64
	// Errors are the other requests, by kind.
	Errors map[string]int64
	// FirstError is an example of them; nil where there are none.
	FirstError error
	// BacklogMax is the most requests that were overdue at one time and had no
	// connection, warm-up included.
	BacklogMax int
	// Elapsed is from the end of the warm-up to the last answer, or to the
	// schedule's end where that is later.
	Elapsed time.Duration
	// Rate is Requests over Elapsed, per second.
	Rate float64
	// Batches are the same in spans of time; nil where Options ask for none.
	Batches *Batches
}

// Failed is the number of requests that were not answered rightly.
func (r Result) Failed() int64 { return sum(r.Errors) }

func sum(errors map[string]int64) (n int64) {
	for _, of := range errors {
		n += of
	}
	return n
}

// recorder gathers a Result from all connections.
type recorder struct {
	mu     sync.Mutex
	result Result
	last   time.Duration // the last answer's moment since the start
	each   func(Answered)
	warmup time.Duration
}

func newRecorder(o Options) *recorder {
	return &recorder{each: o.Each, warmup: o.Warmup, result: Result{
		Batches:   newBatches(o),
		Corrected: NewHistogram(), Uncorrected: NewHistogram(),
		Lateness: NewHistogram(), Queued: NewHistogram(),
		Errors: map[string]int64{},
	}}
}

// request is one request's moments since the start.
type request struct {
	intended, sent, answered time.Duration
	scheduled                bool // by an open loop
	waited                   bool // every connection was busy when it was due
}

func (r *recorder) answered(q request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Requests++
	r.last = max(r.last, q.answered)
	record(r.result.Corrected, q.answered-q.intended)
	record(r.result.Uncorrected, q.answered-q.sent)
	r.result.Batches.answered(q.intended-r.warmup, q.answered-r.warmup, q.answered-q.intended)
	r.sent(q)
	if r.each != nil {
		r.each(Answered{Intended: q.intended, Sent: q.sent, Answered: q.answered})
	}
}

func (r *recorder) failed(q request, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Errors[kindOf(err)]++
	r.result.Batches.failed(q.intended - r.warmup)
	if r.result.FirstError == nil {
		r.result.FirstError = err
	}
	r.last = max(r.last, q.answered)
	if kindOf(err) != KindUnsent {
		r.sent(q)
	}
}

func (r *recorder) sent(q request) {
	switch {
	case !q.scheduled:
	case q.waited:
		record(r.result.Queued, q.sent-q.intended)
	default:
		record(r.result.Lateness, q.sent-q.intended)
	}
}

// finish completes the result; from is the warm-up's end, to the schedule's.
func (r *recorder) finish(from, to time.Duration, backlogMax int) Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.BacklogMax = backlogMax
	r.result.Elapsed = max(r.last, to) - from
	if r.result.Elapsed > 0 {
		r.result.Rate = float64(r.result.Requests) / r.result.Elapsed.Seconds()
	}
	r.result.Batches.finish(r.result.Elapsed)
	return r.result
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	micros := min(max(int64(d.Round(time.Microsecond)/time.Microsecond), 0), highestMicros)
	// Cannot fail: the value is within the range.
	_ = h.RecordValue(micros)
}
