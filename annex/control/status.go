package control

import (
	"encoding/json"
	"time"

	"tare/annex"
	"tare/annex/predict"
)

// Schema is the version of what is told.
const Schema = 1

// State is what the daemon is doing.
type State string

// The states.
const (
	Starting  State = "starting"
	Managing  State = "managing"
	Observing State = "observing"
	Draining  State = "draining" // everything is coming back
	Drained   State = "drained"  // and has: nothing leaves until a reload
	Off       State = "off"      // likewise, and every setting is as it was found
	Ending    State = "ending"
)

// States lists them.
var States = []State{Starting, Managing, Observing, Draining, Drained, Off, Ending}

// Status is what the daemon tells of itself. Shares are from 0 to 1; what is not known is
// left out.
type Status struct {
	Schema  int       `json:"schema"`
	Version string    `json:"version"`
	State   State     `json:"state"`
	Mode    string    `json:"mode"`
	PID     int       `json:"pid"`
	At      time.Time `json:"at"`
	Started time.Time `json:"started"`
	// Since is when the state began.
	Since time.Time `json:"since"`
	// Config is the file in force, as it was at Loaded.
	Config   string    `json:"config"`
	Loaded   time.Time `json:"loaded"`
	Memory   Memory    `json:"memory"`
	Tiers    []Tier    `json:"tiers"`
	Brake    Brake     `json:"brake"`
	Contexts []Context `json:"contexts"`
	Moved    Moved     `json:"moved"`
	// Observed is what mode observe would have done; absent in mode manage.
	Observed *Observed `json:"observed,omitempty"`
	Drain    *Drain    `json:"drain,omitempty"`
	Weight   Weight    `json:"weight"`
	// Warnings are what the operator should know: conflicting managers, what the host lacks.
	Warnings []string `json:"warnings,omitempty"`
}

// Memory is what is defended.
type Memory struct {
	Defended      string `json:"defended"` // "host", or a control group's directory
	LimitBytes    int64  `json:"limit_bytes"`
	FreeBytes     int64  `json:"free_bytes"`
	HeadroomBytes int64  `json:"headroom_bytes"`
	// PoolBytes is memory that compressed swap holds.
	PoolBytes     int64 `json:"pool_bytes"`
	SwapBytes     int64 `json:"swap_bytes"`
	SwapFreeBytes int64 `json:"swap_free_bytes"`
}

// Tier is a swap area.
type Tier struct {
	Area string `json:"area"`
	Kind string `json:"kind"` // "file", "device" or "zram"
	// Encrypted tells whether dm-crypt lies below it; absent where that is not known, and of zram.
	Encrypted *bool `json:"encrypted,omitempty"`
	Priority  int   `json:"priority"`
	SizeBytes int64 `json:"size_bytes"`
	FreeBytes int64 `json:"free_bytes"`
	// WrittenTodayBytes are those of this day (UTC); DailyBytes is how many a day may have, and
	// RateBytesPerSecond how many a second; 0 is no bound.
	WrittenTodayBytes  int64 `json:"written_today_bytes"`
	DailyBytes         int64 `json:"daily_bytes"`
	RateBytesPerSecond int64 `json:"rate_bytes_per_second"`
	// Problem is why the account of writes is not exact.
	Problem string `json:"problem,omitempty"`
}

// Brake is what holds eviction back.
type Brake struct {
	On bool `json:"on"`
	// Why it is on, and since when.
	Why   string     `json:"why,omitempty"`
	Since *time.Time `json:"since,omitempty"`
	// CriticalShare is the pressure on critical containers now, the worst of them.
	CriticalShare      *float64 `json:"critical_share,omitempty"`
	CriticalLimitShare float64  `json:"critical_limit_share"`
	// StopWithinSeconds is the time from critical pressure above its limit to eviction stopped
	// that is promised, and WorstStopSeconds the longest that it took.
	StopWithinSeconds float64  `json:"stop_within_seconds"`
	WorstStopSeconds  *float64 `json:"worst_stop_seconds,omitempty"`
	Stops             int64    `json:"stops"`
}

// ContextState is what a container is doing.
type ContextState string

// The states of a container.
const (
	Active  ContextState = "active"
	Dormant ContextState = "dormant"
	// Frozen is one whose processes are frozen, as by docker pause, or stopped by a signal.
	Frozen ContextState = "frozen"
	// Fixed is one that cannot be extended: Context.Problem says why.
	Fixed ContextState = "fixed"
)

// ContextStates lists them.
var ContextStates = []ContextState{Active, Dormant, Frozen, Fixed}

// Context is one container.
type Context struct {
	ID    annex.ID     `json:"id"`
	Name  string       `json:"name"`
	Image string       `json:"image,omitempty"` // as its user wrote it
	Class annex.Class  `json:"class"`
	State ContextState `json:"state"`
	// ResidentBytes are in memory, ExtendedBytes in swap, and ShareBytes is how much memory it
	// is to have at present. All of private anonymous memory.
	ResidentBytes int64 `json:"resident_bytes"`
	ExtendedBytes int64 `json:"extended_bytes"`
	ShareBytes    int64 `json:"share_bytes"`
	// Next is when it is expected to wake.
	Next *Forecast `json:"next,omitempty"`
	// HitShare is the share of pages that it wanted back that had been brought before.
	HitShare *float64 `json:"hit_share,omitempty"`
	// ErrorShare is the share of what was evicted that it wanted back at once.
	ErrorShare *float64 `json:"error_share,omitempty"`
	// PressureShare is the share of time that its tasks wait for memory.
	PressureShare *float64 `json:"pressure_share,omitempty"`
	// Last is the reason of the last request about it.
	Last   annex.Reason `json:"last,omitempty"`
	LastOp string       `json:"last_op,omitempty"` // "evict", "fetch" or "map"
	// Activity is of an elastic container; that of others is not followed.
	Activity   *Activity `json:"activity,omitempty"`
	Predictors []Score   `json:"predictors,omitempty"`
	Moved      Moved     `json:"moved"`
	// Observed is what it would be like in mode manage; absent in that.
	Observed *ObservedContext `json:"observed,omitempty"`
	// Aside tells that nothing is moved of it for a while, since calls for its memory hang.
	Aside bool `json:"aside,omitempty"`
	// Problem is why it cannot be extended, or is held back.
	Problem string `json:"problem,omitempty"`
}

