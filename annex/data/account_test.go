package data

import (
	"testing"
	"time"

	"tare/annex"
)

// One late result changes a cost little; where all are late it is learned in some tens of results.
func TestCostOfLateResults(t *testing.T) {
	const usual, slow = 10 * time.Microsecond, 10 * time.Millisecond
	c := cost{usual}
	late := annex.Result{Moved: 64, Began: 1, Ended: annex.Moment(1).After(64 * slow)}
	if c.saw(late, true); c.each <= usual || c.each > 2*usual {
		t.Errorf("after one: %v", c.each)
	}
	for range 40 {
		c.saw(late, true)
	}
	if c.each < slow/2 {
		t.Errorf("after many: %v", c.each)
	}
}
