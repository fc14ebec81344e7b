package daemon

import (
	"context"
	"errors"
	"maps"

	"tare/annex"
	"tare/annex/control"
)

// tally is what was moved, in bytes, and how many requests there were.
type tally struct {
	evicted, fetched, mapped int64
	requests                 map[annex.Reason]int64
	stopped, failed          int64
}

func (t *tally) add(r annex.Result, why annex.Reason) {
	bytes := int64(r.Moved) * annex.PageSize
	switch r.Op {
	case annex.Evict:
		t.evicted += bytes
	case annex.Fetch:
		t.fetched += bytes
	case annex.Map:
		t.mapped += bytes
	}
	if t.requests == nil {
		t.requests = map[annex.Reason]int64{}
	}
	t.requests[why]++
	switch {
	case r.Err != nil && !errors.Is(r.Err, context.Canceled):
		t.failed++
	case r.Stopped:
		t.stopped++
	}
}

// status is the tally as the status shows it. What was wasted data knows.
func (t *tally) status(wastedPages int) control.Moved {
	if t == nil {
		return control.Moved{}
	}
	return control.Moved{
		EvictedBytes: t.evicted, FetchedBytes: t.fetched, MappedBytes: t.mapped,
		WastedBytes: int64(wastedPages) * annex.PageSize,
		Requests:    maps.Clone(t.requests), Stopped: t.stopped, Failed: t.failed,
	}
}
