// Package predict tells when a container will wake and which pages it will then touch,
// from what it did before. Four predictors, each scored while it runs and silent while its
// score is low:
//
//  1. the record of activations: the pages that a burst touches, in the order of first
//     touch, as union and intersection of the last bursts (REAP, ASPLOS 2021);
//  2. the histogram of the times between activations (Serverless in the Wild, ATC 2020);
//  3. the majority of the distances between faults (Leap, ATC 2020);
//  4. a Markov chain of order one between extents, and between containers.
//
// It sees what the program itself did, never what was brought in for it, and has no clock
// of its own: the same observations give the same predictions.
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
	Stride    Kind = "stride"    // what follows the last faults
	Extents   Kind = "extents"   // which extent follows an extent
	Followers Kind = "followers" // which container follows a container
)

// Kinds lists the predictors.
var Kinds = []Kind{Record, Intervals, Stride, Extents, Followers}

// Score is how well a predictor has done lately.
type Score struct {
	Kind Kind
	// Precision is the share of what it predicted that came true, and Recall the share of
	// what came true that it had predicted. Of Intervals a prediction is true where the
	// activation came within the forecast.
	Precision, Recall float64
	// Lead is how long before its use a prediction was made, in the median.
	Lead time.Duration
	// Told is how many predictions this rests on.
	Told int
	// On tells that it is listened to: its precision is not below the threshold.
	On bool
}

// Forecast is when an activation is expected: quantiles of the time from now, of 5, 50 and
// 95 percent.
type Forecast struct {
	Earliest, Likely, Latest annex.Moment
}

// Ranked are pages that the next activation is expected to touch.
type Ranked struct {
	Run annex.Run
	// Certain tells that each of the last activations touched them, and not only some.
	Certain bool
}