// Activity is how often a container woke.
type Activity struct {
	Activations int64 `json:"activations"` // to work
	Probes      int64 `json:"probes"`      // wakes for less: health probes and brief work
	// Demand is how many pages it had to wait for.
	DemandPages int64 `json:"demand_pages"`
}

// Forecast is when a container is expected to wake: seconds from Status.At, as quantiles of
// 5, 50 and 95 percent. Below 0 it is overdue.
type Forecast struct {
	EarliestSeconds float64 `json:"earliest_seconds"`
	LikelySeconds   float64 `json:"likely_seconds"`
	LatestSeconds   float64 `json:"latest_seconds"`
}

// Score is how a predictor does.
type Score struct {
	Kind           predict.Kind `json:"kind"`
	PrecisionShare float64      `json:"precision_share"`
	RecallShare    float64      `json:"recall_share"`
	LeadSeconds    float64      `json:"lead_seconds"`
	Predictions    int          `json:"told"`
	On             bool         `json:"on"`
}

// MarshalJSON leaves out what is not known of a predictor that has predicted nothing yet.
func (s Score) MarshalJSON() ([]byte, error) {
	type whole Score
	if s.Predictions > 0 {
		return json.Marshal(whole(s))
	}
	return json.Marshal(struct {
		Kind        predict.Kind `json:"kind"`
		Predictions int          `json:"told"`
		On          bool         `json:"on"`
	}{s.Kind, s.Predictions, s.On})
}

// Moved is what was moved since the daemon started.
type Moved struct {
	EvictedBytes int64 `json:"evicted_bytes"`
	FetchedBytes int64 `json:"fetched_bytes"`
	MappedBytes  int64 `json:"mapped_bytes"`
	// WastedBytes were brought in and left again unused.
	WastedBytes int64 `json:"wasted_bytes"`
	// Requests counts requests by reason.
	Requests map[annex.Reason]int64 `json:"requests,omitempty"`
	Stopped  int64                  `json:"stopped"`
	Failed   int64                  `json:"failed"`
}

// ObservedContext is what a container would be like that is only observed.
type ObservedContext struct {
	ResidentBytes int64 `json:"resident_bytes"`
	ExtendedBytes int64 `json:"extended_bytes"`
}

// Observed is what mode observe would have done.
type Observed struct {
	// FreeBytes is what would be free now.
	FreeBytes     int64 `json:"free_bytes"`
	EvictedBytes  int64 `json:"evicted_bytes"`
	ReturnedBytes int64 `json:"returned_bytes"` // of them, before they were used
	// AddedFaults is how many faults managing would have added, at most: pages that would have
	// left and were used, or are marked as accessed (nobody clears the mark) by a container
	// that ran.
	AddedFaults int64 `json:"added_faults"`
	// WrongShare is the share of what would have left that is counted so within a minute.
	WrongShare *float64 `json:"wrong_share,omitempty"`
}

// Drain is how far bringing everything back is.
type Drain struct {
	RateBytesPerSecond int64 `json:"rate_bytes_per_second"` // 0 is no bound
	LeftBytes          int64 `json:"left_bytes"`
	ReturnedBytes      int64 `json:"returned_bytes"`
	// Problem is why what is left does not come back: it does not fit.
	Problem string `json:"problem,omitempty"`
}

// Weight is what the daemon itself takes.
type Weight struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	// CPUShare is of one processor, over the last minute.
	CPUShare      *float64 `json:"cpu_share,omitempty"`
	ResidentBytes int64    `json:"resident_bytes"`
	// ManagedBytes is what it manages, resident and extended.
	ManagedBytes int64 `json:"managed_bytes"`
	// LostEvents are those of the monitor that did not arrive.
	LostEvents int64 `json:"lost_events"`
	// GaveWaySeconds is for how long its threads, together, let critical containers go first that
	// waited for the processor.
	GaveWaySeconds float64 `json:"gave_way_seconds"`
}

// Explanation says why a container's pages left or came back.
type Explanation struct {
	Schema  int     `json:"schema"`
	Context Context `json:"context"`
	// Sentences say how it stands with the container now, most important first.
	Sentences []string `json:"sentences"`
	// Decisions are the last ones about it, oldest first.
	Decisions []Decision `json:"decisions"`
}

// Decision is a request and what became of it.
type Decision struct {
	At      time.Time    `json:"at"`
	Op      string       `json:"op"` // "evict", "fetch" or "map"
	Why     annex.Reason `json:"why"`
	Detail  string       `json:"detail,omitempty"` // "idle for 40s, expected in 2m10s"
	Asked   int          `json:"asked_pages"`
	Moved   int          `json:"moved_pages"`
	Seconds float64      `json:"seconds"`
	Problem string       `json:"problem,omitempty"`
	// Observed tells that it was only decided, and nothing moved.
	Observed bool `json:"observed,omitempty"`
}
