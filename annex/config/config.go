// Package config is what an operator tells the memory extension: a TOML file, its keys,
// and what is wrong with it.
//
// Every key stands once, in a table, with its default, its range and its meaning. The
// parser, the example, the printed configuration and the reference in
// docs/annex/configuration.md all come from that table. What a file says that is in no table
// is refused, as is a value out of range: with the line, and with what to write instead.
// Nothing here looks at the host: a swap area or a group that does not exist is reported by the part that uses it.
package config

import (
	"time"

	"tare/annex"
	"tare/annex/predict"
)

// Version is the version of the schema.
const Version = 1

// Path is where the file lies unless another is named.
const Path = "/etc/annex/annex.toml"

// Socket is where the daemon listens unless the file says otherwise.
const Socket = "/run/annex/annex.sock"

// Host is what is defended where no control group is named.
const Host = "host"

// Mode is what is done with a decision.
type Mode string

// The modes.
const (
	// Observe decides, and says what it would have done; it moves nothing and changes no
	// setting. It is the default: who wants memory to move has to say so.
	Observe Mode = "observe"
	// Manage does what is decided.
	Manage Mode = "manage"
)

// Config is a whole configuration. Sizes are in bytes, shares from 0 to 1.
type Config struct {
	Mode       Mode
	Memory     Memory
	Pressure   Pressure
	Protect    Protect
	Scan       Scan
	Activity   Activity
	Cold       Cold
	Predictors Predictors
	Prefetch   Prefetch
	Control    Control
	Log        Log
	State      State
	// Rules give containers their classes: the first that fits decides.
	Rules []Rule
	// Tiers are what is promised of swap areas. An area that no tier names is used without a
	// bound on writing.
	Tiers []Tier
}

// Memory is what is defended.
type Memory struct {
	// Defend is Host, or the path of a control group.
	Defend string
	// Headroom is how much is kept free; eviction begins below it and ends at High.
	Headroom, High int64
	// Reserve is how much of it pages that come back leave alone.
	Reserve int64
	// SwapReserve is the share of swap that is left alone.
	SwapReserve float64
}

// Pressure is how much of the time tasks may wait for memory (PSI, some).
type Pressure struct {
	// Critical is the limit of critical containers: above it all eviction stops, within
	// StopWithin. Elastic is that of an elastic one: eviction from it is scaled down towards
	// the limit, and ends there.
	Critical, Elastic float64
	StopWithin        time.Duration
	// Window is over what pressure is averaged for the scaling.
	Window time.Duration
}

// Protect is what is set for critical containers as long as the daemon manages.
type Protect struct {
	// Critical tells whether critical containers' memory is kept from the kernel's own
	// reclaim: by swappiness 0 (version 1), by memory.low (version 2).
	Critical bool
	// Reclaim tells whether what was evicted is made to leave at once, which on version 1
	// takes lowering the container's limit for a moment.
	Reclaim bool
}

// Scan is how often page tables are looked at. The time grows from Least to Most while
// nothing changes.
type Scan struct {
	Least, Most time.Duration
}

// Activity tells work from sleep.
type Activity struct {
	// Dormancy is how long a container does not run until it sleeps.
	Dormancy time.Duration
	// ProbeCPU and ProbePages are up to where waking was a health probe's.
	ProbeCPU   time.Duration
	ProbePages int
}

// Cold is when pages count as cold.
type Cold struct {
	// After is the least age of a page that is cold.
	After time.Duration
	// PromotionRate is the share of its working set that a container may want back in a
	// minute.
	PromotionRate float64
	// Working is the age up to which pages are of the working set.
	Working time.Duration
}

// Predictors say which are listened to.
type Predictors struct {
	Record, Intervals, Followers bool
	// Threshold is the precision below which each is silent.
	Threshold float64
}

// On tells whether a predictor is switched on.
func (p Predictors) On(k predict.Kind) bool {
	switch k {
	case predict.Record:
		return p.Record
	case predict.Intervals:
		return p.Intervals
	case predict.Followers:
		return p.Followers
	}
	return false
}

// Prefetch is how pages come back.
type Prefetch struct {
	// Lead is how long before it is expected, beside the time that it takes.
	Lead time.Duration
	// Chunk is how many pages are asked for at once, between looks whether to yield.
	Chunk int
	// MapPrecision is the precision from which certain pages are mapped.
	MapPrecision float64
}

// Control is how the daemon is spoken to.
type Control struct {
	Socket string
	// Metrics is a loopback address with port; empty serves none.
	Metrics string
}

// Log is the log of decisions.
type Log struct {
	File string // empty keeps none
	Size int64  // at which it is put aside
	Keep int    // how many that were put aside are kept
}

// State is where the daemon keeps what has to outlive it.
type State struct {
	// Directory holds the account of writes and the lock.
	Directory string
	// Journal is the file of changed settings, on a file system in memory.
	Journal string
}

// Rule gives containers a class. Every pattern that is not empty must fit; to a container that
// is Unprivileged none is given by a rule without Cgroup.
type Rule struct {
	Class annex.Class
	// Name and Image are patterns of the container's; Label is "key" or "key=pattern"; Cgroup
	// is a pattern of the group's path below its hierarchy's root, or of its directory.
	Name, Label, Image, Cgroup string
}

// Tier is what is promised of a swap area.
type Tier struct {
	// Area is a swap file or device, as /proc/swaps has it.
	Area string
	// WriteRate bounds writing, in bytes a second, and WriteDaily in bytes a day; 0 does
	// not.
	WriteRate, WriteDaily int64
	// Endurance is how many bytes may be written in Years.
	Endurance int64
	Years     float64
}

// Daily is what may be written a day: WriteDaily, or what Endurance leaves for each day,
// whichever is less; 0 is no bound.
func (t Tier) Daily() int64 {
	const days = 365.25
	daily := t.WriteDaily
	if t.Endurance > 0 && t.Years > 0 {
		if even := max(1, int64(float64(t.Endurance)/(t.Years*days))); daily == 0 || even < daily {
			daily = even
		}
	}
	return daily
}

// Default is the configuration of an empty file.
func Default() Config {
	const mebibyte = 1 << 20
	return Config{
		Mode: Observe,
		Memory: Memory{
			Defend:      Host,
			Headroom:    64 * mebibyte,
			High:        96 * mebibyte,
			Reserve:     16 * mebibyte,
			SwapReserve: 1.0 / 64,
		},
		Pressure: Pressure{Critical: 0.01, Elastic: 0.1, StopWithin: 100 * time.Millisecond, Window: 10 * time.Second},
		Protect:  Protect{Critical: true, Reclaim: true},
		Scan:     Scan{Least: 5 * time.Second, Most: 30 * time.Second},
		Activity: Activity{Dormancy: 200 * time.Millisecond, ProbeCPU: 20 * time.Millisecond, ProbePages: 128},
		Cold:     Cold{After: 30 * time.Second, PromotionRate: 0.002, Working: 2 * time.Minute},
		Predictors: Predictors{
			Record: true, Intervals: true, Followers: true,
			Threshold: 0.5,
		},
		Prefetch: Prefetch{Lead: 50 * time.Millisecond, Chunk: 32, MapPrecision: 0.9},
		Control:  Control{Socket: Socket},
		Log:      Log{File: "/var/log/annex/decisions.jsonl", Size: 16 * mebibyte, Keep: 3},
		State:    State{Directory: "/var/lib/annex", Journal: "/run/annex/journal"},
	}
}
