package predict

import (
	"testing"
	"time"

	"tare/annex"
)

// The time for which a container was kept from waking is not learned, and nothing is forecast until
// it has woken by itself.
func TestInterrupted(t *testing.T) {
	const period = annex.Moment(10 * time.Second)
	wakes := func(c *Context, at annex.Moment) {
		c.Began(at)
		c.Ended(at.After(time.Second))
	}
	c := New(Options{})
	at := period
	for range 20 {
		at += period
		wakes(c, at)
	}
	if f, ok := c.Next(at + 2); !ok || f.Likely != at+period {
		t.Fatalf("%v, %v: want a beat of 10 s", f, ok)
	}
	c.Interrupted()
	at += 100*period + period/3
	if f, ok := c.Next(at); ok {
		t.Errorf("meanwhile it says %v", f)
	}
	wakes(c, at)
	for range 3 {
		at += period
		wakes(c, at)
	}
	if f, ok := c.Next(at + 2); !ok || f.Likely.Since(at) > time.Duration(period)+time.Second {
		t.Errorf("some beats later: in %v, %v", f.Likely.Since(at), ok)
	}
	for _, seen := range c.intervals.seen {
		if seen != 10 {
			t.Errorf("an interval of %v s was learned", seen)
		}
	}
}
