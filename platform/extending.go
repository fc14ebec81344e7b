package platform

import "time"

// Extension is what lets the idle class hold more than there is memory for, besides the
// kernel's own swap.
type Extension string

// The extensions.
const (
	ExtendNone  Extension = ""      // the kernel alone
	ExtendAnnex Extension = "annex" // annexd, with the box as the memory that it defends
)

// Extensions lists the extensions.
var Extensions = []Extension{ExtendNone, ExtendAnnex}

// ExtensionReading is what an extension tells of itself. Counts only grow, from when the
// box was made.
type ExtensionReading struct {
	CPU      time.Duration `json:"cpu_ns"`         // that it has used itself
	Resident int64         `json:"resident_bytes"` // of its own
	Contexts int64         `json:"contexts"`       // containers that it manages, now
	// Evicted are pages that it had leave memory, Fetched and Mapped those that it brought
	// back ahead of their use, without and with an entry in the program's page table.
	Evicted int64 `json:"evicted_pages"`
	Fetched int64 `json:"fetched_pages"`
	Mapped  int64 `json:"mapped_pages"`
	// Untouched are fetched pages of which it is known by now that nobody used them.
	Untouched int64 `json:"untouched_pages"`
	Errors    int64 `json:"errors"` // requests that the kernel refused
	// Predictors are how well each does, by name.
	Predictors map[string]PredictorReading `json:"predictors,omitempty"`
}

// PredictorReading is how well a predictor has done lately.
type PredictorReading struct {
	Precision float64       `json:"precision"` // share of what it predicted that came true
	Recall    float64       `json:"recall"`    // share of what came true that it had predicted
	Lead      time.Duration `json:"lead_ns"`   // before the use, in the median
	Predicted int64         `json:"told"`      // predictions that this rests on
}
