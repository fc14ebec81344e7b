// Package predict tells when a container will wake and which pages it will then touch,
// from what it did before. Three predictors, each scored while it runs and silent while its
// score is low:
//
//  1. the record of activations: the pages that a burst touches, in the order of first
//     touch, as union and intersection of the last bursts (REAP, Ustiugov et al., ASPLOS
//     2021; FaaSnap, Ao et al., EuroSys 2022). Which of the last bursts touched a page is
//     its pattern, and how often pages of a pattern are touched next is measured
//     (the two levels of Yeh and Patt, MICRO 1991): patterns that fall below the threshold
//     are left out;
//  2. the histogram of the times between activations (Serverless in the Wild, Shahrad et
//     al., ATC 2020), and beside it the exponential law and exact periods; the interval
//     score (Gneiting and Raftery, JASA 2007) of their last forecasts chooses among them;
//  3. a Markov chain of order one between containers (as Joseph and Grunwald have it between
//     addresses, ISCA 1997).
//
// It sees what the program itself did, never what was brought in for it, and has no clock
// of its own: the same observations give the same predictions. It moves nothing, and does
// not know what is in memory but from what is reported to it: a page that is reported to have
// left, or to have come back unmapped, faults when it is touched, so that no fault says that
// it was not; of any other page no fault says nothing.
//
// The record takes two bytes a page, and a quarter of a kilobyte for each two mebibytes of
// addresses in which any are: about three bytes a page of a working set that fills half of its
// addresses or more (the tests hold it to that).
//
// One [Context] is of one container, and one [Chain] of all. Neither may be used by several
// goroutines at once.
package predict

import (
	"time"

	"tare/annex"
)

// Kind names a predictor.
type Kind string

// The predictors.
const (
	Record    Kind = "record"    // which pages an activation touches
	Intervals Kind = "intervals" // when the next activation comes
	Followers Kind = "followers" // which container follows a container
)

// Kinds lists the predictors.
var Kinds = []Kind{Record, Intervals, Followers}

// Score is how well a predictor has done lately.
type Score struct {
	Kind Kind
	// Precision is the share of what it predicted that came true, and Recall the share of
	// what came true that it had predicted. Of Intervals a prediction is true where the
	// activation came within the forecast.
	Precision, Recall float64
	// Lead is how long before its use a prediction was made, in the median.
	Lead time.Duration
	// Predictions is how many predictions this rests on.
	Predictions int
	// On tells that it is listened to: its precision is not below the threshold.
	On bool
}

// Forecast is when an activation is expected: the moments before which it comes with a
// likelihood of 5, 50 and 95 percent. None lies before the moment that was asked at.
type Forecast struct {
	Earliest, Likely, Latest annex.Moment
}

// Ranked are pages that the next activation is expected to touch.
type Ranked struct {
	Run annex.Run
	// Certain tells that each of the last activations touched them, and not only some.
	Certain bool
}
