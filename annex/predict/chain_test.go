package predict

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tare/annex"
)

// A wakes at random; B follows in 200 to 300 ms, and C in eight of ten cases a second later.
// D wakes each second, and E now and then, for no reason of theirs.
func playChain(c *Chain, r *rand.Rand, from, seconds float64, breaks bool) float64 {
	type wake struct {
		id annex.ID
		at float64
	}
	var wakes []wake
	add := func(id annex.ID, at float64) { wakes = append(wakes, wake{id, at}) }
	for at := from; at < from+seconds; at += 10 + 20*r.ExpFloat64() {
		add("a", at)
		if breaks {
			continue
		}
		add("b", at+0.2+0.1*r.Float64())
		if r.Float64() < 0.8 {
			add("c", at+1+0.1*r.Float64())
		}
	}
	for at := from; at < from+seconds; at++ {
		add("d", at+0.5)
	}
	for at := from; at < from+seconds; at += 60 * r.ExpFloat64() {
		add("e", at)
	}
	for i := range wakes { // by time
		for k := i; k > 0 && wakes[k].at < wakes[k-1].at; k-- {
			wakes[k], wakes[k-1] = wakes[k-1], wakes[k]
		}
	}
	for _, w := range wakes {
		c.Began(w.id, annex.Moment(w.at*float64(time.Second)))
	}
	return from + seconds
}

func TestChainKnowsWhoFollows(t *testing.T) {
	c := NewChain(Options{})
	r := rand.New(rand.NewPCG(3, 4))
	now := playChain(c, r, 0, 2000, false)
	got := c.Followers("a")
	if len(got) != 2 || got[0].ID != "b" || got[1].ID != "c" {
		t.Fatalf("after a follow %v, want b and c", got)
	}
	for _, want := range []struct {
		got         Follower
		probability float64
		within      time.Duration
	}{{got[0], 1, 300 * time.Millisecond}, {got[1], 0.8, 1100 * time.Millisecond}} {
		if f := want.got; f.Probability < want.probability-0.15 || f.Probability > min(1, want.probability+0.15) {
			t.Errorf("%s follows with a likelihood of %.2f, want %.2f", f.ID, f.Probability, want.probability)
		}
		if f := want.got; f.Within > want.within || f.Within < want.within-110*time.Millisecond {
			t.Errorf("%s follows within %v, want %v", f.ID, f.Within, want.within)
		}
	}
	for _, id := range []annex.ID{"d", "e", "nobody"} {
		if got := c.Followers(id); len(got) > 0 {
			t.Errorf("after %s follow %v, want none", id, got)
		}
	}
	s := c.Scores()[0]
	if s.Kind != Followers || !s.On || s.Precision < 0.75 || s.Lead < 200*time.Millisecond || s.Lead > 1100*time.Millisecond {
		t.Errorf("its score is %+v", s)
	}

	// They no longer follow: it is forgotten, and learnt again.
	now = playChain(c, r, now, 1000, true)
	if got := c.Followers("a"); len(got) > 0 {
		t.Errorf("after a follow %v, which have not for a thousand seconds", got)
	}
	now = playChain(c, r, now, 2000, false)
	if got := c.Followers("a"); len(got) != 2 {
		t.Errorf("after a follow %v, want b and c again", got)
	}
	c.Forget("b")
	if got := c.Followers("a"); len(got) != 1 || got[0].ID != "c" {
		t.Errorf("without b there follow %v", got)
	}
	_ = now
}

func TestChainOfAllAtOnceIsBounded(t *testing.T) {
	c := NewChain(Options{})
	for hour := range 30 {
		for i := range 500 {
			c.Began(annex.ID(fmt.Sprint(i)), annex.Moment(time.Duration(hour)*time.Hour+time.Duration(i)*time.Millisecond))
		}
	}
	if len(c.recent) > mostRecent {
		t.Errorf("%d wakings are looked back upon", len(c.recent))
	}
	for id, l := range c.of {
		if len(l.followers) > mostFollowers {
			t.Fatalf("%s has %d followers", id, len(l.followers))
		}
	}
	if got := c.Followers("0"); len(got) == 0 {
		t.Error("nobody follows the first of those that wake in a fixed order")
	}
}
