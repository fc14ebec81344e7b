package lab

import (
	"errors"

	"tare/kernel/process"
)

// Covariates that tell how tare's client went before the programs under trial: the
// real-time priority, and where it had none, the niceness. Both are 0 where it went
// before nobody.
const (
	ClientRealTime = "client_realtime_priority"
	ClientNice     = "client_nice"
)

// Ahead puts tare, whose client says when each request is due and sees its answer,
// ahead of ordinary programs until restore: beside programs that keep the CPUs busy it
// would be measuring its own place in their queue. The programs under trial stay
// ordinary, those too that are launched meanwhile. How it goes ahead is among the
// trial's covariates; not being allowed to is no error, and shows in the lateness.
//
// A procedure calls it around its loads, and not around what it lays out before, in
// which tare's own work would delay the host's. What of tare works for the box
// meanwhile keeps a thread of its own ordinary ([process.StayOrdinary]).
func Ahead(b Bench) (restore func() error, err error) { return aheadBy(b, process.Ahead) }

func aheadBy(b Bench, ahead func() (process.Precedence, func() error, error)) (restore func() error, err error) {
	by, back, err := ahead()
	var refused *process.NotAhead
	if errors.As(err, &refused) {
		by, back, err = process.Precedence{}, func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	b.Covariate(ClientRealTime, float64(by.Class.Priority))
	b.Covariate(ClientNice, float64(by.Nice))
	return func() error {
		if err := back(); err != nil {
			return &Unrestored{err}
		}
		return nil
	}, nil
}
