package data

import (
	"unsafe"

	"tare/annex"
	"tare/annex/predict"
)

// context is the memory context of one container. Each part of it is a small state machine of
// its own, in the file of its name.
type context struct {
	info      ContextInfo
	predictor Predictor
	isRemoved bool // while requests were under way

	pages    pageTable
	scans    scans
	coldness coldness
	activity activity
	record   recordUse
	probed   probedPages
	expected expectation
	fetch    fetching
	evict    evicting
	unmapped unmappedPages
	account  account
	pressure gauge
	still    still

	share       int          // of memory, in pages
	pausedUntil annex.Moment // nothing is asked until then: the last request came to nothing
}

// never is later than any moment.
const never = annex.Moment(1<<63 - 1)

func newContext(info ContextInfo, p Policy) *context {
	return &context{
		info: info, predictor: p.Predictor(),
		pages:    newPageTable(tickOf(info.At, p)),
		coldness: coldness{from: info.At, threshold: none},
		activity: activity{lastWork: info.At},
		probed:   probedPages{forgottenAt: info.At},
		expected: expectation{lookAt: never},
		account:  account{asked: map[annex.Reason]Tally{}},
	}
}

// managed tells whether anything of it may be moved.
func (c *context) managed() bool {
	return !c.isRemoved && c.info.Class == annex.Elastic && c.info.Fixed == ""
}

// stale drops what is known of the pages and of what the context is doing: as long as it is
// not managed nothing is reported of it.
func (c *context) stale() {
	c.pages.clear()
	c.activity.state, c.activity.early = asleep, nil
	c.fetch.plan, c.fetch.leader, c.fetch.isOffered = nil, nil, false
	c.expected.lookAt, c.unmapped.pages = never, 0
}

// size is what is kept of it, in bytes.
func (c *context) size() int64 {
	n := int64(unsafe.Sizeof(*c)) + c.predictor.Size() + c.account.history.size() + c.pages.size()
	n += int64(cap(c.activity.early)) * int64(unsafe.Sizeof(annex.Fault{}))
	if c.fetch.plan != nil {
		n += int64(cap(c.fetch.plan.rest)) * int64(unsafe.Sizeof(predict.Ranked{}))
	}
	return n
}

// cell is what is kept of the page of a fault, and its extent; nil where nothing is known of it.
func (c *context) cell(f annex.Fault) (*cell, *extent) {
	s := c.pages.find(f.Space)
	if s == nil {
		return nil, nil
	}
	a := s.area(f.Page)
	if a == nil {
		return nil, nil
	}
	return &a.cells[f.Page-a.first], a.extent(f.Page)
}

// forget drops a space that has ended.
func (c *context) forget(name annex.Space) {
	c.pages.forget(name)
	c.predictor.Forget(name)
}
